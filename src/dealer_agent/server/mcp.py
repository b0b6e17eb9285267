"""Serves a dealer to MCP hosts at `/mcp`: streamable HTTP of the official SDK (docs/how-to/mcp.md).

Each request stands alone, so any worker and any replica can answer it, and a process keeps nothing after the response.
Before a lead is sent, the person at the host is asked for consent. In the current revision, the first response to the
call is the question, and a second call has the answer. Hosts of older revisions are asked by `mcp_questions`.

A tool call becomes a request of the caller to the skill, with the caller's IP address, and passes
`request_pipeline.answer`: the same guards, limits, counts and logs as at the root. The token or the signature of the
MCP request decides the caller once. A host that can log in gets 401 or 403, as the authorization of MCP has it.
`outer_request` is the request to `/mcp` with its caller, as the guards take it; each request to a skill gets this
caller. Without an issuer, a host that lacks a token gets an error of the tool.

The SDK is imported in a thread when the first request comes, because few dealers need it.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import structlog
from msgspec import UNSET
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from dealer_agent import __version__
from dealer_agent.apidocs.discovery import MCP_PATH, mcp_server_name
from dealer_agent.apidocs.openapi import server_root
from dealer_agent.dealers.profile_checks import is_this_machine
from dealer_agent.http_signatures.content_digest import content_digest
from dealer_agent.inventory.listing import Listing
from dealer_agent.leads.consent import consent_terms
from dealer_agent.mcp_tools.consent import ANSWER_SECONDS, ConsentTerms
from dealer_agent.mcp_tools.words import SkillData, SkillError
from dealer_agent.offers.pricing import WrongZipError, price_to_show
from dealer_agent.offers.words import tool_lines
from dealer_agent.protocol.errors import AuthRequired, SchemaValidationFailed
from dealer_agent.protocol.json_body import PARSE_ERROR, read_json
from dealer_agent.protocol.offers import OFFERS_EXTENSION
from dealer_agent.protocol.skill import (
    ALL_SKILLS,
    INVENTORY_VEHICLE,
    LEAD_SUBMIT,
    OFFER_HOLD,
    OFFER_RELEASE,
    OFFER_STATUS,
    Skill,
)
from dealer_agent.server.bindings import MCP, Binding
from dealer_agent.server.body import JSON, ClientGoneError, cost_of, read_body
from dealer_agent.server.documents import require_mcp
from dealer_agent.server.guards import CALLER_GUARDS, IncomingRequest, check_digest, pass_guards, skill_refusal
from dealer_agent.server.log import code_positions
from dealer_agent.server.mcp_questions import (
    REVISION,
    McpSession,
    Questions,
    is_answer,
    keep_answer,
    new_session,
    session_of,
)
from dealer_agent.server.own_requests import body_headers, receiving, skill_body
from dealer_agent.server.request_pipeline import answer, log_response
from dealer_agent.server.served_dealers import Addresses, at_public_address, host_name, host_of
from dealer_agent.server.service import MCP_RULE, Service
from dealer_agent.server.token_challenges import Headers, challenge

if TYPE_CHECKING:
    # Imported with the first request.
    from dealer_agent.mcp_tools import tool_server

log = structlog.get_logger()

INVALID_REQUEST = -32600
"""The number of JSON-RPC for a request with a wrong Host or Origin."""

LEAD_TOOL = LEAD_SUBMIT.rate_setting
"""The name of the tool that asks a person."""

_PASSED_ON = frozenset({b"user-agent", b"x-forwarded-for", b"traceparent"})
"""The headers of an MCP request that the request to the skill has too."""
_PROOFS = frozenset({b"authorization", b"signature-input"})
"""A request with one of these headers proves its caller."""
_SKILL_OF_TOOL = {skill.rate_setting: skill for skill in ALL_SKILLS}
_ONLY_OF_KNOWN = (OFFER_HOLD, OFFER_RELEASE, OFFER_STATUS)
_HEADERS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


class NotJson(Exception):  # noqa: N818 - it says what the body is
    """A body is not JSON, or has too many values or levels."""


class McpEndpoint:
    """Answers `/mcp` over ASGI: POST, and GET of a stream that broke. The scope has the dealer's service."""

    def __init__(self) -> None:
        self._tools: Any = None
        self._questions = Questions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one MCP request (ASGI). Raises ProtocolError before the response begins."""
        service: Service = scope["service"]
        require_mcp(service)
        fields = dict(scope["headers"])
        resumes = scope["method"] == "GET" and b"last-event-id" in fields
        if scope["method"] != "POST" and not resumes:
            raise HTTPException(405, headers={"Allow": "POST"})
        respond = with_headers(send, fields.get(b"origin"))
        try:
            problem = wrong_host_or_origin(service, scope, fields.get(b"origin"))
            if problem is not None:
                await problem(scope, receive, send)
            elif resumes:
                await service.count_request(MCP_RULE, scope)
                await _find_caller(scope)
                await self._resume(scope, receive, respond, fields)
            else:
                await self._post(scope, receive, respond, fields)
        except AuthRequired as refused:
            headers = challenge(refused, service, scope, MCP_PATH)
            await json_rpc_error(refused.http, refused.coded_message, headers=headers)(scope, receive, respond)
        except ClientGoneError:
            return

    async def _post(self, scope: Scope, receive: Receive, send: Send, fields: Mapping[bytes, bytes]) -> None:
        """Answers one message of a host."""
        service: Service = scope["service"]
        try:
            body, message = await read_message(scope, receive)
        except NotJson as error:
            await json_rpc_error(400, str(error), PARSE_ERROR)(scope, receive, send)
            return
        check_login(scope, message, _SKILL_OF_TOOL)
        # A host of an older revision that has a session.
        if b"mcp-session-id" in fields:
            await self._tool_server_class()
            session = session_of(service, fields[b"mcp-session-id"].decode("latin-1"))
            if session is None:
                await _NO_SESSION(scope, receive, send)
                return
            # The answer of a person: the process that asked reads it from the database.
            if is_answer(message):
                await self._keep_answer(scope, receive, send, session, message)
                return
            # A lead: the person is asked on the stream of this response.
            if _asks_a_person(message, fields):
                call = partial(self._call_tool, scope)
                response = await self._questions.ask(scope, receive, send, message, session, call)
                if response is not None:
                    await Response(msgspec.json.encode(response), media_type=JSON)(scope, receive, send)
                return
        # All other messages, of each revision.
        answered = await self._answer(scope, body)
        if _is_handshake(message) and (opened := new_session(service, message, _body_of(answered))):
            answered[0]["headers"] = [*answered[0]["headers"], (b"mcp-session-id", opened.encode())]
        for part in answered:
            await send(part)

    async def _answer(self, scope: Scope, body: bytes) -> list[Message]:
        """The response of the SDK to one message."""
        # Leave the block before the response is sent: a client may read it slowly.
        with scope["service"].load:
            return await _serve(await self._tool_server_class(), scope, body)

    async def _call_tool(self, scope: Scope, request: dict[str, Any]) -> dict[str, Any]:
        """The response to a call of a tool in the revision 2026-07-28, by the caller of an older one."""
        added = {
            b"accept": b"application/json, text/event-stream",
            b"content-type": JSON.encode(),
            b"mcp-protocol-version": REVISION.encode(),
            b"mcp-method": b"tools/call",
            b"mcp-name": LEAD_TOOL.encode(),
        }
        headers = [(name, value) for name, value in scope["headers"] if name not in {*added, b"content-length"}]
        as_new = {**scope, "method": "POST", "headers": [*headers, *added.items()]}
        return _body_of(await self._answer(as_new, msgspec.json.encode(request)))

    async def _keep_answer(
        self, scope: Scope, receive: Receive, send: Send, session: McpSession, message: dict[str, Any]
    ) -> None:
        with scope["service"].load:
            is_kept = await keep_answer(scope["service"], session, message)
        response = Response(status_code=202) if is_kept else _NO_QUESTION
        await response(scope, receive, send)

    async def _resume(self, scope: Scope, receive: Receive, send: Send, fields: Mapping[bytes, bytes]) -> None:
        """Continues a stream that broke while a person was being asked."""
        await self._tool_server_class()
        session = session_of(scope["service"], fields.get(b"mcp-session-id", b"").decode("latin-1"))
        event_id = fields[b"last-event-id"].decode("latin-1")
        call = partial(self._call_tool, scope)
        if session is None or not await self._questions.resume(scope, receive, send, session, event_id, call):
            await _NO_SESSION(scope, receive, send)

    async def _tool_server_class(self) -> "type[tool_server.ToolServer]":
        """The class of the tool servers. Its SDK is imported at the first request, because most services get none."""
        if self._tools is None:
            # A thread, because other requests must be answered meanwhile.
            module = await asyncio.to_thread(import_module, "dealer_agent.mcp_tools.tool_server")
            sdk = logging.getLogger("mcp")
            sdk.propagate, sdk.handlers = False, [_FaultsOnly()]
            self._tools = module.ToolServer
        tools: type[tool_server.ToolServer] = self._tools
        return tools


async def read_message(scope: Scope, receive: Receive) -> tuple[bytes, Any]:
    """The body of a request with one message of a host, and the message. Leaves the caller in the scope.

    Raises NotJson, ProtocolError (too large, a wrong caller, too many requests) and ClientGoneError.
    """
    service: Service = scope["service"]
    bounds = service.settings.service
    body = await read_body(
        receive,
        bounds.body_limit_bytes,
        bounds.request_timeout_seconds,
        bounds.largest_body_bytes,
        # Limits the large bodies that arrive before it is known whether they are leads.
        partial(service.process.room_for_unknown_type, _peer(scope), scope["headers"]),
    )
    await service.count_request(MCP_RULE, scope, cost_of(len(body)))
    await _find_caller(scope, body)
    try:
        # The SDK has no bounds on the number of values and on their levels.
        return body, read_json(body)
    except SchemaValidationFailed as error:
        raise NotJson(error.message) from None


async def _find_caller(scope: Scope, body: bytes = b"") -> None:
    """Leaves the request to `/mcp` in the scope, with its caller. Raises AuthRequired and RateLimited.

    A host without proof that cannot log in stays anonymous: the tool then says what is missing.
    """
    service: Service = scope["service"]
    headers = scope["headers"]
    outer = scope["outer"] = IncomingRequest(
        MCP,
        service,
        headers,
        dict(headers),
        _peer(scope),
        scope.get("raw_path") or scope["path"].encode(),
        scope["query_string"],
        method=scope["method"],
        is_traced=False,
    )
    outer.body, outer.policy = body, service.anonymous_policy
    if service.settings.auth.issuers or not outer.fields.keys().isdisjoint(_PROOFS):
        await pass_guards((*CALLER_GUARDS, check_digest), outer)
    if outer.signature is not None and not body:
        # A GET continues a stream that broke (`mcp_questions`). It has no body, so its signature may have no
        # content-digest, and a lead would be refused as not covered. The call comes from the event id, which the
        # service encrypted for the session. So the empty body counts as covered.
        outer.signature = outer.signature._replace(content_digest=content_digest(b""))


def outer_request(scope: Scope) -> IncomingRequest:
    """The request to an address of MCP or DMC-12, with the caller that `_find_caller` found."""
    request: IncomingRequest = scope["outer"]
    return request


def check_login(scope: Scope, message: object, skill_of_tool: Mapping[str, Skill]) -> None:
    """Raises AuthRequired if the caller may not call a tool, and an issuer could give it a token for that."""
    outer = outer_request(scope)
    if not outer.service.settings.auth.issuers:
        return
    match message:
        case {"method": "tools/call", "params": {"name": str(name)}} if name in skill_of_tool:
            skill = skill_of_tool[name]
            refusal = skill_refusal(outer, skill)
            if refusal is None and skill in _ONLY_OF_KNOWN and not outer.caller.is_known:
                refusal = AuthRequired.of_skill(
                    f"{skill.id} is for agents that prove who they are: send an access token.", skill.scope
                )
            if refusal is not None:
                raise refusal


def _is_handshake(message: object) -> bool:
    return isinstance(message, dict) and message.get("method") == "initialize"


def _asks_a_person(message: object, fields: Mapping[bytes, bytes]) -> bool:
    """Whether a message is a call with a lead, from a host that reads a stream."""
    match message:
        case {"id": str() | int(), "method": "tools/call", "params": {"name": name}} if name == LEAD_TOOL:
            return b"text/event-stream" in fields.get(b"accept", b"")
    return False


def _body_of(answered: list[Message]) -> dict[str, Any]:
    document = msgspec.json.decode(b"".join(part.get("body", b"") for part in answered))
    return document if isinstance(document, dict) else {}


class _FaultsOnly(logging.Handler):
    """Logs that the SDK has failed, without its message: that may contain what a caller wrote."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            cause = record.exc_info[1] if record.exc_info else None
            facts = {} if cause is None else {"error": type(cause).__qualname__, "places": code_positions(cause)}
            log.error("mcp fault", logger=record.name, **facts)


