"""What a refusal tells: all problems at once, in order, without what is personal (docs/protocol.md#errors)."""

import json
from typing import Any

import pytest
from tests.protocol.bodies import ABSENT, body, changed, decode, pointers, refused, told_by

from dealer_agent.protocol.problems import PROBLEMS_SHOWN

DATA = "/message/parts/0/data"


@pytest.mark.requirement(
    "all-problems-at-once", "problem-entries", "deviation-error-members", "problem-keyword", "first-problem-leads"
)
def test_an_error_lists_all_problems_sorted_by_pointer() -> None:
    error = refused(
        body(
            filters={"year_min": 1800, "make": "Honda", "colour": "red", "query": "x" * 201, "vin": "short"},
            pagination={"limit": 0, "skip": -1},
            sort={"field": "colour"},
            extra=1,
        )
    )
    assert error.code == "SCHEMA_VALIDATION_FAILED"
    assert [(each["instancePath"], each["keyword"]) for each in error.details["errors"]] == [
        ("/extra", "additionalProperties"),
        ("/filters/colour", "additionalProperties"),
        ("/filters/make", "type"),
        ("/filters/query", "maxLength"),
        ("/filters/vin", "pattern"),
        ("/filters/year_min", "minimum"),
        ("/pagination/limit", "minimum"),
        ("/pagination/skip", "minimum"),
        ("/sort/field", "enum"),
        ("/sort/order", "required"),
    ]
    assert error.details["instancePath"] == "/extra"
    assert error.details["received"] == 1
    for each in error.details["errors"]:
        assert set(each) <= {"instancePath", "keyword", "message", "received"}
        assert each["message"]
    received = {each["instancePath"]: each.get("received", ABSENT) for each in error.details["errors"]}
    assert received["/filters/year_min"] == 1800
    assert received["/filters/make"] == "Honda"
    assert received["/pagination/skip"] == -1
    assert received["/sort/order"] is ABSENT


@pytest.mark.requirement("all-problems-at-once", "pointer-envelope")
def test_an_error_lists_all_problems_of_the_envelope() -> None:
    document = changed(changed(body(), "/message/messageId", ""), "/message/role", "user")
    document = changed(changed(document, "/configuration"), "/message/parts/0/mediaType")
    error = refused(document)
    assert error.code == "SCHEMA_VALIDATION_FAILED"
    assert error.details["in"] == "envelope"
    assert pointers(error) == ["/configuration", "/message/messageId", "/message/parts/0/mediaType", "/message/role"]


@pytest.mark.parametrize(
    ("document", "named"),
    [
        (body(sort={}), ["/sort/field", "/sort/order"]),
        (body(filters={"a": 1, "b": 2}), ["/filters/a", "/filters/b"]),
        (changed(body("lead.submit"), f"{DATA}/customer", {}), ["/customer/email", "/customer/first_name",
                                                               "/customer/last_name"]),
        (changed(body("lead.submit"), DATA, {"type": "lead.submit.request"}), ["/customer", "/source_agent"]),
        ({}, ["/message"]),
        ({"message": {}}, ["/configuration", "/message/messageId", "/message/parts", "/message/role"]),
    ],
)  # fmt: skip
@pytest.mark.requirement("missing-or-unknown-named")
def test_a_missing_or_unknown_member_is_named_itself_one_entry_each(document: Any, named: list[str]) -> None:
    assert pointers(refused(document)) == named


@pytest.mark.requirement("received-left-out")
def test_received_is_left_out_where_nothing_was_received() -> None:
    error = refused(body(sort={"field": "price"}))
    assert "received" not in error.details
    assert "received" not in error.details["errors"][0]
    assert "received" not in told_by(error)[0]["metadata"]


