"""The JSON-RPC 2.0 call, row by row of the tables (docs/protocol.md#json-rpc)."""

import json
from typing import Any

import pytest
from tests.protocol.bodies import STEMS, WIRE, body, call, changed, refused_call

from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.json_rpc import decode_call, result_pieces


def number(error: ProtocolError, vendor: str = "proto") -> int:
    return error.json_rpc_autoagent or error.json_rpc if vendor == "autoagent" else error.json_rpc


@pytest.mark.parametrize("skill", STEMS)
@pytest.mark.requirement("rpc-result", "rpc-method")
def test_the_params_of_send_message_are_the_body_of_http_json(skill: str) -> None:
    call_id, request = decode_call(json.dumps(call(body(skill))).encode(), WIRE)
    assert call_id == b"1"
    assert isinstance(request, Request)
    assert request.skill.id == skill


@pytest.mark.parametrize("params", [body(), body(filters={"year_min": 1}), body("lead.submit")])
@pytest.mark.parametrize(
    "text", ["1", "0", "-7", "1.5", "1e3", '"a"', '""', '"\\u00e9 \\"q\\""', "null", "12345678901234567890"]
)
@pytest.mark.requirement("rpc-id")
def test_the_id_is_repeated_as_received(text: str, params: dict[str, Any]) -> None:
    raw = json.dumps(call(params, id="MARK")).replace('"MARK"', text).encode()
    assert decode_call(raw, WIRE)[0] == text.encode()


@pytest.mark.parametrize("call_id", [True, False, [1], {"a": 1}])
@pytest.mark.requirement("rpc-not-a-request")
def test_an_id_of_another_type_is_an_invalid_request(call_id: object) -> None:
    repeated, error = refused_call(call(body(), id=call_id))
    assert (repeated, number(error)) == (b"null", -32600)


def test_a_result_has_the_id_of_its_call() -> None:
    """The response object of JSON-RPC 2.0."""
    pieces = result_pieces(b'"a"', [b'{"message"', b":{}}"])
    assert b"".join(pieces) == b'{"jsonrpc":"2.0","id":"a","result":{"message":{}}}'


WITHOUT_ID = {name: value for name, value in call(body()).items() if name != "id"}


@pytest.mark.parametrize(
    "document",
    [
        pytest.param([call(body())], marks=pytest.mark.requirement("rpc-batches-notifications")),
        pytest.param([], marks=pytest.mark.requirement("rpc-batches-notifications")),
        pytest.param(WITHOUT_ID, marks=pytest.mark.requirement("rpc-batches-notifications")),
        {},
        7,
        "SendMessage",
        None,
        changed(call(body()), "/jsonrpc"),
        call(body(), jsonrpc="1.0"),
        call(body(), jsonrpc=2.0),
        changed(call(body()), "/method"),
        call(body(), method=7),
        call(body(), method=None),
        body(),
    ],
)
@pytest.mark.requirement("rpc-not-a-request")
def test_an_invalid_json_rpc_request_is_refused(document: object) -> None:
    assert number(refused_call(document)[1]) == -32600


@pytest.mark.parametrize("raw", [b"", b"{", b"nonsense", b'{"jsonrpc": NaN}', b'"\xff"', b"[" * 5000])
@pytest.mark.requirement("rpc-not-json")
def test_what_is_not_json_is_a_parse_error(raw: bytes) -> None:
    call_id, error = refused_call(raw)
    assert (call_id, number(error)) == (b"null", -32700)


@pytest.mark.parametrize("method", ["message/send", "sendMessage", "SendMessages", "tasks/get", "", "rpc.discover"])
@pytest.mark.requirement("rpc-unknown-method", "rpc-method")
def test_a_method_that_a2a_does_not_have_is_not_found(method: str) -> None:
    call_id, error = refused_call(call(body(), method=method, id="x"))
    assert (call_id, number(error), number(error, "autoagent")) == (b'"x"', -32601, -32601)
    assert "SendMessage" in error.message
    assert ("v0.3" in error.message) is (method == "message/send")


TASKS = pytest.mark.requirement("rpc-get-cancel-task")
PUSHES = pytest.mark.requirement("rpc-push")
UNDECLARED = pytest.mark.requirement("rpc-undeclared")


@pytest.mark.parametrize(
    ("method", "expected", "reason"),
    [
        pytest.param("GetTask", -32001, "TASK_NOT_FOUND", marks=TASKS),
        pytest.param("CancelTask", -32001, "TASK_NOT_FOUND", marks=TASKS),
        pytest.param("CreateTaskPushNotificationConfig", -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", marks=PUSHES),
        pytest.param("GetTaskPushNotificationConfig", -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", marks=PUSHES),
        pytest.param("ListTaskPushNotificationConfigs", -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", marks=PUSHES),
        pytest.param("DeleteTaskPushNotificationConfig", -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", marks=PUSHES),
        pytest.param("SendStreamingMessage", -32004, "UNSUPPORTED_OPERATION", marks=UNDECLARED),
        pytest.param("SubscribeToTask", -32004, "UNSUPPORTED_OPERATION", marks=UNDECLARED),
        pytest.param("GetExtendedAgentCard", -32004, "UNSUPPORTED_OPERATION", marks=UNDECLARED),
    ],
)
@pytest.mark.parametrize("params", [{"id": "task-1"}, {}, body()])
@pytest.mark.requirement("undeclared-operations", "one-request-one-response")
def test_a2as_other_methods_answer_as_a2a_says(method: str, expected: int, reason: str, params: Any) -> None:
    _, error = refused_call(call(params, method=method))
    assert (number(error), error.code, error.is_a2a) == (expected, reason, True)


@pytest.mark.parametrize("members", [{"filters": {"year_min": 1}}, {"sort": {}}])
@pytest.mark.requirement("rpc-validation")
def test_a_payload_that_fails_keeps_its_problems_until_token_and_rate_are_checked(members: dict[str, Any]) -> None:
    _, request = decode_call(json.dumps(call(body(**members))).encode(), WIRE)
    assert isinstance(request, Request)
    assert request.problems
    assert request.payload is None


@pytest.mark.requirement("rpc-unsupported-skill")
def test_an_unknown_skill_has_a_number_of_each_form() -> None:
    _, error = refused_call(call(body(type="lead.cancel.request")))
    assert error.code == "UNSUPPORTED_SKILL"
    assert (number(error), number(error, "autoagent")) == (-32004, -32601)


@pytest.mark.parametrize("params", [{}, None, [], changed(body(), "/message/role")])
@pytest.mark.requirement("pointer-envelope", "rpc-validation")
def test_pointers_of_the_envelope_start_at_the_params(params: object) -> None:
    _, error = refused_call(call(params))
    assert number(error) == -32602
    assert error.details["in"] == "envelope"
    assert not error.details["instancePath"].startswith("/params")


@pytest.mark.requirement("rpc-validation")
def test_a_call_without_params_lacks_them() -> None:
    _, error = refused_call(changed(call(body()), "/params"))
    assert (error.code, number(error)) == ("MISSING_REQUIRED_FIELD", -32602)


@pytest.mark.requirement("other-members-ignored")
def test_other_members_of_the_call_are_ignored() -> None:
    assert isinstance(decode_call(json.dumps(call(body(), meta={"a": 1})).encode(), WIRE)[1], Request)
