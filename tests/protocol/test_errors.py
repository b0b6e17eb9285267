"""Error bodies on both bindings, and the one table of codes (docs/protocol.md#errors, docs/protocol.md#vocabulary)."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.protocol.bodies import WIRE, body, decode, refused

from dealer_agent.protocol import errors
from dealer_agent.protocol.errors import ERRORS, ProtocolError
from dealer_agent.protocol.response_bodies import http_error_body, json_rpc_error_body
from dealer_agent.protocol.vocabulary import AUTOAGENT, proto, vocabularies_of

VENDORS = ("proto", "autoagent")
AT = datetime(2026, 1, 5, 15, 4, 5, 678_999, tzinfo=UTC)

TABLE = {
    # code: HTTP, JSON-RPC in proto, JSON-RPC in autoagent, retryable
    "SCHEMA_VALIDATION_FAILED": (422, -32602, -32602, False),
    "MISSING_REQUIRED_FIELD": (422, -32602, -32602, False),
    "UNSUPPORTED_SKILL": (404, -32004, -32601, False),
    "VEHICLE_NOT_FOUND": (404, -32000, -32000, False),
    "VEHICLE_UNAVAILABLE": (409, -32000, -32000, False),
    "CONTACT_CONSENT_REQUIRED": (403, -32000, -32000, False),
    "INVALID_CONSENT": (403, -32000, -32000, False),
    "APPOINTMENT_TIME_UNAVAILABLE": (409, -32000, -32000, False),
    "AUTH_REQUIRED": (401, -32000, -32000, False),
    "RATE_LIMITED": (429, -32000, -32002, True),
    "INTERNAL_ERROR": (500, -32603, -32603, True),
    "IDEMPOTENCY_CONFLICT": (409, -32000, -32000, False),
    "QUOTE_NOT_FOUND": (404, -32000, -32000, False),
    "QUOTE_EXPIRED": (409, -32000, -32000, False),
    "HOLD_CONFLICT": (409, -32000, -32000, False),
    "HOLD_NOT_FOUND": (404, -32000, -32000, False),
    "HOLD_ENDED": (409, -32000, -32000, False),
    "CURSOR_EXPIRED": (410, -32000, -32000, False),
    "HOLD_LIMIT": (429, -32000, -32000, True),
    "CALLER_NOT_KNOWN": (403, -32000, -32000, False),
    "LEAD_NOT_FOUND": (404, -32000, -32000, False),
    "VISIT_NOT_FOUND": (404, -32000, -32000, False),
    "VISIT_ENDED": (409, -32000, -32000, False),
    "TASK_NOT_FOUND": (404, -32001, -32001, False),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (400, -32003, -32003, False),
    "UNSUPPORTED_OPERATION": (400, -32004, -32004, False),
    "CONTENT_TYPE_NOT_SUPPORTED": (415, -32005, -32005, False),
    "VERSION_NOT_SUPPORTED": (400, -32009, -32009, False),
}
A2A = {
    "TASK_NOT_FOUND",
    "PUSH_NOTIFICATION_NOT_SUPPORTED",
    "UNSUPPORTED_OPERATION",
    "CONTENT_TYPE_NOT_SUPPORTED",
    "VERSION_NOT_SUPPORTED",
}

KINDS: dict[str, type[ProtocolError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ProtocolError) and kind.__base__ is ProtocolError
}


def raised(code: str) -> ProtocolError:
    """An error of that code, as the service raises it."""
    kind: Any = KINDS[code]
    return kind(30) if code == "RATE_LIMITED" else kind("It is so.")  # type: ignore[no-any-return]


def sent(error: ProtocolError, words: Any = None) -> dict[str, Any]:
    raw = http_error_body(error, words or WIRE.default, "err_01KE7AQMD5N7Q9S2T4V6X8Z1BG", AT)
    answer: dict[str, Any] = json.loads(raw)
    return answer


def test_the_docstring_draws_every_class() -> None:
    # A class within another one has the code of that one.
    drawn = re.findall(r"(?m)^    [├└]── (\w+)", errors.__doc__ or "")
    assert drawn == [kind.__name__ for kind in ERRORS.values()]


@pytest.mark.parametrize("kind", ERRORS.values(), ids=lambda kind: kind.code)
def test_every_class_has_an_example_and_says_what_it_means(kind: type[ProtocolError]) -> None:
    assert kind(*kind.example).message
    assert len(kind.description()) > 20


def test_there_is_a_class_for_every_code_and_a_row_for_every_class() -> None:
    """See docs/protocol.md#errors."""
    assert set(KINDS) == set(ERRORS) == set(TABLE)


