"""The ASGI application. The bindings do not use the router: with middleware it would cost as much as a search."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import structlog
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from dealer_agent.protocol.ids import new_ulid
from dealer_agent.server.bindings import HTTP_JSON, JSON_RPC
from dealer_agent.server.cross_origin import PREFLIGHT, is_preflight
from dealer_agent.server.error_replies import as_protocol_error, error_response, http_error_response
from dealer_agent.server.fast_path import BINDINGS, OVERLOAD_REPLIES, SERVICE
from dealer_agent.server.overload_replies import OverloadReplies
from dealer_agent.server.request_pipeline import handle_post
from dealer_agent.server.routes import HEALTH_PATHS, routes
from dealer_agent.server.service import ADDRESS_RULE, HEALTH_RULE, MESSAGE_SEND, RPC, Service

log = structlog.get_logger()


class DealerApp:
    """One dealer's service as an ASGI application. `opened` opens and closes the service."""

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
        assert self._router is not None
        # The agent card is at the root of the site, also if everything else is below a base path.
        below = path
        if path.startswith(self._base_path + "/") and not path.startswith("/.well-known/"):
            below = path.removeprefix(self._base_path)
        elif path == self._base_path:
            below = "/"
        is_health_check = below in HEALTH_PATHS
        answer: ASGIApp
        try:
            # A load balancer may share its address with buyers. Their rate must not refuse its health checks.
            service.count_request(HEALTH_RULE if is_health_check else ADDRESS_RULE, scope)
            if is_preflight(scope["method"], scope["headers"]):
                answer = Response(status_code=204, headers=PREFLIGHT)
            elif path in self._bindings:
                answer = http_error_response(HTTPException(405, headers={"Allow": "POST"}), service)
            else:
                if not is_health_check:
                    await service.load.wait_for_turn()
                await self._router({**scope, "path": below, "app": self}, receive, send)
                return
        except HTTPException as problem:
            answer = http_error_response(problem, service)
        except Exception as fault:  # noqa: BLE001 - the boundary: logged, and answered as INTERNAL_ERROR.
            request_id = new_ulid()
            answer = error_response(as_protocol_error(fault, request_id), service, request_id)
        await answer(scope, receive, send)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self._opened() as service:
                # The routes have no redirects, because each path also works with a slash at its end.
                self._service, self._router = service, Router(routes(service), redirect_slashes=False)
                bindings = {path.encode(): binding for path, binding in self._bindings.items()}
                replies = OverloadReplies(bindings.values(), service.vocabularies.default)
                scope.get("state", {}).update({SERVICE: service, BINDINGS: bindings, OVERLOAD_REPLIES: replies})
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as fault:
            log.error("start failed", error=type(fault).__qualname__, problem=str(fault))
            await send({"type": "lifespan.startup.failed", "message": str(fault)})
            raise
        await send({"type": "lifespan.shutdown.complete"})
