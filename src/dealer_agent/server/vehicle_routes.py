"""Answers requests for the pages about vehicles, and for addresses that have nothing with a page for people."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from msgspec import UNSET
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from dealer_agent.inventory.listing import RemovedUnit
from dealer_agent.offers.pricing import price_to_show
from dealer_agent.protocol.skill import INVENTORY_SEARCH, INVENTORY_VEHICLE
from dealer_agent.server.documents import PAGE_SECONDS, Document, answer_with, page_document
from dealer_agent.server.pages.site import CONTENT_SECURITY_POLICY, PHOTO_SECURITY_POLICY, render
from dealer_agent.server.pages.vehicles import VEHICLES_PATH, Query, vehicle_page, vehicles_page
from dealer_agent.server.served_dealers import at_public_address
from dealer_agent.server.service import Service

LONGEST_QUERY = 2_000
"""Bytes. To parse a longer query would take too long."""
MOST_FIELDS = 20
GONE = 410
_SAID = {
    404: ("There is no page at this address", "Check the address, or look at the vehicles in stock."),
    GONE: ("This vehicle is no longer available", "It was sold, or it left the stock. Look at the others."),
}
"""The title and the sentence of the page for people, by status."""


def vehicle_routes() -> list[Route]:
    """The routes, by their path below a dealer's root."""
    return [Route(VEHICLES_PATH, _list), Route(VEHICLES_PATH + "/{vehicle_id}", _vehicle)]


def has_vehicle_pages(service: Service) -> bool:
    """Whether people may see the vehicles: agents may ask for them without a token."""
    skills = {INVENTORY_SEARCH.id, INVENTORY_VEHICLE.id}
    return skills <= service.settings.skills - service.closed_skills


def page_for_people(problem: HTTPException, service: Service, scope: Scope) -> Response | None:
    """The page about an error at an address of a dealer. None if the client does not ask for a page."""
    accepted = next((value for name, value in scope["headers"] if name == b"accept"), b"")
    if problem.status_code not in _SAID or scope["method"] not in ("GET", "HEAD") or b"text/html" not in accepted:
        return None
    title, said = _SAID[problem.status_code]
    shown = {"dealer": service.settings.dealer.name, "title": title, "said": said}
    path = VEHICLES_PATH if has_vehicle_pages(service) else None
    headers = {"content-security-policy": CONTENT_SECURITY_POLICY, "x-content-type-options": "nosniff"}
    headers |= {"cache-control": "no-store", "vary": "accept", "x-robots-tag": "noindex"}
    html = render("nothing.html", service.card, vehicles_path=path, **shown)
    return Response(html, problem.status_code, media_type="text/html", headers=headers)


async def _list(request: Request) -> Response:
    """The page that lists and searches the vehicles."""
    service = _service(request)
    try:
        query = Query.of(_values(request.scope["query_string"]))
    except ValueError:
        raise HTTPException(404) from None
    if query.chosen or query.page > 1:
        return answer_with(_list_document(service, query), request)
    # The first page, which most people see, is made once for each snapshot. A new snapshot comes with a new
    # `service.dealer`. The key of `documents` is the function that answers.
    cached = service.documents.get(_list)
    if cached is None or cached[0] is not service.dealer:
        cached = service.documents[_list] = service.dealer, _list_document(service, query)
    return answer_with(cached[1], request)


def _list_document(service: Service, query: Query) -> Document:
    html = vehicles_page(service.dealer.profile, service.dealer.catalogue, service.card, query)
    if html is None:
        raise HTTPException(404)
    return page_document(html, PAGE_SECONDS, PHOTO_SECURITY_POLICY)


async def _vehicle(request: Request) -> Response:
    """The page of one vehicle: 404 if it is unknown, 410 if it is sold."""
    service = _service(request)
    listing = service.dealer.catalogue.find(UNSET, UNSET, request.path_params["vehicle_id"])
    if listing is None:
        raise HTTPException(404)
    if isinstance(listing, RemovedUnit):
        raise HTTPException(GONE)
    card = at_public_address(service, request.scope).card
    profile = service.dealer.profile
    priced = price_to_show(profile, service.settings.pricing, listing.vehicle)
    html = vehicle_page(profile, listing.vehicle, card, priced)
    return answer_with(page_document(html, PAGE_SECONDS, PHOTO_SECURITY_POLICY), request)


def _service(request: Request) -> Service:
    service: Service = request.scope["service"]
    if not has_vehicle_pages(service):
        raise HTTPException(404)
    return service


def _values(query: bytes) -> Mapping[str, str]:
    """The values of a query string. Raises ValueError if it is too long or has too many."""
    if len(query) > LONGEST_QUERY:
        raise ValueError("the query is too long")
    return dict(parse_qsl(query.decode("latin-1"), max_num_fields=MOST_FIELDS))