@pytest.mark.parametrize("code", TABLE)
@pytest.mark.requirement("retryable", "error-payload-retryable", "rpc-every-other-code", "rpc-validation")
def test_every_code_has_its_statuses_and_says_whether_to_try_again(code: str) -> None:
    http, rpc, rpc_autoagent, retryable = TABLE[code]
    error = raised(code)
    assert error.http == http
    assert sent(error)["error"]["code"] == http
    assert sent(error)["error"]["details"][1]["retryable"] is retryable
    for words, number in ((proto(), rpc), (AUTOAGENT, rpc_autoagent)):
        assert json.loads(json_rpc_error_body(error, words, "err_1", AT, b"1"))["error"]["code"] == number


@pytest.mark.requirement(
    "error-payload-at-type",
    "error-payload-type",
    "error-payload-error-id",
    "error-payload-code",
    "error-payload-message",
    "error-payload-details",
    "error-payload-created-at",
    "error-key",
    "error-code-is-status",
    "error-message",
    "error-details",
    "error-info-members",
    "error-payload-whole",
    "error-body-members",
    "error-info-type",
    "error-info-metadata",
    "error-payload-fields",
    "created-at",
    "vocabulary-error-type",
    "vocabulary-error-type-url",
    "vocabulary-domain",
)
def test_an_error_body_is_this_member_for_member() -> None:
    error = refused(body(filters={"year_min": 1800}))
    entry = {
        "instancePath": "/filters/year_min",
        "keyword": "minimum",
        "message": "must be at least 1900",
        "received": 1800,
    }
    details = {"in": "payload", "instancePath": "/filters/year_min", "received": 1800, "errors": [entry]}
    for words, name, domain in (
        (proto(), "proto.error", "proto.example"),
        (proto("dealer.example"), "proto.error", "dealer.example"),
        (AUTOAGENT, "aap.error", "autoagentprotocol.org"),
    ):
        assert sent(error, words) == {
            "error": {
                "code": 422,
                "message": "SCHEMA_VALIDATION_FAILED: /filters/year_min: must be at least 1900",
                "details": [
                    {
                        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                        "reason": "SCHEMA_VALIDATION_FAILED",
                        "domain": domain,
                        "metadata": {
                            "instancePath": "/filters/year_min",
                            "received": "1800",
                            "error_id": "err_01KE7AQMD5N7Q9S2T4V6X8Z1BG",
                        },
                    },
                    {
                        "@type": f"type.googleapis.com/{name}",
                        "type": name,
                        "error_id": "err_01KE7AQMD5N7Q9S2T4V6X8Z1BG",
                        "code": "SCHEMA_VALIDATION_FAILED",
                        "message": "/filters/year_min: must be at least 1900",
                        "retryable": False,
                        "details": details,
                        "created_at": "2026-01-05T15:04:05.678Z",
                    },
                ],
            }
        }


@pytest.mark.parametrize("code", TABLE)
@pytest.mark.requirement("error-payload-fields", "error-info-metadata")
def test_metadata_and_details_are_there_even_when_there_is_little_to_say(code: str) -> None:
    info, answer = sent(raised(code))["error"]["details"]
    assert info["metadata"] == {"error_id": answer["error_id"]}
    assert isinstance(answer["details"], dict)
    assert set(answer) == {
        "@type",
        "type",
        "error_id",
        "code",
        "message",
        "retryable",
        "details",
        "created_at",
    }


