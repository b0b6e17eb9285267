"""What a refusal says, word by word: an agent's author mends the request by these words (docs/protocol.md#errors)."""

from typing import Any

import jsonschema_rs
import pytest
from tests.protocol.bodies import ABSENT, body, call, changed, decode, refused, refused_call

from dealer_agent.protocol import errors
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.schemas import request_schema, response_schema
from dealer_agent.protocol.skill import SKILL_BY_ID, SKILLS
from dealer_agent.protocol.vocabulary import proto, vocabularies_of

VISIT = {"appointment_type": "test_drive"}
WINDOW = {"start": "2027-01-05T10:00:00", "end": "2027-01-05T11:00:00"}
WINDOWED = {**VISIT, "requested_windows": [WINDOW], "timezone": "America/New_York"}


@pytest.mark.requirement("all-problems-at-once")
@pytest.mark.parametrize(
    ("skill", "members", "pointer", "keyword", "words"),
    [
        ("inventory.search", {"filters": 7}, "/filters", "type", "must be an object"),
        ("inventory.search", {"filters": {"make": 7}}, "/filters/make", "type", "must be an array"),
        ("inventory.search", {"filters": {"query": 7}}, "/filters/query", "type", "must be a string"),
        ("inventory.search", {"filters": {"year_min": "x"}}, "/filters/year_min", "type", "must be an integer"),
        (
            "inventory.search",
            {"filters": {"dc_fast_charge": 1}},
            "/filters/dc_fast_charge",
            "type",
            "must be true or false",
        ),
        ("inventory.search", {"filters": {"year_min": 1899}}, "/filters/year_min", "minimum", "must be at least 1900"),
        ("inventory.search", {"filters": {"year_min": 2101}}, "/filters/year_min", "maximum", "must be at most 2100"),
        (
            "inventory.search",
            {"filters": {"query": "x" * 201}},
            "/filters/query",
            "maxLength",
            "must have at most 200 characters",
        ),
        ("inventory.search", {"sort": {"order": "asc"}}, "/sort/field", "required", "is required"),
        (
            "inventory.search",
            {"sort": {"field": "price", "order": "up"}},
            "/sort/order",
            "enum",
            "must be one of asc, desc",
        ),
        (
            "inventory.search",
            {"filters": {"colour": 1}},
            "/filters/colour",
            "additionalProperties",
            "is not known here; remove it",
        ),
        ("inventory.vehicle", {"zip": ""}, "/zip", "minLength", "must not be empty"),
        ("lead.submit", {"idempotency_key": ""}, "/idempotency_key", "minLength", "must not be empty"),
        (
            "lead.submit",
            {"appointment": {**VISIT, "requested_windows": [], "timezone": "America/New_York"}},
            "/appointment/requested_windows",
            "minItems",
            "must not be empty",
        ),
        (
            "lead.submit",
            {"appointment": {**WINDOWED, "duration_minutes": 14}},
            "/appointment/duration_minutes",
            "minimum",
            "must be at least 15",
        ),
        (
            "lead.submit",
            {"appointment": {**WINDOWED, "timezone": "Mars/Base"}},
            "/appointment/timezone",
            "format",
            "must be an IANA time zone, such as America/New_York",
        ),
        (
            "lead.submit",
            {"appointment": {**VISIT, "appointment_at": "2027-01-05T10:00:00"}},
            "/appointment/appointment_at",
            "format",
            "must be an ISO 8601 date and time with an offset, such as 2026-11-20T15:00:00Z",
        ),
        (
            "lead.submit",
            {"appointment": {**VISIT, "requested_windows": [WINDOW]}},
            "/appointment/requested_windows/0/end",
            "format",
            "needs an offset, such as Z or -05:00, or a timezone beside requested_windows",
        ),
        (
            "lead.submit",
            {"appointment": {**WINDOWED, "requested_windows": [{**WINDOW, "end": WINDOW["start"]}]}},
            "/appointment/requested_windows/0/end",
            "formatMinimum",
            "must be later than start",
        ),
    ],
)
def test_a_problem_of_the_payload_has_plain_words(
    skill: str, members: dict[str, Any], pointer: str, keyword: str, words: str
) -> None:
    first = refused(body(skill, **members)).details["errors"][0]
    assert (first["instancePath"], first["keyword"], first["message"]) == (pointer, keyword, words)


