"""Encodes the bodies of responses: success and error (docs/protocol.md#envelope, docs/protocol.md#errors). Pure."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.problems import RECEIVED_LIMIT
from dealer_agent.protocol.skill import Skill
from dealer_agent.protocol.vocabulary import Vocabulary

A2A_DOMAIN = "a2a-protocol.org"
ERROR_INFO_TYPE = "type.googleapis.com/google.rpc.ErrorInfo"


class SkillResult(NamedTuple):
    """What a skill responds: the JSON of `data`, and a sentence for the buyer. `rest` has further pieces of `data`.

    A page of listings stays in pieces until it is sent: one copy of it costs about as much as the search.
    `is_repeated`: the response was stored for an idempotency key.
    """

    data: bytes
    message: str | None = None
    rest: Sequence[bytes] = ()
    is_repeated: bool = False


def response_pieces(request: Request, message_id: str, response: SkillResult) -> list[bytes]:
    """`{"message": ...}` around what a skill responds, in the vocabulary of its request, in pieces."""
    head, tail = _frame(request.skill, request.vocabulary)
    context = b""
    if request.context_id is not None:
        context = b'"contextId":%b,' % msgspec.json.encode(request.context_id)
    if response.message is not None:
        tail = b',"message":%b%b' % (msgspec.json.encode(response.message), tail)
    opening = b'{"message":{"messageId":"%b",%b%b' % (message_id.encode(), context, head)
    return [opening, response.data, *response.rest, tail]


@lru_cache(maxsize=64)
def _frame(skill: Skill, vocabulary: Vocabulary) -> tuple[bytes, bytes]:
    head = b'"role":"ROLE_AGENT","parts":[{"data":{"type":"' + skill.response_type.encode() + b'","data":'
    tail = b'},"mediaType":"' + vocabulary.response_media_type(skill).encode() + b'"}]}}'
    return head, tail


def error_details(error: ProtocolError, vocabulary: Vocabulary, error_id: str, at: datetime) -> tuple[Any, Any]:
    """The two entries of `error.details`: ErrorInfo, then the protocol's error payload. `at` is in UTC."""
    metadata: dict[str, Any] = {
        name: error.details[name] for name in ("instancePath", "received") if name in error.details
    }
    if not isinstance(metadata.get("received", ""), str):
        metadata["received"] = msgspec.json.encode(metadata["received"]).decode()[:RECEIVED_LIMIT]
    metadata["error_id"] = error_id
    info = {
        "@type": ERROR_INFO_TYPE,
        "reason": error.code,
        "domain": A2A_DOMAIN if error.is_a2a else vocabulary.domain,
        "metadata": metadata,
    }
    payload = {
        "@type": vocabulary.error_type_url,
        "type": vocabulary.error_type,
        "error_id": error_id,
        "code": error.code,
        "message": error.message,
        "retryable": error.retryable,
        "details": error.details,
        "created_at": at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z",
    }
    return info, payload


def http_error_body(error: ProtocolError, vocabulary: Vocabulary, error_id: str, at: datetime) -> bytes:
    """The body of an error response over HTTP+JSON."""
    details = error_details(error, vocabulary, error_id, at)
    return msgspec.json.encode({"error": {"code": error.http, "message": error.coded_message, "details": details}})


def json_rpc_error_body(
    error: ProtocolError, vocabulary: Vocabulary, error_id: str, at: datetime, rpc_id: bytes
) -> bytes:
    """The body of an error response over JSON-RPC (docs/protocol.md#json-rpc). `rpc_id` is JSON text."""
    info, payload = error_details(error, vocabulary, error_id, at)
    number, data = error.json_rpc, [info, payload]
    if not vocabulary.a2a_errors:
        number = error.json_rpc_autoagent or error.json_rpc
        del payload["@type"]
        data = payload
    body = msgspec.json.encode({"code": number, "message": error.coded_message, "data": data})
    return b'{"jsonrpc":"2.0","id":' + rpc_id + b',"error":' + body + b"}"
