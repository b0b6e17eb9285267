"""A body is JSON in UTF-8 to its last byte; its envelope is checked before its skill (docs/protocol.md#not-json)."""

import json
from typing import Any

import pytest
from tests.protocol.bodies import WIRE, body, call

from dealer_agent.protocol.envelope import decode_request
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.json_rpc import decode_call

pytestmark = pytest.mark.requirement("not-json", "order-envelope-skill")

NOT_UTF_8 = [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"]


def refused(raw: bytes) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        decode_request(raw, WIRE)
    return caught.value


def with_bytes(document: dict[str, Any], inserted: bytes) -> bytes:
    return json.dumps(document).encode().replace(b"MARK", inserted)


@pytest.mark.parametrize("inserted", NOT_UTF_8)
def test_an_ignored_member_that_is_not_utf_8_is_not_json(inserted: bytes) -> None:
    """Not JSON is refused, also where nobody reads it."""
    error = refused(with_bytes(body() | {"tenant": "MARK"}, inserted))
    assert (error.code, error.http) == ("SCHEMA_VALIDATION_FAILED", 422)


@pytest.mark.parametrize("inserted", NOT_UTF_8)
def test_an_id_that_is_not_utf_8_is_not_json_and_not_repeated(inserted: bytes) -> None:
    """In JSON-RPC it is -32700, and the response is JSON."""
    call_id, error = decode_call(with_bytes(call(body(), id="MARK"), inserted), WIRE)
    assert isinstance(error, ProtocolError)
    assert (call_id, error.json_rpc) == (b"null", -32700)


def test_other_scripts_are_valid() -> None:
    raw = json.dumps(body() | {"tenant": "Škoda 車"}, ensure_ascii=False).encode()
    assert decode_request(raw, WIRE).skill.id == "inventory.search"


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda sent: sent["message"]["parts"][0].pop("mediaType"), "MISSING_REQUIRED_FIELD"),
        (lambda sent: sent["message"].update(taskId="a-task"), "TASK_NOT_FOUND"),
        (
            lambda sent: sent["configuration"].update(taskPushNotificationConfig={"url": "https://example.com"}),
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
        ),
    ],
)
def test_a_defect_of_the_envelope_answers_before_an_unknown_skill(spoil: Any, code: str) -> None:
    """The envelope is checked before the skill (docs/protocol.md#order)."""
    sent = body(type="inventory.order.request")
    assert refused(json.dumps(sent).encode()).code == "UNSUPPORTED_SKILL"
    spoil(sent)
    assert refused(json.dumps(sent).encode()).code == code
