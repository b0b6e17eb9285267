"""What a check gets: one interface of a card, in one vocabulary, and what the checks of an interface share.

An interface is a URL with its binding and its revision.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from dealer_agent.checker.card import Card, Interface
from dealer_agent.checker.exchange import Exchange, Headers, dicts
from dealer_agent.checker.forms import whole_number
from dealer_agent.checker.outcome import Failed, NotChecked, Skipped, expect, skip_if_failed
from dealer_agent.checker.revision import Binding, Revision
from dealer_agent.checker.wire import Wire
from dealer_agent.protocol.card import A2A_VERSION
from dealer_agent.protocol.skill import SKILL_BY_ID, SKILL_BY_REQUEST_TYPE

JSON_HEADERS: Headers = (
    ("Content-Type", "application/json"),
    ("Accept", "application/json"),
    ("A2A-Version", A2A_VERSION),
)
"""The headers of a normal request."""

READING_SKILLS = ("dealer.information", "inventory.facets", "inventory.search")
"""Skills that answer a request without any input."""

LEAD = "lead.submit.request"
"""The `type` of a lead."""

PAGE = 100
"""The `limit` of most searches. A dealer may apply a lower one."""

MOST_LISTINGS = 1_000
"""The most listings that are read. Checks of a larger stock know a part of it only."""

Listing = dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    """An error of either binding, read leniently: a member that is absent or has a wrong type is empty or None.

    `status` is the HTTP status, and `number` the `error.code`: of JSON-RPC, or of the body over HTTP+JSON. `payload` is
    the error payload, `info` the ErrorInfo, and `code` the error code, from one of both.
    """

    exchange: Exchange
    status: int
    number: Any
    message: str
    code: str
    payload: dict[str, Any]
    info: dict[str, Any]
    data: Any
    """All of `error.details` (HTTP+JSON) or `error.data` (JSON-RPC)."""

    @property
    def details(self) -> dict[str, Any]:
        """The `details` of the error payload."""
        details = self.payload.get("details")
        return details if isinstance(details, dict) else {}

    def expect_code(self, *codes: str) -> None:
        """Raises Failed unless the error has one of these codes."""
        expect(self.code in codes, f"The code is {self.code or 'absent'}, not {' or '.join(codes)}.", self.exchange)

    def expect_number(self, *numbers: int) -> None:
        """Raises Failed unless `error.code` is one of these numbers."""
        wanted = " or ".join(map(str, numbers))
        expect(self.number in numbers, f"`error.code` is {self.number!r}, not {wanted}.", self.exchange)

    def problems(self, revision: Revision) -> list[tuple[str, str]]:
        """Pointer and keyword of each entry of `details.errors`."""
        pointer, _ = revision.problem_members
        return [(str(each.get(pointer)), str(each.get("keyword"))) for each in dicts(self.details.get("errors"))]


class Material:
    """What all checks of one interface share. It is fetched once, when a check first asks for it."""

    def __init__(self) -> None:
        self._target: Target | None = None
        self._listings: list[Listing] | None = None
        self._problem: str | None = None
        self.total = 0
        """The `total` of a search without filters, as the target says it."""

    def bind(self, target: "Target") -> None:
        """Names the target that fetches the material: the first one of the interface."""
        self._target = self._target or target

    @property
    def complete(self) -> bool:
        """Whether `listings` has the whole stock. It has the first listings of a larger one."""
        return self._listings is not None and len(self._listings) >= self.total

    async def listings(self) -> list[Listing]:
        """All listings, found by paging. Skips the check if they cannot be read: another check fails for that."""
        if self._listings is None and self._problem is None:
            try:
                self._listings = await self._read_listings()
            except (Failed, Skipped) as problem:
                self._problem = f"The listings cannot be read: {problem}"
        if self._problem is not None:
            raise Skipped(self._problem)
        return self._listings or []

    async def some_listings(self) -> list[Listing]:
        """All listings. Skips the check if the stock is empty."""
        found = await self.listings()
        if not found:
            raise Skipped("The stock is empty.")
        return found

    async def having(self, member: str) -> list[Listing]:
        """The listings that have a member. Skips the check if none has it."""
        found = [each for each in await self.listings() if each.get(member) is not None]
        if not found:
            raise Skipped(f"No listing has {member}.")
        return found

    async def information(self) -> dict[str, Any]:
        """The dealer's information. Skips the check if it cannot be read."""
        with skip_if_failed("dealer.information cannot be read: "):
            return await self._bound().ask("dealer.information")

    def _bound(self) -> "Target":
        assert self._target is not None
        return self._target

    async def _read_listings(self) -> list[Listing]:
        target = self._bound()
        if "inventory.search" not in target.card.skills:
            raise Skipped("The card does not offer inventory.search.")
        found: list[Listing] = []
        while True:
            page = await target.ask("inventory.search", pagination={"skip": len(found), "limit": PAGE})
            listings = dicts(page.get("vehicles"))
            total = whole_number(page.get("total"))
            self.total = len(found) + len(listings) if total is None else total
            found += listings
            if not listings or len(found) >= min(self.total, MOST_LISTINGS):
                return found


