"""All routes except the two bindings, in one list: cards, schemas, pages, health, and operations not offered."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dealer_agent.apidocs.components import Json
from dealer_agent.apidocs.openapi import openapi_document
from dealer_agent.protocol.card import card_0_1_0, card_1_0_0, published_card
from dealer_agent.protocol.errors import ProtocolError, PushNotificationNotSupported, TaskNotFound, UnsupportedOperation
from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS, PublishedVersion
from dealer_agent.protocol.schemas import published_schemas
from dealer_agent.protocol.task_list import task_page
from dealer_agent.server.body import JSON
from dealer_agent.server.cross_origin import READABLE_ANYWHERE
from dealer_agent.server.customer_routes import customer_routes
from dealer_agent.server.pages.docs import docs_page
from dealer_agent.server.pages.home import home_page
from dealer_agent.server.pages.site import CONTENT_SECURITY_POLICY, stylesheet
from dealer_agent.server.service import BAD_TOKENS_RULE, MESSAGE_SEND, Service
from dealer_agent.server.tokens import hash_secret

CARD_SECONDS = 300
PAGE_SECONDS = 60
HEALTH_PATHS = frozenset({"/healthz", "/readyz"})

Handler = Callable[[Request], Any]


class Document(NamedTuple):
    """A body with its headers, which allow clients and proxies to cache it."""

    body: bytes
    headers: dict[str, str]


def routes() -> list[Route]:
    """The routes of a dealer, by their path below its root. The request's scope has the dealer's service."""
    return [
        Route("/", _current(current_home)),
        Route("/docs", _kept(_docs)),
        stylesheet_route(),
        Route("/.well-known/agent-card.json", _kept(lambda service: _card(service, service.settings.service.revision))),
        Route("/cards/1.0.0.json", _kept(lambda service: _card(service, "1.0.0"))),
        Route("/cards/0.1.0.json", _kept(lambda service: _card(service, "0.1.0"))),
        *(
            Route(version.card_path, _kept(partial(_published_card, version)))
            for version in PUBLISHED_VERSIONS.values()
        ),
        Route("/openapi.json", _kept(lambda service: json_document(_openapi(service)))),
        *(
            Route(f"/schemas/{name}", _fixed(msgspec.json.encode(schema), "application/schema+json"))
            for name, schema in published_schemas().items()
        ),
        Route("/schemas", _fixed(msgspec.json.encode({"schemas": sorted(published_schemas())}))),
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


def _card(service: Service, revision: str) -> Document:
    card = {"1.0.0": card_1_0_0, "0.1.0": card_0_1_0}[revision]
    return _card_document(service, card(service.card, service.vocabularies))


def _card_document(service: Service, card: Json) -> Document:
    body, headers = json_document(card)
    return Document(body, headers | {"last-modified": format_datetime(service.opened_at, usegmt=True)})


def _published_card(version: PublishedVersion, service: Service) -> Document:
    if version.name not in service.settings.published_versions.served:
        raise HTTPException(404)
    return _card_document(service, published_card(service.card, version))


def _openapi(service: Service) -> Json:
    return openapi_document(service.card, service.vocabularies)


def _docs(service: Service) -> Document:
    return page_document(docs_page(_openapi(service), service.card, service.vocabularies), CARD_SECONDS)


def json_document(content: Any) -> Document:
    """A JSON document, which pages of any origin may read."""
    return _document(msgspec.json.encode(content), JSON, CARD_SECONDS, READABLE_ANYWHERE)


def _document(body: bytes, media_type: str, seconds: int, headers: dict[str, str]) -> Document:
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    caching = {"etag": etag, "cache-control": f"public, max-age={seconds}", "content-type": media_type}
    return Document(body, caching | headers)


def page_document(html: str, seconds: int) -> Document:
    """A page of HTML, which caches may keep for so many seconds."""
    headers = {"content-security-policy": CONTENT_SECURITY_POLICY, "x-content-type-options": "nosniff"}
    return _document(html.encode(), "text/html; charset=utf-8", seconds, headers)


def _fixed(body: bytes, media_type: str = JSON) -> Handler:
    """Serves a document that is the same for every dealer. Pages of any origin may read it."""
    document = _document(body, media_type, CARD_SECONDS, READABLE_ANYWHERE)
    return _current(lambda _: document)


def _kept(make: Callable[[Service], Document]) -> Handler:
    """Serves a document of a dealer that stays the same while its settings do."""

    def kept(service: Service) -> Document:
        if make not in service.documents:
            service.documents[make] = make(service)
        document: Document = service.documents[make]
        return document

    return _current(kept)


def _current(document: Callable[[Service], Document]) -> Handler:
    # A coroutine, as all handlers: Starlette runs a plain function in a thread, which costs more than the response.
    async def respond(request: Request) -> Response:
        return answer_with(document(service_of(request)), request)

    return respond


def answer_with(document: Document, request: Request) -> Response:
    """The response with a document; 304 if the client has it already."""
    body, headers = document
    cached = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if headers["etag"] in cached or "*" in cached:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers)


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
        )
        rendered = service.documents[current_home] = dealer, minute, page_document(html, PAGE_SECONDS)
    page: Document = rendered[2]
    return page


async def health(_: Request) -> Response:
    """Whether the process answers."""
    return Response(b'{"status":"ok"}', media_type=JSON)


async def _readiness(request: Request) -> Response:
    """Whether reading skills answer from the latest stock, and leads can be stored. Only the former has a status code,
    so that a load balancer does not remove the reading skills because of leads."""
    service = service_of(request)
    ready = service.process.ready
    status = "ready" if ready else "the database is away: stock and tokens may be out of date"
    state = {"status": status, "vehicles": len(service.dealer.catalogue), "leads": service.process.leads}
    return Response(msgspec.json.encode(state), status_code=200 if ready else 503, media_type=JSON)


async def _calendar(request: Request) -> Response:
    """The visits, for a calendar program that has the secret URL. With a wrong secret the answer is 404."""
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
