"""Requests to a skill that this process makes itself, without the network. They pass the pipeline of all requests."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from time import perf_counter
from typing import Any

from starlette.types import Message, Receive

from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.problems import validation_error
from dealer_agent.protocol.skill import Skill
from dealer_agent.server.bindings import HTTP_JSON
from dealer_agent.server.body import JSON
from dealer_agent.server.counting import DealerCounts
from dealer_agent.server.guards import IncomingRequest
from dealer_agent.server.request_pipeline import answer
from dealer_agent.server.service import MESSAGE_SEND, Service


def skill_body(service: Service, skill: Skill, payload: Mapping[str, Any]) -> bytes:
    """The body of a request of the HTTP+JSON binding with this payload."""
    part = {"data": payload, "mediaType": service.vocabularies.default.request_media_type(skill)}
    message = {"messageId": new_ulid(), "role": "ROLE_USER", "parts": [part]}
    return json.dumps({"message": message, "configuration": {"acceptedOutputModes": [JSON]}}).encode()


def body_headers(body: bytes) -> list[tuple[bytes, bytes]]:
    """The headers about a body."""
    return [(b"content-type", JSON.encode()), (b"content-length", str(len(body)).encode())]


def receiving(body: bytes) -> Receive:
    """What gives the whole body to the pipeline (ASGI)."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


@dataclass(frozen=True)
class OwnExchange:
    """A request and its response, as an agent would have them on the wire. A token is not in `request_head`."""

    request_head: str
    request: bytes
    status: int
    response_head: str
    response: bytes
    seconds: float


async def ask_own(service: Service, skill: Skill, payload: Mapping[str, Any], address: str, token: str) -> OwnExchange:
    """Asks a reading skill as an agent at this IP address does, with a token unless it is empty.

    The request is neither counted nor recorded among what agents ask, and has no line in the log.
    """
    assert not skill.is_lead, "a lead would be stored, and sent to people"
    counts = DealerCounts(service.dealer_id, service.settings.dealer.timezone, (), [])
    uncounted = replace(service, counts=counts, replies=None)
    body = skill_body(service, skill, payload)
    headers = body_headers(body)
    if token:
        headers.append((b"authorization", f"Bearer {token}".encode("latin-1", "replace")))
    incoming = IncomingRequest(HTTP_JSON, uncounted, headers, dict(headers), address, is_traced=False)
    began = perf_counter()
    response = await answer(incoming, receiving(body))
    seconds = perf_counter() - began
    head = response.head.decode("latin-1").replace("\r\n", "\n").strip()
    return OwnExchange(request_head(service, body), body, response.status, head, b"".join(response.body), seconds)


def request_head(service: Service, body: bytes) -> str:
    """The first lines of a request, as an agent sends it."""
    lines = [f"{name.decode()}: {value.decode()}" for name, value in body_headers(body)]
    return "\n".join([f"POST {service.settings.service.base_path}{MESSAGE_SEND}", *lines])


def refusal_of(service: Service, body: bytes, now: datetime) -> tuple[int, bytes] | None:
    """The status and the body of the response to a request whose form is wrong. None if its form is right.

    Nothing is stored, counted or sent: a lead can be tried with it.
    """
    _, decoded = HTTP_JSON.decode(body, service.vocabularies, service.settings.service.lenient_configuration)
    if isinstance(decoded, Request) and decoded.problems:
        decoded = validation_error([*decoded.problems], "payload")
    if not isinstance(decoded, ProtocolError):
        return None
    return HTTP_JSON.encode_error(decoded, service.vocabularies.default, f"err_{new_ulid()}", now, b"")
