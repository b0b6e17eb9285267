"""Every route but the two hot ones, in one list: cards, schemas, pages, health, and what A2A has and we do not."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router

from dealer_agent.dealers.information import dealer_information
from dealer_agent.protocol.card import card_0_1_0, card_1_0_0
from dealer_agent.protocol.errors import (
    ProtocolError,
    PushNotificationNotSupported,
    RateLimited,
    TaskNotFound,
    UnsupportedOperation,
    UnsupportedSkill,
    http_error_body,
)
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.openapi import openapi_document
from dealer_agent.protocol.schemas import published_schemas
from dealer_agent.server.body import JSON
from dealer_agent.server.callers import caller_of, count_address, count_bad_token
from dealer_agent.server.pages import CONTENT_SECURITY_POLICY, docs_page, home_page, stylesheet
from dealer_agent.server.service import Service
from dealer_agent.server.tokens import hashed

log = structlog.get_logger()

CARD_CACHE = "public, max-age=300"
HEALTHZ, READYZ = "/healthz", "/readyz"
HEALTH_CHECKS = frozenset({HEALTHZ, READYZ})
"""They are answered beside any load: their requests wait for nothing, and run in no thread."""
ANY_METHOD = ["GET", "POST", "PUT", "PATCH", "DELETE"]

Handler = Callable[[Request], Any]


def routes(service: Service) -> list[BaseRoute]:
    """All routes of the service below its base path, but the two bindings', which stand in front of the router."""
    cards = {
        "1.0.0": _encoded(card_1_0_0(service.card, service.wire)),
        "0.1.0": _encoded(card_0_1_0(service.card, service.wire)),
    }
    schemas = {name: _encoded(schema) for name, schema in published_schemas().items()}
    openapi = openapi_document(service.card, service.wire)
    docs = docs_page(openapi, service.card, service.wire).encode()
    return [
        Route("/", _page(lambda: _home(service))),
        Route("/docs", _page(lambda: docs)),
        Route("/static/style.css", _fixed(stylesheet(), "text/css; charset=utf-8")),
        Route("/.well-known/agent-card.json", _fixed(cards[service.options.revision])),
        Route("/cards/1.0.0.json", _fixed(cards["1.0.0"])),
        Route("/cards/0.1.0.json", _fixed(cards["0.1.0"])),
        Route("/openapi.json", _fixed(_encoded(openapi))),
        *(Route(f"/schemas/{name}", _fixed(body, "application/schema+json")) for name, body in schemas.items()),
        Route("/schemas", _fixed(_encoded({"schemas": sorted(schemas)}))),
        Route(HEALTHZ, _health),
        Route(READYZ, _readiness(service)),
        Route("/calendar/{secret}.ics", _calendar(service)),
        Route("/message:stream", _undeclared(UnsupportedOperation, service), methods=ANY_METHOD),
        Route("/extendedAgentCard", _undeclared(UnsupportedOperation, service), methods=ANY_METHOD),
        Route("/tasks", _undeclared(UnsupportedOperation, service), methods=ANY_METHOD),
        Route("/tasks/{task}:subscribe", _undeclared(UnsupportedOperation, service), methods=ANY_METHOD),
        Route(
            "/tasks/{task}/pushNotificationConfigs{rest:path}",
            _undeclared(PushNotificationNotSupported, service),
            methods=ANY_METHOD,
        ),
        Route("/tasks/{task:path}", _undeclared(TaskNotFound, service), methods=ANY_METHOD),
    ]


def router(service: Service) -> Router:
    """The router; it redirects nothing, because a path is served with and without a slash at its end."""
    return Router(routes(service), redirect_slashes=False)


def _encoded(document: object) -> bytes:
    return msgspec.json.encode(document)


def _fixed(body: bytes, media_type: str = JSON) -> Handler:
    """A document that never changes while the process runs, with its ETag (A2A §8.6)."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"etag": etag, "cache-control": CARD_CACHE, "access-control-allow-origin": "*"}

    def respond(request: Request) -> Response:
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if etag in known or "*" in known:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type=media_type, headers=headers)

    return respond


def _page(render: Callable[[], bytes]) -> Handler:
    headers = {"content-security-policy": CONTENT_SECURITY_POLICY, "x-content-type-options": "nosniff"}

    def respond(_: Request) -> Response:
        return Response(render(), media_type="text/html", headers=headers)

    return respond


def _home(service: Service) -> bytes:
    dealer = service.dealer
    information = dealer_information(dealer.profile)
    return home_page(
        information, dealer.catalogue.facets(), len(dealer.catalogue), service.card, updated_at=dealer.stock_at
    ).encode()


async def _health(_: Request) -> Response:
    """The process answers."""
    return Response(b'{"status":"ok"}', media_type=JSON)


def _readiness(service: Service) -> Handler:
    async def respond(_: Request) -> Response:
        """The process can do its work: its stock is loaded, and the store was there a moment ago."""
        if service.ready:
            return Response(_encoded({"status": "ready", "vehicles": len(service.dealer.catalogue)}), media_type=JSON)
        return Response(b'{"status":"the database is away"}', status_code=503, media_type=JSON)

    return respond


def _calendar(service: Service) -> Handler:
    """The visits, for the calendar program of whoever has the secret address; nobody else learns that it exists."""

    async def respond(request: Request) -> Response:
        try:
            address = caller_of(request.scope, service)
            count_address(service, address)
            made = await run_in_threadpool(service.calendar, hashed(request.path_params["secret"]))
            if made is None:
                count_bad_token(service, address)
                return http_error(service, HTTPException(404))
        except RateLimited as error:
            return error_response(error, service)
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        return Response(made, media_type="text/calendar; charset=utf-8", headers=headers)

    return respond


def _undeclared(kind: type[ProtocolError], service: Service) -> Handler:
    def respond(_: Request) -> Response:
        return error_response(kind("This agent does not offer this operation: it answers POST /message:send."), service)

    return respond


def http_error(service: Service, problem: HTTPException) -> Response:
    """Unknown paths and wrong methods, in the envelope of every other error (contract, part 3)."""
    if problem.status_code == 405:
        allowed = (problem.headers or {}).get("Allow", "")
        error = UnsupportedSkill(f"Use {allowed} here.", http=405, headers=(("allow", allowed),))
    else:
        error = UnsupportedSkill("There is nothing at this address. Skills are at POST /message:send.", http=404)
    return error_response(error, service)


def error_response(error: ProtocolError, service: Service, request_id: str | None = None) -> Response:
    """An error outside the two bindings, in the default vocabulary; its id stands in the log, as theirs does."""
    request_id = request_id or new_ulid()
    error_id = f"err_{request_id}"
    if service.options.access_log:
        # The path is not logged: it is whatever somebody wrote.
        log.info("request", request_id=request_id, status=error.http, code=error.row.code, error_id=error_id)
    body = http_error_body(error, service.wire.default, error_id, datetime.now(UTC))
    return Response(body, error.http, media_type=JSON, headers=dict(error.headers))
