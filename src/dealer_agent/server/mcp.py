"""The MCP server of a dealer at `/mcp`: streamable HTTP of the official SDK, without sessions (docs/how-to/mcp.md).

Each request stands alone, so any worker and any replica can answer it, and nothing is kept after the response. A tool
call becomes a request of the caller to the skill, with the caller's IP address and token, and passes
`request_pipeline.answer`: the same guards, limits, counts and logs as at the root.

The SDK is imported in a thread when the first request comes, because few dealers need it.
"""

import asyncio
import json
import logging
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from dealer_agent import __version__
from dealer_agent.apidocs.discovery import mcp_server_name
from dealer_agent.apidocs.openapi import server_root
from dealer_agent.leads.consent import consent_terms
from dealer_agent.mcp_tools.consent import ConsentTerms
from dealer_agent.mcp_tools.words import SkillData, SkillError
from dealer_agent.protocol.errors import SchemaValidationFailed
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.json_body import PARSE_ERROR, read_json
from dealer_agent.protocol.skill import Skill
from dealer_agent.server.bindings import MCP
from dealer_agent.server.body import JSON, ClientGoneError, read_body
from dealer_agent.server.guards import COUNTED_BYTES, IncomingRequest
from dealer_agent.server.log import places
from dealer_agent.server.request_pipeline import answer, log_response
from dealer_agent.server.served_dealers import Addresses, at_public_address, host_name, host_of
from dealer_agent.server.service import MCP_RULE, Service

if TYPE_CHECKING:
    # Imported with the first request.
    from dealer_agent.mcp_tools import tool_server

log = structlog.get_logger()

INVALID_REQUEST = -32600
"""The number of JSON-RPC for a request with a wrong Host or Origin."""

_PASSED_ON = frozenset({b"authorization", b"user-agent", b"x-forwarded-for", b"traceparent"})
"""The headers of an MCP request that the request to the skill has too."""
_HEADERS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


class McpEndpoint:
    """Answers `POST /mcp` over ASGI. The scope has the dealer's service."""

    def __init__(self) -> None:
        self._tools: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one MCP request (ASGI). Raises ProtocolError before the response begins."""
        service: Service = scope["service"]
        settings = service.settings
        if not settings.mcp.enabled:
            raise HTTPException(404)
        headers, peer = scope["headers"], _peer(scope)
        fields = dict(headers)
        problem = _wrong_origin(service, scope, fields.get(b"origin"))
        if problem is not None:
            await problem(scope, receive, send)
            return
        try:
            bounds = settings.service
            body = await read_body(
                receive,
                bounds.body_limit_bytes,
                bounds.request_timeout_seconds,
                bounds.largest_body_bytes,
                # Limits the large bodies that arrive before it is known whether they are leads.
                partial(service.process.room_for_unknown_type, peer, headers),
            )
            await service.count_request(MCP_RULE, scope, max(1, -(-len(body) // COUNTED_BYTES)))
            try:
                read_json(body)
            except SchemaValidationFailed as error:
                # The SDK has no bounds on the number of values and on their levels.
                await _json_rpc_error(400, error.message, PARSE_ERROR)(scope, receive, send)
                return
            answered: list[Message] = []

            async def keep(message: Message) -> None:
                answered.append(message)

            # Leave the block before the response is sent: a client may read it slowly.
            with service.load:
                await _serve(await self._loaded(), scope, body, keep)
            respond = _with_headers(send, fields.get(b"origin"))
            for message in answered:
                await respond(message)
        except ClientGoneError:
            return

    async def _loaded(self) -> "type[tool_server.ToolServer]":
        if self._tools is None:
            # A thread, because other requests must be answered meanwhile.
            module = await asyncio.to_thread(import_module, "dealer_agent.mcp_tools.tool_server")
            sdk = logging.getLogger("mcp")
            sdk.propagate, sdk.handlers = False, [_FaultsOnly()]
            self._tools = module.ToolServer
        tools: type[tool_server.ToolServer] = self._tools
        return tools


class _FaultsOnly(logging.Handler):
    """Logs that the SDK has failed, without its message: that may contain what a caller wrote."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            cause = record.exc_info[1] if record.exc_info else None
            found = {} if cause is None else {"error": type(cause).__qualname__, "places": places(cause)}
            log.error("mcp fault", logger=record.name, **found)