async def _serve(tools: "type[tool_server.ToolServer]", scope: Scope, body: bytes) -> list[Message]:
    """Makes a server of the SDK for this request, with the tools that the caller may use, and answers."""
    from mcp.server.request_state import RequestStateSecurity

    service: Service = scope["service"]
    server = tools(
        name=mcp_server_name(server_root(service.card), service.dealer_id),
        version=__version__,
        terms=_terms(service),
        skills=service.settings.skills,
        ask=_ask_for_tool,
        refused={skill.id for skill in ALL_SKILLS if skill_refusal(outer_request(scope), skill) is not None},
    ).server(
        RequestStateSecurity(
            keys=[service.mcp_key], ttl=ANSWER_SECONDS, bind_principal=_caller, audience=service.dealer_id
        ),
    )
    return await serve_once(server, scope, body)


async def serve_once(server: Any, scope: Scope, body: bytes) -> list[Message]:
    """The response of a server of its own to one request. Nothing else of it is left afterwards."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    unread: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])
    gone = asyncio.Event()
    answered: list[Message] = []

    async def receive() -> Message:
        message = next(unread, None)
        if message is None:
            # The SDK asks again to see a disconnect. The response is small and comes soon, so nothing is cancelled.
            await gone.wait()
            return {"type": "http.disconnect"}
        return message

    async def keep(message: Message) -> None:
        answered.append(message)

    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
    async with manager.run():
        await manager.handle_request(scope, receive, keep)
    return answered


def _caller(context: Any) -> str | None:
    """What binds the state of a call to its caller: its identity. An anonymous caller may change its IP address."""
    return outer_request(context.request.scope).caller.identity or None


def _terms(service: Service) -> ConsentTerms:
    """What a person is asked to agree to. It is made once for each dealer."""
    if _terms not in service.documents:
        about = msgspec.json.decode(service.dealer.information)
        service.documents[_terms] = consent_terms(about, service.card.consent_text, service.card.http_json_url)
    terms: ConsentTerms = service.documents[_terms]
    return terms


def _peer(scope: Scope) -> str | None:
    return scope["client"][0] if scope.get("client") else None


async def _ask_for_tool(context: Any, skill: Skill, payload: dict[str, Any]) -> SkillData | SkillError:
    """The data of a skill for a call of its tool. For one vehicle, with the lines of its all-in price."""
    request: Request = context.request
    response = await ask_skill(request.scope, skill, payload)
    if skill is not INVENTORY_VEHICLE or isinstance(response, SkillError):
        return response
    return replace(response, lines=_price_lines(request.scope["service"], response.data, payload.get("zip")))


async def ask_skill(
    scope: Scope, skill: Skill, payload: Mapping[str, Any], binding: Binding = MCP
) -> SkillData | SkillError:
    """Sends a payload through the pipeline of requests, as the caller of the tool.

    It names the offers extension: otherwise the service refuses quotes and holds.
    """
    service: Service = scope["service"]
    body = skill_body(service, skill, payload)
    passed_on = [(name, value) for name, value in scope["headers"] if name in _PASSED_ON]
    headers = [*passed_on, *body_headers(body), (b"a2a-extensions", OFFERS_EXTENSION.encode())]
    outer = outer_request(scope)
    incoming = IncomingRequest(binding, service, headers, dict(headers), _peer(scope))
    incoming.caller, incoming.signature = outer.caller, outer.signature

    response = await answer(incoming, receiving(body))
    log_response(incoming, response)
    document = msgspec.json.decode(b"".join(response.body))
    if response.status == 200:
        data = document["message"]["parts"][0]["data"]
        return SkillData(data["data"], data.get("message"))
    # The last detail is the protocol's error. The one before it is A2A's ErrorInfo.
    error = document["error"]["details"][-1]
    return SkillError(error["code"], error["message"], error["details"], error["error_id"])


def _price_lines(service: Service, data: Mapping[str, Any], zip_code: str | None) -> Sequence[str]:
    """The all-in price of a vehicle that a skill has answered, for a buyer with a ZIP code. Empty if there is none."""
    listing = service.dealer.catalogue.find(UNSET, UNSET, data["vehicle_id"])
    if not isinstance(listing, Listing):
        return ()
    try:
        priced = price_to_show(service.dealer.profile, service.settings.pricing, listing.vehicle, zip_code)
    except WrongZipError as error:
        return (f"No price in lines: {error}",)
    return () if priced is None else tuple(tool_lines(priced))


def wrong_host_or_origin(service: Service, scope: Scope, origin: bytes | None) -> Response | None:
    """The refusal of a wrong Host or Origin. With DNS rebinding, a page could otherwise reach a private service."""
    addresses: Addresses = scope["dealers"].addresses
    name = host_name(host_of(scope).decode("latin-1"))
    mcp = service.settings.mcp
    # `public` is `public_url`. Without it, behind a trusted TLS proxy, it is the Host that the client sent. That is
    # safe: a page on a rebound name cannot reach the proxy, because the proxy has no certificate for the name.
    public = urlsplit(at_public_address(service, scope).card.http_json_url)
    is_local = is_this_machine(name)
    # A name can be rebound to this machine. An IP address cannot.
    installation = urlsplit(addresses.public_url).hostname
    is_allowed = is_local or _is_address(name) or name in {public.hostname, installation, *mcp.allowed_hosts}
    if not is_allowed and addresses.hosts.get(name) != service.dealer_id:
        words = (
            "The Host header names no host of this dealer. Set public_url, or name the host in allowed_hosts of [mcp]."
        )
        return json_rpc_error(421, words)
    if origin is None:
        return None
    page = origin.decode("latin-1")
    if page in {f"{public.scheme}://{public.netloc}", *mcp.allowed_origins}:
        return None
    scheme, _, rest = page.partition("://")
    if is_local and scheme in ("http", "https") and is_this_machine(host_name(rest)):
        return None
    return json_rpc_error(
        403, "Pages of the origin in the Origin header may not call. Name it in allowed_origins of [mcp]."
    )


def _is_address(name: str) -> bool:
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def json_rpc_error(
    status: int, words: str, number: int = INVALID_REQUEST, headers: Headers = (), call_id: object = None
) -> Response:
    """A response with an error of JSON-RPC, which is about no tool."""
    error = {"jsonrpc": "2.0", "id": call_id, "error": {"code": number, "message": words}}
    return Response(msgspec.json.encode(error), status, dict((*_DECODED_HEADERS, *headers)), media_type=JSON)


_DECODED_HEADERS = [(name.decode(), value.decode()) for name, value in _HEADERS]


_NO_SESSION = json_rpc_error(404, "This session has ended. Begin another one with initialize.")
_NO_QUESTION = json_rpc_error(400, "No question waits for this answer.")


def with_headers(send: Send, origin: bytes | None) -> Send:
    """Adds the headers that every response has. A page may read the response only if its origin was accepted."""
    page = [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"mcp-session-id, www-authenticate"),
    ]
    more = _HEADERS + ([*page, (b"vary", b"origin")] if origin else [])

    async def complete(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(name, value) for name, value in message.get("headers", ()) if (name, value) not in _HEADERS]
            message = {**message, "headers": [*headers, *more]}
        await send(message)

    return complete