@pytest.mark.requirement("both-forms-refused")
def test_the_two_forms_of_an_appointment_cannot_be_combined() -> None:
    both = {**WINDOWED, "appointment_at": "2027-01-05T10:00:00Z"}
    (problem,) = refused(body("lead.submit", appointment=both)).details["errors"]
    forms = {"/appointment/requested_windows", "/appointment/appointment_at"}
    assert problem["instancePath"] in forms
    assert problem["keyword"] == "not"
    (other,) = forms - {problem["instancePath"]}
    assert problem["message"] == f"cannot be combined with {other.rpartition('/')[2]}"


@pytest.mark.requirement("not-json")
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"{", "The body is not JSON in UTF-8."),
        (b'"\xff"', "The body is not JSON in UTF-8."),
        (b"[" * 2_900, "The body is nested too deeply."),
        (b"[" * 3_001, "The body has more than 3000 opening brackets, those in texts included."),
        (b"[" + b"1," * 3_000 + b"1]", "The body has more than 3000 values."),
        (b"1" + b"0" * 400, "The body has a number that no double can hold."),
        (b"[" * 110 + b"]" * 110, "The body is nested more than 100 levels deep."),
    ],
)
def test_a_body_that_cannot_be_read_says_why(raw: bytes, words: str) -> None:
    error = refused(raw)
    assert error.message == words
    assert error.details["instancePath"] == ""
    (problem,) = error.details["errors"]
    assert (problem["instancePath"], problem["keyword"]) == ("", "contentMediaType")
    assert error.message == f"The body {problem['message']}."


@pytest.mark.parametrize("pointer", ["/configuration", "/configuration/acceptedOutputModes"])
@pytest.mark.parametrize("value", [ABSENT, []])
def test_the_error_for_absent_output_modes_says_what_to_send(pointer: str, value: object) -> None:
    """The refusal says what to send (docs/protocol.md#envelope)."""
    if pointer == "/configuration" and value == []:
        value = {}
    error = refused(changed(body(), pointer, value))
    assert 'send "configuration": {"acceptedOutputModes": ["application/json"]}' in error.message


def test_the_error_for_an_unknown_skill_lists_the_skills() -> None:
    known = ", ".join(skill.request_type for skill in SKILLS)
    assert refused(body(type="lead.cancel.request")).message.endswith(f"Known: {known}.")


@pytest.mark.parametrize(("named", "words"), [(7, "/type: must be a string"), ([], "/type: must be a string")])
def test_the_error_for_a_type_that_is_not_a_string_says_so(named: object, words: str) -> None:
    error = refused(body(type=named))
    assert error.message == words
    assert error.details["errors"][0]["keyword"] == "type"


def test_an_unknown_member_of_a_lead_is_named_and_its_value_kept_back() -> None:
    """The value of the member may well be the customer's (docs/protocol.md#errors)."""
    (problem,) = refused(body("lead.submit", nickname="Xyzzy")).details["errors"]
    assert problem == {
        "instancePath": "/nickname",
        "keyword": "additionalProperties",
        "message": "is not known here; remove it",
    }


def test_a_lead_also_keeps_its_payload_as_received() -> None:
    """Extra members of the vehicle of interest are the lead's (docs/protocol.md#lead-submit)."""
    sent = body("lead.submit", vehicle_of_interest={"make": "Honda", "lot": "B-7"})
    assert decode(sent).plain == sent["message"]["parts"][0]["data"]
    assert decode(body()).plain is None


@pytest.mark.parametrize("start", [7, None, ["2027-01-05T10:00:00"], {}])
def test_a_window_whose_start_is_not_a_string_is_a_wrong_type(start: object) -> None:
    appointment = {**WINDOWED, "requested_windows": [{"start": start}]}
    (problem,) = refused(body("lead.submit", appointment=appointment)).details["errors"]
    assert (problem["instancePath"], problem["keyword"]) == ("/appointment/requested_windows/0/start", "type")


def test_the_error_for_a_window_that_ends_early_repeats_its_end() -> None:
    """`received` is what came, outside of what is personal (docs/protocol.md#errors)."""
    windows = [WINDOW, {**WINDOW, "end": "2027-01-05T09:00:00"}]
    appointment = {**WINDOWED, "requested_windows": windows}
    (problem,) = refused(body("lead.submit", appointment=appointment)).details["errors"]
    assert problem["instancePath"] == "/appointment/requested_windows/1/end"
    assert problem["received"] == "2027-01-05T09:00:00"


