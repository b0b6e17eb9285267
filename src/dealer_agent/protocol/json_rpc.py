"""Decodes and encodes the JSON-RPC 2.0 call around a request (docs/protocol.md#json-rpc). Pure."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from dealer_agent.protocol import errors
from dealer_agent.protocol.envelope import Request, RequestTypes, check_request, plain_request
from dealer_agent.protocol.envelope_problems import SendMessage
from dealer_agent.protocol.errors import ProtocolError, SchemaValidationFailed, UnsupportedSkill
from dealer_agent.protocol.json_body import NOT_DECODED, is_sound, read_json
from dealer_agent.protocol.published_versions import PublishedVersion
from dealer_agent.protocol.task_list import TaskPage, task_page
from dealer_agent.protocol.vocabulary import Vocabularies

INVALID_REQUEST, METHOD_NOT_FOUND = -32600, -32601

HTTP_STATUSES = frozenset({401, 408, 413, 415, 429})
"""The HTTP statuses that errors keep, besides those of `ProtocolError.keeps_http`."""

NO_ID = b"null"

CALL_ID_LENGTH = 200
"""The most characters of the id of a call. Every response repeats the id."""

UNDECLARED_METHODS: dict[str, type[ProtocolError]] = {
    **dict.fromkeys(("GetTask", "CancelTask"), errors.TaskNotFound),
    **dict.fromkeys(
        [f"{verb}TaskPushNotificationConfig" for verb in ("Create", "Set", "Get", "List", "Delete")]
        + ["ListTaskPushNotificationConfigs"],
        errors.PushNotificationNotSupported,
    ),
    **dict.fromkeys(("SendStreamingMessage", "SubscribeToTask", "GetExtendedAgentCard"), errors.UnsupportedOperation),
}
"""A2A's methods that the card does not declare, and their errors."""


class _Call(Struct, frozen=True):
    jsonrpc: Literal["2.0"]
    method: Literal["SendMessage"]
    id: msgspec.Raw
    params: SendMessage


class _CallTypes(Struct, frozen=True):
    params: RequestTypes


class _Id(Struct, frozen=True):
    id: msgspec.Raw


_id_decoder = msgspec.json.Decoder(_Id)
_call_decoder = msgspec.json.Decoder(_Call)
_types_decoder = msgspec.json.Decoder(_CallTypes)


def decode_call(
    body: bytes, vocabularies: Vocabularies, lenient: bool = False, version: PublishedVersion | None = None
) -> tuple[bytes, Request | ProtocolError | TaskPage]:
    """The id of a call, as the JSON text that was received, and the request, the error or the response to ListTasks.

    `version` is None for requests to the service's own addresses, which follow docs/protocol.md.
    """
    plain_call = decode_plain_call(body, vocabularies) if version is None else None
    if plain_call is not None:
        return plain_call
    rpc_id = NO_ID
    try:
        plain = read_json(body)
        _refuse_other_values(plain)
        rpc_id = _id_in(body)
        _refuse_other_calls(plain, rpc_id, version)
        params = plain.get("params", {})
        if plain["method"] == "ListTasks":
            named = params if isinstance(params, dict) else {}
            return rpc_id, task_page(named.get("pageSize"), named.get("pageToken"))
        return rpc_id, check_request(params, vocabularies, lenient=lenient, version=version)
    except ProtocolError as error:
        return rpc_id, error


def decode_plain_call(body: bytes, vocabularies: Vocabularies) -> tuple[bytes, Request] | None:
    """The id of a call, and its request as from `envelope.decode_plain_request`. None for the path over ASGI."""
    if not is_sound(body):
        return None
    try:
        call = _call_decoder.decode(body)
        request = plain_request(call.params, vocabularies)
    except NOT_DECODED:
        return None
    rpc_id = bytes(call.id)
    return (rpc_id, request) if request is not None and _is_id(rpc_id) else None


