"""What a check gets: one interface of a card, in one vocabulary, and what the checks of an interface share.

An interface is a URL with its binding and its revision.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import UUID

from dealer_agent.checker.card import FetchedCard, Interface
from dealer_agent.checker.exchange import Exchange, Headers, at, dicts
from dealer_agent.checker.forms import whole_number
from dealer_agent.checker.outcome import Failed, NotChecked, Skipped, Unprepared, skip_unless
from dealer_agent.checker.reply import data_of
from dealer_agent.checker.revision import Binding, Revision
from dealer_agent.checker.wire import TargetConnection
from dealer_agent.client.signing import Signer
from dealer_agent.protocol.card import A2A_VERSION
from dealer_agent.protocol.skill import SKILL_BY_ID, SKILL_BY_REQUEST_TYPE

JSON_HEADERS: Headers = (
    ("Content-Type", "application/json"),
    ("Accept", "application/json"),
    ("A2A-Version", A2A_VERSION),
)
"""The headers of a normal request."""

_USUAL_HEADERS = {(name.lower(), value) for name, value in JSON_HEADERS}

READING_SKILLS = ("dealer.information", "inventory.facets", "inventory.search")
"""Skills that answer a request without any input."""

LEAD = "lead.submit.request"
"""The `type` of a lead."""

PAGE = 100
"""The `limit` of most searches. A dealer may apply a lower one."""

USUAL_BYTES = 4_000
"""Bytes of the longest usual request. A proxy may refuse a longer one with an error of its own."""

MOST_LISTINGS = 1_000
"""The most listings that are read. Checks of a larger stock know a part of it only."""

MOST_READINGS = 3
"""How often the pages of a stock are read that changes between two pages."""

_VERSION = ("vin", "stock", "updated_at")
"""Members of a listing that all revisions have, and of which one differs between two versions of a stock."""

Listing = dict[str, Any]

Change = Callable[[Any], object]
"""Changes JSON in place."""

Request = Callable[["Target"], Awaitable[Exchange]]
"""Sends a request to a target."""


@dataclass
class TargetStock:
    """The listings of one interface, read when a check first asks for them. `problem` is why they cannot be read.

    `total` is the total of a search without filters, as the target says it.
    """

    listings: list[Listing] | None = None
    problem: str | None = None
    total: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether `listings` has the whole stock. It has the first listings of a larger one."""
        return self.listings is not None and len(self.listings) >= self.total