@dataclass
class Target:
    """One interface of one card, in one vocabulary.

    `vendor` is the name of the vocabulary in media types: `proto`, `autoagent` or that of the dealer. `material` is
    shared by the checks of all vocabularies of the interface. `exchanges` are those of this target so far,
    also shared ones.
    """

    card: Card
    interface: Interface
    vendor: str
    wire: Wire
    material: Material
    token: str | None = None
    leads: bool = False
    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def revision(self) -> Revision:
        """The revision of the card."""
        return self.card.revision

    @property
    def binding(self) -> Binding:
        """The binding of the interface."""
        return self.interface.binding

    @property
    def is_rpc(self) -> bool:
        """Whether the binding is JSON-RPC."""
        return self.binding == "JSONRPC"

    @property
    def latest(self) -> Exchange | None:
        """The latest exchange."""
        return self.exchanges[-1] if self.exchanges else None

    @property
    def name(self) -> str:
        """For people: revision, binding and vocabulary."""
        return f"{self.revision.name} {self.binding} {self.vendor}"

    def reading_skills(self) -> list[str]:
        """The skills on the card that need no input. Skips the check if there is none."""
        found = [each for each in READING_SKILLS if each in self.card.skills]
        if not found:
            raise Skipped("The card offers no skill that needs no input.")
        return found

    def skip_if_declared(self, capability: str) -> None:
        """Raises Skipped if the card declares a capability, for example `streaming`."""
        capabilities = self.card.member("capabilities")
        if isinstance(capabilities, dict) and self.card.member(capability, capabilities):
            raise Skipped(f"The card declares {capability}.")

    def request_media_type(self, skill_id: str) -> str:
        """The media type of a request part."""
        return f"application/vnd.{self.vendor}.{SKILL_BY_ID[skill_id].stem}-request+json"

    def response_media_type(self, skill_id: str) -> str:
        """The media type of a response part."""
        return f"application/vnd.{self.vendor}.{SKILL_BY_ID[skill_id].stem}-response+json"

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
        part = {"mediaType": self.request_media_type(name), "data": payload}
        digest = hashlib.sha256(json.dumps(part, sort_keys=True).encode()).digest()
        return {
            "message": {"messageId": _ulid_like(digest), "role": "ROLE_USER", "parts": [part], **members},
            "configuration": {"acceptedOutputModes": [self.response_media_type(name)]},
        }

    def body(self, message: Any, *, rpc_id: Any = 1, method: str = "SendMessage") -> bytes:
        """A SendMessageRequest as the body of this binding: bare, or as the params of a call."""
        document = {"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": message} if self.is_rpc else message
        return json.dumps(document).encode()

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
        NotChecked is raised. The token is sent to the interface only, and only on the origin of the card. Without a
        token, a 401 skips the check, unless `without_token` says that the check wants none. Headers that the revision
        requires are added. A check that gives one with an empty value wants it left out.
        """
        at_home = self.card.is_at_home(url)
        if not at_home and not url.startswith("https://"):
            raise NotChecked(f"Nothing is sent to {url}, which is on another origin than the card, and not encrypted.")
        if self.token and not without_token and at_home and url.startswith(self.interface.url):
            headers = (*headers, ("Authorization", f"Bearer {self.token}"))
        if self.revision.needs_version_header and method == "POST" and url.startswith(self.interface.url):
            headers = self._with_required(headers)
        exchange = await self.wire.request(method, url, content, headers, fresh=fresh, patient=patient)
        self.exchanges.append(exchange)
        if exchange.status == 401 and not self.token and not without_token:
            raise Skipped("The target asks for a token. Give one with --token.")
        return exchange

    async def fetch(self, url: str, *headers: tuple[str, str], fresh: bool = False) -> Exchange:
        """The exchange of a GET of a public document, without the token."""
        sent: Headers = (*headers, ("Accept", "application/json"))
        return await self.request("GET", url, headers=sent, fresh=fresh, without_token=True)

    def _with_required(self, headers: Headers) -> Headers:
        sent = {name.lower() for name, _ in headers}
        extension = next((each["uri"] for each in self.card.extensions), "")
        required = (("A2A-Version", A2A_VERSION), ("A2A-Extensions", extension))
        added = (each for each in required if each[0].lower() not in sent)
        return (*(each for each in headers if each[1]), *added)

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
        return self.answer(await self.send(self.payload(skill_id, **members)))

    async def refused(self, payload: dict[str, Any]) -> Refusal:
        """The error that a payload gets. Skips the check if it gets none: another check fails for that."""
        with skip_if_failed():
            return await self.refuse(payload)

    async def refuse(self, payload: dict[str, Any]) -> Refusal:
        """The error that a payload gets. Raises Failed if it is accepted, or answered with no error at all."""
        return self.refusal(await self.send(payload))

    def reply_message(self, exchange: Exchange) -> dict[str, Any]:
        """The response's `message` of either binding. Raises Failed if the exchange is no success."""
        document = exchange.json
        if isinstance(document, dict) and isinstance(document.get("error"), dict):
            error = self.refusal(exchange)
            raise Failed(f"A valid request is refused: {error.code or error.number} {error.message[:300]}", exchange)
        result = document.get("result") if self.is_rpc and isinstance(document, dict) else document
        message = result.get("message") if isinstance(result, dict) else None
        if not isinstance(message, dict):
            raise Failed(f"The response to a valid request has no message (HTTP {exchange.status}).", exchange)
        return message

    def reply_payload(self, exchange: Exchange) -> dict[str, Any]:
        """The payload of a successful response: an object with `type` and `data`. Raises Failed."""
        for part in dicts(self.reply_message(exchange).get("parts")):
            if isinstance(part.get("data"), dict):
                found: dict[str, Any] = part["data"]
                return found
        raise Failed("The response has no data part.", exchange)

    def answer(self, exchange: Exchange) -> dict[str, Any]:
        """The `data` of the payload of a successful response. Raises Failed."""
        data = self.reply_payload(exchange).get("data")
        if not isinstance(data, dict):
            raise Failed("The payload of the response has no object `data`.", exchange)
        return data

    def refusal(self, exchange: Exchange) -> Refusal:
        """The error of an exchange, read leniently. Raises Failed if it has none."""
        document = exchange.json
        error = document.get("error") if isinstance(document, dict) else None
        if not isinstance(error, dict):
            done = "accepted" if exchange.status < 300 else f"answered with HTTP {exchange.status} and no error object"
            raise Failed(f"A request that must be refused is {done}.", exchange)
        data = error.get("data") if "data" in error else error.get("details")
        entries = dicts(data if isinstance(data, list) else [data])
        payload = next((each for each in entries if "error_id" in each or "retryable" in each), {})
        info = next((each for each in entries if "reason" in each), {})
        return Refusal(
            exchange=exchange,
            status=exchange.status,
            number=error.get("code"),
            message=str(error.get("message", "")),
            code=str(payload.get("code") or info.get("reason") or ""),
            payload=payload,
            info=info,
            data=data,
        )


_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _ulid_like(digest: bytes) -> str:
    return "01" + "".join(_LETTERS[byte % 32] for byte in digest[:24])