async def _serve(tools: "type[tool_server.ToolServer]", scope: Scope, body: bytes, send: Send) -> None:
    """Answers one request with a server of its own. Nothing of it is left afterwards."""
    from mcp.server.request_state import RequestStateSecurity
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from dealer_agent.mcp_tools.tool_server import STATE_SECONDS

    service: Service = scope["service"]
    server = tools(
        name=mcp_server_name(server_root(service.card), service.dealer_id),
        version=__version__,
        terms=_terms(service),
        skills=service.settings.service.skills,
        ask=_ask,
        token_skills=service.settings.token_skills,
    ).server(
        RequestStateSecurity(
            keys=[service.mcp_key], ttl=STATE_SECONDS, bind_principal=_caller, audience=service.dealer_id
        ),
    )
    unread: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])
    gone = asyncio.Event()

    async def receive() -> Message:
        message = next(unread, None)
        if message is None:
            # The SDK asks again to see a disconnect. The response is small and comes soon, so nothing is cancelled.
            await gone.wait()
            return {"type": "http.disconnect"}
        return message

    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
    async with manager.run():
        await manager.handle_request(scope, receive, send)


def _caller(context: Any) -> str | None:
    """What binds the state of a call to its caller: the token. A caller without a token may change its IP address."""
    authorization: str | None = context.request.headers.get("authorization")
    return authorization


def _terms(service: Service) -> ConsentTerms:
    if _terms not in service.documents:
        about = msgspec.json.decode(service.dealer.information)
        service.documents[_terms] = consent_terms(about, service.card.consent_text, service.card.http_json_url)
    terms: ConsentTerms = service.documents[_terms]
    return terms


def _peer(scope: Scope) -> str | None:
    return scope["client"][0] if scope.get("client") else None


async def _ask(context: Any, skill: Skill, payload: dict[str, Any]) -> SkillData | SkillError:
    """Sends a payload through the pipeline of requests, as the caller of the tool."""
    request: Request = context.request
    service: Service = request.scope["service"]
    part = {"data": payload, "mediaType": service.vocabularies.default.request_media_type(skill)}
    message = {"messageId": new_ulid(), "role": "ROLE_USER", "parts": [part]}
    body = json.dumps({"message": message, "configuration": {"acceptedOutputModes": [JSON]}}).encode()
    headers = [
        *((name, value) for name, value in request.scope["headers"] if name in _PASSED_ON),
        (b"content-type", JSON.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    incoming = IncomingRequest(MCP, service, headers, dict(headers), _peer(request.scope))

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    response = await answer(incoming, receive)
    log_response(incoming, response)
    document = msgspec.json.decode(b"".join(response.body))
    if response.status == 200:
        data = document["message"]["parts"][0]["data"]
        return SkillData(data["data"], data.get("message"))
    # The last detail is the protocol's error. The one before it is A2A's ErrorInfo.
    error = document["error"]["details"][-1]
    return SkillError(error["code"], error["message"], error["details"])


def _wrong_origin(service: Service, scope: Scope, origin: bytes | None) -> Response | None:
    """The refusal of a wrong Host or Origin. With DNS rebinding, a page could otherwise reach a private service."""
    addresses: Addresses = scope["dealers"].addresses
    name = host_name(host_of(scope).decode("latin-1"))
    mcp = service.settings.mcp
    # Behind a TLS proxy this may be any host: a rebound name has no certificate there.
    public = urlsplit(at_public_address(service, scope).card.http_json_url)
    is_local = _is_loopback(name)
    # A name can be rebound to this machine. An IP address cannot.
    installation = urlsplit(addresses.public_url).hostname
    known = is_local or _is_address(name) or name in {public.hostname, installation, *mcp.allowed_hosts}
    if not known and addresses.hosts.get(name) != service.dealer_id:
        words = (
            "The Host header names no host of this dealer. Set public_url, or name the host in allowed_hosts of [mcp]."
        )
        return _json_rpc_error(421, words)
    if origin is None:
        return None
    page = origin.decode("latin-1")
    if page in {f"{public.scheme}://{public.netloc}", *mcp.allowed_origins}:
        return None
    scheme, _, rest = page.partition("://")
    if is_local and scheme in ("http", "https") and _is_loopback(host_name(rest)):
        return None
    return _json_rpc_error(403, "Pages of this origin may not call. Name it in allowed_origins of [mcp].")


def _is_address(name: str) -> bool:
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    if not _is_address(name):
        return name == "localhost"
    return ip_address(name.removeprefix("[").removesuffix("]")).is_loopback


def _json_rpc_error(status: int, words: str, number: int = INVALID_REQUEST) -> Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": number, "message": words}}
    return Response(msgspec.json.encode(error), status, dict(_DECODED_HEADERS), media_type=JSON)


_DECODED_HEADERS = [(name.decode(), value.decode()) for name, value in _HEADERS]


def _with_headers(send: Send, origin: bytes | None) -> Send:
    """Adds the headers that every response has. A page may read the response only if its origin was accepted."""
    more = _HEADERS + ([(b"access-control-allow-origin", origin), (b"vary", b"origin")] if origin else [])

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return with_headers
