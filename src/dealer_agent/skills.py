"""READ FIRST: what the service does. One function a skill, and the table that picks it (specification, part 1).

A reading skill is a plain function from the dealer's snapshot to the JSON of the reply's `data`: no lock, no await, no
SQL. lead.submit decides purely and stores in one transaction; it answers when that is durable.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
from msgspec import UNSET

from dealer_agent.config.settings import SearchSettings
from dealer_agent.dealers.information import dealer_information
from dealer_agent.dealers.offers import offered_price
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.catalogue import Catalogue, RemovedUnit
from dealer_agent.lead_intake import LeadIntake
from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.errors import InternalError, ProtocolError, VehicleNotFound, VehicleUnavailable
from dealer_agent.protocol.problems import validation_error
from dealer_agent.protocol.replies import Answer
from dealer_agent.protocol.skill import (
    DealerInformationRequest,
    InventoryFacetsRequest,
    InventorySearchRequest,
    InventoryVehicleRequest,
    LeadSubmitRequest,
    Payload,
)


@dataclass(frozen=True, slots=True)
class Dealer:
    """What the skills know of one dealer: the profile, the stock as of now, and where leads go.

    A new import makes a new Dealer; a request keeps the one that it started with.
    """

    profile: Profile
    information: bytes
    catalogue: Catalogue
    desk: LeadIntake
    search: SearchSettings
    stock_at: datetime | None = None

    def with_stock(self, catalogue: Catalogue, at: datetime | None) -> "Dealer":
        """The same dealer with another snapshot of its stock, confirmed by the dealer's feed at `at`."""
        return replace(self, catalogue=catalogue, stock_at=at)


def dealer_of(profile: Profile, desk: LeadIntake, search: SearchSettings) -> Dealer:
    """The dealer of a profile, with nothing in stock yet: dealer.information's reply is made here, once."""
    about = msgspec.json.encode(dealer_information(profile))
    return Dealer(profile, about, Catalogue.build([]), desk, search)


def information(dealer: Dealer, _: DealerInformationRequest) -> Answer:
    """dealer.information (2.2; contract, part 5)."""
    return Answer(dealer.information)


def search(dealer: Dealer, request: InventorySearchRequest) -> Answer:
    """inventory.search (2.4 and 2.5; contract, part 7): a page of ready listings, `limit` capped by the dealer."""
    skip, limit = 0, dealer.search.default_limit
    if request.pagination:
        skip = request.pagination.skip or 0
        limit = min(request.pagination.limit or limit, dealer.search.limit_cap)
    page = dealer.catalogue.search(request.filters, skip, limit, request.sort)
    head = b'{"total":%d,"skip":%d,"limit":%d,"vehicles":[' % (page.total, skip, limit)
    rest = [b","] * max(1, 2 * len(page.listings))
    rest[:-1:2] = page.listings
    rest[-1] = b"]}"
    return Answer(head, rest=rest)


def facets(dealer: Dealer, request: InventoryFacetsRequest) -> Answer:
    """inventory.facets (2.3; contract, part 8): the values of the matching set, with counts."""
    return Answer(msgspec.json.encode(dealer.catalogue.facets(request.filters)))


def vehicle(dealer: Dealer, request: InventoryVehicleRequest) -> Answer:
    """inventory.vehicle (2.6; contract, part 9): one listing. Raises VehicleNotFound, VehicleUnavailable."""
    found = dealer.catalogue.find(request.vin, request.stock, request.vehicle_id)
    if found is None:
        raise VehicleNotFound("No listing has this VIN, stock number or vehicle id.")
    if isinstance(found, RemovedUnit):
        raise VehicleUnavailable("This vehicle is no longer available.", {"vehicle_id": found.vehicle_id})
    if request.zip is UNSET:
        return Answer(found.json)
    for_area: dict[str, Any] = {"zip": request.zip}
    offered = offered_price(found.vehicle, request.zip, dealer.profile.area_offers)
    if offered is not None:
        for_area["offered_price"] = offered
    return Answer(found.json[:-1] + b"," + msgspec.json.encode(for_area)[1:])


READING_SKILLS: dict[type[Payload], Callable[[Dealer, Any], Answer]] = {
    DealerInformationRequest: information,
    InventorySearchRequest: search,
    InventoryFacetsRequest: facets,
    InventoryVehicleRequest: vehicle,
}


def read(dealer: Dealer, request: Request) -> Answer:
    """The answer of a reading skill. Raises ProtocolError."""
    if request.payload is None:
        raise validation_error(list(request.problems), "payload")
    return READING_SKILLS[type(request.payload)](dealer, request.payload)


async def submit_lead(dealer: Dealer, request: Request, *, token_id: str | None, body: bytes, seconds: float) -> Answer:
    """lead.submit (2.7; contract, part 10): stored with its consent record before it is answered.

    `token_id` is the caller's, where it showed a token; `body` is the request as received: the consent record keeps its
    hash. `seconds` is the time that is left for the database. Raises StorageError, and ProtocolError: of a refused lead
    only code and time are stored. Exceptions are AppointmentTimeUnavailable, whose lead is stored, and InternalError,
    which is no refusal and leaves no such record.
    """
    now = datetime.now(UTC)
    try:
        if request.payload is None or request.plain is None:
            raise validation_error(list(request.problems), "payload")
        lead = cast(LeadSubmitRequest, request.payload)
        return await dealer.desk.take(
            lead, request.plain, dealer.catalogue, token_id=token_id, body=body, now=now, seconds=seconds
        )
    except InternalError:
        raise
    except ProtocolError as error:
        dealer.desk.note_refusal(error.code, now)
        raise
