"""All routes except the two bindings, in one list: cards, schemas, pages, health, and operations not offered."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dealer_agent.apidocs.openapi import openapi_document
from dealer_agent.protocol.card import card_0_1_0, card_1_0_0
from dealer_agent.protocol.errors import ProtocolError, PushNotificationNotSupported, TaskNotFound, UnsupportedOperation
from dealer_agent.protocol.schemas import published_schemas
from dealer_agent.server.body import JSON
from dealer_agent.server.cross_origin import READABLE_ANYWHERE
from dealer_agent.server.customer_routes import customer_routes
from dealer_agent.server.pages.docs import docs_page
from dealer_agent.server.pages.home import home_page
from dealer_agent.server.pages.site import CONTENT_SECURITY_POLICY, stylesheet
from dealer_agent.server.service import BAD_TOKENS_RULE, MESSAGE_SEND, Service
from dealer_agent.server.tokens import hash_secret
from dealer_agent.skills import Dealer

CARD_SECONDS = 300
PAGE_SECONDS = 60
HEALTH_PATHS = frozenset({"/healthz", "/readyz"})

Handler = Callable[[Request], Any]


class Document(NamedTuple):
    """A body with its headers, which allow clients and proxies to cache it."""

    body: bytes
    headers: dict[str, str]


def routes(service: Service) -> list[Route]:
    """The routes, by their path below the base path of the service."""
    cards = {
        "1.0.0": msgspec.json.encode(card_1_0_0(service.card, service.vocabularies)),
        "0.1.0": msgspec.json.encode(card_0_1_0(service.card, service.vocabularies)),
    }
    schemas = published_schemas()
    openapi = openapi_document(service.card, service.vocabularies)
    docs = _page(docs_page(openapi, service.card, service.vocabularies), CARD_SECONDS)
    return [
        Route("/", _current(current_home(service))),
        Route("/docs", _current(lambda: docs)),
        Route("/static/style.css", _fixed(stylesheet(), "text/css; charset=utf-8")),
        Route("/.well-known/agent-card.json", _fixed(cards[service.settings.service.revision])),
        Route("/cards/1.0.0.json", _fixed(cards["1.0.0"])),
        Route("/cards/0.1.0.json", _fixed(cards["0.1.0"])),
        Route("/openapi.json", _fixed(msgspec.json.encode(openapi))),
        *(
            Route(f"/schemas/{name}", _fixed(msgspec.json.encode(schema), "application/schema+json"))
            for name, schema in schemas.items()
        ),
        Route("/schemas", _fixed(msgspec.json.encode({"schemas": sorted(schemas)}))),
        Route("/healthz", _health),
        Route("/readyz", _readiness(service)),
        Route("/calendar/{secret}.ics", _calendar(service)),
        *customer_routes(service),
        _not_offered("/message:stream", UnsupportedOperation),
        _not_offered("/extendedAgentCard", UnsupportedOperation),
        _not_offered("/tasks", UnsupportedOperation),
        _not_offered("/tasks/{task}:subscribe", UnsupportedOperation),
        _not_offered("/tasks/{task}/pushNotificationConfigs{rest:path}", PushNotificationNotSupported),
        _not_offered("/tasks/{task:path}", TaskNotFound),
    ]


def _document(body: bytes, media_type: str, seconds: int, headers: dict[str, str]) -> Document:
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    caching = {"etag": etag, "cache-control": f"public, max-age={seconds}", "content-type": media_type}
    return Document(body, caching | headers)


def _page(html: str, seconds: int) -> Document:
    headers = {"content-security-policy": CONTENT_SECURITY_POLICY, "x-content-type-options": "nosniff"}
    return _document(html.encode(), "text/html; charset=utf-8", seconds, headers)


def _fixed(body: bytes, media_type: str = JSON) -> Handler:
    """Serves a document that stays the same while the process runs. Pages of any origin may read it."""
    document = _document(body, media_type, CARD_SECONDS, READABLE_ANYWHERE)
    return _current(lambda: document)


def _current(document: Callable[[], Document]) -> Handler:
    # A coroutine, as all handlers: Starlette runs a plain function in a thread, which costs more than the response.
    async def respond(request: Request) -> Response:
        body, headers = document()
        cached = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if headers["etag"] in cached or "*" in cached:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers)

    return respond


def current_home(service: Service) -> Callable[[], Document]:
    """Makes the page at `/`. It is rendered once for each snapshot of the stock and each minute.

    It shows the opening hours of the current day at each rooftop. In every time zone, a day begins at a full minute.
    """
    rendered: tuple[Dealer, datetime, Document] | None = None

    def now() -> Document:
        nonlocal rendered
        dealer, minute = service.dealer, datetime.now(UTC).replace(second=0, microsecond=0)
        if rendered is None or rendered[0] is not dealer or rendered[1] != minute:
            html = home_page(
                dealer.profile,
                dealer.catalogue.facets(),
                len(dealer.catalogue),
                service.card,
                updated_at=dealer.stock_at,
                now=minute,
            )
            rendered = dealer, minute, _page(html, PAGE_SECONDS)
        return rendered[2]

    return now


async def _health(_: Request) -> Response:
    return Response(b'{"status":"ok"}', media_type=JSON)


def _readiness(service: Service) -> Handler:
    """Whether reading skills answer from the latest stock, and leads can be stored. Only the former has a status code,
    so that a load balancer does not remove the reading skills because of leads."""

    async def respond(_: Request) -> Response:
        status = "ready" if service.ready else "the database is away: stock and tokens may be out of date"
        state = {"status": status, "vehicles": len(service.dealer.catalogue), "leads": service.leads}
        return Response(msgspec.json.encode(state), status_code=200 if service.ready else 503, media_type=JSON)

    return respond


def _calendar(service: Service) -> Handler:
    """The visits, for a calendar program that has the secret address. With a wrong secret the path is unknown."""

    async def respond(request: Request) -> Response:
        # Leave the block before the response is sent: a client may read it slowly.
        with service.load:
            calendar = await run_in_threadpool(service.calendar, hash_secret(request.path_params["secret"]))
        if calendar is None:
            service.count_request(BAD_TOKENS_RULE, request.scope)
            raise HTTPException(404)
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        return Response(calendar, media_type="text/calendar; charset=utf-8", headers=headers)

    return respond


def _not_offered(path: str, kind: type[ProtocolError]) -> Route:
    async def respond(_: Request) -> Response:
        raise kind(f"This agent does not offer this operation: it answers POST {MESSAGE_SEND}.")

    return Route(path, respond, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