SECRET = "Xyzzy-Personal-4711"


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/customer/first_name", [SECRET]),
        ("/customer/email", SECRET),
        ("/customer/phone", SECRET),
        ("/customer/preferred_contact", SECRET),
        ("/customer/address", SECRET),
        ("/customer/address", {"zip": [SECRET]}),
        ("/customer/nickname", SECRET),
        ("/customer", SECRET),
        ("/customer", [{"name": SECRET}]),
        ("/message", {"text": SECRET}),
        ("/message", SECRET * 400),
        ("/appointment", {"appointment_type": "sales", "notes": [SECRET]}),
        ("/appointment", {"appointment_type": "sales", "notes": SECRET * 200}),
        ("/appointment", {"appointment_type": "sales", "special_needs": SECRET}),
        ("/birthday", SECRET),
        ("/trade_in", {"condition": "good", "notes": [SECRET]}),
    ],
)
@pytest.mark.requirement("personal-data-not-echoed")
def test_what_a_customer_wrote_is_never_echoed(pointer: str, value: object) -> None:
    error = refused(changed(body("lead.submit"), DATA + pointer, value))
    info, answer = told_by(error)
    assert SECRET not in json.dumps([info, answer, error.message])
    assert "received" not in info["metadata"]


@pytest.mark.parametrize("value", [json.dumps({"customer": {"first_name": SECRET}}), [SECRET], SECRET])
@pytest.mark.requirement("personal-data-not-echoed")
def test_a_payload_that_is_not_an_object_is_not_repeated(value: object) -> None:
    error = refused(changed(body("lead.submit"), DATA, value))
    assert pointers(error) == [DATA]
    assert SECRET not in json.dumps([*told_by(error), error.message])


@pytest.mark.requirement("personal-data-not-echoed")
def test_a_value_that_is_not_personal_is_repeated() -> None:
    error = refused(changed(body("lead.submit"), f"{DATA}/appointment", {"appointment_type": "haircut"}))
    assert error.details["received"] == "haircut"
    assert told_by(error)[0]["metadata"]["received"] == "haircut"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1800, "1800"),
        (None, "null"),
        (True, "true"),
        ({"a": [1]}, '{"a":[1]}'),
        (["y" * 300], '["' + "y" * 198),
        ("plain text", "plain text"),
    ],
)
@pytest.mark.requirement("metadata-received-text")
def test_metadata_has_the_json_text_of_other_values_cut_at_200_characters(value: object, text: str) -> None:
    error = refused(body(filters={"year_min": value}))
    info, answer = told_by(error)
    assert info["metadata"]["received"] == text
    assert answer["details"]["received"] == (value if len(json.dumps(value)) <= 200 else text)


@pytest.mark.requirement("pointer-payload", "error-info-metadata")
def test_pointers_of_the_payload_start_at_the_payload() -> None:
    error = refused(body(filters={"year_min": 1800}))
    info, answer = told_by(error)
    assert answer["details"]["in"] == "payload"
    assert info["metadata"]["instancePath"] == answer["details"]["instancePath"] == "/filters/year_min"
    assert all(isinstance(value, str) for value in info["metadata"].values())


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"sort": {}}, "MISSING_REQUIRED_FIELD"),
        ({"sort": {"field": "price"}}, "MISSING_REQUIRED_FIELD"),
        ({"sort": {"field": "colour"}}, "SCHEMA_VALIDATION_FAILED"),
        ({"sort": {}, "filters": {"colour": 1}}, "SCHEMA_VALIDATION_FAILED"),
        ({"sort": {}, "pagination": {"limit": 0}}, "SCHEMA_VALIDATION_FAILED"),
    ],
)
@pytest.mark.requirement(
    "only-missing",
    "anything-else-wrong",
    "error-missing-required-field",
    "error-schema-validation-failed",
)
def test_only_missing_members_are_missing_required_field(members: dict[str, Any], code: str) -> None:
    error = refused(body(**members))
    assert (error.code, error.http) == (code, 422)


NOT_JSON = [
    b"",
    b"{",
    b"nonsense",
    b'{"message": NaN}',
    b"{'a': 1}",
    b'{"a": 01}',
    b'"\xff"',
    b'\xff\xfe{"a": 1}',
    b'{"a": "\\ud800"}',
    b"[" * 100_000,
    b'{"a":' * 200 + b"1" + b"}" * 200,
    b"{} {}",
]
NO_OBJECT = [b"[]", b"null", b"7", b'"message"', b"true"]


@pytest.mark.parametrize("raw", [*NOT_JSON, *NO_OBJECT], ids=lambda raw: repr(raw[:20]).replace("\\", "%"))
@pytest.mark.requirement("not-json")
def test_what_is_not_json_or_no_object_fails_validation(raw: bytes) -> None:
    error = refused(raw)
    assert (error.code, error.http) == ("SCHEMA_VALIDATION_FAILED", 422)
    assert error.details["in"] == "envelope"
    assert error.details["instancePath"] == ""


