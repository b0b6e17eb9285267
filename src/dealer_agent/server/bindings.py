"""Reads requests and writes responses of both bindings: HTTP+JSON (docs/protocol.md#http) and JSON-RPC (#json-rpc)."""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import NamedTuple

from dealer_agent.protocol import envelope, json_rpc
from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.published_versions import VOCABULARIES, PublishedVersion
from dealer_agent.protocol.response_bodies import SkillResult, http_error_body, json_rpc_error_body, response_pieces
from dealer_agent.protocol.task_list import TaskPage
from dealer_agent.protocol.version_errors import http_error, json_rpc_error
from dealer_agent.protocol.version_payloads import response_data
from dealer_agent.protocol.vocabulary import Vocabularies, Vocabulary


class Binding(NamedTuple):
    """The functions of one binding. The id of a call is JSON text; over HTTP+JSON it is empty.

    - `decode(body, vocabularies, lenient)` returns the call's id, and the request, its error or a page of tasks.
      `lenient` allows an absent configuration.
    - `decode_plain(body, vocabularies)` returns the call's id and a plain request; None for every other body.
    - `names_a_lead(body)` costs much less than to decode the body.
    - `call_id(body)` returns the id in a body that may be invalid; `null` if there is none.
    - `encode_result(call_id, result)` returns the body of a response. Result and body are lists of pieces.
    - `encode_error(error, vocabulary, error_id, at, call_id)` returns the HTTP status and the body.

    The binding of a published `version` has its rules, and always the vocabulary `autoagent`.
    """

    name: str
    decode: Callable[[bytes, Vocabularies, bool], tuple[bytes, Request | ProtocolError | TaskPage]]
    decode_plain: Callable[[bytes, Vocabularies], tuple[bytes, Request] | None]
    names_a_lead: Callable[[bytes], bool]
    call_id: Callable[[bytes], bytes]
    encode_result: Callable[[bytes, list[bytes]], list[bytes]]
    encode_error: Callable[[ProtocolError, Vocabulary, str, datetime, bytes], tuple[int, bytes]]
    version: PublishedVersion | None = None


def _decode_http(
    body: bytes, vocabularies: Vocabularies, lenient: bool, version: PublishedVersion | None = None
) -> tuple[bytes, Request | ProtocolError]:
    """As `json_rpc.decode_call`. HTTP+JSON has no call id, so the id is empty."""
    try:
        return b"", envelope.decode_request(body, vocabularies, lenient, version)
    except ProtocolError as error:
        return b"", error


def _decode_plain_http(body: bytes, vocabularies: Vocabularies) -> tuple[bytes, Request] | None:
    request = envelope.decode_plain_request(body, vocabularies)
    return None if request is None else (b"", request)


def _json_rpc_error(
    error: ProtocolError, vocabulary: Vocabulary, error_id: str, at: datetime, call_id: bytes
) -> tuple[int, bytes]:
    status = error.http if error.http in json_rpc.HTTP_STATUSES or error.keeps_http else 200
    return status, json_rpc_error_body(error, vocabulary, error_id, at, call_id)


HTTP_JSON = Binding(
    "http+json",
    decode=_decode_http,
    decode_plain=_decode_plain_http,
    names_a_lead=envelope.names_a_lead,
    call_id=lambda _body: b"",
    encode_result=lambda _call_id, result: result,
    encode_error=lambda error, vocabulary, error_id, at, _call_id: (
        error.http,
        http_error_body(error, vocabulary, error_id, at),
    ),
)
JSON_RPC = Binding(
    "json-rpc",
    decode=json_rpc.decode_call,
    decode_plain=json_rpc.decode_plain_call,
    names_a_lead=json_rpc.names_a_lead,
    call_id=json_rpc.call_id,
    encode_result=json_rpc.result_pieces,
    encode_error=_json_rpc_error,
)
MCP = HTTP_JSON._replace(name="mcp")
"""A call of an MCP tool: a request of the HTTP+JSON binding that `server.mcp` makes, with a name of its own in logs."""
DMC12 = HTTP_JSON._replace(name="dmc12")
"""A call of a tool of DMC-12, which `server.dmc12_tools` makes in the same way."""


@cache
def http_json_of(version: PublishedVersion) -> Binding:
    """HTTP+JSON as a published version has it."""
    return HTTP_JSON._replace(
        decode=lambda body, _, lenient: _decode_http(body, VOCABULARIES, lenient, version),
        decode_plain=lambda _body, _vocabularies: None,
        encode_error=lambda error, _, error_id, at, _call_id: http_error(version, error, error_id, at),
        version=version,
    )


@cache
def json_rpc_of(version: PublishedVersion) -> Binding:
    """JSON-RPC as a published version has it."""
    return JSON_RPC._replace(
        decode=lambda body, _, lenient: json_rpc.decode_call(body, VOCABULARIES, lenient, version),
        decode_plain=lambda _body, _vocabularies: None,
        encode_error=lambda error, _, error_id, at, call_id: json_rpc_error(version, error, error_id, at, call_id),
        version=version,
    )


def success_body(
    binding: Binding, request: Request, call_id: bytes, message_id: str, result: SkillResult
) -> list[bytes]:
    """The body of the response with the result of a skill, in pieces. Those of `result.rest` stay as they are."""
    if binding.version is not None:
        data = b"".join((result.data, *result.rest))
        result = result._replace(data=response_data(binding.version, request.skill, data), rest=())
    return binding.encode_result(call_id, response_pieces(request, message_id, result))
