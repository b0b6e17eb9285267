"""Defects for the checks of listings: agents that send a malformed vehicle, the same one in all their responses."""

from collections.abc import Mapping
from typing import Any

from dealer_agent.self_test.defect import Agent, AgentResponse, Breaking, Call, Change, broken
from dealer_agent.self_test.reading import INFORMATION, MEMBERS, SEARCH, STOCK, VEHICLE, anything, changes, id_of

_ROWS = [row for row in STOCK if row["dc_fast_charge"] != "true" and row["status"] == "available" and row["price"]]
BROKEN, OTHER = _ROWS[-7]["vin"], _ROWS[-9]["vin"]
"""The VIN of the vehicle that is broken, and of one that it is mistaken for."""

MALFORMED: Mapping[str, Any] = {
    **dict.fromkeys(MEMBERS, 7),
    "rooftop": ["here"],
    "updated_at": "yesterday",
    "changed_at": "2026-04-30T08:42:00",
    "condition": ["new"],
    "vin": "SHORT",
    "year": "new",
    "price": "$30,000",
    "list_price": "$30,000",
    "msrp": "$30,000",
    "fees": [{"amount": 1}],
    "mileage": "7 miles",
    "displacement_cc": "2.0 l",
    "city_mpg": "good",
    "highway_mpg": "good",
    "electric_range_mi": "far",
    "battery_kwh": "large",
    "motor_power_hp": "strong",
    "dc_fast_charge": "no",
    "features": "Heated seats",
    "photos": ["/1.jpg"],
    "vdp_url": "/vehicle/1",
    "other_attributes": [],
    "inventory_date": "today",
}


def _breaks(change: Change) -> Breaking:
    """Changes the listing of one vehicle in all responses."""

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        honest = await agent(call)
        if call.skill not in (SEARCH, VEHICLE) or honest.data is None:
            return honest

        def change_all(data: dict[str, Any]) -> None:
            for listing in data.get("vehicles", [data]):
                if listing.get("vin") == BROKEN:
                    change(listing)

        return honest.with_data(change_all)

    return answer


for _member, _value in MALFORMED.items():
    broken(f"listing.{id_of(_member)}")(
        _breaks(lambda listing, member=_member, value=_value: listing.update({member: value}))  # type: ignore[misc]
    )
for _member in ("vehicle_id", "status", "rooftop", "updated_at"):
    broken(f"listing.has-{id_of(_member)}")(
        _breaks(lambda listing, member=_member: listing.pop(member))  # type: ignore[misc]
    )

broken("listing.no-null")(_breaks(lambda listing: listing.update(notes=None)))
for _name in ("listing.one-vin", "listing.vin-of-one-vehicle"):
    broken(_name)(_breaks(lambda listing: listing.update(vin=OTHER)))
broken("listing.fees-inside-price")(
    _breaks(lambda listing: listing.update(fees=[{"name": "Documentation fee", "amount": 1_000_000}]))
)
broken("listing.fee-names")(_breaks(lambda listing: listing.update(fees=2 * [{"name": "Fee", "amount": 1}])))


def _give_one_id(data: dict[str, Any]) -> None:
    """Gives two vehicles the same vehicle_id."""
    for listing in data["vehicles"]:
        if listing.get("vin") in (BROKEN, OTHER):
            listing["vehicle_id"] = "the-same"


broken("listing.one-vehicle-id")(changes(SEARCH, anything, _give_one_id))
broken("listing.rooftop-known")(
    changes(INFORMATION, anything, lambda data: data["rooftops"][0].update(name="Elsewhere"))
)
