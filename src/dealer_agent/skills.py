"""READ FIRST: what the service does. One function for each skill (docs/protocol.md#skills).

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
from dealer_agent.dealers.information import dealer_information, offered_price
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.catalogue import Catalogue, RemovedUnit
from dealer_agent.lead_intake.intake import LeadIntake
from dealer_agent.leads.received_lead import PreparedLead
from dealer_agent.offering.desk import OfferDesk
from dealer_agent.protocol.after_lead import LeadStatusRequest, VisitCancelRequest, VisitMoveRequest
from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.errors import InternalError, ProtocolError, VehicleNotFound, VehicleUnavailable
from dealer_agent.protocol.offers import (
    OfferHoldRequest,
    OfferQuoteRequest,
    OfferReleaseRequest,
    OfferStatusRequest,
)
from dealer_agent.protocol.response_bodies import SkillResponse
from dealer_agent.protocol.skill import (
    DealerInformationRequest,
    InventoryFacetsRequest,
    InventorySearchRequest,
    InventoryVehicleRequest,
    LeadSubmitRequest,
    Payload,
)
from dealer_agent.protocol.stock_changes import USUAL_CHANGES, InventoryChangesRequest


class Asked(NamedTuple):
    """A valid request to a skill that needs the database. `seconds` is the time left for it."""

    payload: Payload
    caller: Caller
    now: datetime
    seconds: float


@dataclass(frozen=True, slots=True)
class Dealer:
    """The data that the skills answer from. An import of a feed makes a new Dealer; a request uses one to its end.

    `information` is the JSON of the response to dealer.information. `stock_at` is when the feed last confirmed the
    stock. `desk` makes offers, and `changes` reads the changes of the stock; None if the dealer has switched them off.
    `revision` is that of the stock.
    """

    profile: Profile
    information: bytes
    catalogue: Catalogue
    lead_intake: LeadIntake
    search: SearchSettings
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
    about = msgspec.json.encode(dealer_information(profile))
    return Dealer(profile, about, catalogue, lead_intake, search, stock_at, desk, changes, revision)


def information(dealer: Dealer, _: DealerInformationRequest) -> SkillResponse:
    """dealer.information (docs/protocol.md#dealer-information)."""
    return SkillResponse(dealer.information)


def search(dealer: Dealer, request: InventorySearchRequest) -> SkillResponse:
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
    return SkillResponse(head, rest=rest)


def facets(dealer: Dealer, request: InventoryFacetsRequest) -> SkillResponse:
    """inventory.facets (docs/protocol.md#inventory-facets): the values of the matching listings, with counts."""
    return SkillResponse(msgspec.json.encode(dealer.catalogue.facets(request.filters)))


def vehicle(dealer: Dealer, request: InventoryVehicleRequest) -> SkillResponse:
    """inventory.vehicle (docs/protocol.md#inventory-vehicle). Raises VehicleNotFound and VehicleUnavailable."""
    found = dealer.catalogue.find(request.vin, request.stock, request.vehicle_id)
    if found is None:
        raise VehicleNotFound("No listing has this VIN, stock number or vehicle id.")
    if isinstance(found, RemovedUnit):
        raise VehicleUnavailable("This vehicle is no longer available.", {"vehicle_id": found.vehicle_id})
    if request.zip is UNSET:
        return SkillResponse(found.json)
    for_area: dict[str, Any] = {"zip": request.zip}
    offered = offered_price(found.vehicle, request.zip, dealer.profile.area_offers)
    if offered is not None:
        for_area["offered_price"] = offered
    return SkillResponse(found.json[:-1] + b"," + msgspec.json.encode(for_area)[1:])


READING_SKILLS: dict[type[Payload], Callable[[Dealer, Any], SkillResponse]] = {
    DealerInformationRequest: information,
    InventorySearchRequest: search,
    InventoryFacetsRequest: facets,
    InventoryVehicleRequest: vehicle,
}


def read(dealer: Dealer, request: Request) -> SkillResponse:
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
) -> SkillResponse:
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