@pytest.mark.parametrize("code", TABLE)
@pytest.mark.parametrize("words", [proto(), AUTOAGENT], ids=["proto", "autoagent"])
@pytest.mark.requirement("a2a-errors")
def test_a2as_own_errors_carry_a2as_domain_and_one_reason(code: str, words: Any) -> None:
    info, answer = sent(raised(code), words)["error"]["details"]
    assert info["reason"] == answer["code"] == code
    assert info["domain"] == ("a2a-protocol.org" if code in A2A else words.domain)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (AT, "2026-01-05T15:04:05.678Z"),
        (AT.replace(microsecond=0), "2026-01-05T15:04:05.000Z"),
        (AT.replace(microsecond=999_999), "2026-01-05T15:04:05.999Z"),
        (AT + timedelta(microseconds=2), "2026-01-05T15:04:05.679Z"),
    ],
)
@pytest.mark.requirement("created-at")
def test_the_time_is_utc_to_the_millisecond(at: datetime, text: str) -> None:
    raw = http_error_body(raised("INTERNAL_ERROR"), proto(), "err_1", at)
    assert json.loads(raw)["error"]["details"][1]["created_at"] == text


@pytest.mark.requirement("rpc-error-data", "deviation-error-data", "vocabulary-json-rpc-form")
def test_json_rpc_data_is_both_entries_or_the_payload_without_its_type_url() -> None:
    error = refused(body(filters={"year_min": 1800}))
    entries = sent(error)["error"]["details"]
    answer = json.loads(json_rpc_error_body(error, proto(), "err_01KE7AQMD5N7Q9S2T4V6X8Z1BG", AT, b'"a"'))
    assert answer == {
        "jsonrpc": "2.0",
        "id": "a",
        "error": {"code": -32602, "message": error.coded_message, "data": entries},
    }
    answer = json.loads(json_rpc_error_body(error, AUTOAGENT, "err_01KE7AQMD5N7Q9S2T4V6X8Z1BG", AT, b"null"))
    expected = {**sent(error, AUTOAGENT)["error"]["details"][1]}
    del expected["@type"]
    assert answer == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32602, "message": error.coded_message, "data": expected},
    }


@pytest.mark.requirement("www-authenticate", "retry-after")
def test_headers_and_details_say_what_to_do_next() -> None:
    assert raised("AUTH_REQUIRED").headers == (("www-authenticate", "Bearer"),)
    limited = raised("RATE_LIMITED")
    assert limited.headers == (("retry-after", "30"),)
    assert limited.details == {"retry_after_seconds": 30}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.requirement("reply-vocabulary")
def test_an_error_is_in_the_vocabulary_of_its_request(vendor: str) -> None:
    for document in (
        body("inventory.search", vendor, filters={"year_min": 1}),
        body("inventory.search", vendor, type="unknown.thing.request"),
        {**body("inventory.search", vendor), "configuration": {}},
    ):
        vocabulary = refused(document).vocabulary
        assert vocabulary is not None
        assert vocabulary.name == vendor


@pytest.mark.parametrize("default", VENDORS)
@pytest.mark.requirement("default-vocabulary", "same-payloads")
def test_the_default_vocabulary_is_used_if_the_request_names_none(default: str) -> None:
    words = vocabularies_of(default, proto())
    assert words.default.name == default
    assert words.of_media_type("application/json").name == default
    assert words.of_media_type(None).name == default
    assert words.of_media_type("application/vnd.protocol.x+json").name == default
    plain, public = (decode(body("inventory.search", vendor, filters={"make": ["Kia"]})) for vendor in VENDORS)
    assert plain.payload == public.payload
