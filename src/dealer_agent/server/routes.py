"""Lists all routes except the two bindings: cards, schemas, pages, health, and operations that are not offered."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dealer_agent.apidocs import discovery
from dealer_agent.apidocs.components import Json
from dealer_agent.apidocs.openapi import openapi_document
from dealer_agent.protocol.errors import ProtocolError, PushNotificationNotSupported, TaskNotFound, UnsupportedOperation
from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS
from dealer_agent.protocol.schemas import published_schemas
from dealer_agent.protocol.task_list import task_page
from dealer_agent.protocol.well_known import ARD_PATH, CARD_PATH, CATALOG_PATH, PROTECTED_RESOURCE_PATH
from dealer_agent.server import dmc12
from dealer_agent.server.body import JSON
from dealer_agent.server.customer_routes import customer_routes
from dealer_agent.server.documents import (
    CARD_SECONDS,
    PAGE_SECONDS,
    READABLE_ANYWHERE,
    Document,
    answer_with,
    card_of_revision,
    card_of_version,
    catalog_document,
    json_document,
    keys_document,
    llms_document,
    mcp_card_document,
    mcp_server_document,
    offer_keys_document,
    page_document,
    public_document,
)
from dealer_agent.server.mcp import McpEndpoint
from dealer_agent.server.pages.docs import docs_page
from dealer_agent.server.pages.home import home_page
from dealer_agent.server.pages.site import stylesheet
from dealer_agent.server.served_dealers import at_public_address
from dealer_agent.server.service import BAD_TOKENS_RULE, MESSAGE_SEND, Service
from dealer_agent.server.token_challenges import mcp_resource_document, resource_document
from dealer_agent.server.tokens import hash_secret
from dealer_agent.server.vehicle_routes import has_vehicle_pages, vehicle_routes

_DOCS_PATH, _OPENAPI_PATH = "/docs", "/openapi.json"
RENDER_COST = 100
"""How many times the first request for a dealer's documentation counts: it takes 20 to 60 ms to make. Otherwise one
client could make that of all dealers of an installation one after the other, and leave no time for others."""

HEALTH_PATHS = frozenset({"/healthz", "/readyz"})

Handler = Callable[[Request], Any]


def routes() -> list[Route]:
    """The routes of a dealer, by their path below its root. The request's scope has the dealer's service."""
    return [
        Route("/", _current(current_home)),
        *vehicle_routes(),
        Route(_DOCS_PATH, _kept(_docs)),
        stylesheet_route(),
        Route(CARD_PATH, _addressed(lambda here: card_of_revision(here, here.settings.service.revision))),
        Route("/cards/1.0.0.json", _addressed(lambda here: card_of_revision(here, "1.0.0"))),
        Route("/cards/0.1.0.json", _addressed(lambda here: card_of_revision(here, "0.1.0"))),
        Route(discovery.KEYS_PATH, _kept(keys_document)),
        Route(discovery.OFFER_KEYS_PATH, _kept(offer_keys_document)),
        Route(PROTECTED_RESOURCE_PATH, _addressed(resource_document)),
        Route(PROTECTED_RESOURCE_PATH + discovery.MCP_PATH, _addressed(mcp_resource_document)),
        Route(CATALOG_PATH, _addressed(catalog_document)),
        Route(ARD_PATH, _addressed(catalog_document)),
        Route(discovery.MCP_CARD_PATH, _addressed(mcp_card_document)),
        Route(discovery.MCP_SERVER_PATH, _addressed(mcp_server_document)),
        Route(discovery.LLMS_PATH, _addressed(llms_document)),
        *(Route(each.card_path, _addressed(partial(card_of_version, each))) for each in PUBLISHED_VERSIONS.values()),
        Route(_OPENAPI_PATH, _kept(_openapi_document)),
        *(
            Route(f"/schemas/{name}", _fixed(msgspec.json.encode(schema), "application/schema+json"))
            for name, schema in published_schemas().items()
        ),
        Route("/schemas", _fixed(msgspec.json.encode({"schemas": sorted(published_schemas())}))),
        Route(discovery.MCP_PATH, McpEndpoint()),
        Route(dmc12.UCP_PATH, _addressed(dmc12.manifest_document)),
        Route(dmc12.DMC12_MCP_PATH, dmc12.Dmc12Mcp()),
        Route(dmc12.DMC12_A2A_PATH, dmc12.Dmc12Rpc()),
        Route("/healthz", health),
        Route("/readyz", _readiness),
        Route("/calendar/{secret}.ics", _calendar),
        *customer_routes(),
        _not_offered("/message:stream", UnsupportedOperation),
        _not_offered("/extendedAgentCard", UnsupportedOperation),
        Route("/tasks", _list_tasks, methods=["GET"]),
        _not_offered("/tasks/{task}:subscribe", UnsupportedOperation),
        _not_offered("/tasks/{task}/pushNotificationConfigs{rest:path}", PushNotificationNotSupported),
        _not_offered("/tasks/{task:path}", TaskNotFound),
    ]


def stylesheet_route() -> Route:
    """The stylesheet of all pages."""
    return Route("/static/style.css", _fixed(stylesheet(), "text/css; charset=utf-8"))


def service_of(request: Request) -> Service:
    """The service of the dealer that a request is for."""
    service: Service = request.scope["service"]
    return service


def _openapi(service: Service) -> Json:
    return openapi_document(service.card, service.vocabularies)


def _openapi_document(service: Service) -> Document:
    return json_document(_openapi(service))


def _docs(service: Service) -> Document:
    return page_document(docs_page(_openapi(service), service.card, service.vocabularies), CARD_SECONDS)


_LARGE = {_DOCS_PATH: _docs, _OPENAPI_PATH: _openapi_document}


def cost_of(service: Service, path: str) -> int:
    """How many times a request for this path below a dealer's root counts against the rate of its IP address."""
    return RENDER_COST if path in _LARGE and _LARGE[path] not in service.documents else 1


