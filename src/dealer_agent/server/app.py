"""Has the ASGI application, which finds the dealer of a request, then its binding or its route.

The bindings (`/message:send` and `/rpc`) do not use the router: with middleware it would cost as much as a search.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from time import perf_counter
from typing import NamedTuple

import structlog
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.published_versions import PublishedVersion
from dealer_agent.protocol.vocabulary import Vocabulary
from dealer_agent.server.bindings import Binding
from dealer_agent.server.documents import PREFLIGHT, is_preflight
from dealer_agent.server.error_responses import as_protocol_error, error_response, http_error_response, where_to_send
from dealer_agent.server.fast_path import DEALERS
from dealer_agent.server.installation_routes import WHERE_DEALERS_ARE, installation_routes
from dealer_agent.server.limits import ADDRESS_RULE
from dealer_agent.server.request_pipeline import handle_post
from dealer_agent.server.routes import HEALTH_PATHS, cost_of, routes
from dealer_agent.server.served_dealers import CONSOLE, ServedDealers, bindings_of, host_of, version_at
from dealer_agent.server.service import HEALTH_RULE, Service
from dealer_agent.server.vehicle_routes import page_for_people
from dealer_agent.storage.errors import DealerUnknown

log = structlog.get_logger()


class RoutedRequest(NamedTuple):
    """What a request is for: the service of a dealer, or None for the installation. The path is below its root."""

    service: Service | None
    path: str
    binding: Binding | None


class DealerApp:
    """The dealers of a process as an ASGI application. `start` starts and ends their services.

    `routes` are those of a dealer.
    """

    dealers: ServedDealers

    def __init__(self, start: Callable[[], AbstractAsyncContextManager[ServedDealers]]) -> None:
        self._start = start
        # The routes have no redirects, because each path also works with a slash at its end.
        self.routes = routes()
        self._of_dealer = Router(self.routes, redirect_slashes=False)
        self._of_installation = Router(installation_routes(), redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or runs the service from start to stop (ASGI). Skills take the shortest way."""
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"this is an HTTP service; it has no {scope['type']}")
        path: str = scope["path"]
        if path.endswith("/") and path != "/":
            path = path[:-1]
        host = host_of(scope)
        opened = self.dealers.find_binding(host, path.encode(errors="surrogatepass"))
        if opened is not None and scope["method"] == "POST":
            service, binding = opened
            await handle_post(binding, service, scope, receive, send)
        else:
            await self._route(host.decode("latin-1"), path, scope, receive, send)

    async def _route(self, host: str, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request. An exception becomes the error response of the dealer that the request is for."""
        # What an error says and how it is written, until the dealer of the request is known.
        process, advice = self.dealers.process, WHERE_DEALERS_ARE
        error_form: Vocabulary | PublishedVersion | None = None
        target: RoutedRequest | None = None
        try:
            target = await self._find_target(host, path, scope)
            if target.service is not None:
                version = version_at(target.service, target.path)
                advice = where_to_send(target.service, version)
                error_form = version or target.service.vocabularies.default
            await self._answer(target, scope, receive, send)
        except HTTPException as problem:
            person = (
                None if target is None or target.service is None else page_for_people(problem, target.service, scope)
            )
            response = person or http_error_response(problem, process, advice, error_form)
            await response(scope, receive, send)
        except Exception as cause:  # noqa: BLE001 - the boundary: logged, and answered as INTERNAL_ERROR.
            request_id = new_ulid()
            error = as_protocol_error(cause, request_id)
            await error_response(error, process, error_form, request_id)(scope, receive, send)

    async def _find_target(self, host: str, path: str, scope: Scope) -> RoutedRequest:
        """What a request is for. A request that opens a dealer is counted first, because this is expensive."""
        target = self.dealers.addresses.locate(host, path)
        if target is None:
            return RoutedRequest(None, path, None)
        service = self.dealers.opened.get(target.dealer_id)
        if service is None:
            await self.dealers.process.count_request(ADDRESS_RULE, scope)
            try:
                service = await self.dealers.open(target.dealer_id)
            except DealerUnknown:
                return RoutedRequest(None, path, None)
        service.used_at = perf_counter()
        binding = bindings_of(service).get(target.path) if target.is_below_root else None
        return RoutedRequest(service, target.path, binding)

    async def _answer(self, target: RoutedRequest, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request by its path. Raises HTTPException and ProtocolError."""
        if target.service is not None and target.binding is not None and scope["method"] == "POST":
            await handle_post(target.binding, target.service, scope, receive, send)
            return
        process, owner = self.dealers.process, target.service or self.dealers.process
        process.note_forwarding(scope)
        is_health_check = target.path in HEALTH_PATHS
        # A load balancer may share its IP address with buyers. Their rate must not refuse its health checks.
        cost = 1 if target.service is None else cost_of(target.service, target.path)
        await owner.count_request(HEALTH_RULE if is_health_check else ADDRESS_RULE, scope, cost)
        if is_preflight(scope["method"], scope["headers"]):
            await Response(status_code=204, headers=PREFLIGHT)(scope, receive, send)
            return
        if target.binding is not None:
            raise HTTPException(405, headers={"Allow": "POST"})
        if not is_health_check:
            await process.load.wait_for_turn("" if target.service is None else target.service.dealer_id)
        if (console := self._console_for(target)) is not None:
            await console({**scope, "path": target.path}, receive, send)
            return
        router = self._of_installation if target.service is None else self._of_dealer
        below = {**scope, "path": target.path, "app": self, "service": target.service, "dealers": self.dealers}
        await router(below, receive, send)

    def _console_for(self, target: RoutedRequest) -> ASGIApp | None:
        """What answers a request to the console. None for another request.

        All dealers of an installation have one console: at the address of a dealer, a redirect leads there.
        """
        addresses = self.dealers.addresses
        if self.dealers.console is None or not f"{target.path}/".startswith(f"{CONSOLE}/"):
            return None
        if target.service is None or addresses.only is not None:
            return self.dealers.console
        return Response(status_code=303, headers={"location": addresses.public_url + CONSOLE})

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Starts the service when the server starts, and closes it when the server stops (ASGI)."""
        await receive()
        try:
            async with self._start() as dealers:
                self.dealers = dealers
                scope.get("state", {})[DEALERS] = dealers
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as cause:
            log.error("start failed", error=type(cause).__qualname__, problem=str(cause))
            await send({"type": "lifespan.startup.failed", "message": str(cause)})
            raise
        await send({"type": "lifespan.shutdown.complete"})
