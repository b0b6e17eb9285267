"""Answers the requests to the console: finds the route and the session, checks the act, and lets the page answer.

Everything runs in the console's own few threads, with its own few connections to the database, so agents never wait
for people. What more people ask at once is refused with 503.
"""

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import structlog
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from dealer_agent.console.acts import Act
from dealer_agent.console.cookies import session_hash
from dealer_agent.console.credentials import Credentials, Origin
from dealer_agent.console.rendering import render
from dealer_agent.console.requests import (
    HTML,
    ConsoleRequest,
    DroppedFile,
    RaisedResponse,
    joined,
    redirect,
    sentence_of,
)
from dealer_agent.console.routes import MENU, MenuItem, Route, find_route, page_of
from dealer_agent.console.words import BUSY, DATABASE_AWAY, FAILED, FOREIGN_PAGE, NEEDS_TLS, NOT_FOUND
from dealer_agent.correctable import CorrectableError
from dealer_agent.open_installation import OpenDealer, OpenInstallation, open_small_store
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.server.body import ClientGoneError, read_body
from dealer_agent.server.client_address import scope_address
from dealer_agent.server.log import code_positions
from dealer_agent.server.served_dealers import CONSOLE, ServedDealers
from dealer_agent.server.service import Process
from dealer_agent.storage.console.people import find_person, memberships_of
from dealer_agent.storage.console.sign_ins import TOUCH_AFTER, find_session, touch_session
from dealer_agent.storage.errors import DatabaseFailure, DealerUnknown
from dealer_agent.storage.isolation import ALL_DEALERS

log = structlog.get_logger()

Answered = TypeVar("Answered")

THREADS = 2
MOST_WAITING = 32
"""How many requests may wait for a thread."""
CONNECTIONS = 3
"""The most connections to PostgreSQL."""
MOST_READING_OF_ADDRESS = 4
"""How many bodies the console reads at a time from one IP address."""
FORM_BYTES = 256 * 1024
"""The largest body of a form. Settings are the largest."""
STRANGERS_FORM_BYTES = 16 * 1024
STRANGERS_FORM_SECONDS = 5.0
"""The largest body, and the longest time, of a form that needs no session."""
MOST_FIELDS = 500
LONGEST_QUERY = 2_000
BODY_SECONDS = 30.0
UPLOAD_SECONDS = 600.0
LONGEST_BROWSER = 200
RUN_SECONDS = 20.0

