"""The JSON-RPC 2.0 call around a request (contract, part 3; A2A §9). Pure."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from dealer_agent.protocol.envelope import (
    NOT_DECODED,
    Look,
    Request,
    SendMessage,
    examine,
    plainly_sound,
    read_json,
    settle,
)
from dealer_agent.protocol.errors import (
    ProtocolError,
    PushNotificationNotSupported,
    SchemaValidationFailed,
    TaskNotFound,
    UnsupportedOperation,
    UnsupportedSkill,
)
from dealer_agent.protocol.vocabulary import Wire

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601

HTTP_STATUSES = frozenset({401, 408, 413, 415, 429})
"""The HTTP statuses that errors keep. Every other reply to a call has status 200."""

NO_ID = b"null"

CALL_ID_LENGTH = 200
"""The most characters of a call's id. Every answer repeats it."""

UNDECLARED_METHODS: dict[str, type[ProtocolError]] = {
    "GetTask": TaskNotFound,
    "CancelTask": TaskNotFound,
    "CreateTaskPushNotificationConfig": PushNotificationNotSupported,
    "SetTaskPushNotificationConfig": PushNotificationNotSupported,
    "GetTaskPushNotificationConfig": PushNotificationNotSupported,
    "ListTaskPushNotificationConfigs": PushNotificationNotSupported,
    "ListTaskPushNotificationConfig": PushNotificationNotSupported,
    "DeleteTaskPushNotificationConfig": PushNotificationNotSupported,
    "ListTasks": UnsupportedOperation,
    "SendStreamingMessage": UnsupportedOperation,
    "SubscribeToTask": UnsupportedOperation,
    "GetExtendedAgentCard": UnsupportedOperation,
}
"""A2A's methods that the card does not declare, and what answers them."""


class _Call(Struct, frozen=True):
    jsonrpc: Literal["2.0"]
    method: Literal["SendMessage"]
    id: msgspec.Raw
    params: SendMessage


class _Look(Struct, frozen=True):
    params: Look


class _Head(Struct, frozen=True):
    jsonrpc: Any = UNSET
    method: Any = UNSET
    id: msgspec.Raw | UnsetType = UNSET
    params: msgspec.Raw | UnsetType = UNSET


class _Id(Struct, frozen=True):
    id: msgspec.Raw


_id_decoder = msgspec.json.Decoder(_Id)
_call_decoder = msgspec.json.Decoder(_Call)
_look_decoder = msgspec.json.Decoder(_Look)
_head_decoder = msgspec.json.Decoder(_Head)


def decode_call(body: bytes, wire: Wire, *, lenient: bool = False) -> tuple[bytes, Request | ProtocolError]:
    """The call's id as it came (JSON text), and its request, or the error that answers it."""
    plain_call = decode_plain_call(body, wire)
    if plain_call is not None:
        return plain_call
    rpc_id = NO_ID
    try:
        plain = read_json(body, json_rpc=PARSE_ERROR)
        head = _head(plain, body)
        if isinstance(head.id, msgspec.Raw) and _is_id(bytes(head.id)):
            rpc_id = bytes(head.id)
        _refuse_other_calls(head, rpc_id)
        return rpc_id, examine(plain.get("params", {}), wire, lenient=lenient)
    except ProtocolError as error:
        return rpc_id, error


def decode_plain_call(body: bytes, wire: Wire) -> tuple[bytes, Request] | None:
    """The call's id and its request by the fast road alone; None where it takes the slow one."""
    if not plainly_sound(body):
        return None
    try:
        call = _call_decoder.decode(body)
        request = settle(call.params, wire)
    except NOT_DECODED:
        return None
    rpc_id = bytes(call.id)
    return (rpc_id, request) if request is not None and _is_id(rpc_id) else None


def names_a_lead(body: bytes) -> bool:
    """Whether a body is a call whose message has a lead as its data, at a cost far below that of decoding it."""
    try:
        return _look_decoder.decode(body).params.names_a_lead
    except NOT_DECODED:
        return False


def call_id(body: bytes) -> bytes:
    """A call's id as received (JSON text), without decoding the rest of the call; `null` when there is none."""
    if not plainly_sound(body):
        return NO_ID
    try:
        rpc_id = bytes(_id_decoder.decode(body).id)
    except NOT_DECODED:
        return NO_ID
    return rpc_id if _is_id(rpc_id) else NO_ID


def _is_id(text: bytes) -> bool:
    """Whether this JSON text is an id: a string, a number or null."""
    if text == NO_ID or text[:1] not in b'"-0123456789':
        return text == NO_ID
    if len(text) <= CALL_ID_LENGTH or text[:1] != b'"':
        return len(text) <= CALL_ID_LENGTH
    try:
        # Escapes make the text longer than the string.
        return len(msgspec.json.decode(text, type=str)) <= CALL_ID_LENGTH
    except NOT_DECODED:
        return False


def _head(plain: Any, body: bytes) -> _Head:
    if isinstance(plain, list):
        raise _invalid("Batches are not taken: send one call in a body.")
    if not isinstance(plain, dict):
        raise _invalid('A JSON-RPC 2.0 call is an object with "jsonrpc", "id", "method" and "params".')
    if "message" in plain and "jsonrpc" not in plain:
        raise _invalid('This is a body of the HTTP+JSON binding. Send it to /message:send, or as "params" of a call.')
    return _head_decoder.decode(body)


def _invalid(message: str) -> SchemaValidationFailed:
    return SchemaValidationFailed(message, {"in": "envelope"}, json_rpc=INVALID_REQUEST)


def _refuse_other_calls(head: _Head, rpc_id: bytes) -> None:
    """Raises for whatever is not a call of SendMessage that waits for its answer."""
    if isinstance(head.id, UnsetType):
        raise _invalid('Notifications are not taken: send an "id".')
    if rpc_id == NO_ID != bytes(head.id):
        raise _invalid(f'"id" must be a string, a number or null, of at most {CALL_ID_LENGTH} characters.')
    if head.jsonrpc != "2.0":
        raise _invalid('"jsonrpc" must be "2.0".')
    method = head.method
    if not isinstance(method, str):
        raise _invalid('"method" must be a string: send "SendMessage".')
    if method == "SendMessage":
        return
    undeclared = UNDECLARED_METHODS.get(method)
    if undeclared is not None:
        raise undeclared(f"This agent does not offer {method}: it answers SendMessage.", {"in": "envelope"})
    legacy = " (message/send is its legacy v0.3 name)" if method == "message/send" else ""
    raise UnsupportedSkill(f"No such method. Send SendMessage{legacy}.", {"in": "envelope"}, json_rpc=METHOD_NOT_FOUND)


def result_pieces(rpc_id: bytes, result: list[bytes]) -> list[bytes]:
    """A successful answer around a result, both in pieces."""
    return [b'{"jsonrpc":"2.0","id":%b,"result":' % rpc_id, *result, b"}"]
