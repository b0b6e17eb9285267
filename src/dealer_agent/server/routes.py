"""Every route but the two hot ones, in one list: cards, schemas, pages, health, and what A2A has and we do not."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Scope

from dealer_agent.apidocs.openapi import openapi_document
from dealer_agent.dealers.information import dealer_information
from dealer_agent.dealers.opening import department_hours
from dealer_agent.protocol.card import card_0_1_0, card_1_0_0
from dealer_agent.protocol.errors import (
    ProtocolError,
    PushNotificationNotSupported,
    TaskNotFound,
    UnsupportedOperation,
    UnsupportedSkill,
)
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.replies import http_error_body
from dealer_agent.protocol.schemas import published_schemas
from dealer_agent.server.body import JSON
from dealer_agent.server.client_identity import caller_of, count_address, count_bad_token, count_health_check
from dealer_agent.server.cross_origin import READABLE_ANYWHERE
from dealer_agent.server.customer_routes import customer_routes
from dealer_agent.server.log import RequestLine, log_request
from dealer_agent.server.pages import CONTENT_SECURITY_POLICY, docs_page, home_page, stylesheet
from dealer_agent.server.service import MESSAGE_SEND, Service
from dealer_agent.server.tokens import hashed
from dealer_agent.skills import Dealer

CARD_SECONDS = 300
PAGE_SECONDS = 60
ANY_METHOD = ["GET", "POST", "PUT", "PATCH", "DELETE"]
HEALTH_PATHS = frozenset({"/healthz", "/readyz"})

Handler = Callable[[Request], Any]


class Document(NamedTuple):
    """Bytes to serve, with headers that let clients and proxies keep them for a time."""

    body: bytes
    headers: dict[str, str]


def routes(service: Service) -> list[BaseRoute]:
    """All routes of the service below its base path, except the two bindings, which the application answers itself."""
    cards = {
        "1.0.0": _encoded(card_1_0_0(service.card, service.wire)),
        "0.1.0": _encoded(card_0_1_0(service.card, service.wire)),
    }
    schemas = {name: _encoded(schema) for name, schema in published_schemas().items()}
    openapi = openapi_document(service.card, service.wire)
    docs = _page(docs_page(openapi, service.card, service.wire), CARD_SECONDS)
    return [
        Route("/", _served(HomePage(service).now)),
        Route("/docs", _served(lambda: docs)),
        Route("/static/style.css", _fixed(stylesheet(), "text/css; charset=utf-8")),
        Route("/.well-known/agent-card.json", _fixed(cards[service.settings.service.revision])),
        Route("/cards/1.0.0.json", _fixed(cards["1.0.0"])),
        Route("/cards/0.1.0.json", _fixed(cards["0.1.0"])),
        Route("/openapi.json", _fixed(_encoded(openapi))),
        *(Route(f"/schemas/{name}", _fixed(body, "application/schema+json")) for name, body in schemas.items()),
        Route("/schemas", _fixed(_encoded({"schemas": sorted(schemas)}))),
        Route("/healthz", _health),
        Route("/readyz", _readiness(service)),
        Route("/calendar/{secret}.ics", _calendar(service)),
        *customer_routes(service),
        Route("/message:stream", _undeclared(UnsupportedOperation), methods=ANY_METHOD),
        Route("/extendedAgentCard", _undeclared(UnsupportedOperation), methods=ANY_METHOD),
        Route("/tasks", _undeclared(UnsupportedOperation), methods=ANY_METHOD),
        Route("/tasks/{task}:subscribe", _undeclared(UnsupportedOperation), methods=ANY_METHOD),
        Route(
            "/tasks/{task}/pushNotificationConfigs{rest:path}",
            _undeclared(PushNotificationNotSupported),
            methods=ANY_METHOD,
        ),
        Route("/tasks/{task:path}", _undeclared(TaskNotFound), methods=ANY_METHOD),
    ]


def router(service: Service) -> Router:
    """The router; it redirects nothing, because a path is served with and without a slash at its end."""
    return Router(routes(service), redirect_slashes=False)


def _encoded(document: object) -> bytes:
    return msgspec.json.encode(document)


def _document(body: bytes, media_type: str, seconds: int, more: dict[str, str]) -> Document:
    """A document with its ETag (A2A §8.6), which may be cached for this many seconds."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    kept = {"etag": etag, "cache-control": f"public, max-age={seconds}", "content-type": media_type}
    return Document(body, kept | more)


def _page(html: str, seconds: int) -> Document:
    more = {"content-security-policy": CONTENT_SECURITY_POLICY, "x-content-type-options": "nosniff"}
    return _document(html.encode(), "text/html; charset=utf-8", seconds, more)


