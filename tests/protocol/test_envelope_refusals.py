"""The refusal of an envelope names place, keyword, received value and expected value (docs/protocol.md#envelope)."""

import json
from typing import Any

import pytest
from tests.protocol.bodies import (
    ABSENT,
    WIRE,
    body,
    call,
    changed,
    decode,
    payload,
    pointers,
    refused,
    refused_call,
    request_type,
    response_type,
)

from dealer_agent.protocol.envelope import decode_request
from dealer_agent.protocol.errors import UnsupportedSkill
from dealer_agent.protocol.json_body import NESTING_LIMIT
from dealer_agent.protocol.json_rpc import decode_call
from dealer_agent.protocol.problems import PROBLEMS_SHOWN

HINT = 'send "configuration": {"acceptedOutputModes": ["application/json"]}'
SEARCH_RESPONSE = response_type("inventory.search")


def _only(document: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """The details of a refusal, and the one problem in them."""
    details = refused(document).details
    (problem,) = details["errors"]
    assert problem["instancePath"] == details["instancePath"]
    return details, problem


@pytest.mark.parametrize(
    ("pointer", "value", "keyword", "message", "received"),
    [
        (
            "/message/role",
            "user",
            "const",
            "must be ROLE_USER: this is the legacy v0.3 form; send the v1.0 form",
            "user",
        ),
        (
            "/message/role",
            "agent",
            "const",
            "must be ROLE_USER: this is the legacy v0.3 form; send the v1.0 form",
            "agent",
        ),
        ("/message/role", "ROLE_AGENT", "const", "must be ROLE_USER", "ROLE_AGENT"),
        ("/message/messageId", 7, "type", "must be a string", 7),
        ("/message/contextId", False, "type", "must be a string", False),
        ("/message/messageId", "", "minLength", "must not be empty", ""),
        ("/message/messageId", ABSENT, "required", "is required", None),
        ("/message/contextId", ["user"], "type", "must be a string", None),
        ("/configuration", "user", "type", "must be an object", "user"),
        ("/configuration", ABSENT, "required", f"is required: {HINT}", None),
        ("/configuration/acceptedOutputModes", ABSENT, "required", f"is required: {HINT}", None),
        ("/configuration/acceptedOutputModes", [], "minItems", f"must not be empty: {HINT}", None),
        ("/configuration/acceptedOutputModes", "x", "type", "must be an array", "x"),
        ("/message/parts/0/mediaType", ABSENT, "required", "is required on a data part", None),
    ],
)
def test_an_error_in_the_envelope_has_pointer_keyword_and_received_value(
    pointer: str, value: object, keyword: str, message: str, received: object
) -> None:
    document = changed(body(), pointer, value)
    if value is ABSENT or value == []:
        found = refused(document).details["errors"]
        assert {"instancePath": pointer, "keyword": keyword, "message": message} in [
            {name: problem[name] for name in ("instancePath", "keyword", "message")} for problem in found
        ]
        return
    details, problem = _only(document)
    assert (problem["instancePath"], problem["keyword"], problem["message"]) == (pointer, keyword, message)
    assert details.get("received") == received


@pytest.mark.parametrize("pointer", ["/message/kind", "/message/parts/0/kind"])
def test_a_kind_is_named_as_the_legacy_form(pointer: str) -> None:
    _, problem = _only(changed(body(), pointer, "message"))
    assert (problem["instancePath"], problem["keyword"]) == (pointer, "additionalProperties")
    assert problem["message"] == (
        "is the legacy v0.3 form; in v1.0 a part has no kind: its member name (data, text) says what it is"
    )


@pytest.mark.parametrize("skill", ["inventory.search", "inventory.facets", "dealer.information"])
@pytest.mark.parametrize("vendor", ["proto", "autoagent"])
def test_a_wrong_media_type_is_answered_with_the_right_one_in_the_same_words(skill: str, vendor: str) -> None:
    other = request_type("inventory.vehicle", vendor)
    details, problem = _only(changed(body(skill, vendor), "/message/parts/0/mediaType", other))
    assert (problem["instancePath"], problem["keyword"]) == ("/message/parts/0/mediaType", "const")
    assert problem["message"] == f"must be {request_type(skill, vendor)} for {skill}.request"
    assert details["received"] == other


@pytest.mark.parametrize("vendor", ["proto", "autoagent"])
def test_the_error_for_wrong_output_modes_names_the_response_type(vendor: str) -> None:
    document = changed(body("inventory.search", vendor), "/configuration/acceptedOutputModes", ["text/plain"])
    details, problem = _only(document)
    wanted = response_type("inventory.search", vendor)
    assert (problem["instancePath"], problem["keyword"]) == ("/configuration/acceptedOutputModes", "contains")
    assert problem["message"] == f"must hold the skill's response media type, {wanted}"
    assert (details["received"], details["expected"]) == (["text/plain"], wanted)


@pytest.mark.parametrize("mode", ["application/json", "application/*", "*/*", SEARCH_RESPONSE])
def test_one_mode_that_covers_the_answer_is_enough(mode: str) -> None:
    assert decode(changed(body(), "/configuration/acceptedOutputModes", ["text/plain", mode])).payload is not None


@pytest.mark.parametrize("mode", ["application/jsonl", "text/*", "*", response_type("inventory.facets")])
def test_a_mode_that_does_not_cover_the_answer_is_not(mode: str) -> None:
    assert pointers(refused(changed(body(), "/configuration/acceptedOutputModes", [mode]))) == [
        "/configuration/acceptedOutputModes"
    ]


EXAMPLE_PART = (
    '{"data": {"type": "inventory.search.request"}, "mediaType": "application/vnd.proto.inventory-search-request+json"}'
)


@pytest.mark.requirement("no-or-two-data-parts")
@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], ""),
        ([{"text": "hello"}], "free text is not understood; "),
        ([{"text": "hello", "mediaType": "text/plain"}, "x"], "free text is not understood; "),
    ],
)
def test_the_error_for_an_absent_data_part_shows_one(parts: list[object], text: str) -> None:
    """Exactly one data part. A person who tries the service with a text learns what to send."""
    errors = refused(changed(body(), "/message/parts", parts)).details["errors"]
    found = {problem["instancePath"]: problem for problem in errors}
    assert found["/message/parts"]["keyword"] == "contains"
    words = f"must hold a data part, and holds none; {text}send a part such as {EXAMPLE_PART}"
    assert found["/message/parts"]["message"] == words


