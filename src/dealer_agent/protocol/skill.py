"""The five skills and the words that name them (specification, parts 1, 2.1 and 4). Pure types and one table."""

from dataclasses import dataclass

from dealer_agent.protocol.requests import (
    DealerInformationRequest,
    InventoryFacetsRequest,
    InventorySearchRequest,
    InventoryVehicleRequest,
    LeadSubmitRequest,
    Payload,
)


@dataclass(frozen=True, eq=False, slots=True)
class Skill:
    """One skill: its id, the `type` of its payloads, the stem of its media types, and what a card says of it."""

    id: str
    stem: str
    payload: type[Payload]
    name: str
    description: str
    tags: tuple[str, ...]

    @property
    def request_type(self) -> str:
        """The `type` of a request payload."""
        return f"{self.id}.request"

    @property
    def response_type(self) -> str:
        """The `type` of a response payload."""
        return f"{self.id}.response"


SKILLS: tuple[Skill, ...] = (
    Skill(
        "dealer.information",
        "dealer-information",
        DealerInformationRequest,
        "Dealer information",
        "Who the dealer is: rooftops, addresses, hours, phone numbers, capabilities and mandatory fees.",
        ("dealer", "rooftops", "hours"),
    ),
    Skill(
        "inventory.facets",
        "inventory-facets",
        InventoryFacetsRequest,
        "Inventory facets",
        "Which makes, models, prices and features the stock holds, with counts, optionally narrowed by filters.",
        ("inventory", "facets", "vehicles"),
    ),
    Skill(
        "inventory.search",
        "inventory-search",
        InventorySearchRequest,
        "Inventory search",
        "Finds vehicles in stock by filters and free text, page by page, in the order asked for.",
        ("inventory", "search", "vehicles"),
    ),
    Skill(
        "inventory.vehicle",
        "vehicle-detail",
        InventoryVehicleRequest,
        "Vehicle detail",
        "One vehicle by VIN, stock number or vehicle id, with the price offered in the buyer's ZIP code.",
        ("inventory", "vehicle", "vin"),
    ),
    Skill(
        "lead.submit",
        "lead-submit",
        LeadSubmitRequest,
        "Lead submission",
        "Takes a consenting customer's lead: a vehicle of interest, a trade-in, an appointment, or any mix of them.",
        ("lead", "appointment", "trade-in", "test-drive"),
    ),
)

SKILL_BY_REQUEST_TYPE: dict[str, Skill] = {skill.request_type: skill for skill in SKILLS}
SKILL_BY_ID: dict[str, Skill] = {skill.id: skill for skill in SKILLS}
SKILL_BY_PAYLOAD: dict[type[Payload], Skill] = {skill.payload: skill for skill in SKILLS}
