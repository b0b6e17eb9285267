"""Defines the skills: request type, response type and record of each (docs/protocol.md#skills). Pure.

To add a skill, add its types and its record here, its function to `skills.py`, and its documentation to
`apidocs/skill_docs.json`. The docstrings of the types are the descriptions in the published schemas.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from dealer_agent.protocol.after_lead import LeadState, LeadStatusRequest, VisitCancelRequest, VisitMoveRequest
from dealer_agent.protocol.offers import (
    Hold,
    LeadOffer,
    OfferHoldRequest,
    OfferQuoteRequest,
    OfferReleaseRequest,
    OfferStatusRequest,
    Quote,
)
from dealer_agent.protocol.requests import (
    Appointment,
    Customer,
    Filters,
    Name,
    Pagination,
    Privacy,
    RequestPayload,
    Sort,
    SourceAgent,
    Timestamp,
    TradeIn,
    VehicleOfInterest,
)
from dealer_agent.protocol.responses import AppointmentReply, DealerContact, Facets, LeadStatus, Rooftop
from dealer_agent.protocol.stock_changes import InventoryChangesRequest, StockChanges
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.protocol.vehicle_field import Natural, Word


class DealerInformationRequest(RequestPayload, tag="dealer.information.request", frozen=True):
    """Asks who the dealer is. The request has only `type`."""


class DealerInformation(Struct, frozen=True):
    """Who the dealer is. At least one rooftop."""

    name: str
    rooftops: tuple[Rooftop, ...]
    welcome_message: str | UnsetType = UNSET


class InventoryFacetsRequest(RequestPayload, tag="inventory.facets.request", frozen=True):
    """Asks which values occur in the stock, and how often."""

    filters: Filters | UnsetType = UNSET


class InventorySearchRequest(RequestPayload, tag="inventory.search.request", frozen=True):
    """Asks for one page of the matching stock."""

    filters: Filters | UnsetType = UNSET
    pagination: Pagination | UnsetType = UNSET
    sort: Sort | UnsetType = UNSET
    privacy: Privacy | UnsetType = UNSET


class SearchPage(Struct, frozen=True):
    """One page; `skip` and `limit` as they were applied."""

    total: Natural
    skip: Natural
    limit: Natural
    vehicles: list[Vehicle]


class InventoryVehicleRequest(RequestPayload, tag="inventory.vehicle.request", frozen=True):
    """Asks for one vehicle. At least one of `vin`, `stock` and `vehicle_id` is required; of several, the first that
    matches decides.
    """

    vin: Word | UnsetType = UNSET
    stock: Word | UnsetType = UNSET
    vehicle_id: Word | UnsetType = UNSET
    zip: Annotated[str, Meta(min_length=1, max_length=16)] | UnsetType = UNSET


class VehicleDetail(Vehicle, frozen=True, kw_only=True, omit_defaults=True):
    """The listing, and what the buyer's ZIP code adds. `held_until`: an agent holds the vehicle until then. Only for a
    request that names the offers extension.
    """

    zip: str | UnsetType = UNSET
    offered_price: Natural | UnsetType = UNSET
    held_until: str | UnsetType = UNSET


# Only for objects: a value of another type gets one problem, its wrong type.
_BOTH_FORMS = {"type": "object", "required": ["requested_windows", "appointment_at"]}


class LeadSubmitRequest(RequestPayload, tag="lead.submit.request", frozen=True):
    """A customer who consented, and any combination of a vehicle of interest, a trade-in and an appointment."""

    customer: Customer
    source_agent: Name | SourceAgent
    # Any value decodes: `leads.consent` finds its defects, which have their own codes (docs/protocol.md#consent).
    consent: Any = UNSET
    vehicle_of_interest: VehicleOfInterest | UnsetType = UNSET
    trade_in: TradeIn | UnsetType = UNSET
    appointment: Annotated[Appointment, Meta(extra_json_schema={"not": _BOTH_FORMS})] | UnsetType = UNSET
    message: Annotated[str, Meta(max_length=4000)] | UnsetType = UNSET
    submitted_at: Timestamp | UnsetType = UNSET
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=128)] | UnsetType = UNSET
    offer: LeadOffer | UnsetType = UNSET


class LeadReceipt(Struct, frozen=True, kw_only=True):
    """What became of the lead. `lead_secret` is for an anonymous sender that names the offers extension."""

    lead_id: str
    status: Literal[LeadStatus, "rejected"]
    appointment: AppointmentReply | UnsetType = UNSET
    dealer: DealerContact | UnsetType = UNSET
    lead_secret: str | UnsetType = UNSET


READ_SCOPE = "inventory:read"
LEAD_SCOPE = "leads:write"
QUOTE_SCOPE = "quotes:write"
HOLD_SCOPE = "holds:write"
LEAD_READ_SCOPE = "leads:read"
VISIT_SCOPE = "visits:write"
SCOPES = {
    READ_SCOPE: "Read the dealer, the stock and vehicles.",
    LEAD_SCOPE: "Send leads.",
    QUOTE_SCOPE: "Ask for quotes.",
    HOLD_SCOPE: "Hold vehicles, and release them.",
    LEAD_READ_SCOPE: "See what became of the leads that it has sent.",
    VISIT_SCOPE: "Move and cancel the visits of the leads that it has sent.",
}
"""The scopes of access tokens, with what each allows (docs/protocol.md#scopes)."""
DMC12_SCOPES = {
    "pricing:read": READ_SCOPE,
    "quote:write": QUOTE_SCOPE,
    "reservation:write": HOLD_SCOPE,
    "deal:handoff": LEAD_SCOPE,
}
"""Other scopes that DMC-12 has, with the scope that each means here. It calls `inventory:read` as we do."""

ReadingPayload = DealerInformationRequest | InventoryFacetsRequest | InventorySearchRequest | InventoryVehicleRequest
AfterLeadPayload = LeadStatusRequest | VisitMoveRequest | VisitCancelRequest
OfferPayload = OfferQuoteRequest | OfferHoldRequest | OfferReleaseRequest | OfferStatusRequest
StoredPayload = InventoryChangesRequest | OfferPayload | AfterLeadPayload
"""The payloads of the skills of the offers extension. They are answered from the database."""
Payload = ReadingPayload | LeadSubmitRequest | StoredPayload


@dataclass(frozen=True, eq=False, slots=True)
class Skill:
    """One skill. `payload` is the type of a request payload, and `data` that of the `data` in a response payload.

    `stem` is the middle of the media types. `default_rate` is the rate limit of one client. `scope` is what an access
    token must have (docs/protocol.md#scopes). `is_extension`: it belongs to the offers extension
    (docs/protocol.md#offers), which a dealer switches on, and no published version has it. `is_after_lead`: it is about
    a lead that the same caller has sent, so it is off where `lead.submit` is.
    """

    id: str
    stem: str
    payload: type[Payload]
    data: Any
    name: str
    description: str
    tags: tuple[str, ...]
    default_rate: str
    scope: str
    is_lead: bool = False
    is_extension: bool = False
    is_after_lead: bool = False

    @property
    def request_type(self) -> str:
        """The `type` of a request payload."""
        return f"{self.id}.request"

    @property
    def response_type(self) -> str:
        """The `type` of a response payload."""
        return f"{self.id}.response"

    @property
    def acts_for_caller(self) -> bool:
        """Whether it does something in the name of its caller, or answers what only this caller may know."""
        return self.scope not in (READ_SCOPE, QUOTE_SCOPE)

    @property
    def rate_setting(self) -> str:
        """The setting under `[rate_limits]` that replaces `default_rate`."""
        return self.id.replace(".", "_")


DEALER_INFORMATION = Skill(
    id="dealer.information",
    stem="dealer-information",
    payload=DealerInformationRequest,
    data=DealerInformation,
    name="Dealer information",
    description="Who the dealer is: rooftops, addresses, hours, phone numbers, capabilities and mandatory fees.",
    tags=("dealer", "rooftops", "hours"),
    default_rate="600/minute",
    scope=READ_SCOPE,
)
INVENTORY_FACETS = Skill(
    id="inventory.facets",
    stem="inventory-facets",
    payload=InventoryFacetsRequest,
    data=Facets,
    name="Inventory facets",
    description="Which makes, models, prices and features the stock holds, with counts, optionally narrowed by "
    "filters.",
    tags=("inventory", "facets", "vehicles"),
    default_rate="600/minute",
    scope=READ_SCOPE,
)
INVENTORY_SEARCH = Skill(
    id="inventory.search",
    stem="inventory-search",
    payload=InventorySearchRequest,
    data=SearchPage,
    name="Inventory search",
    description="Finds vehicles in stock by filters and free text, page by page, in the requested order.",
    tags=("inventory", "search", "vehicles"),
    default_rate="600/minute",
    scope=READ_SCOPE,
)
INVENTORY_VEHICLE = Skill(
    id="inventory.vehicle",
    stem="vehicle-detail",
    payload=InventoryVehicleRequest,
    data=VehicleDetail,
    name="Vehicle detail",
    description="One vehicle by VIN, stock number or vehicle id, with the price offered in the buyer's ZIP code.",
    tags=("inventory", "vehicle", "vin"),
    default_rate="1200/minute",
    scope=READ_SCOPE,
)
LEAD_SUBMIT = Skill(
    id="lead.submit",
    stem="lead-submit",
    payload=LeadSubmitRequest,
    data=LeadReceipt,
    name="Lead submission",
    description="Sends the dealer a lead of a customer who consents to it. A lead can have a vehicle of interest, a "
    "trade-in and an appointment.",
    tags=("lead", "appointment", "trade-in", "test-drive"),
    default_rate="10/minute",
    scope=LEAD_SCOPE,
    is_lead=True,
)

INVENTORY_CHANGES = Skill(
    id="inventory.changes",
    stem="inventory-changes",
    payload=InventoryChangesRequest,
    data=StockChanges,
    name="Inventory changes",
    description="The whole stock page by page, and then what was added, changed and removed since the last response.",
    tags=("inventory", "changes", "vehicles"),
    default_rate="300/minute",
    scope=READ_SCOPE,
    is_extension=True,
)
OFFER_QUOTE = Skill(
    id="offer.quote",
    stem="offer-quote",
    payload=OfferQuoteRequest,
    data=Quote,
    name="Quote",
    description="The all-in price of one vehicle, line by line, with a firm price that the dealer keeps for a while, "
    "signed by the dealer.",
    tags=("offer", "quote", "price", "vehicle"),
    default_rate="60/minute; 5000/day",
    scope=QUOTE_SCOPE,
    is_extension=True,
)
OFFER_HOLD = Skill(
    id="offer.hold",
    stem="offer-hold",
    payload=OfferHoldRequest,
    data=Hold,
    name="Hold",
    description="Keeps a quoted vehicle for a known agent for a while. Only one agent can hold a vehicle.",
    tags=("offer", "hold", "reservation", "vehicle"),
    default_rate="20/minute; 100/day",
    scope=HOLD_SCOPE,
    is_extension=True,
)
OFFER_RELEASE = Skill(
    id="offer.release",
    stem="offer-release",
    payload=OfferReleaseRequest,
    data=Hold,
    name="Release",
    description="Ends a hold of the same agent.",
    tags=("offer", "hold", "release"),
    default_rate="60/minute",
    scope=HOLD_SCOPE,
    is_extension=True,
)
OFFER_STATUS = Skill(
    id="offer.status",
    stem="offer-status",
    payload=OfferStatusRequest,
    data=Hold,
    name="Hold status",
    description="What became of a hold of the same agent.",
    tags=("offer", "hold", "status"),
    default_rate="120/minute",
    scope=HOLD_SCOPE,
    is_extension=True,
)

LEAD_STATUS = Skill(
    id="lead.status",
    stem="lead-status",
    payload=LeadStatusRequest,
    data=LeadState,
    name="Lead status",
    description="What became of a lead of the same agent, and of its visit.",
    tags=("lead", "appointment", "status"),
    default_rate="60/minute",
    scope=LEAD_READ_SCOPE,
    is_extension=True,
    is_after_lead=True,
)
VISIT_MOVE = Skill(
    id="visit.move",
    stem="visit-move",
    payload=VisitMoveRequest,
    data=LeadState,
    name="Move a visit",
    description="Gives the visit of a lead of the same agent another time. If it is not free, names free ones.",
    tags=("appointment", "move", "test-drive"),
    default_rate="20/minute",
    scope=VISIT_SCOPE,
    is_extension=True,
    is_after_lead=True,
)
VISIT_CANCEL = Skill(
    id="visit.cancel",
    stem="visit-cancel",
    payload=VisitCancelRequest,
    data=LeadState,
    name="Cancel a visit",
    description="Cancels the visit of a lead of the same agent.",
    tags=("appointment", "cancel", "test-drive"),
    default_rate="20/minute",
    scope=VISIT_SCOPE,
    is_extension=True,
    is_after_lead=True,
)

SKILLS: tuple[Skill, ...] = (
    DEALER_INFORMATION,
    INVENTORY_FACETS,
    INVENTORY_SEARCH,
    INVENTORY_VEHICLE,
    LEAD_SUBMIT,
)
"""The skills of the protocol."""
AFTER_LEAD_SKILLS: tuple[Skill, ...] = (LEAD_STATUS, VISIT_MOVE, VISIT_CANCEL)
OFFER_SKILLS: tuple[Skill, ...] = (OFFER_QUOTE, OFFER_HOLD, OFFER_RELEASE, OFFER_STATUS)
EXTENSION_SKILLS = (INVENTORY_CHANGES, *OFFER_SKILLS, *AFTER_LEAD_SKILLS)
"""The skills of the offers extension."""
ALL_SKILLS = SKILLS + EXTENSION_SKILLS

SKILL_BY_REQUEST_TYPE: dict[str, Skill] = {skill.request_type: skill for skill in ALL_SKILLS}
SKILL_BY_ID: dict[str, Skill] = {skill.id: skill for skill in ALL_SKILLS}
SKILL_BY_PAYLOAD: dict[type[Payload], Skill] = {skill.payload: skill for skill in ALL_SKILLS}