def _fixed(body: bytes, media_type: str = JSON) -> Handler:
    """Serves a document that is the same for every dealer. Pages of any origin may read it."""
    document = public_document(body, media_type)
    return _current(lambda _: document)


def _kept(make: Callable[[Service], Document]) -> Handler:
    """Serves a document of a dealer that stays the same while its settings do."""
    return _current(lambda service: _document(service, make))


def _addressed(make: Callable[[Service], Document]) -> Handler:
    """Like `_kept`, for a document with URLs of this service: those that the client can use (`at_public_address`)."""

    async def respond(request: Request) -> Response:
        return answer_with(_document(at_public_address(service_of(request), request.scope), make), request)

    return respond


def _document(service: Service, make: Callable[[Service], Document]) -> Document:
    """A document of the dealer, which is made once and kept."""
    if make not in service.documents:
        service.documents[make] = make(service)
        service.document_bytes += len(service.documents[make].body)
    document: Document = service.documents[make]
    return document


def _current(document: Callable[[Service], Document]) -> Handler:
    """Serves what `document` returns at the time of the request."""

    # A coroutine, as all handlers: Starlette runs a plain function in a thread, which costs more than the response.
    async def respond(request: Request) -> Response:
        return answer_with(document(service_of(request)), request)

    return respond


def current_home(service: Service) -> Document:
    """The page at `/`. It is rendered once for each snapshot of the stock and each minute.

    It shows the opening hours of the current day at each rooftop. In every time zone, a day begins at a full minute.
    """
    dealer, minute = service.dealer, datetime.now(UTC).replace(second=0, microsecond=0)
    rendered = service.documents.get(current_home)
    if rendered is None or rendered[0] is not dealer or rendered[1] != minute:
        html = home_page(
            dealer.profile,
            dealer.catalogue.facets(),
            len(dealer.catalogue),
            service.card,
            updated_at=dealer.stock_at,
            now=minute,
            has_vehicle_pages=has_vehicle_pages(service),
        )
        rendered = service.documents[current_home] = dealer, minute, page_document(html, PAGE_SECONDS)
    page: Document = rendered[2]
    return page


async def health(_: Request) -> Response:
    """Whether the process answers."""
    return Response(b'{"status":"ok"}', media_type=JSON)


async def _readiness(request: Request) -> Response:
    """Whether reading skills answer from the latest stock, and leads can be stored. It only reads what steps in the
    background have found."""
    service = service_of(request)
    status, state = service.process.readiness("the database cannot be reached: stock and tokens may be out of date")
    state["vehicles"] = len(service.dealer.catalogue)
    return Response(msgspec.json.encode(state), status, media_type=JSON)


async def _calendar(request: Request) -> Response:
    """The visits, for a calendar program that has the secret URL. With a wrong secret the response is 404."""
    service = service_of(request)
    # Leave the block before the response is sent: a client may read it slowly.
    with service.load:
        calendar = await run_in_threadpool(service.calendar, hash_secret(request.path_params["secret"]))
    if calendar is None:
        await service.count_request(BAD_TOKENS_RULE, request.scope)
        raise HTTPException(404)
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(calendar, media_type="text/calendar; charset=utf-8", headers=headers)


async def _list_tasks(request: Request) -> Response:
    """An empty page of tasks, or the error about the query."""
    query = request.query_params
    page = task_page(query.get("pageSize"), query.get("pageToken"))
    return Response(page.body, media_type=JSON, headers={"cache-control": "no-store"} | READABLE_ANYWHERE)


def _not_offered(path: str, kind: type[ProtocolError]) -> Route:
    async def respond(_: Request) -> Response:
        raise kind(f"This agent does not offer this operation: it answers POST {MESSAGE_SEND}.")

    return Route(path, respond, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
