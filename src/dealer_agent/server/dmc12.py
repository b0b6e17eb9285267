"""Serves a dealer to agents of DMC-12, at `/dmc12/mcp` and `/dmc12/a2a` (docs/how-to/dmc12.md).

A call of a tool becomes requests of the caller to skills, as in `server.mcp`: the same guards, limits, counts and logs.
Both rails give the same result: `data`, which is what the tool answers, and `_metadata`.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dealer_agent import __version__
from dealer_agent.apidocs.openapi import server_root
from dealer_agent.dmc12 import manifest as manifest_parts
from dealer_agent.dmc12.records import store_of
from dealer_agent.dmc12.tools import TOOL_BY_NAME, TOOLS, Dmc12Tool, Json, tools_of
from dealer_agent.protocol.errors import AuthRequired
from dealer_agent.protocol.json_body import PARSE_ERROR
from dealer_agent.server.body import JSON, ClientGoneError
from dealer_agent.server.dmc12_tools import Dmc12Call
from dealer_agent.server.documents import Document, json_document
from dealer_agent.server.guards import skill_refusal
from dealer_agent.server.mcp import (
    NotJson,
    check_login,
    json_rpc_error,
    outer_request,
    read_message,
    serve_once,
    with_headers,
    wrong_host_or_origin,
)
from dealer_agent.server.service import Service
from dealer_agent.server.token_challenges import challenge

UCP_PATH, DMC12_MCP_PATH, DMC12_A2A_PATH = "/.well-known/ucp", "/dmc12/mcp", "/dmc12/a2a"
NOT_AUTHENTICATED = -32001
"""The number of JSON-RPC for a caller whose token or signature is wrong."""
_NO_METHOD, _WRONG_PARAMS = -32601, -32602
_SKILL_OF_TOOL = {tool.name: tool.skill for tool in TOOLS}


def manifest_document(service: Service) -> Document:
    """The manifest at `/.well-known/ucp`. Raises HTTPException without DMC-12."""
    _require_dmc12(service)
    stores = [store for rooftop in service.settings.dealer.rooftops if (store := store_of(rooftop)) is not None]
    mail = [each for rooftop in service.settings.dealer.rooftops for each in rooftop.emails.values()]
    offers = service.settings.offers
    dealer = manifest_parts.ManifestDealer(
        service.card.name,
        server_root(service.card),
        service.card.website,
        mail[0] if mail else None,
        stores,
        service.settings.stock_seconds,
        offers.quote_minutes * 60,
        offers.hold_minutes * 60,
    )
    tools = tools_of(service.settings.skills)
    return json_document(manifest_parts.manifest(dealer, DMC12_MCP_PATH, DMC12_A2A_PATH, tools))


def _require_dmc12(service: Service) -> None:
    if not service.settings.dmc12.enabled:
        raise HTTPException(404)


class Dmc12Rpc:
    """Answers `/dmc12/a2a` over ASGI: JSON-RPC 2.0 with `tools/list` and `tools/call`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request (ASGI). Raises ProtocolError before the response begins."""
        service: Service = scope["service"]
        _require_dmc12(service)
        if scope["method"] != "POST":
            raise HTTPException(405, headers={"Allow": "POST"})
        try:
            _, message = await read_message(scope, receive)
            response = await self._response(scope, message)
        except NotJson as error:
            response = json_rpc_error(400, str(error), PARSE_ERROR)
        except AuthRequired as refused:
            headers = challenge(refused, service, scope)
            response = json_rpc_error(refused.http, refused.coded_message, NOT_AUTHENTICATED, headers)
        except ClientGoneError:
            return
        await response(scope, receive, with_headers(send, None))

    async def _response(self, scope: Scope, message: Any) -> Response:
        """The response to one call of JSON-RPC: it lists the tools that the caller may use, or calls one."""
        service: Service = scope["service"]
        tools = tools_of(service.settings.skills)
        match message:
            case {"jsonrpc": "2.0", "id": str() | int() as call_id, "method": str(method), **rest}:
                params = rest.get("params", {})
            case _:
                words = 'Send one call of JSON-RPC: {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}.'
                return json_rpc_error(400, words)
        match method, params:
            case "tools/list", dict():
                outer = outer_request(scope)
                result: Json = {"tools": [each.listed for each in tools if skill_refusal(outer, each.skill) is None]}
            case "tools/call", {"name": str(name), **more}:
                tool = TOOL_BY_NAME.get(name)
                if tool not in tools:
                    return json_rpc_error(200, _no_tool(tools), _WRONG_PARAMS, call_id=call_id)
                check_login(scope, message, _SKILL_OF_TOOL)
                with service.load:
                    result, _ = await Dmc12Call(scope, "a2a").result(tool, more.get("arguments", {}))
            case (("tools/list" | "tools/call"), _):
                return json_rpc_error(
                    200,
                    "params must have `name`, the name of a tool, and its `arguments`.",
                    _WRONG_PARAMS,
                    call_id=call_id,
                )
            case _:
                words = "No such method. The methods are tools/list and tools/call."
                return json_rpc_error(200, words, _NO_METHOD, call_id=call_id)
        return Response(msgspec.json.encode({"jsonrpc": "2.0", "id": call_id, "result": result}), media_type=JSON)


def _no_tool(tools: Iterable[Dmc12Tool]) -> str:
    return f"No such tool. The tools are: {', '.join(each.name for each in tools)}."


class Dmc12Mcp:
    """Answers `/dmc12/mcp` over ASGI: streamable HTTP of the official SDK, without sessions."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one MCP request (ASGI). Raises ProtocolError before the response begins."""
        service: Service = scope["service"]
        _require_dmc12(service)
        if scope["method"] != "POST":
            raise HTTPException(405, headers={"Allow": "POST"})
        origin = dict(scope["headers"]).get(b"origin")
        respond = with_headers(send, origin)
        if (problem := wrong_host_or_origin(service, scope, origin)) is not None:
            await problem(scope, receive, send)
            return
        try:
            body, message = await read_message(scope, receive)
            check_login(scope, message, _SKILL_OF_TOOL)
        except NotJson as error:
            await json_rpc_error(400, str(error), PARSE_ERROR)(scope, receive, respond)
            return
        except AuthRequired as refused:
            headers = challenge(refused, service, scope)
            await json_rpc_error(refused.http, refused.coded_message, headers=headers)(scope, receive, respond)
            return
        except ClientGoneError:
            return
        server = await asyncio.to_thread(_tool_server, service)
        # Leave the block before the response is sent: a client may read it slowly.
        with service.load:
            answered = await serve_once(server, scope, body)
        for part in answered:
            await respond(part)


def _tool_server(service: Service) -> Any:
    """An MCP server with the tools. It imports the SDK, so it is made in a thread."""
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    tools = tools_of(service.settings.skills)

    async def on_list(context: Any, _: Any) -> types.ListToolsResult:
        outer = outer_request(context.request.scope)
        usable = (each.listed for each in tools if skill_refusal(outer, each.skill) is None)
        return types.ListToolsResult(tools=[types.Tool.model_validate(each) for each in usable])

    async def on_call(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOL_BY_NAME.get(params.name)
        if tool is None or tool not in tools:
            raise MCPError(code=types.INVALID_PARAMS, message=_no_tool(tools))
        result, failed = await Dmc12Call(context.request.scope, "mcp").result(tool, params.arguments or {})
        text = types.TextContent(text=msgspec.json.encode(result).decode())
        return types.CallToolResult(content=[text], structured_content=result["data"], is_error=failed)

    made: Server[Any] = Server(
        "dmc12", version=__version__, title=service.card.name, on_list_tools=on_list, on_call_tool=on_call
    )
    made.middleware[:] = []
    return made