async def quote(dealer: Dealer, desk: OfferDesk, asked: Asked) -> SkillResponse:
    """offer.quote (docs/protocol.md#offer-quote). Raises ProtocolError and StorageError, as the skills below."""
    request = cast(OfferQuoteRequest, asked.payload)
    document = await desk.quote(request, asked.caller, dealer.catalogue, dealer.stock_at, asked.now, asked.seconds)
    return SkillResponse(document)


async def hold(dealer: Dealer, desk: OfferDesk, asked: Asked) -> SkillResponse:
    """offer.hold (docs/protocol.md#offer-hold)."""
    request = cast(OfferHoldRequest, asked.payload)
    return _encoded(await desk.hold(request, asked.caller, dealer.catalogue, asked.now, asked.seconds))


async def release(dealer: Dealer, desk: OfferDesk, asked: Asked) -> SkillResponse:
    """offer.release (docs/protocol.md#offer-hold)."""
    request = cast(OfferReleaseRequest, asked.payload)
    return _encoded(await desk.release(request, asked.caller, dealer.catalogue, asked.now, asked.seconds))


async def status(dealer: Dealer, desk: OfferDesk, asked: Asked) -> SkillResponse:
    """offer.status (docs/protocol.md#offer-hold)."""
    request = cast(OfferStatusRequest, asked.payload)
    return _encoded(await desk.status(request, asked.caller, dealer.catalogue, asked.now, asked.seconds))


async def lead_status(_: Dealer, desk: OfferDesk, asked: Asked) -> SkillResponse:
    """lead.status (docs/protocol.md#lead-status)."""
    request = cast(LeadStatusRequest, asked.payload)
    return SkillResponse(await desk.leads.status(request, asked.caller, asked.now, asked.seconds))


async def move_visit(_: Dealer, desk: OfferDesk, asked: Asked) -> SkillResponse:
    """visit.move (docs/protocol.md#visit-move)."""
    request = cast(VisitMoveRequest, asked.payload)
    return SkillResponse(await desk.leads.move(request, asked.caller, asked.now, asked.seconds))


async def cancel_visit(_: Dealer, desk: OfferDesk, asked: Asked) -> SkillResponse:
    """visit.cancel (docs/protocol.md#visit-cancel)."""
    request = cast(VisitCancelRequest, asked.payload)
    return SkillResponse(await desk.leads.cancel(request, asked.caller, asked.now, asked.seconds))


def _encoded(data: Struct) -> SkillResponse:
    return SkillResponse(msgspec.json.encode(data))


async def changes(dealer: Dealer, _: OfferDesk, asked: Asked) -> SkillResponse:
    """inventory.changes (docs/protocol.md#inventory-changes). Reads the database in a thread."""
    request = cast(InventoryChangesRequest, asked.payload)
    assert dealer.changes is not None, "the skill is switched on"
    cursor = None if request.cursor is UNSET else request.cursor
    limit = USUAL_CHANGES if request.limit is UNSET else request.limit
    return SkillResponse(await dealer.changes.answer(cursor, limit, dealer.revision, asked.now, asked.seconds))


OFFER_SKILLS: dict[type[Payload], Callable[[Dealer, OfferDesk, Asked], Awaitable[SkillResponse]]] = {
    InventoryChangesRequest: changes,
    OfferQuoteRequest: quote,
    OfferHoldRequest: hold,
    OfferReleaseRequest: release,
    OfferStatusRequest: status,
    LeadStatusRequest: lead_status,
    VisitMoveRequest: move_visit,
    VisitCancelRequest: cancel_visit,
}


async def answer_offer(dealer: Dealer, asked: Asked) -> SkillResponse:
    """The response of a skill of the offers extension. Raises ProtocolError and StorageError."""
    assert dealer.desk is not None, "the skill is switched on"
    return await OFFER_SKILLS[type(asked.payload)](dealer, dealer.desk, asked)
