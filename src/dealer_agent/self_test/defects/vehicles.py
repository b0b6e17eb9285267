"""Defects for the checks of inventory.vehicle: agents that return a wrong vehicle, or refuse one that they have."""

from typing import Any

from dealer_agent.self_test.defect import Agent, AgentResponse, Call, broken
from dealer_agent.self_test.reading import (
    STOCK,
    VEHICLE,
    VIN,
    Chosen,
    Members,
    changes,
    exactly,
    members_of,
    reads,
    refuses,
)

_ELSE = {"vin": "5UXZZZ11X11Z11111", "stock": "ELSE-1", "vehicle_id": "else-1"}
_UNKNOWN = {"vin": "5UXZZZ00X00Z00000", "stock": "QZXVWK-0", "vehicle_id": "qzxvwk-0"}


def _requests_by(*names: str) -> Chosen:
    """Requests that have exactly these members."""
    return lambda members: set(members) == set(names)


def _with_zip(members: Members) -> bool:
    """Requests with a ZIP code."""
    return isinstance(members.get("zip"), str)


def _changes_data(chosen: Chosen, **members: Any) -> Any:
    """Sets members of the vehicle in a response."""
    return changes(VEHICLE, chosen, lambda listing: listing.update(members))


def _by_upper_case(name: str) -> Chosen:
    """Requests by one identifier. A VIN in lower case belongs to `vehicle.vin-case`."""
    return lambda members: _requests_by(name)(members) and not (name == "vin" and str(members[name]).islower())


for _name, _value in _ELSE.items():
    broken(f"vehicle.by-{_name.replace('_', '-')}")(_changes_data(_by_upper_case(_name), **{_name: _value}))
    if _name != "vin":
        broken(f"vehicle.unknown-{_name.replace('_', '-')}")(
            reads(VEHICLE, exactly({_name: _UNKNOWN[_name]}), lambda _: {"vin": VIN})
        )


def _change_model(listing: dict[str, Any]) -> None:
    """Changes the model of a listing."""
    listing["model"] += "!"


broken("vehicle.same-listing")(changes(VEHICLE, _requests_by("vin"), _change_model))
broken("vehicle.same-listing", name="vehicle.same-listing.condition")(
    changes(
        VEHICLE,
        _requests_by("vin"),
        lambda listing: listing.get("condition") == "cpo" and listing.update(condition="used"),
    )
)
broken("vehicle.same-listing", name="vehicle.same-listing.vehicle-id")(
    _changes_data(_requests_by("vin"), vehicle_id="detail-1")
)
_SOME = {row["vin"] for row in STOCK[7::10]}
broken("vehicle.by-vin", name="vehicle.by-vin.some")(
    changes(VEHICLE, lambda members: members.get("vin") in _SOME, lambda listing: listing.update(vin=_ELSE["vin"]))
)
broken("vehicle.same-listing", name="vehicle.same-listing.stock")(
    changes(VEHICLE, lambda members: members.get("vin") in _SOME, lambda listing: listing.update(stock=_ELSE["stock"]))
)
broken("vehicle.complete")(changes(VEHICLE, _requests_by("vin"), lambda listing: listing.pop("rooftop")))
broken("vehicle.vin-case")(
    reads(VEHICLE, lambda members: str(members.get("vin", "")).islower(), lambda _: {"vin": _UNKNOWN["vin"]})
)
broken("vehicle.no-identifier")(reads(VEHICLE, exactly({}), lambda _: {"vin": VIN}))
broken("vehicle.vin-first")(
    reads(
        VEHICLE,
        lambda members: _requests_by("vin", "stock")(members) and members["vin"] != _UNKNOWN["vin"],
        lambda members: {"stock": members["stock"]},
    )
)
broken("vehicle.next-identifier")(
    reads(
        VEHICLE,
        lambda members: _requests_by("vin", "stock")(members) and members["vin"] == _UNKNOWN["vin"],
        lambda members: {"vin": members["vin"]},
    )
)
broken("vehicle.zip")(refuses(VEHICLE, _with_zip))
broken("vehicle.zip-echo")(changes(VEHICLE, _with_zip, lambda listing: listing.pop("zip")))


def _cheaper(listing: dict[str, Any]) -> None:
    """Lowers the price of a listing."""
    if "price" in listing:
        listing["price"] -= 500


def _in_words(listing: dict[str, Any]) -> None:
    """Writes the offered price as a text."""
    if "offered_price" in listing:
        listing["offered_price"] = f"${listing['offered_price']}"


broken("vehicle.zip-same-vehicle")(_changes_data(_with_zip, mileage=5))
broken("vehicle.zip-same-price")(changes(VEHICLE, _with_zip, _cheaper))
broken("vehicle.offered-price")(changes(VEHICLE, _with_zip, _in_words))
broken("vehicle.no-zip")(_changes_data(_requests_by("vin"), zip="37203"))
broken("vehicle.zip-unknown")(
    reads(VEHICLE, _with_zip, lambda members: {name: value for name, value in members.items() if name != "zip"})
)
broken("vehicle.unknown-identifiers")(reads(VEHICLE, exactly({"stock": "QZXVWK-0"}), lambda _: {"vin": VIN}))
broken("vehicle.vin-pattern")(reads(VEHICLE, exactly({"vin": "1HGCV1F30NA12345"}), lambda _: {"vin": VIN}))


def _hides(status: str, requirement_id: str = "") -> None:
    """Adds the defect that vehicles with this status are not found."""

    @broken(requirement_id or f"vehicle.{status}")
    async def hides(call: Call, agent: Agent) -> AgentResponse:
        answer = await agent(call)
        if members_of(call, VEHICLE) is None or (answer.data or {}).get("status") != status:
            return answer
        return await agent(call.with_payload(lambda payload: payload.update(vin=_UNKNOWN["vin"])))


_hides("pending")
_hides("intransit")
_hides("pending", "vehicle.listed-found")


@broken("vehicle.no-identifier-code")
async def calls_it_not_found(call: Call, agent: Agent) -> AgentResponse:
    """Answers a request without an identifier with VEHICLE_NOT_FOUND."""
    answer = await agent(call)
    if members_of(call, VEHICLE) != {}:
        return answer
    return answer.with_error_payload(lambda payload: payload.update(code="VEHICLE_NOT_FOUND"))
