"""READ THIRD: what the service does. One function for each skill (docs/protocol.md#skills).

The function of a reading skill makes the JSON of the response's `data` from the dealer's snapshot, without locks,
awaits and SQL. `submit_lead` stores the lead in one transaction, and answers when the transaction is durable. The
skills of the offers extension read and write the database, too.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import UNSET, Struct

from dealer_agent.callers import Caller
from dealer_agent.catalogue_loading.change_pages import ChangeReader
from dealer_agent.config.settings import SearchSettings
from dealer_agent.dealers.information import dealer_information
from dealer_agent.dealers.offered_price import offered_price
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.lead_intake.intake import LeadIntake
from dealer_agent.leads.received_lead import PreparedLead
from dealer_agent.offering.desk import OfferDesk
from dealer_agent.protocol.after_lead import LeadStatusRequest, VisitCancelRequest, VisitMoveRequest
from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.errors import InternalError, ProtocolError
from dealer_agent.protocol.offers import OfferHoldRequest, OfferQuoteRequest, OfferReleaseRequest, OfferStatusRequest
from dealer_agent.protocol.response_bodies import SkillResult
from dealer_agent.protocol.skill import (
    DealerInformationRequest,
    InventoryFacetsRequest,
    InventorySearchRequest,
    InventoryVehicleRequest,
    LeadSubmitRequest,
    Payload,
)
from dealer_agent.protocol.stock_changes import USUAL_CHANGES, InventoryChangesRequest


class TimedRequest(NamedTuple):
    """A valid request to a skill that needs the database. `seconds` is the time that is left to answer it."""

    payload: Payload
    caller: Caller
    now: datetime
    seconds: float


@dataclass(frozen=True, slots=True)
class PublicDealer:
    """All that the reading skills answer from. `information` is the JSON of the response to dealer.information."""

    profile: Profile
    information: bytes
    catalogue: Catalogue
    search: SearchSettings


@dataclass(frozen=True, slots=True)
class Dealer(PublicDealer):
    """The data that the skills answer from. An import of a feed makes a new Dealer; a request uses one to its end.

    `stock_at` is when the feed last confirmed the stock. `desk` makes offers, and `changes` reads the changes of the
    stock; None if the dealer has switched them off. `revision` is that of the stock.
    """

    lead_intake: LeadIntake
    stock_at: datetime | None = None
    desk: OfferDesk | None = None
    changes: ChangeReader | None = None
    revision: int = 0

    def with_stock(self, catalogue: Catalogue, at: datetime | None, revision: int) -> "Dealer":
        """The dealer with the snapshot of another revision of its stock, which the feed confirmed at `at`."""
        return replace(self, catalogue=catalogue, stock_at=at, revision=revision)


def dealer_of(
    profile: Profile,
    lead_intake: LeadIntake,
    search: SearchSettings,
    catalogue: Catalogue,
    stock_at: datetime | None,
    desk: OfferDesk | None = None,
    changes: ChangeReader | None = None,
    revision: int = 0,
) -> Dealer:
    """The dealer of a profile, with a snapshot of its stock."""
    public = public_dealer(profile, search, catalogue)
    return Dealer(profile, public.information, catalogue, search, lead_intake, stock_at, desk, changes, revision)


def public_dealer(profile: Profile, search: SearchSettings, catalogue: Catalogue) -> PublicDealer:
    """What the reading skills answer from, with a snapshot of the stock."""
    return PublicDealer(profile, msgspec.json.encode(dealer_information(profile)), catalogue, search)


def information(dealer: PublicDealer, _: DealerInformationRequest) -> SkillResult:
    """dealer.information (docs/protocol.md#dealer-information)."""
    return SkillResult(dealer.information)


def search(dealer: PublicDealer, request: InventorySearchRequest) -> SkillResult:
    """inventory.search (docs/protocol.md#inventory-search): a page of listings, whose JSON is in the snapshot."""
    skip, limit = 0, dealer.search.default_limit
    if request.pagination:
        skip = request.pagination.skip or 0
        limit = min(request.pagination.limit or limit, dealer.search.limit_cap)
    page = dealer.catalogue.search(request.filters, skip, limit, request.sort)
    head = b'{"total":%d,"skip":%d,"limit":%d,"vehicles":[' % (page.total, skip, limit)
    rest = [b","] * max(1, 2 * len(page.listings))
    rest[:-1:2] = page.listings
    rest[-1] = b"]}"
    return SkillResult(head, rest=rest)


def facets(dealer: PublicDealer, request: InventoryFacetsRequest) -> SkillResult:
    """inventory.facets (docs/protocol.md#inventory-facets): the values of the matching listings, with counts."""
    return SkillResult(msgspec.json.encode(dealer.catalogue.facets(request.filters)))


def vehicle(dealer: PublicDealer, request: InventoryVehicleRequest) -> SkillResult:
    """inventory.vehicle (docs/protocol.md#inventory-vehicle). Raises VehicleNotFound and VehicleUnavailable."""
    listing = dealer.catalogue.listing(request.vin, request.stock, request.vehicle_id)
    if request.zip is UNSET:
        return SkillResult(listing.json)
    for_area: dict[str, Any] = {"zip": request.zip}
    offered = offered_price(listing.vehicle, request.zip, dealer.profile.area_offers)
    if offered is not None:
        for_area["offered_price"] = offered
    return SkillResult(listing.json[:-1] + b"," + msgspec.json.encode(for_area)[1:])


def with_hold(result: SkillResult, held_until: str) -> SkillResult:
    """The response of inventory.vehicle, with the end of a hold of the vehicle (docs/protocol.md#offer-held)."""
    return result._replace(data=b'%b,"held_until":"%b"}' % (result.data[:-1], held_until.encode()))


READING_SKILLS: dict[type[Payload], Callable[[PublicDealer, Any], SkillResult]] = {
    DealerInformationRequest: information,
    InventorySearchRequest: search,
    InventoryFacetsRequest: facets,
    InventoryVehicleRequest: vehicle,
}


def read(dealer: PublicDealer, request: Request) -> SkillResult:
    """The response of a reading skill to a valid payload. Raises ProtocolError."""
    assert request.payload is not None, "the payload is checked before"
    return READING_SKILLS[type(request.payload)](dealer, request.payload)


async def submit_lead(
    dealer: Dealer,
    request: Request,
    *,
    caller: Caller,
    quarantined: bool,
    body: bytes,
    seconds: float,
    names_offers: bool = False,
) -> SkillResult:
    """lead.submit (docs/protocol.md#lead-submit), for a valid payload.

    `body` is the body as received: the consent record has its hash. A `quarantined` lead waits for a person of the
    dealer. `seconds` is the time left for the database. `names_offers`: the request names the offers extension, so the
    response to an anonymous sender's new lead has its secret (docs/protocol.md#lead-secret).

    Raises StorageError and ProtocolError. Only code and time of a refused lead are stored. There are two exceptions:
    with AppointmentTimeUnavailable the lead is stored, and with InternalError nothing is.
    """
    now = datetime.now(UTC)
    try:
        assert request.plain is not None, "the payload is checked before"
        typed = cast(LeadSubmitRequest, request.payload)
        wants_secret = names_offers and not caller.is_known
        secrets = dealer.desk.leads.secrets if wants_secret and dealer.desk is not None else None
        lead = PreparedLead.of(
            typed, request.plain, caller, body, request.version, quarantined=quarantined, secrets=secrets
        )
        return await dealer.lead_intake.submit(lead, dealer.catalogue, now, seconds)
    except InternalError:
        raise
    except ProtocolError as error:
        dealer.lead_intake.note_refused(error.code, now)
        raise


async def quote(dealer: Dealer, desk: OfferDesk, timed: TimedRequest) -> SkillResult:
    """offer.quote (docs/protocol.md#offer-quote). Raises ProtocolError and StorageError, as the skills below."""
    request = cast(OfferQuoteRequest, timed.payload)
    document = await desk.quote(request, timed.caller, dealer.catalogue, dealer.stock_at, timed.now, timed.seconds)
    return SkillResult(document)


async def hold(dealer: Dealer, desk: OfferDesk, timed: TimedRequest) -> SkillResult:
    """offer.hold (docs/protocol.md#offer-hold)."""
    request = cast(OfferHoldRequest, timed.payload)
    return _encoded(await desk.hold(request, timed.caller, dealer.catalogue, timed.now, timed.seconds))


async def release(dealer: Dealer, desk: OfferDesk, timed: TimedRequest) -> SkillResult:
    """offer.release (docs/protocol.md#offer-hold)."""
    request = cast(OfferReleaseRequest, timed.payload)
    return _encoded(await desk.release(request, timed.caller, dealer.catalogue, timed.now, timed.seconds))


async def status(dealer: Dealer, desk: OfferDesk, timed: TimedRequest) -> SkillResult:
    """offer.status (docs/protocol.md#offer-hold)."""
    request = cast(OfferStatusRequest, timed.payload)
    return _encoded(await desk.status(request, timed.caller, dealer.catalogue, timed.now, timed.seconds))


async def lead_status(_: Dealer, desk: OfferDesk, timed: TimedRequest) -> SkillResult:
    """lead.status (docs/protocol.md#lead-status)."""
    request = cast(LeadStatusRequest, timed.payload)
    return SkillResult(await desk.leads.status(request, timed.caller, timed.now, timed.seconds))


async def move_visit(_: Dealer, desk: OfferDesk, timed: TimedRequest) -> SkillResult:
    """visit.move (docs/protocol.md#visit-move)."""
    request = cast(VisitMoveRequest, timed.payload)
    return SkillResult(await desk.leads.move(request, timed.caller, timed.now, timed.seconds))


async def cancel_visit(_: Dealer, desk: OfferDesk, timed: TimedRequest) -> SkillResult:
    """visit.cancel (docs/protocol.md#visit-cancel)."""
    request = cast(VisitCancelRequest, timed.payload)
    return SkillResult(await desk.leads.cancel(request, timed.caller, timed.now, timed.seconds))


def _encoded(data: Struct) -> SkillResult:
    return SkillResult(msgspec.json.encode(data))


async def changes(dealer: Dealer, _: OfferDesk, timed: TimedRequest) -> SkillResult:
    """inventory.changes (docs/protocol.md#inventory-changes). Reads the database in a thread."""
    request = cast(InventoryChangesRequest, timed.payload)
    assert dealer.changes is not None, "the skill is switched on"
    cursor = None if request.cursor is UNSET else request.cursor
    limit = USUAL_CHANGES if request.limit is UNSET else request.limit
    return SkillResult(await dealer.changes.answer(cursor, limit, dealer.revision, timed.now, timed.seconds))


OFFER_SKILLS: dict[type[Payload], Callable[[Dealer, OfferDesk, TimedRequest], Awaitable[SkillResult]]] = {
    InventoryChangesRequest: changes,
    OfferQuoteRequest: quote,
    OfferHoldRequest: hold,
    OfferReleaseRequest: release,
    OfferStatusRequest: status,
    LeadStatusRequest: lead_status,
    VisitMoveRequest: move_visit,
    VisitCancelRequest: cancel_visit,
}


async def answer_offer(dealer: Dealer, timed: TimedRequest) -> SkillResult:
    """The response of a skill of the offers extension. Raises ProtocolError and StorageError."""
    assert dealer.desk is not None, "the skill is switched on"
    return await OFFER_SKILLS[type(timed.payload)](dealer, dealer.desk, timed)