@pytest.mark.parametrize(
    ("pointer", "value", "message", "at"),
    [
        ("/message/parts/0/data/type", ABSENT, "/type: is required: it names the skill request", "/type"),
        (
            "/message/taskId",
            "t1",
            "This agent keeps no tasks: send the message without a taskId.",
            "/message/taskId",
        ),
        ("/configuration/taskPushNotificationConfig", {}, "This agent pushes no notifications.", None),
        ("/configuration/pushNotificationConfig", {}, "This agent pushes no notifications.", None),
    ],
)
def test_a_refused_member_of_the_envelope_is_named(pointer: str, value: object, message: str, at: str | None) -> None:
    error = refused(changed(body(), pointer, value))
    assert error.message == message
    assert error.details.get("instancePath") == at
    assert error.details["in"] == ("payload" if at == "/type" else "envelope")


AN_OBJECT = 'A JSON-RPC 2.0 call is an object with "jsonrpc", "id", "method" and "params".'
VERSION = '"jsonrpc" must be "2.0".'


@pytest.mark.requirement("rpc-not-a-request")
@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([call(body())], "Batches are not supported: send one call in a body."),
        (7, AN_OBJECT),
        (changed(call(body()), "/id"), 'Notifications are not supported: send an "id".'),
        (call(body(), id=[1]), '"id" must be a string, a number or null, of at most 200 characters.'),
        (call(body(), id="i" * 201), '"id" must be a string, a number or null, of at most 200 characters.'),
        (call(body(), jsonrpc="1.0"), VERSION),
        (changed(call(body()), "/jsonrpc"), VERSION),
        (call(body(), method=7), '"method" must be a string: send "SendMessage".'),
        (call(body(), method="GetTask"), "This agent does not offer GetTask: it answers SendMessage."),
        (call(body(), method="rpc.discover"), "No such method. Send SendMessage."),
        (
            call(body(), method="message/send"),
            "No such method. Send SendMessage (message/send is its legacy v0.3 name).",
        ),
    ],
)
def test_a_call_that_is_refused_says_how_to_call(document: object, words: str) -> None:
    _, error = refused_call(document)
    assert (error.message, error.details) == (words, {"in": "envelope"})


def test_each_address_of_the_extension_is_its_own_revisions() -> None:
    """The extension's addresses of both revisions are settings (docs/protocol.md#vocabulary)."""
    words = proto("d.example", "https://e.example/v1.0", "https://e.example/v0.1")
    assert (words.domain, words.extension_1_0_0, words.extension_0_1_0) == (
        "d.example",
        "https://e.example/v1.0",
        "https://e.example/v0.1",
    )
    assert vocabularies_of("proto", words).extensions == {
        "https://e.example/v1.0",
        "https://e.example/v0.1",
        "https://autoagentprotocol.org/extensions/a2a-automotive-retail/v1.0",
    }


def test_without_settings_the_examples_are_in_the_default_vocabulary() -> None:
    """The domain's default is `proto.example` (docs/protocol.md#vocabulary)."""
    words = proto()
    assert (words.domain, words.extension_1_0_0, words.extension_0_1_0) == (
        "proto.example",
        "https://proto.example/extensions/a2a-automotive-retail/v1.0",
        "https://proto.example/extensions/a2a-automotive-retail/v0.1",
    )


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.id)
def test_a_published_response_has_its_type_and_its_data(skill: Any) -> None:
    """Every response payload has `type` and `data` (docs/protocol.md#dealer-information)."""
    schema = response_schema(skill)
    assert schema["required"] == ["type", "data"]
    assert not jsonschema_rs.is_valid(schema, {"type": skill.response_type})
    assert not jsonschema_rs.is_valid(schema, {"data": {}})


def test_a_published_request_names_its_one_type_and_every_choice_of_words() -> None:
    """The published schemas are those that the service validates with (docs/protocol.md#schemas)."""
    schema = request_schema(SKILL_BY_ID["inventory.search"])
    assert schema["properties"]["type"]["const"] == "inventory.search.request"
    assert schema["$defs"]["Sort"]["properties"]["order"]["enum"] == ["asc", "desc"]


@pytest.mark.requirement("no-or-two-data-parts")
def test_two_data_parts_are_counted() -> None:
    """Exactly one data part."""
    sent = body()
    sent["message"]["parts"] *= 2
    (problem,) = refused(sent).details["errors"]
    assert (problem["instancePath"], problem["keyword"]) == ("/message/parts", "maxContains")
    assert problem["message"] == "must hold exactly one data part; it holds 2"


