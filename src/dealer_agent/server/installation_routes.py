"""Answers requests to an installation itself, outside its dealers: health, and the list of dealers.

See docs/protocol.md#dealer-list.
"""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dealer_agent.apidocs import discovery
from dealer_agent.apidocs.components import Json
from dealer_agent.apidocs.discovery import CATALOG_TYPE, LLMS_PATH
from dealer_agent.protocol.well_known import ARD_PATH, CARD_PATH, CATALOG_PATH
from dealer_agent.server.body import JSON
from dealer_agent.server.documents import (
    PAGE_SECONDS,
    Document,
    answer_with,
    json_document,
    page_document,
    text_document,
)
from dealer_agent.server.pages.dealers import dealers_page
from dealer_agent.server.routes import health, stylesheet_route
from dealer_agent.server.served_dealers import BELOW, Addresses, ListedDealer, ServedDealers

WHERE_DEALERS_ARE = f"Each dealer of this service answers below {BELOW}DEALER, or at its own host."
DEALERS_ON_A_PAGE = 120
# To parse a long query would take 20 ms.
_PAGE_IN_QUERY = re.compile(rb"(?:^|&)page=([^&]*)")


def installation_routes() -> list[Route]:
    """The routes, by their path."""
    return [
        Route("/", _list),
        Route(ARD_PATH, _catalog),
        Route(CATALOG_PATH, _catalog),
        Route(LLMS_PATH, _llms),
        stylesheet_route(),
        Route("/healthz", health),
        Route("/readyz", _readiness),
    ]


async def _readiness(request: Request) -> Response:
    """Whether the dealers answer from their latest stock, and whether leads can be stored (as for one dealer)."""
    dealers: ServedDealers = request.scope["dealers"]
    status, state = dealers.process.readiness(
        "the database cannot be reached: stock, settings and tokens may be out of date"
    )
    state["dealers"] = len(dealers.addresses.dealers)
    return Response(msgspec.json.encode(state), status, media_type=JSON)


async def _list(request: Request) -> Response:
    """A page of the public list of dealers. 404 for a number beyond the last page."""
    addresses = _addresses(request)
    named = _PAGE_IN_QUERY.search(request.scope["query_string"])
    page = named[1] if named else b"1"
    pages = max(1, -(-len(addresses.listed) // DEALERS_ON_A_PAGE))
    if not re.fullmatch(b"[1-9][0-9]{0,5}", page) or int(page) > pages:
        raise HTTPException(404)
    return answer_with(_kept(addresses, int(page), lambda: _list_page(addresses, int(page), pages)), request)


async def _catalog(request: Request) -> Response:
    addresses = _addresses(request)
    document = _kept(addresses, CATALOG_PATH, lambda: json_document(_catalog_of(addresses), CATALOG_TYPE))
    return answer_with(document, request)


async def _llms(request: Request) -> Response:
    """The document `llms.txt` of an installation, which lists its dealers."""
    addresses = _addresses(request)
    listed = ((dealer.name, dealer.address) for dealer in addresses.listed)
    document = _kept(
        addresses,
        LLMS_PATH,
        lambda: text_document(discovery.dealers_llms_text(addresses.public_url, _host(addresses), [*listed])),
    )
    return answer_with(document, request)


def _addresses(request: Request) -> Addresses:
    dealers: ServedDealers = request.scope["dealers"]
    return dealers.addresses


def _kept(addresses: Addresses, key: Any, make: Callable[[], Document]) -> Document:
    """A document that stays the same while the addresses do."""
    if key not in addresses.documents:
        addresses.documents[key] = make()
    document: Document = addresses.documents[key]
    return document


def _list_page(addresses: Addresses, page: int, pages: int) -> Document:
    """One page of the public list of dealers."""
    listed = addresses.listed
    first = (page - 1) * DEALERS_ON_A_PAGE
    html = dealers_page(
        listed[first : first + DEALERS_ON_A_PAGE],
        public_url=addresses.public_url,
        catalog_path=ARD_PATH,
        total=len(listed),
        page=page,
        pages=pages,
    )
    return page_document(html, PAGE_SECONDS)


def _catalog_of(addresses: Addresses) -> Json:
    return discovery.catalog(_host(addresses), map(_entry, addresses.listed))


def _host(addresses: Addresses) -> str:
    return urlsplit(addresses.public_url).hostname or ""


def _entry(dealer: ListedDealer) -> Json:
    """A dealer as the catalog lists it."""
    queries = (
        f"Which vehicles does {dealer.name} have in stock?",
        f"When is {dealer.name} open, and can I book a test drive there?",
    )
    entry = discovery.card_entry(dealer.address + CARD_PATH, dealer.dealer_id, dealer.name, queries)
    return entry | {"description": f"Inventory, leads and visits of the car dealer {dealer.name}."}