def names_a_lead(body: bytes) -> bool:
    """Whether the body is a call with a lead. This costs much less than to decode it."""
    try:
        return _types_decoder.decode(body).params.is_lead
    except NOT_DECODED:
        return False


def call_id(body: bytes) -> bytes:
    """The id of a call, as the JSON text that was received; `null` if there is none. The rest is not decoded."""
    return _id_in(body) if is_sound(body) else NO_ID


def _id_in(body: bytes) -> bytes:
    """The JSON text of the id in a body. NO_ID if there is none that is valid."""
    try:
        rpc_id = bytes(_id_decoder.decode(body).id)
    except NOT_DECODED:
        return NO_ID
    return rpc_id if _is_id(rpc_id) else NO_ID


def _is_id(text: bytes) -> bool:
    """Whether the JSON text of an id is a string, a number or null, and short enough."""
    if text == NO_ID or text[:1] not in b'"-0123456789':
        return text == NO_ID
    if len(text) <= CALL_ID_LENGTH or text[:1] != b'"':
        return len(text) <= CALL_ID_LENGTH
    try:
        # Escapes make the text longer than the string.
        return len(msgspec.json.decode(text, type=str)) <= CALL_ID_LENGTH
    except NOT_DECODED:
        return False


def _invalid(message: str) -> SchemaValidationFailed:
    return SchemaValidationFailed(message, {"in": "envelope"}, json_rpc=INVALID_REQUEST)


def _refuse_other_values(plain: Any) -> None:
    """Raises the error of a body that is not a call, and says what it seems to be."""
    if isinstance(plain, list):
        raise _invalid("Batches are not supported: send one call in a body.")
    if not isinstance(plain, dict):
        raise _invalid('A JSON-RPC 2.0 call is an object with "jsonrpc", "id", "method" and "params".')
    if "message" in plain and "jsonrpc" not in plain:
        raise _invalid('This is a body of the HTTP+JSON binding. Send it to /message:send, or as "params" of a call.')


def _refuse_other_calls(call: dict[str, Any], rpc_id: bytes, version: PublishedVersion | None) -> None:
    """Raises the error of a call that is not a valid call of SendMessage, or of ListTasks."""
    if "id" not in call:
        raise _invalid('Notifications are not supported: send an "id".')
    if rpc_id == NO_ID and call["id"] is not None:
        raise _invalid(f'"id" must be a string, a number or null, of at most {CALL_ID_LENGTH} characters.')
    if call.get("jsonrpc") != "2.0":
        raise _invalid('"jsonrpc" must be "2.0".')
    method = call.get("method")
    if not isinstance(method, str):
        raise _invalid('"method" must be a string: send "SendMessage".')
    if method == "SendMessage" or (method == "ListTasks" and version is None):
        return
    undeclared = UNDECLARED_METHODS.get(method) if version is None else _undeclared_method(version, method)
    if undeclared is not None:
        raise undeclared(f"This agent does not offer {method}: it answers SendMessage.", {"in": "envelope"})
    legacy = " (message/send is its legacy v0.3 name)" if method == "message/send" else ""
    raise UnsupportedSkill(f"No such method. Send SendMessage{legacy}.", {"in": "envelope"}, json_rpc=METHOD_NOT_FOUND)


def _undeclared_method(version: PublishedVersion, method: str) -> type[ProtocolError] | None:
    """A2A's error for a method that a published version does not have. None if the version has only one error for all
    unknown methods."""
    if not version.has_a2a_errors:
        return None
    # A version with these errors refuses every undeclared method itself, also those about a task
    # (docs/protocol.md#version-numbers).
    kind = errors.UnsupportedOperation if method == "ListTasks" else UNDECLARED_METHODS.get(method)
    return errors.UnsupportedOperation if kind is errors.TaskNotFound else kind


def result_pieces(rpc_id: bytes, result: list[bytes]) -> list[bytes]:
    """The body of a successful response. Body and result are lists of pieces."""
    return [b'{"jsonrpc":"2.0","id":%b,"result":' % rpc_id, *result, b"}"]