@pytest.mark.requirement("unknown-member-suggested")
@pytest.mark.parametrize(
    ("skill", "members", "pointer", "meant"),
    [
        ("inventory.search", {"filters": {"max_price": 1}}, "/filters/max_price", "price_max"),
        ("inventory.search", {"filters": {"models": ["x"]}}, "/filters/models", "model"),
        ("inventory.facets", {"filters": {"price_maximum": 1}}, "/filters/price_maximum", "price_max"),
        ("inventory.search", {"filter": {}}, "/filter", "filters"),
        ("inventory.search", {"pagination": {"limits": 1}}, "/pagination/limits", "limit"),
        ("inventory.search", {"sort": {"field": "price", "order": "asc", "orders": 1}}, "/sort/orders", "order"),
        ("inventory.search", {"privacy": {"anonymus": True}}, "/privacy/anonymus", "anonymous"),
        ("inventory.vehicle", {"zipp": "1"}, "/zipp", "zip"),
        ("lead.submit", {"costumer": {}}, "/costumer", "customer"),
        (
            "lead.submit",
            {"customer": {"firstname": "J", "first_name": "J", "last_name": "E", "email": "j@example.com"}},
            "/customer/firstname",
            "first_name",
        ),
        (
            "lead.submit",
            {"appointment": {**VISIT, "appointmentAt": "x"}},
            "/appointment/appointmentAt",
            "appointment_at",
        ),
    ],
)
def test_an_unknown_member_is_answered_with_the_known_one_that_is_nearest(
    skill: str, members: dict[str, Any], pointer: str, meant: str
) -> None:
    errors = refused(body(skill, **members)).details["errors"]
    (problem,) = (each for each in errors if each["instancePath"] == pointer)
    assert problem["message"] == f"is not known here; did you mean {meant}?"


def test_only_the_first_unknown_members_are_compared_with_the_known_ones() -> None:
    """Comparing a name takes 0.3 ms."""
    many = {f"price_max{number:03}": 1 for number in range(50)}
    errors = refused(body(filters=many)).details["errors"]
    assert sum("did you mean" in each["message"] for each in errors) == 10
    (problem,) = refused(body(filters={"price_max" * 20: 1})).details["errors"]
    assert problem["message"] == "is not known here; remove it"


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ({"make": 7}, "/filters/make: must be an array"),
        (
            {"make": 7, "model": "x", "year_min": 1},
            "3 problems: /filters/make: must be an array; /filters/model: must be an array; "
            "/filters/year_min: must be at least 1900",
        ),
    ],
)
@pytest.mark.requirement("message-has-all-problems")
def test_the_message_has_all_problems(filters: Any, words: str) -> None:
    """Many clients show nothing of an error but its message (docs/protocol.md#errors)."""
    error = refused(body(filters=filters))
    assert error.message == words
    assert error.coded_message == f"SCHEMA_VALIDATION_FAILED: {words}"


@pytest.mark.requirement("message-has-all-problems")
def test_the_message_is_bounded_and_counts_the_problems_that_do_not_fit() -> None:
    error = refused(body(filters={f"zorvex{number:03}": 1 for number in range(80)}))
    shown = error.message.count("/filters/zorvex")
    assert error.message.startswith("80 problems: /filters/zorvex000: is not known here; remove it; ")
    assert error.message.endswith(f" ({80 - shown} more in details.errors)")
    assert 15 < shown < 30
    assert len(error.message) < 1040


@pytest.mark.requirement("message-has-all-problems")
def test_the_message_has_no_character_that_controls_a_terminal() -> None:
    error = refused(body(filters={"\x1b[2J\nmake\u202e": 1, "b" * 200: {"c" * 200: 1}}))
    assert error.message.isprintable()
    assert "/filters/ [2J make : is not known here" in error.message


@pytest.mark.requirement("message-has-all-problems")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            errors.VehicleNotFound("No vehicle here has this VIN.", {"instancePath": "/vin"}),
            "VEHICLE_NOT_FOUND: /vin: No vehicle here has this VIN.",
        ),
        (errors.RateLimited(5), "RATE_LIMITED: Too many requests. Try again in 5 s."),
    ],
)
def test_the_code_and_the_pointer_lead_the_message_of_a_reply(error: ProtocolError, words: str) -> None:
    assert error.coded_message == words


def test_the_error_for_a_window_without_offset_repeats_it() -> None:
    problems = refused(body("lead.submit", appointment={**VISIT, "requested_windows": [WINDOW]})).details["errors"]
    assert [problem["received"] for problem in problems] == [WINDOW["end"], WINDOW["start"]]
