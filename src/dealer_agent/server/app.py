"""The ASGI application: the two bindings in front, the router behind them (specification, part 4).

`/message:send` and `/rpc` are answered by plain callables: a router and middleware would cost as much as a search does.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import structlog
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from dealer_agent.protocol.errors import InternalError, ProtocolError
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.server.bindings import HTTP_JSON, JSON_RPC
from dealer_agent.server.cross_origin import PREFLIGHT, is_preflight
from dealer_agent.server.fast_path import BINDINGS, OVERLOAD_REPLIES, SERVICE
from dealer_agent.server.log import places
from dealer_agent.server.overload_replies import OverloadReplies
from dealer_agent.server.request_pipeline import handle_post
from dealer_agent.server.routes import HEALTH_PATHS, count_request, error_response, http_error, router
from dealer_agent.server.service import MESSAGE_SEND, RPC, Service

log = structlog.get_logger()


class DealerApp:
    """One dealer's service as an ASGI application. `opened` opens the service at start and closes it at the end."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Service]], base_path: str = "") -> None:
        self._opened = opened
        self._bindings = {base_path + MESSAGE_SEND: HTTP_JSON, base_path + RPC: JSON_RPC}
        self._base_path = base_path
        self._service: Service | None = None
        self._router: Router | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"this is an HTTP service; it has no {scope['type']}")
        service = self._service
        assert service is not None, "the server sends no request before the start-up is complete"
        path: str = scope["path"]
        if path.endswith("/") and path != "/":
            path = path[:-1]
        binding = self._bindings.get(path)
        if binding is not None and scope["method"] == "POST":
            await handle_post(binding, service, scope, receive, send)
        else:
            await self._route(service, path, scope, receive, send)

    async def _route(self, service: Service, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers every request outside the bindings. Each request is counted first."""
        assert self._router is not None
        # The well-known card is at the root even when everything else is below a base path.
        below = path
        if path.startswith(self._base_path + "/") and not path.startswith("/.well-known/"):
            below = path.removeprefix(self._base_path)
        elif path == self._base_path:
            below = "/"
        answer: ASGIApp
        try:
            count_request(service, scope, below)
            if is_preflight(scope["method"], scope["headers"]):
                answer = Response(status_code=204, headers=PREFLIGHT)
            elif path in self._bindings:
                answer = http_error(service, HTTPException(405, headers={"Allow": "POST"}))
            elif below in HEALTH_PATHS:
                await self._router({**scope, "path": below, "app": self}, receive, send)
                return
            else:
                await service.load.wait_for_turn()
                await self._router({**scope, "path": below, "app": self}, receive, send)
                return
        except HTTPException as problem:
            answer = http_error(service, problem)
        except ProtocolError as refused:
            answer = error_response(refused, service)
        except Exception as fault:  # noqa: BLE001 - the boundary: recorded, and answered as INTERNAL_ERROR.
            request_id = new_ulid()
            told = {"request_id": request_id, "error_id": f"err_{request_id}"}
            log.error("fault", **told, error=type(fault).__qualname__, places=places(fault))
            answer = error_response(InternalError("Something failed on the dealer's side."), service, request_id)
        await answer(scope, receive, send)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self._opened() as service:
                self._service, self._router = service, router(service)
                # Connections answer reading skills themselves, and refuse what is no HTTP in the service's words.
                by_target = {path.encode(): binding for path, binding in self._bindings.items()}
                busy = OverloadReplies(by_target.values(), service.wire.default)
                scope.get("state", {}).update({SERVICE: service, BINDINGS: by_target, OVERLOAD_REPLIES: busy})
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as fault:
            log.error("start failed", error=type(fault).__qualname__, problem=str(fault))
            await send({"type": "lifespan.startup.failed", "message": str(fault)})
            raise
        await send({"type": "lifespan.shutdown.complete"})