@pytest.mark.parametrize("skill", ["dealer.information", "inventory.facets", "inventory.search", "inventory.vehicle"])
def test_an_escaped_lone_surrogate_anywhere_is_refused(skill: str) -> None:
    """Not JSON in UTF-8 (docs/protocol.md#errors)."""
    raw = json.dumps(changed(body(skill), "/message/messageId", "MARK")).encode().replace(b"MARK", b"\\udc00")
    assert refused(raw).http == 422


NUMBERS = [
    ("/filters", {"year_min": "{}"}, b"2020.0", True),
    ("/filters", {"year_min": "{}"}, b"2.02e3", True),
    ("/filters", {"price_min": "{}"}, b"1e3", True),
    ("/filters", {"price_min": "{}"}, b"0.0", True),
    ("/filters", {"price_min": "{}"}, b"-0.0", True),
    ("/pagination", {"limit": "{}", "skip": 0}, b"1E1", True),
    ("/filters", {"year_min": "{}"}, b"2020.5", False),
    ("/filters", {"year_min": "{}"}, b'"2020"', False),
    ("/filters", {"year_min": "{}"}, b"true", False),
    ("/filters", {"price_min": "{}"}, b"1" + b"0" * 30, False),
    ("/filters", {"price_min": "{}"}, b"1e30", False),
    ("/filters", {"price_min": "{}"}, b"9223372036854775808", False),
    ("/filters", {"price_min": "{}"}, b"1e400", False),
    ("/pagination", {"skip": "{}"}, b"9223372036854775808", False),
    ("/pagination", {"skip": "{}"}, b"1e19", False),
]


@pytest.mark.parametrize(("pointer", "section", "number", "taken"), NUMBERS)
@pytest.mark.requirement("whole-doubles", "no-integers")
def test_a_number_without_a_fraction_is_an_integer_and_nothing_else_is(
    pointer: str, section: dict[str, Any], number: bytes, taken: bool
) -> None:
    document = body(**{pointer[1:]: section})
    raw = json.dumps(document).encode().replace(b'"{}"', number)
    if taken:
        assert decode(raw)
    else:
        assert refused(raw).code == "SCHEMA_VALIDATION_FAILED"


@pytest.mark.parametrize(
    ("skill", "pointer"),
    [
        ("dealer.information", ""),
        ("inventory.facets", "/filters"),
        ("inventory.search", "/filters"),
        ("inventory.search", "/pagination"),
        ("inventory.search", "/sort"),
        ("inventory.search", "/privacy"),
        ("inventory.vehicle", "/vin"),
        ("inventory.vehicle", "/zip"),
        ("lead.submit", "/customer"),
        ("lead.submit", "/customer/first_name"),
        ("lead.submit", "/source_agent"),
        ("lead.submit", "/vehicle_of_interest"),
        ("lead.submit", "/trade_in"),
        ("lead.submit", "/appointment"),
        ("lead.submit", "/message"),
        ("lead.submit", "/idempotency_key"),
        ("lead.submit", "/submitted_at"),
    ],
)
@pytest.mark.requirement("null-refused")
def test_null_is_a_wrong_type_everywhere(skill: str, pointer: str) -> None:
    error = refused(changed(body(skill), DATA + pointer, None))
    assert error.code == "SCHEMA_VALIDATION_FAILED"


@pytest.mark.requirement("all-problems-at-once")
def test_a_reply_does_not_dwarf_its_request() -> None:
    error = refused(body(filters={f"x{number}": 1 for number in range(PROBLEMS_SHOWN + 7)}))
    assert len(error.details["errors"]) == PROBLEMS_SHOWN
    assert error.details["errors_left_out"] == 7


@pytest.mark.parametrize("condition", ["excellent", "good"])
@pytest.mark.requirement("wrong-condition", "deviation-invalid-condition")
def test_a_condition_from_the_other_vocabulary_fails_validation(condition: str) -> None:
    wish = refused(changed(body("lead.submit"), f"{DATA}/vehicle_of_interest", {"condition": condition}))
    search = refused(body(filters={"condition": [condition]}))
    trade = refused(changed(body("lead.submit"), f"{DATA}/trade_in", {"condition": "cpo"}))
    assert {error.code for error in (wish, search, trade)} == {"SCHEMA_VALIDATION_FAILED"}
