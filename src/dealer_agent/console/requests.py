"""A request to the console as a page sees it, and the responses that pages give."""

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NoReturn
from urllib.parse import quote, urlencode

from starlette.responses import Response

from dealer_agent.console.acts import Act
from dealer_agent.console.credentials import Credentials, Origin
from dealer_agent.console.rendering import render
from dealer_agent.correctable import NotPossible
from dealer_agent.open_installation import OpenDealer, OpenInstallation
from dealer_agent.server.service import Service
from dealer_agent.storage.console.people import Membership, Person
from dealer_agent.storage.console.sign_ins import ConsoleSession
from dealer_agent.storage.privacy.accesses import log_access

if TYPE_CHECKING:
    from dealer_agent.console.console import Console

PROVED_FOR = timedelta(minutes=5)
"""How long a proof of who somebody is serves for acts that ask for it again."""
HTML = "text/html; charset=utf-8"


class RaisedResponse(Exception):  # noqa: N818 - a page raises it to end with this response
    """Ends a page with a response."""

    def __init__(self, status: int, title: str, words: str) -> None:
        super().__init__(words)
        self.status, self.title, self.words = status, title, words


class DroppedFile(NamedTuple):
    """A file that was dropped into a page. It is deleted after the request."""

    name: str
    file: IO[bytes]


@dataclass(kw_only=True)
class ConsoleRequest:
    """A request. `path` is below the root of the console, and `params` are the parts of it that the route names.

    `session` and `person` are None before the sign-in. `dealer_of_path` is None for a page of the installation.
    `now` is the time of the request. `is_poll`: a page renews a part of itself.
    """

    console: "Console"
    origin: Origin
    method: str
    path: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, Sequence[str]]
    body: bytes
    address: str
    browser: str
    now: datetime
    is_poll: bool = False
    session_hash: bytes | None = None
    upload: DroppedFile | None = None
    session: ConsoleSession | None = None
    person: Person | None = None
    memberships: Sequence[Membership] = ()
    member: Membership | None = None
    dealer_of_path: OpenDealer | None = None
    cookies: list[str] = field(default_factory=list)

    @property
    def opened(self) -> OpenInstallation:
        """The installation, with the console's own connections to its database."""
        return self.console.opened

    @property
    def credentials(self) -> Credentials:
        """Checks and makes credentials."""
        return self.console.credentials

    @property
    def who(self) -> Person:
        """The person who is signed in. Only for pages that need a session."""
        assert self.person is not None, "the act of this page needs a session"
        return self.person

    @property
    def actor(self) -> str:
        """The name of the person in logs of what people did."""
        return self.who.email

    @property
    def dealer(self) -> OpenDealer:
        """The dealer of the page. Only for pages of a dealer."""
        assert self.dealer_of_path is not None, "the path of this page names a dealer"
        return self.dealer_of_path

    @property
    def is_proved(self) -> bool:
        """Whether the person has just proved who they are."""
        proved_at = None if self.session is None else self.session.proved_at
        return proved_at is not None and self.now - proved_at < PROVED_FOR

    def may(self, act: Act) -> bool:
        """Whether the person may do this for the dealer of the page, or for the installation."""
        return act.allows(None if self.member is None else self.member.role)

    def sees(self, rooftop: str | None) -> bool:
        """Whether the person may see what belongs to a rooftop. None is what belongs to no rooftop."""
        chosen = () if self.member is None else self.member.rooftops
        return not chosen or rooftop in chosen

    def text(self, name: str, longest: int = 500) -> str:
        """A field of the form without spaces around it; empty if it is missing. Raises Answer if it is too long."""
        value = (self.form.get(name) or [""])[0].strip()
        if len(value) > longest:
            refuse(f"{name.replace('_', ' ').capitalize()} may have at most {longest:,} characters.")
        return value

    @property
    def path_of_page(self) -> str:
        """The path of this page, with the path of the service before it."""
        return self.console.root + self.path

    def local(self, at: datetime | None) -> datetime | None:
        """A time in the zone of the dealer; without a dealer, in UTC."""
        return at if self.dealer_of_path is None else self.dealer_of_path.local(at)

    def page_number(self) -> int:
        """The number of the page of a list, from the query; 1 if it is not a number."""
        text = self.query.get("page", "1")
        return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 6 else 1

    def url(self, *parts: str, **query: str) -> str:
        """The path of a page of the dealer; without a dealer, of the console."""
        dealer = self.dealer_of_path
        return self.console.url(*(() if dealer is None else ("d", dealer.profile.id)), *parts, **query)

    def page(self, template: str, status: int = 200, **shown: object) -> Response:
        """A page of HTML. The values are escaped."""
        html = render(template, request=self, Act=Act, said=self.query.get("said", ""), **shown)
        return Response(html, status, media_type=HTML)

    def go(self, *parts: str, **query: str) -> Response:
        """Leads the browser to a page of the dealer, after an act."""
        return redirect(self.url(*parts, **query))

    def record_access(self, action: str, *, leads: int, lead_id: str | None = None, even_without: bool = False) -> None:
        """Records in the access log that the person reads customer data. Call it before anything is shown.

        Without leads, it records nothing, unless `even_without`: a search that found nobody says something too.
        """
        if leads or even_without:
            with self.dealer.lock() as tx:
                log_access(tx, self.actor, f"console: {action}", lead_id=lead_id, leads=leads)

    def service(self) -> Service:
        """The dealer's running service, with its stock. It is opened if it is not."""
        return (
            self.run(self.console.dealers.open(self.dealer.profile.id))
            if (opened := self.console.dealers.opened.get(self.dealer.profile.id)) is None
            else opened
        )

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of a coroutine, which runs on the event loop of the process."""
        return self.console.run(work)


Handler = Callable[[ConsoleRequest], Response]


def redirect(path: str) -> Response:
    """Leads the browser to another page, with GET."""
    return Response(status_code=303, headers={"location": path})


def refuse(words: str, status: int = 422, title: str = "This is not possible") -> NoReturn:
    """Ends the page: nothing was changed, and the words say why and what to do."""
    raise RaisedResponse(status, title, words)


def sentence_of(problem: Exception) -> str:
    """What an error says, as a sentence, without what to type in a shell."""
    words = problem.reason if isinstance(problem, NotPossible) else str(problem)
    return f"{words[:1].upper()}{words[1:].rstrip('.')}{'' if words.endswith('?') else '.'}"


def not_found(words: str) -> NoReturn:
    """Ends the page with status 404."""
    raise RaisedResponse(404, "Not found", words)


def safe_next(path: str, root: str) -> str:
    """The path of a page of the console to which a sign-in leads. Anything else leads to the first page."""
    is_ours = re.fullmatch(r"[A-Za-z0-9/._~?=&%+-]{1,500}", path) and "//" not in path and "/.." not in path
    return path if is_ours and (path == root or path.startswith(f"{root}/")) else root


def joined(root: str, parts: Sequence[str], query: Mapping[str, str]) -> str:
    """A path below the root. Each part is one segment."""
    path = "/".join([root, *(quote(part, safe="") for part in parts)])
    return f"{path}?{urlencode(query)}" if query else path