_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: {}; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": _SECURITY_POLICY.format("https:"),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # Not no-referrer: with it, browsers send `Origin: null` with forms.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex, nofollow",
}
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(\[[0-9a-f:]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?")


@dataclass
class Console:
    """The console of an installation, as an ASGI application. `served` is what the process serves."""

    served: OpenInstallation
    dealers: ServedDealers
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="console")
    )
    _waiting: int = 0
    # By the address of the client, the requests whose body is being read.
    _reading: Counter[str] = field(default_factory=Counter)
    _loop: asyncio.AbstractEventLoop | None = None
    _opening: threading.Lock = field(default_factory=threading.Lock)
    _opened: OpenInstallation | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request whose `path` begins with CONSOLE."""
        self._loop = asyncio.get_running_loop()
        origin = self._origin(scope)
        try:
            if origin is None:
                response = self._signed_out_page(403, "No https", NEEDS_TLS)
            else:
                response = await self._respond(origin, scope, receive)
        except ClientGoneError:
            return
        except RaisedResponse as end:
            response = self._signed_out_page(end.status, end.title, end.words)
        except ProtocolError as error:
            response = self._signed_out_page(error.http, "This is not possible", str(error))
        except Exception as error:  # noqa: BLE001 - the boundary: logged without its message, which may have data
            log.error("console failed", error=type(error).__qualname__, places=code_positions(error))
            response = self._signed_out_page(500, "Something failed here", FAILED)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    @property
    def opened(self) -> OpenInstallation:
        """The installation with the console's own connections. They are opened at the first request."""
        with self._opening:
            if self._opened is None:
                store = open_small_store(self.served.installation, CONNECTIONS)
                self._opened = OpenInstallation(self.served.installation, store)
            # The settings of the only dealer may have changed.
            self._opened.installation = self.served.installation
            return self._opened

    @cached_property
    def credentials(self) -> Credentials:
        """Checks and makes credentials."""
        return Credentials(self.opened.store.check_keys(self.opened.owner))

    @staticmethod
    def menu_of(request: ConsoleRequest) -> Sequence[MenuItem]:
        """The pages of the dealer that the person may open. Holds are among them if the dealer makes offers."""
        offers = request.dealer.settings.offers.enabled
        return [item for item in MENU if request.may(item.act) and (offers or item.act is not Act.SEE_HOLDS)]

    @property
    def process(self) -> Process:
        """The process, with its rate limits."""
        return self.dealers.process

    @property
    def root(self) -> str:
        """The path of the first page."""
        only = self.served.installation.only
        return ("" if only is None else only.service.base_path) + CONSOLE

    def url(self, *parts: str, **query: str) -> str:
        """The path of a page."""
        return joined(self.root, parts, query)

    def close(self) -> None:
        """Ends the threads and the connections."""
        self._threads.shutdown(cancel_futures=True)
        if self._opened is not None:
            self._opened.store.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of a coroutine, which runs on the event loop. Call it in a thread of the console."""
        assert self._loop is not None, "a request has set it"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(RUN_SECONDS)

    def _origin(self, scope: Scope) -> Origin | None:
        """Where the console answers this request. None without TLS, except on the machine itself."""
        public = urlsplit(self.served.installation.public_url)
        if public.scheme == "https" and public.hostname:
            return Origin(f"https://{public.netloc}".lower(), public.hostname, secure=True)
        headers = dict(scope["headers"])
        host = _HOST.fullmatch(headers.get(b"host", b"").decode("latin-1").lower())
        peer = scope["client"][0] if scope.get("client") else ""
        with suppress(ValueError):
            forwarded = b"x-forwarded-for" in headers or b"forwarded" in headers
            if host and host[1] in _LOOPBACK_NAMES and ip_address(peer).is_loopback and not forwarded:
                return Origin(f"http://{host[0]}", host[1], secure=False)
        return None

    async def _respond(self, origin: Origin, scope: Scope, receive: Receive) -> Response:
        """Answers one request of the console.

        It finds the route, checks the origin of a form, the session and the rights, reads the body, and calls the page.
        All that may block runs in a thread.
        """
        matched = find_route(scope["method"], scope["path"].removeprefix(CONSOLE) or "/")
        if isinstance(matched, Response):
            return matched if matched.status_code == 405 else self._signed_out_page(404, "Not found", NOT_FOUND)
        route, params = matched
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["method"] == "POST" and headers.get("origin") != origin.url:
            return self._signed_out_page(403, "This form is from elsewhere", FOREIGN_PAGE)
        query_string = scope["query_string"][:LONGEST_QUERY].decode("latin-1")
        request = ConsoleRequest(
            console=self,
            origin=origin,
            method=scope["method"],
            path=scope["path"].removeprefix(CONSOLE) or "/",
            params=params,
            query={name: values[0] for name, values in _fields(query_string).items()},
            form={},
            body=b"",
            address=scope_address(scope, self.process.settings.trusted_networks),
            browser=headers.get("user-agent", "")[:LONGEST_BROWSER],
            now=datetime.now(UTC),
            is_poll="hx-request" in headers,
            session_hash=session_hash(headers.get("cookie", ""), origin),
        )
        try:
            refusal = await self._in_thread(self._begin, route, request)
            if refusal is not None:
                return refusal
            # Only a person who may do this can make the service read a large body.
            await self._read(route, request, scope, receive)
            return await self._in_thread(self._answer, route, request)
        finally:
            if request.upload is not None:
                request.upload.file.close()

    async def _in_thread(
        self, work: Callable[[Route, ConsoleRequest], Answered], route: Route, request: ConsoleRequest
    ) -> Answered:
        """Does a part of a request in a thread of the console. Raises Answer if too many wait for one."""
        if self._waiting >= MOST_WAITING:
            raise RaisedResponse(503, "Busy", BUSY)
        self._waiting += 1
        try:
            assert self._loop is not None
            return await self._loop.run_in_executor(self._threads, work, route, request)
        finally:
            self._waiting -= 1

    async def _read(self, route: Route, request: ConsoleRequest, scope: Scope, receive: Receive) -> None:
        """Reads the body of a form. Slow clients wait apart, so that they keep nobody else waiting. Raises Answer."""
        if request.method != "POST":
            return
        if self._reading[request.address] >= MOST_READING_OF_ADDRESS:
            raise RaisedResponse(503, "Busy", BUSY)
        self._reading[request.address] += 1
        try:
            await _read_form(route, request, scope, receive)
        finally:
            self._reading[request.address] -= 1
            self._reading += Counter()

    def _begin(self, route: Route, request: ConsoleRequest) -> Response | None:
        """Finds the session, the dealer and the role of a request. A response ends it here."""
        try:
            if route.act.value.needs_session or request.session_hash is not None:
                self._find_session(request)
            return self._refusal(route, request)
        except DatabaseFailure:
            return self._signed_out_page(503, "Please try again", DATABASE_AWAY)

    def _find_session(self, request: ConsoleRequest) -> None:
        """Gives the request its session, person and memberships, if its cookie names a session."""
        if request.session_hash is None:
            return
        opened = self.opened
        with opened.store.read(opened.owner, request.now) as tx:
            session = find_session(tx, request.session_hash)
            if session is None:
                return
            request.session, request.person = session, find_person(tx, session.person_id)
            request.memberships = memberships_of(tx, session.person_id)
        # A poll does not count as a use, because an open page would keep its session for ever.
        if not request.is_poll and request.now - session.used_at > TOUCH_AFTER:
            with opened.store.write(opened.owner, request.now) as tx:
                touch_session(tx, request.session_hash)

    def _refusal(self, route: Route, request: ConsoleRequest) -> Response | None:
        """Why the request may not use the route: it redirects, or says so. None if it may."""
        rule = route.act.value
        if not rule.needs_session:
            return None
        here = self.root + request.path if request.method == "GET" else self.root
        if request.person is None:
            return redirect(self.url("sign-in", next=here))
        dealer_id = request.params.get("dealer")
        if dealer_id is None:
            own = next((each for each in request.memberships if each.for_dealer == ALL_DEALERS), None)
            request.member = own or next(iter(request.memberships), None)
        else:
            request.member = next((each for each in request.memberships if each.for_dealer == dealer_id), None)
            # To others, a dealer looks like one that does not exist.
            if request.member is None or not self._find_dealer(dealer_id, request):
                return request.page("notice.html", 404, title="Not found", words=NOT_FOUND)
        if not request.may(route.act):
            words = f"You may not {rule.words}. Ask an owner of this dealer if you need to."
            return request.page("notice.html", 403, title="You may not do this", words=words)
        if not _has_credentials(request) and not route.starts:
            return redirect(self.url("account"))
        if rule.again and not request.is_proved and not (route.starts and not _has_credentials(request)):
            return redirect(self.url("prove", next=self.root + page_of(request.path)))
        return None

    def _find_dealer(self, dealer_id: str, request: ConsoleRequest) -> bool:
        """Opens the dealer that the path names, for the request. False if there is no such dealer."""
        try:
            request.dealer_of_path = OpenDealer(self.opened.settings_of(dealer_id), self.opened.store)
        except DealerUnknown:
            return False
        return True

    def _answer(self, route: Route, request: ConsoleRequest) -> Response:
        """The response of the page. Errors that a person can correct, and a database that is away, become pages too."""
        try:
            response = route.handler(request)
        except RaisedResponse as end:
            response = request.page("notice.html", end.status, title=end.title, words=end.words)
        except DatabaseFailure:
            response = request.page("notice.html", 503, title="Please try again", words=DATABASE_AWAY)
        except CorrectableError as problem:
            response = request.page("notice.html", 422, title="This is not possible", words=sentence_of(problem))
        for cookie in request.cookies:
            response.headers.append("set-cookie", cookie)
        return response

    def _signed_out_page(self, status: int, title: str, words: str) -> Response:
        """A page for somebody who is not signed in."""
        return Response(render("outside.html", title=title, words=words, root=self.root), status, media_type=HTML)


def _has_credentials(request: ConsoleRequest) -> bool:
    """Whether the person can sign in again: a session of an invitation begins without."""
    return request.session is not None and request.session.proved_at is not None


def _fields(text: str) -> Mapping[str, Sequence[str]]:
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        return {}


async def _read_form(route: Route, request: ConsoleRequest, scope: Scope, receive: Receive) -> None:
    """Reads the body of a form, of JSON, or with a file. Raises ProtocolError and ClientGoneError."""
    if not route.upload_bytes:
        is_signed_in = route.act.value.needs_session
        limits = (FORM_BYTES, BODY_SECONDS) if is_signed_in else (STRANGERS_FORM_BYTES, STRANGERS_FORM_SECONDS)
        request.body = await read_body(receive, *limits)
        request.form = _fields(request.body.decode("latin-1")) if not route.is_json else {}
        return
    try:
        async with asyncio.timeout(UPLOAD_SECONDS):
            counted = _BodyCounter(receive, route.upload_bytes)
            form = await Request(scope, counted).form(max_files=1, max_fields=MOST_FIELDS)
    except (ClientDisconnect, TimeoutError):
        raise ClientGoneError from None
    except MultiPartException as problem:
        raise RaisedResponse(400, "The browser sent no form", str(problem)) from None
    request.form = {name: [value for value in form.getlist(name) if isinstance(value, str)] for name in form}
    for value in form.values():
        if not isinstance(value, str) and value.filename:
            request.upload = DroppedFile(value.filename, value.file)


@dataclass
class _BodyCounter:
    """Receives the body of a request, of at most so many bytes."""

    receive: Receive
    most: int
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.most

    async def __call__(self) -> Message:
        event = await self.receive()
        self.left -= len(event.get("body", b""))
        if self.left < 0:
            raise RaisedResponse(413, "This file is too large", f"A file may have at most {self.most >> 20:,} MiB.")
        return event
