"""The routes of an installation itself, outside its dealers: health, and the list of dealers."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dealer_agent.server.body import JSON
from dealer_agent.server.routes import health
from dealer_agent.server.served_dealers import BELOW, ServedDealers

WHERE_DEALERS_ARE = f"Each dealer of this service answers below {BELOW}DEALER, or at its own host."


def installation_routes() -> list[Route]:
    """The routes, by their path."""
    return [Route("/healthz", health), Route("/readyz", _readiness)]


async def _readiness(request: Request) -> Response:
    """Whether the dealers answer from their latest stock, and whether leads can be stored (as for one dealer)."""
    dealers: ServedDealers = request.scope["dealers"]
    process = dealers.process
    status = "ready" if process.ready else "the database is away: stock, settings and tokens may be out of date"
    state = {"status": status, "dealers": len(dealers.addresses.dealers), "leads": process.leads}
    return Response(msgspec.json.encode(state), status_code=200 if process.ready else 503, media_type=JSON)