@pytest.mark.requirement("all-problems-at-once")
@pytest.mark.parametrize(
    ("sent", "bare"),
    [({}, ""), ({"filters": {}}, ""), (payload("inventory.search"), "the body is the payload alone; ")],
)
def test_the_error_for_an_absent_message_shows_the_whole_form(sent: dict[str, Any], bare: str) -> None:
    """The form shows `configuration` too: only the message is named as missing."""
    error = refused(sent)
    assert (error.code, error.details["instancePath"]) == ("MISSING_REQUIRED_FIELD", "/message")
    lead, _, form = error.message.partition("send ")
    assert lead == f"/message: is required; {bare}"
    # The form is a request that is answered.
    assert decode(form.encode()).skill.id == "inventory.search"


def test_a_wrong_configuration_beside_a_missing_message_is_named_too() -> None:
    error = refused({"configuration": {"acceptedOutputModes": 7}})
    assert pointers(error) == ["/configuration/acceptedOutputModes", "/message"]


@pytest.mark.parametrize(("named", "received"), [(7, 7), (None, None), (True, True), (["x"], None), ({"a": 1}, None)])
def test_a_short_type_that_is_not_a_string_is_repeated(named: object, received: object) -> None:
    details, problem = _only(changed(body(), "/message/parts/0/data/type", named))
    assert (problem["instancePath"], problem["message"]) == ("/type", "must be a string")
    assert details.get("received") == received
    assert ("received" in details) == (not isinstance(named, list | dict))


def test_an_unknown_skill_is_repeated_in_part() -> None:
    error = refused(changed(body(), "/message/parts/0/data/type", "x" * 500))
    assert isinstance(error, UnsupportedSkill)
    assert error.details == {"in": "payload", "instancePath": "/type", "received": "x" * 200}
    assert ("x" * 200 in str(error), "x" * 201 in str(error)) == (True, False)
    assert "inventory.search.request" in str(error)


@pytest.mark.parametrize("skill", ["inventory.search", "lead.submit"])
def test_a_request_whose_payload_is_wrong_still_says_whose_it_is(skill: str) -> None:
    document = changed(body(skill, zorvex=1), "/message/contextId", "ctx-1")
    request = decode_request(json.dumps(document).encode(), WIRE)
    assert (request.skill.id, request.context_id, request.payload) == (skill, "ctx-1", None)
    assert [problem.pointer for problem in request.problems] == ["/zorvex"]