def _fixed(body: bytes, media_type: str = JSON) -> Handler:
    """Serves a document that never changes while the process runs; pages of any origin may read it."""
    document = _document(body, media_type, CARD_SECONDS, READABLE_ANYWHERE)
    return _served(lambda: document)


def _served(current: Callable[[], Document]) -> Handler:
    # A coroutine, as every handler here: Starlette runs a plain function in a thread, which costs more than the answer.
    async def respond(request: Request) -> Response:
        body, headers = current()
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if headers["etag"] in known or "*" in known:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers)

    return respond


class HomePage:
    """The page at `/`. It is rendered once for each snapshot of the stock and each minute.

    It depends on the time only by the day at each rooftop, and in every time zone a day begins with a minute.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._rendered: tuple[Dealer, datetime, Document] | None = None

    def now(self) -> Document:
        """The page as of this minute."""
        dealer, minute = self._service.dealer, datetime.now(UTC).replace(second=0, microsecond=0)
        if self._rendered is None or self._rendered[0] is not dealer or self._rendered[1] != minute:
            self._rendered = dealer, minute, self._render(dealer, minute)
        return self._rendered[2]

    def _render(self, dealer: Dealer, now: datetime) -> Document:
        information = dealer_information(dealer.profile)
        facets, total = dealer.catalogue.facets(), len(dealer.catalogue)
        html = home_page(
            information,
            facets,
            total,
            self._service.card,
            opening={rooftop.name: department_hours(rooftop) for rooftop in dealer.profile.rooftops},
            updated_at=dealer.stock_at,
            now=now,
        )
        return _page(html, PAGE_SECONDS)


async def _health(_: Request) -> Response:
    """The process answers."""
    return Response(b'{"status":"ok"}', media_type=JSON)


def _readiness(service: Service) -> Handler:
    async def respond(_: Request) -> Response:
        """Whether reading skills answer from the dealer's latest stock, and whether leads can be stored. Leads do not
        change the status: a load balancer must not remove the reading skills because of them."""
        told = {"vehicles": len(service.dealer.catalogue), "leads": service.leads}
        if service.ready:
            return Response(_encoded({"status": "ready"} | told), media_type=JSON)
        away = {"status": "the database is away: stock and tokens may be out of date"}
        return Response(_encoded(away | told), status_code=503, media_type=JSON)

    return respond


def _calendar(service: Service) -> Handler:
    """The visits, for a calendar program that has the secret address. A wrong secret gets the answer of an unknown
    path."""

    async def respond(request: Request) -> Response:
        # The block ends before the answer is sent: a client may take long to read it.
        with service.load:
            made = await run_in_threadpool(service.calendar, hashed(request.path_params["secret"]))
        if made is None:
            count_bad_token(service, caller_of(request.scope, service))
            raise HTTPException(404)
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        return Response(made, media_type="text/calendar; charset=utf-8", headers=headers)

    return respond


def _undeclared(kind: type[ProtocolError]) -> Handler:
    async def respond(_: Request) -> Response:
        raise kind(f"This agent does not offer this operation: it answers POST {MESSAGE_SEND}.")

    return respond


def count_request(service: Service, scope: Scope, path: str) -> None:
    """Counts a request of any other route against its address. Raises RateLimited.

    Health checks have a rate of their own: a load balancer that shares its address with buyers must not be refused
    because of them.
    """
    address = caller_of(scope, service)
    if path in HEALTH_PATHS:
        count_health_check(service, address)
    else:
        count_address(service, address)


def http_error(service: Service, problem: HTTPException) -> Response:
    """Unknown paths and wrong methods, in the envelope of every other error (contract, part 3)."""
    facts = service.card
    where = f"Send messages to POST {facts.http_json_url}{MESSAGE_SEND}, or as JSON-RPC to POST {facts.json_rpc_url}."
    if problem.status_code == 405:
        allowed = (problem.headers or {}).get("Allow", "")
        error = UnsupportedSkill(f"Use {allowed} here. {where}", http=405, headers=(("allow", allowed),))
    else:
        error = UnsupportedSkill(f"There is nothing at this address. {where}", http=404)
    return error_response(error, service)


def error_response(error: ProtocolError, service: Service, request_id: str | None = None) -> Response:
    """An error outside the two bindings, in the default vocabulary. Its id is in the log, as theirs is."""
    request_id = request_id or new_ulid()
    error_id = f"err_{request_id}"
    if service.settings.logs.access:
        # The path is not logged: a client may write anything there.
        log_request(RequestLine(request_id, status=error.http, code=error.code, error_id=error_id))
    body = http_error_body(error, service.wire.default, error_id, datetime.now(UTC))
    return Response(body, error.http, media_type=JSON, headers=READABLE_ANYWHERE | dict(error.headers))
