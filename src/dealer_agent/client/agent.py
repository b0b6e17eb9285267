"""`DealerAgent`: one dealer's agent, and its skills as methods."""

from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Generator, Mapping
from datetime import datetime
from typing import Any, Self, Unpack

import anyio
import httpx

from dealer_agent.client import arguments
from dealer_agent.client.arguments import Filters, SortOrder
from dealer_agent.client.card import Binding, Card, origin
from dealer_agent.client.discovery import find_card, web_address
from dealer_agent.client.errors import InvalidRequest, QuoteNotVerified, noting
from dealer_agent.client.members import filter_members, json_value, named_vehicle, search_members
from dealer_agent.client.paging import LONGEST_PAGE, Vehicles, every_change, every_listing
from dealer_agent.client.quotes import header_of, verify_quote
from dealer_agent.client.responses import (
    SignedQuote,
    SkillResponse,
    SubmittedLead,
    fitting_lead,
    read_response,
    request_body,
)
from dealer_agent.client.results import (
    DealerInformation,
    Facets,
    Hold,
    LeadState,
    SearchPage,
    StockChanges,
    VehicleDetail,
)
from dealer_agent.client.signing import Signer
from dealer_agent.client.transport import OnExchange, Retries, Transport
from dealer_agent.protocol.card import A2A_VERSION
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.offers import LeadOffer
from dealer_agent.protocol.requests import Appointment, Consent, Customer, Sort, SourceAgent, TradeIn, VehicleOfInterest
from dealer_agent.protocol.skill import (
    DEALER_INFORMATION,
    INVENTORY_CHANGES,
    INVENTORY_FACETS,
    INVENTORY_SEARCH,
    INVENTORY_VEHICLE,
    LEAD_STATUS,
    LEAD_SUBMIT,
    OFFER_HOLD,
    OFFER_QUOTE,
    OFFER_RELEASE,
    OFFER_STATUS,
    VISIT_CANCEL,
    VISIT_MOVE,
    Skill,
)

TIMEOUT_SECONDS = 30.0
"""The longest time of one request, from the connection to the end of the response."""
MOST_REPLY_BYTES = 16 * 1024 * 1024
"""The most bytes of a response."""

AsgiApp = Callable[..., Any]


class Discovery:
    """What `DealerAgent.discover` returns: await it, or use it with `async with`, which closes the agent at the end."""

    def __init__(self, discover: Callable[[], Coroutine[Any, Any, "DealerAgent"]]) -> None:
        self._discover = discover
        self._agent: DealerAgent | None = None

    def __await__(self) -> Generator[Any, None, "DealerAgent"]:
        return self._discover().__await__()

    async def __aenter__(self) -> "DealerAgent":
        self._agent = await self
        return self._agent

    async def __aexit__(self, *_: object) -> None:
        if self._agent is not None:
            await self._agent.aclose()