@pytest.mark.parametrize(("levels", "is_taken"), [(NESTING_LIMIT, True), (NESTING_LIMIT + 1, False)])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_a_body_is_a_hundred_levels_deep_at_most(levels: int, is_taken: bool, opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    # The body is one level itself. It has more brackets than the allowed number of levels.
    inner = opening * (levels - 1) + "1" + closing * (levels - 1)
    raw = json.dumps(body())[:-1] + f', "metadata": {inner}, "wide": [{"[]," * 200}[]]}}'
    as_call = json.dumps(call({}))[:-1].replace('"params": {}', f'"params": {raw}').encode() + b"}"
    if is_taken:
        assert decode(raw.encode()).payload is not None
        return
    assert f"more than {NESTING_LIMIT} levels" in str(refused(raw.encode()))
    _, error = refused_call(as_call)
    assert (error.json_rpc, str(error)) == (-32700, f"The body is nested more than {NESTING_LIMIT} levels deep.")


def test_a_lenient_service_accepts_a_call_without_configuration() -> None:
    document = call(changed(body(), "/configuration"))
    raw = json.dumps(document).encode()
    _, request = decode_call(raw, WIRE, lenient=True)
    assert not isinstance(request, Exception)
    assert (request.skill.id, request.problems) == ("inventory.search", ())
    assert refused_call(document)[1].details["instancePath"] == "/configuration"


@pytest.mark.parametrize(("count", "left_out"), [(PROBLEMS_SHOWN, None), (PROBLEMS_SHOWN + 1, 1)])
def test_problems_that_are_not_listed_are_counted(count: int, left_out: int | None) -> None:
    error = refused(body("inventory.search", **{f"zorvex{number:03}": 1 for number in range(count)}))
    assert (len(error.details["errors"]), error.details.get("errors_left_out")) == (PROBLEMS_SHOWN, left_out)
    assert str(error).startswith(f"{count} problems: /zorvex000: ")


@pytest.mark.parametrize(("data", "says"), [(b"[]", "body: must be an object"), (b"7", "body: must be an object")])
def test_a_body_of_another_shape_is_named_the_body(data: bytes, says: str) -> None:
    assert str(refused(data)).startswith(says)


@pytest.mark.parametrize(
    ("start", "end", "is_refused"),
    [
        ("2027-01-05T10:00:00", "2027-01-05T10:00:00", True),
        ("2027-01-05T10:00:00", "2027-01-05T10:00:01", False),
        ("2027-01-05T10:00:00Z", "2027-01-05T11:30:00+02:00", True),
        ("2027-01-05T10:00:00Z", "2027-01-05T09:30:00-02:00", False),
        # One time has an offset and the other has none: their clock times are compared.
        ("2027-01-05T10:00:00", "2027-01-05T11:00:00+05:00", False),
        ("2027-01-05T10:00:00Z", "2027-01-05T11:00:00", False),
        ("2027-01-05T11:00:00", "2027-01-05T11:00:00Z", True),
        ("2027-01-05T11:00:00-05:00", "2027-01-05T10:00:00", True),
    ],
)
def test_a_window_ends_later_than_it_starts(start: str, end: str, is_refused: bool) -> None:
    window = {"start": "2027-01-04T10:00:00", "end": "2027-01-04T11:00:00"}
    visit = {"appointment_type": "test_drive", "timezone": "America/New_York"}
    asked = body("lead.submit", appointment={**visit, "requested_windows": [window, {"start": start, "end": end}]})
    if is_refused:
        assert pointers(refused(asked)) == ["/appointment/requested_windows/1/end"]
    else:
        assert decode(asked).payload is not None


def test_every_window_is_looked_at_though_one_before_it_cannot_be_read() -> None:
    visit = {"appointment_type": "test_drive", "timezone": "America/New_York"}
    windows: list[object] = [
        7,
        {"start": "soon", "end": "later"},
        {"start": "2027-01-05T11:00:00", "end": "2027-01-05T10:00:00"},
    ]
    found = pointers(refused(body("lead.submit", appointment={**visit, "requested_windows": windows})))
    assert "/appointment/requested_windows/2/end" in found


def test_a_vehicle_is_asked_for_by_one_of_three_names() -> None:
    details, problem = _only(changed(body("inventory.vehicle"), "/message/parts/0/data/vin"))
    assert problem["message"] == "one of vin, stock, vehicle_id is required"
    assert (details["in"], problem["keyword"]) == ("payload", "required")


BOTH_FORMS = {
    "appointment_type": "test_drive",
    "timezone": "America/New_York",
    "requested_windows": [{"start": "2027-01-05T10:00:00", "end": "2027-01-05T11:00:00"}],
    "appointment_at": "2027-01-05T10:00:00Z",
}


@pytest.mark.parametrize(
    ("members", "pointer", "message", "received"),
    [
        (
            {"appointment": BOTH_FORMS},
            "/appointment/appointment_at",
            "cannot be combined with requested_windows",
            "2027-01-05T10:00:00Z",
        ),
        ({"source_agent": 7}, "/source_agent", "must be a string or an object", 7),
        (
            {"customer": {"first_name": "Jordan", "last_name": "Example"}},
            "/customer/email",
            "one of email, phone is required",
            None,
        ),
    ],
)
def test_an_error_in_a_lead_names_the_valid_values(
    members: dict[str, Any], pointer: str, message: str, received: object
) -> None:
    details, problem = _only(body("lead.submit", **members))
    assert (problem["instancePath"], problem["message"]) == (pointer, message)
    assert details.get("received") == problem.get("received") == received