@dataclass
class Target:
    """One interface of one card, in one vocabulary.

    `vendor` is the name of the vocabulary in media types: `proto`, `autoagent` or that of the dealer. `stock` is shared
    by all vocabularies of the interface. `exchanges` are those of this target so far, also shared ones.
    """

    card: FetchedCard
    interface: Interface
    vendor: str
    wire: TargetConnection
    stock: TargetStock
    token: str | None = None
    leads: bool = False
    signer: Signer | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    # By the body of a request, the payload that it asked with; None for an unusual request.
    _asked: dict[bytes, Any] = field(init=False, repr=False, default_factory=dict)

    @property
    def revision(self) -> Revision:
        """The revision of the card."""
        return self.card.revision

    @property
    def binding(self) -> Binding:
        """The binding of the interface."""
        return self.interface.binding

    @property
    def variant(self) -> tuple[str, Binding, str]:
        """Revision, binding and vocabulary: where a requirement must apply to be checked here."""
        return self.revision.name, self.binding, self.vendor

    @property
    def is_rpc(self) -> bool:
        """Whether the binding is JSON-RPC."""
        return self.binding == "JSONRPC"

    @property
    def posted(self) -> list[Exchange]:
        """The exchanges of messages so far."""
        return [each for each in self.exchanges if each.method == "POST" and each.url == self.interface.endpoint]

    def asked(self, exchange: Exchange) -> Any:
        """The payload of a usual request of a skill: nothing but its payload is special. None for any other request.

        Checks judge only the answers to usual requests: A2A also decides how an agent answers an unusual message, such
        as one with two parts.
        """
        if len(exchange.request_body) > USUAL_BYTES or not exchange.sent >= _USUAL_HEADERS:
            return None
        if exchange.request_body not in self._asked:
            message = at(exchange.request_json, "params") if self.is_rpc else exchange.request_json
            payload = at(next(iter(dicts(at(message, "message.parts"))), None), "data")
            usual = isinstance(payload, dict) and self.body(self.message(payload)) == exchange.request_body
            self._asked[exchange.request_body] = payload if usual else None
        return self._asked[exchange.request_body]

    @property
    def latest(self) -> Exchange | None:
        """The latest exchange."""
        return self.exchanges[-1] if self.exchanges else None

    def reading_skills(self) -> list[str]:
        """The skills on the card that need no input. Skips the check if there is none."""
        skills = [each for each in READING_SKILLS if each in self.card.skills]
        return skip_unless(skills, "The card offers no skill that needs no input.")

    def media_type(self, skill_id: str, kind: Literal["request", "response"]) -> str:
        """The media type of the part of a request or a response."""
        return f"application/vnd.{self.vendor}.{SKILL_BY_ID[skill_id].stem}-{kind}+json"

    def payload(self, skill_id: str, **members: Any) -> dict[str, Any]:
        """The payload of a request of a skill. Skips the check if the card does not offer the skill."""
        if skill_id not in self.card.skills:
            raise Skipped(f"The card does not offer {skill_id}.")
        return {"type": f"{skill_id}.request", **members}

    def message(self, payload: dict[str, Any], **members: Any) -> dict[str, Any]:
        """The SendMessageRequest of a payload; `members` replace or add members of `message`.

        The messageId follows from the content, so that equal requests of two targets are sent once.
        """
        skill = SKILL_BY_REQUEST_TYPE.get(str(payload.get("type")))
        name = skill.id if skill else "inventory.search"
        part = {"mediaType": self.media_type(name, "request"), "data": payload}
        digest = hashlib.sha256(json.dumps(part, sort_keys=True).encode()).digest()[:16]
        return {
            "message": {"messageId": str(UUID(bytes=digest)), "role": "ROLE_USER", "parts": [part], **members},
            "configuration": {"acceptedOutputModes": [self.media_type(name, "response")]},
        }

    def body(self, message: Any, **call: Any) -> bytes:
        """A SendMessageRequest as the body of this binding: bare, or in a call of JSON-RPC with these members."""
        return json.dumps(rpc_call(message, **call) if self.is_rpc else message).encode()

    async def request(
        self,
        method: str,
        url: str,
        content: bytes = b"",
        headers: Headers = (),
        *,
        fresh: bool = False,
        patient: bool = True,
        without_token: bool = False,
    ) -> Exchange:
        """The exchange of any request. `fresh` and `patient` are explained at `Wire.request`.

        Nothing is sent to another origin than the card's without TLS: a card could name a service of this machine. Then
        NotChecked is raised. The token is sent to the interface only, and only on the origin of the card. The same
        requests are signed if the run has a signer, except those that have a signature. `without_token` says that the
        check wants neither. Without a token, a 401 for another request without a signature of the check skips the
        check. Headers that the revision requires are added. A header with an empty value is left out.
        """
        at_home = self.card.is_at_home(url)
        if not at_home and not url.startswith("https://"):
            raise NotChecked(f"Nothing is sent to {url}, which is on another origin than the card, and not encrypted.")
        is_signed = any(name.lower() == "signature-input" for name, _ in headers)
        is_known = not without_token and at_home and url.startswith(self.interface.url)
        if self.token and is_known:
            headers = (*headers, ("Authorization", f"Bearer {self.token}"))
        signer = self.signer if is_known and not is_signed else None
        required: Headers = ()
        if self.revision.needs_version_header and method == "POST" and url.startswith(self.interface.url):
            extension = next((each["uri"] for each in self.card.extensions), "")
            required = (("A2A-Version", A2A_VERSION), ("A2A-Extensions", extension))
        given = {name.lower() for name, _ in headers}
        headers = (
            *(each for each in headers if each[1]),
            *(each for each in required if each[0].lower() not in given),
        )
        exchange = await self.wire.request(method, url, content, headers, fresh=fresh, patient=patient, signer=signer)
        self.exchanges.append(exchange)
        if exchange.status == 401 and not self.token and not without_token and not is_signed:
            raise Skipped("The target asks for a token. Give one with --token.")
        return exchange

    async def fetch(self, url: str, *headers: tuple[str, str], fresh: bool = False) -> Exchange:
        """The exchange of a GET of a public document, without the token."""
        sent: Headers = (*headers, ("Accept", "application/json"))
        return await self.request("GET", url, headers=sent, fresh=fresh, without_token=True)

    async def post(self, content: bytes, headers: Headers = JSON_HEADERS, **options: bool) -> Exchange:
        """The exchange of a POST of these bytes to the interface.

        Without `leads`, no lead is sent, not even a wrong one: the check is skipped.
        """
        if not self.leads and LEAD.encode() in content:
            raise Skipped("The check submits leads. Allow it with --leads.")
        return await self.request("POST", self.interface.endpoint, content, headers, **options)

    async def send_message(self, message: Any, headers: Headers = JSON_HEADERS, **options: bool) -> Exchange:
        """The exchange of a SendMessageRequest, in the form of the binding."""
        return await self.post(self.body(message), headers, **options)

    async def send(self, payload: dict[str, Any], headers: Headers = JSON_HEADERS, **options: bool) -> Exchange:
        """The exchange of a payload. An equal lead is sent again."""
        if payload.get("type") == LEAD:
            options["fresh"] = True
        return await self.send_message(self.message(payload), headers, **options)

    async def ask(self, skill_id: str, **members: Any) -> dict[str, Any]:
        """The `data` of the successful response of a skill. Raises Failed if the response has none, or is an error."""
        return data_of(await self.send(self.payload(skill_id, **members)))

    async def listings(self) -> list[Listing]:
        """All listings, found by paging. Raises Unprepared if they cannot be read: another check fails for that."""
        if self.stock.listings is None and self.stock.problem is None:
            await self.read_stock()
        if self.stock.problem is not None:
            raise Unprepared(self.stock.problem)
        return self.stock.listings or []

    async def read_stock(self, *, fresh: bool = False) -> None:
        """Reads the listings, again if they have been read."""
        try:
            self.stock.listings, self.stock.total = await self._read_listings(fresh=fresh)
            self.stock.problem = None
            self.wire.note_stock(frozenset(tuple(map(str, map(each.get, _VERSION))) for each in self.stock.listings))
        except (Failed, Skipped) as problem:
            self.stock.listings, self.stock.total = None, 0
            self.stock.problem = f"The listings cannot be read: {problem}"

    async def some_listings(self) -> list[Listing]:
        """All listings. Skips the check if the stock is empty."""
        return skip_unless(await self.listings(), "The stock is empty.")

    async def having(self, member: str) -> list[Listing]:
        """The listings that have a member. Skips the check if none has it."""
        listings = [each for each in await self.listings() if each.get(member) is not None]
        return skip_unless(listings, f"No listing has {member}.")

    async def _read_listings(self, *, fresh: bool) -> tuple[list[Listing], int]:
        """The listings, and the total. A vehicle that is sold between two pages moves the others: one is left out."""
        for _ in range(MOST_READINGS):
            listings, totals = await self._read_pages(fresh=fresh)
            if len(totals) <= 1:
                break
            fresh = True
        return listings, totals[-1] if totals else len(listings)

    async def _read_pages(self, *, fresh: bool) -> tuple[list[Listing], list[int]]:
        """The listings, and the different totals of their pages."""
        all_listings: list[Listing] = []
        totals: dict[int, None] = {}
        while True:
            pagination = {"skip": len(all_listings), "limit": PAGE}
            payload = self.payload("inventory.search", pagination=pagination)
            page = data_of(await self.send(payload, fresh=fresh))
            listings = dicts(page.get("vehicles"))
            all_listings += listings
            total = whole_number(page.get("total"))
            if total is not None:
                totals[total] = None
            if not listings or len(all_listings) >= min(len(all_listings) if total is None else total, MOST_LISTINGS):
                return all_listings, list(totals)


