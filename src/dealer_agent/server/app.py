"""The ASGI application: the two bindings in front, the router behind them (specification, part 4).

`/message:send` and `/rpc` are answered by plain callables: a router and middleware would cost as much as a search does.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import structlog
from starlette.exceptions import HTTPException
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from dealer_agent.protocol.errors import InternalError, RateLimited, UnsupportedSkill
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.server.at_once import BINDINGS, BUSY, SERVICE
from dealer_agent.server.busy import BusyReplies
from dealer_agent.server.exchange import Binding, exchange
from dealer_agent.server.http_json import HttpJson
from dealer_agent.server.json_rpc import JsonRpc
from dealer_agent.server.log import places
from dealer_agent.server.routes import HEALTH_CHECKS, error_response, http_error, router
from dealer_agent.server.service import Service

log = structlog.get_logger()

MESSAGE_SEND = "/message:send"
RPC = "/rpc"


class DealerApp:
    """One dealer's service as an ASGI application. `opened` opens the service at start and closes it at the end."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Service]], base_path: str = "") -> None:
        self._opened = opened
        self._bindings: dict[str, Binding] = {base_path + MESSAGE_SEND: HttpJson(), base_path + RPC: JsonRpc()}
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
        if binding is None:
            await self._route(service, path, scope, receive, send)
        elif scope["method"] == "POST":
            await exchange(binding, service, scope, receive, send)
        else:
            error = UnsupportedSkill("Use POST here.", http=405, headers=(("allow", "POST"),))
            await error_response(error, service)(scope, receive, send)

    async def _route(self, service: Service, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._router is not None
        # The well-known card stands at the root even when everything else stands below a base path.
        if path.startswith(self._base_path + "/") and not path.startswith("/.well-known/"):
            path = path.removeprefix(self._base_path)
        elif path == self._base_path:
            path = "/"
        try:
            if path in HEALTH_CHECKS:
                await self._router({**scope, "path": path, "app": self}, receive, send)
            else:
                await service.load.turn()
                with service.load:
                    await self._router({**scope, "path": path, "app": self}, receive, send)
        except RateLimited as busy:
            await error_response(busy, service)(scope, receive, send)
        except HTTPException as problem:
            await http_error(service, problem)(scope, receive, send)
        except Exception as fault:  # noqa: BLE001 - the boundary: recorded, and answered as INTERNAL_ERROR.
            request_id = new_ulid()
            told = {"request_id": request_id, "error_id": f"err_{request_id}"}
            log.error("fault", **told, error=type(fault).__qualname__, places=places(fault))
            refused = InternalError("Something failed on the dealer's side.")
            await error_response(refused, service, request_id)(scope, receive, send)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self._opened() as service:
                self._service, self._router = service, router(service)
                # Connections answer reading skills themselves, and refuse what is no HTTP in the service's words.
                by_target = {path.encode(): binding for path, binding in self._bindings.items()}
                busy = BusyReplies(by_target.values(), service.wire.default)
                scope.get("state", {}).update({SERVICE: service, BINDINGS: by_target, BUSY: busy})
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as fault:
            log.error("start failed", error=type(fault).__qualname__, problem=str(fault))
            await send({"type": "lifespan.startup.failed", "message": str(fault)})
            raise
        await send({"type": "lifespan.shutdown.complete"})