class DealerAgent:
    """A dealer's agent. Make it with `DealerAgent.discover`.

    Every method raises a `DealerAgentError` (see `dealer_agent.client.errors`). Requests of the reading skills are sent
    again after a failure that a retry can mend. Leads are sent again only if the dealer surely did not store them, or
    declares idempotency. Holds and changes of visits are sent again with the same idempotency key.

    `quote`, `hold`, `lead_status`, `changes` and the methods like them need the offers extension
    (docs/protocol.md#offers): a dealer without it (`card.makes_offers`) answers UnsupportedSkill.

    Results have the types of `dealer_agent.client.results`. An absent member is None. Unknown members of a response are
    ignored, and a word that this version does not know is kept as it is. Arguments have the types of
    `dealer_agent.client.arguments`. An argument that is None is not sent.

    Each method has `timeout`: the longest time of the call in seconds, with all retries and pauses. Without it, each
    request has the timeout of `discover`.
    """

    def __init__(self, card: Card, transport: Transport, retries: Retries) -> None:
        self.card = card
        self._transport = transport
        self._retries = retries

    @classmethod
    def discover(
        cls,
        url: str,
        *,
        token: str | None = None,
        token_origins: Collection[str] = (),
        signer: Signer | None = None,
        binding: Binding | None = None,
        verify_signature: bool = False,
        app: AsgiApp | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        headers: Mapping[str, str] | None = None,
        user_agent: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        retries: Retries = Retries(),  # noqa: B008 - it is immutable
        on_exchange: OnExchange | None = None,
    ) -> Discovery:
        """Reads the agent card and chooses binding, vocabulary and version.

            agent = await DealerAgent.discover("https://dealer.example")
            async with DealerAgent.discover("https://dealer.example") as agent: ...

        `url` is that of the dealer (its card is at `/.well-known/agent-card.json` below it), or that of a card. `token`
        is a bearer token. It goes to the origin of `url`, and to those of `token_origins`
        (`https://api.dealer.example`). `signer` signs each request to a skill, so that the dealer knows who calls.
        `binding` is by default JSON-RPC if the card has it, else HTTP+JSON. `verify_signature` refuses a card without
        a valid signature by a key on its own origin, in a folder above it, and uses only what is signed; it needs
        the extra `signatures`.

        With `app`, an ASGI application in the same process answers, and nothing goes over the network. `transport`
        replaces the whole transport, for example to name the client's address:
        `httpx.ASGITransport(app, client=("203.0.113.7", 40000))`. `headers` are sent with every request. `user_agent`
        comes before the library's own name in `User-Agent`. `timeout` is the longest time of one request, in seconds.
        `on_exchange` is called after each request, with what was sent and received.

        Raises Unreachable, NotADealerAgent (CardNotVerified), or MalformedResponse for a response that is too large.
        """
        if app is not None and transport is not None:
            raise InvalidRequest("Give app or transport, not both.")
        if app is None and any(name.lower() == "authorization" for name in headers or ()):
            raise InvalidRequest("headers are sent to every origin: give the bearer token as token.")
        if app is not None:
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)

        async def discovered() -> DealerAgent:
            """Finds the card at the address, and makes the agent."""
            address = web_address(url)
            origins = {origin(each) for each in (address, *map(web_address, token_origins))}
            pool = Transport(
                transport,
                token=token,
                # Nothing leaves the process for an app.
                token_origins=None if app is not None else origins,
                signer=signer,
                user_agent=user_agent,
                headers=headers or {},
                timeout=timeout,
                on_exchange=on_exchange,
            )
            card = await find_card(pool, address, binding=binding, retries=retries, verify_signature=verify_signature)
            return cls(card, pool, retries)

        return Discovery(discovered)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._transport.aclose()

    async def ask(
        self, skill: Skill, members: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> SkillResponse:
        """One request with the members of a payload as JSON values, without `type`. The data of the response is as
        received, with members that this version does not know.

        The other methods are made of this one. It sends what it gets: the dealer checks it.
        """
        given = members or {}
        deadline = None if timeout is None else anyio.current_time() + timeout
        is_idempotent = self.card.declares_idempotency and "idempotency_key" in given
        repeated = self._retries.submit if skill.is_lead and not is_idempotent else self._retries.read
        return await repeated(lambda: self._send_once(skill, given, deadline), deadline)

    async def _send_once(self, skill: Skill, members: Mapping[str, Any], deadline: float | None) -> SkillResponse:
        """Sends one request and reads its response. `Retries` calls it again after a temporary error."""
        message_id = new_ulid()
        headers = {"Content-Type": "application/json", "A2A-Version": A2A_VERSION}
        if extensions := self.card.extensions_of(skill):
            headers["A2A-Extensions"] = ", ".join(extensions)
        received = await self._transport.send(
            "POST",
            self.card.request_url,
            most=MOST_REPLY_BYTES,
            headers=headers,
            content=request_body(self.card, skill, members, message_id),
            proves_caller=True,
            timeout=None if deadline is None else max(0.0, deadline - anyio.current_time()),
        )
        return read_response(self.card, skill, received, message_id)

    async def information(self, *, timeout: float | None = None) -> DealerInformation:
        """Who the dealer is: rooftops, addresses, hours, phone numbers, fees."""
        return (await self.ask(DEALER_INFORMATION, timeout=timeout)).typed(DealerInformation)

    async def facets(self, *, timeout: float | None = None, **filters: Unpack[Filters]) -> Facets:
        """Which values occur in the matching stock, and how often. Filters are those of `search`."""
        return (await self.ask(INVENTORY_FACETS, filter_members(filters), timeout=timeout)).typed(Facets)

    async def search(
        self,
        *,
        sort: SortOrder | Sort | None = None,
        skip: int | None = None,
        limit: int | None = None,
        timeout: float | None = None,
        **filters: Unpack[Filters],
    ) -> SearchPage:
        """One page of the matching vehicles, and the number of all (`total`).

            await agent.search(make=["Honda", "Toyota"], price_max=30000, sort="price")

        All filters must match. A filter with a list matches if one entry does. `sort` is a field, with a minus for
        descending order. `skip` is the number of vehicles to leave out. `limit` is the size of the page. The dealer may
        send less (see `limit` of the response). A listing that cannot be read is in `skipped` of the response.

        Raises InvalidRequest for an unknown filter or a wrong value, before anything is sent.
        """
        members = search_members(sort, skip, limit, filters)
        return (await self.ask(INVENTORY_SEARCH, members, timeout=timeout)).typed(SearchPage)

    def search_all(
        self,
        *,
        sort: SortOrder | Sort | None = None,
        page_size: int = LONGEST_PAGE,
        most: int = 100_000,
        timeout: float | None = None,
        **filters: Unpack[Filters],
    ) -> Vehicles:
        """All matching vehicles, page after page. No vehicle comes twice.

            async for vehicle in agent.search_all(make=["Honda"]): ...

        If the stock changes meanwhile, the search is repeated for the vehicles that were missed. Raises
        SearchIncomplete at the end if vehicles may still be missing, or if there are more than `most`. A listing that
        cannot be read is in `skipped` of the iterator. `timeout` is that of each page.
        """

        async def page(skip: int) -> SearchPage:
            return await self.search(sort=sort, skip=skip, limit=page_size, timeout=timeout, **filters)

        search_members(sort, 0, page_size, filters)
        return Vehicles(every_listing(page, most))

    async def vehicle(
        self,
        *,
        vin: str | None = None,
        stock: str | None = None,
        vehicle_id: str | None = None,
        zip: str | None = None,  # noqa: A002 - the name of the protocol
        timeout: float | None = None,
    ) -> VehicleDetail:
        """One vehicle, by VIN, stock number or id. With `zip`, the offer for the buyer's ZIP code.

        Raises VehicleNotFound, and VehicleUnavailable for a vehicle that was sold. Versions of the public protocol
        after 1.0 have no `zip`: their agents refuse it.
        """
        members = json_value(named_vehicle(vin, stock, vehicle_id) | {"zip": zip})
        return (await self.ask(INVENTORY_VEHICLE, members, timeout=timeout)).typed(VehicleDetail)

    async def quote(
        self,
        *,
        vin: str | None = None,
        stock: str | None = None,
        vehicle_id: str | None = None,
        zip: str | None = None,  # noqa: A002 - the name of the protocol
        buyer_ref: str | None = None,
        timeout: float | None = None,
    ) -> SignedQuote:
        """What one vehicle costs in all, line by line, for the buyer's ZIP code. The dealer keeps the price until
        `valid_until`.

        `document` of the quote is exactly what the dealer has signed: store it to prove the price later. `buyer_ref` is
        your own name for the buyer, never an e-mail address or a phone number.

        Raises VehicleNotFound, VehicleUnavailable, and SchemaValidationFailed for a vehicle without a price.
        """
        named = named_vehicle(vin, stock, vehicle_id)
        members = json_value(named | {"zip": zip, "buyer_ref": buyer_ref})
        return SignedQuote.of(await self.ask(OFFER_QUOTE, members, timeout=timeout))

    async def verify_quote(self, quote: SignedQuote | Mapping[str, Any]) -> str:
        """Checks that this dealer has signed exactly this quote, or this document of one. Returns the id of the key.

        The key set must be on the origin of the card, in a folder above it. It says nothing about whether the quote is
        still valid. It needs the extra `signatures`. `dealer_agent.client.verify_quote` does the same with a key set
        that you have stored. Raises QuoteNotVerified and Unreachable.
        """
        document = quote.document if isinstance(quote, SignedQuote) else quote
        header = header_of(document)
        from dealer_agent.client.signatures import NoKey, key_set

        try:
            keys = await self._retries.read(lambda: key_set(self._transport, httpx.URL(self.card.url), header))
        except NoKey as error:
            raise QuoteNotVerified(f"The quote cannot be verified: {error}.") from None
        return verify_quote(document, keys)

    async def hold(
        self,
        quote_id: str,
        *,
        buyer_ref: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Hold:
        """Keeps the vehicle of a valid quote until `expires_at`. The dealer must know who calls: give `discover` a
        `signer` or a `token`.

        Without `idempotency_key`, the request gets a new one. It is sent again with the same key after a failure that
        can pass, so there is one hold. After any other failure, `error.idempotency_key` is the key.

        Raises CallerNotKnown, QuoteNotFound, QuoteExpired, VehicleUnavailable, HoldConflict if another agent holds the
        vehicle, and HoldLimit. The last two can last for hours, and are never sent again.
        """
        key = idempotency_key if idempotency_key is not None else new_ulid()
        members = json_value({"quote_id": quote_id, "buyer_ref": buyer_ref, "idempotency_key": key})
        with noting(key):
            return (await self.ask(OFFER_HOLD, members, timeout=timeout)).typed(Hold)

    async def hold_status(self, hold_id: str, *, timeout: float | None = None) -> Hold:
        """What became of a hold of this agent: see its `status`. Raises HoldNotFound."""
        return (await self.ask(OFFER_STATUS, {"hold_id": hold_id}, timeout=timeout)).typed(Hold)

    async def release(self, hold_id: str, *, timeout: float | None = None) -> Hold:
        """Ends a hold of this agent. To end it again changes nothing. Raises HoldNotFound, and HoldEnded for a hold
        that has ended in another way.
        """
        return (await self.ask(OFFER_RELEASE, {"hold_id": hold_id}, timeout=timeout)).typed(Hold)

    async def submit_lead(
        self,
        *,
        customer: arguments.Customer | Customer,
        consent: arguments.Consent | Consent,
        source_agent: str | arguments.SourceAgent | SourceAgent,
        vehicle_of_interest: arguments.VehicleOfInterest | VehicleOfInterest | None = None,
        trade_in: arguments.TradeIn | TradeIn | None = None,
        appointment: arguments.Appointment | Appointment | None = None,
        message: str | None = None,
        offer: arguments.LeadOffer | LeadOffer | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> SubmittedLead:
        """Sends the dealer a customer's request. The customer must have consented to exactly this.

        `source_agent` is the name of the buyer agent. It gets the form that the dealer's version has. `offer` has the
        `quote_id` or the `hold_id` that the lead is about. It needs a dealer that makes offers (`card.makes_offers`).
        From such a dealer, an anonymous sender gets `lead_secret`, which proves to `lead_status` whose lead it is.

        Without `idempotency_key`, the lead gets a new one. The response has it, and so has every error. A retry with
        the same key does not make a second lead, if the dealer's agent keeps the protocol. Because others exist, the
        client sends a lead again only if the dealer declares idempotency (`card.declares_idempotency`), or after

        - a failure before anything was sent (no connection),
        - an error of the dealer's agent that says `retryable`, such as RATE_LIMITED, but not INTERNAL_ERROR,
        - status 429, or 503 with `Retry-After`, which refuse a request before it is handled.

        After any other failure, `error.may_have_arrived` is true. Then send the same lead with `error.idempotency_key`.
        """
        if offer is not None and not self.card.makes_offers:
            raise InvalidRequest("This dealer makes no quotes and holds: send the lead without `offer`.")
        key = idempotency_key if idempotency_key is not None else new_ulid()
        given = {
            "customer": customer,
            "consent": consent,
            "source_agent": source_agent,
            "vehicle_of_interest": vehicle_of_interest,
            "trade_in": trade_in,
            "appointment": appointment,
            "message": message,
            "offer": offer,
            "idempotency_key": key,
        }
        members = json_value(given)
        with noting(key):
            response = await self.ask(LEAD_SUBMIT, fitting_lead(members, self.card), timeout=timeout)
            return response.typed(SubmittedLead).sent_with(response.message, key)

    async def lead_status(self, lead_id: str, *, secret: str | None = None, timeout: float | None = None) -> LeadState:
        """What became of a lead that this agent has sent, and of its visit.

        `secret` is the `lead_secret` of the response to the lead. An agent that signs or has a token needs none. Raises
        LeadNotFound, also for a wrong secret.
        """
        members = json_value({"lead_id": lead_id, "secret": secret})
        return (await self.ask(LEAD_STATUS, members, timeout=timeout)).typed(LeadState)

    async def move_visit(
        self,
        lead_id: str,
        appointment_at: str | datetime,
        *,
        duration_minutes: int | None = None,
        appointment_id: str | None = None,
        secret: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> LeadState:
        """Gives the visit of a lead another time. The visit gets a new `appointment_id`. `secret` is as for
        `lead_status`, and the key as for `hold`.

        Raises AppointmentTimeUnavailable, whose `details` have free `alternatives`, VisitEnded, VisitNotFound,
        LeadNotFound, and MissingRequiredField if the lead has several visits and `appointment_id` is not given.
        """
        given = {
            "lead_id": lead_id,
            "appointment_at": appointment_at,
            "duration_minutes": duration_minutes,
            "appointment_id": appointment_id,
            "secret": secret,
        }
        return await self._change_visit(VISIT_MOVE, given, idempotency_key, timeout)

    async def cancel_visit(
        self,
        lead_id: str,
        *,
        reason: str | None = None,
        appointment_id: str | None = None,
        secret: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> LeadState:
        """Cancels the visit of a lead. The dealer's staff see the `reason`. `secret` is as for `lead_status`, and the
        key as for `hold`.

        Raises VisitEnded, VisitNotFound, LeadNotFound, and MissingRequiredField as `move_visit` does.
        """
        given = {"lead_id": lead_id, "reason": reason, "appointment_id": appointment_id, "secret": secret}
        return await self._change_visit(VISIT_CANCEL, given, idempotency_key, timeout)

    async def _change_visit(
        self, skill: Skill, given: dict[str, Any], idempotency_key: str | None, timeout: float | None
    ) -> LeadState:
        """The lead after a change of its visit."""
        key = idempotency_key if idempotency_key is not None else new_ulid()
        members = json_value(given | {"idempotency_key": key})
        with noting(key):
            return (await self.ask(skill, members, timeout=timeout)).typed(LeadState)

    async def changes(
        self, *, cursor: str | None = None, limit: int | None = None, timeout: float | None = None
    ) -> StockChanges:
        """One page of the changes of the stock since a response, whose `cursor` you give. Without one, the whole stock
        begins. Raises CursorExpired for an old cursor: then begin again, and replace your copy.
        """
        members = json_value({"cursor": cursor, "limit": limit})
        return (await self.ask(INVENTORY_CHANGES, members, timeout=timeout)).typed(StockChanges)

    def changes_all(
        self, *, cursor: str | None = None, limit: int | None = None, timeout: float | None = None
    ) -> AsyncGenerator[StockChanges]:
        """All pages of `changes` until there are no more for now. Apply each page, then store its `cursor`.

            async for page in agent.changes_all(cursor=stored): ...

        `timeout` is that of each page.
        """

        async def page(since: str | None) -> StockChanges:
            return await self.changes(cursor=since, limit=limit, timeout=timeout)

        return every_change(page, cursor)