def elsewhere(target: Target, interface: Interface, vendor: str) -> Target:
    """The target of another interface or vocabulary of the card, with its exchanges: its own checks judge them."""
    exchanges = target.wire.exchanges[target.card.url, interface, vendor]
    return replace(target, interface=interface, vendor=vendor, exchanges=exchanges)


def in_turn(target: Target, number: int, vendor: str = "") -> Target:
    """The target of the interface with this number, counted from the target's own. After the last comes the first.

    In revision 0.1.0 the count begins one later, so that the two revisions of a run ask different interfaces.
    """
    bindings = target.wire.bindings
    chosen = [each for each in target.card.interfaces if not bindings or each.binding in bindings]
    ordered = sorted(chosen, key=lambda each: each != target.interface)
    first = 1 if target.revision.name == "0.1.0" else 0
    return elsewhere(target, ordered[(number + first) % len(ordered)], vendor or target.vendor)


def other_interface(target: Target) -> Target:
    """The other interface of the card. It has its own exchanges, so that no answer of the first is taken for its own.

    Skips the check if the card has one interface.
    """
    others = [each for each in target.card.interfaces if each != target.interface]
    return elsewhere(target, skip_unless(others, "The card has one interface.")[0], target.vendor)


def asking(
    skill_id: str = "dealer.information",
    *changes: Change,
    headers: Mapping[str, str] | None = None,
    **members: Any,
) -> Request:
    """A request of a skill, as checks have it in their tables. `members` are those of the payload.

    `changes` change the SendMessageRequest in place. `headers` replace those of a normal request, or are added.
    """

    async def send(target: Target) -> Exchange:
        message = target.message(target.payload(skill_id, **members))
        for change in changes:
            change(message)
        return await target.send_message(message, with_headers(headers))

    return send


def with_headers(changed: Mapping[str, str] | None) -> Headers:
    """The headers of a normal request, with others. An empty value leaves one out."""
    return tuple({**dict(JSON_HEADERS), **(changed or {})}.items())


def put(path: str, value: Any) -> Change:
    """Sets the value at a path such as `message.parts.0.kind`. Objects on the way that are absent are added."""

    def change(document: Any) -> None:
        *way, last = path.split(".")
        for name in way:
            document = document[int(name)] if isinstance(document, list) else document.setdefault(name, {})
        document[last] = value

    return change


def drop(*paths: str) -> Change:
    """Removes the members at these paths."""

    def change(document: Any) -> None:
        for path in paths:
            node = document
            *way, last = path.split(".")
            for name in way:
                node = node[int(name)] if isinstance(node, list) else node[name]
            node.pop(last, None)

    return change


def rpc_call(message: Any, **members: Any) -> dict[str, Any]:
    """A call of JSON-RPC with a SendMessageRequest, and other members."""
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message, **members}
