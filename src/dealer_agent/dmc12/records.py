"""Vehicles, prices, reservations and stores as DMC-12 has them. Pure.

`docs/reference/dmc12.md` says what is lost on the way.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final

from msgspec import UNSET

from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.offers.pricing import json_number
from dealer_agent.protocol.offers import HoldStatus
from dealer_agent.protocol.vehicle import Vehicle

Json = dict[str, Any]

YEARS: Final = range(1990, 2031)
"""The model years that a record may have."""
LONGEST_LABEL: Final = 80

CONDITIONS: Final = {"new": "new", "used": "used", "cpo": "certified"}
_STATUSES: Final = {"available": "available", "pending": "pending", "intransit": "off-lot"}
_FUELS: Final = {"gas": "Gasoline", "diesel": "Diesel", "hybrid": "Hybrid", "phev": "PHEV", "bev": "BEV"}
_DRIVETRAINS: Final = {"awd": "AWD", "fwd": "FWD", "rwd": "RWD", "4wd": "4WD"}
_VIN = re.compile(r"[A-HJ-NPR-Z0-9]{17}", re.ASCII)
_STATE = re.compile(r"[A-Z]{2}", re.ASCII)
_ZIP = re.compile(r"[0-9]{5}(-[0-9]{4})?", re.ASCII)
_WEB_ADDRESS = re.compile(r"https?://\S{1,248}", re.ASCII)


def is_shown(vehicle: Vehicle) -> bool:
    """Whether DMC-12 can show a unit: it needs a VIN, a price, a condition, make, model and a year of YEARS."""
    return (
        vehicle.vin is not UNSET
        and _VIN.fullmatch(vehicle.vin) is not None
        and vehicle.price is not UNSET
        and vehicle.condition is not UNSET
        and vehicle.year in YEARS
        and UNSET not in (vehicle.make, vehicle.model)
    )


def record_of(vehicle: Vehicle, store_code: str, today: date) -> Json:
    """The record of a unit for which `is_shown` is true. Members that are not known are null."""

    def known(value: Any) -> Any:
        return None if value is UNSET else value

    stocked = known(vehicle.inventory_date)
    return {
        "vin": vehicle.vin,
        "store_code": store_code,
        "stock_number": known(vehicle.stock),
        "condition": CONDITIONS[str(vehicle.condition)],
        "year": vehicle.year,
        "make": vehicle.make,
        "model": vehicle.model,
        "trim": known(vehicle.trim),
        "body_style": known(vehicle.body),
        "exterior_color": known(vehicle.exterior_color),
        "interior_color": known(vehicle.interior_color),
        "transmission": known(vehicle.transmission),
        "drivetrain": _DRIVETRAINS.get(str(vehicle.driveline)),
        "fuel_type": _FUELS.get(str(vehicle.fuel), known(vehicle.fuel)),
        "mileage": None if vehicle.condition == "new" else known(vehicle.mileage),
        "asking_price": vehicle.price,
        "msrp": known(vehicle.msrp),
        "status": _STATUSES[vehicle.status],
        "days_on_lot": None if stocked is None else max(0, (today - stocked).days),
        "stocked_date": None if stocked is None else stocked.isoformat(),
        "photos": known(vehicle.photos),
        "description": known(vehicle.description),
        "listing_url": known(vehicle.vdp_url),
    }


def status_of(vehicle: Vehicle) -> str:
    """The status of a unit in stock."""
    return _STATUSES[vehicle.status]


def estimate_of(price: Mapping[str, Any], as_of: str) -> Json | None:
    """The out-the-door estimate of an all-in price, which is JSON as in a quote.

    None if it is not complete, if its place is unknown, or if the vehicle would cost less than nothing.

    DMC-12 has no amounts below zero, and its amounts add up to the total. So what is subtracted is subtracted from the
    line of the vehicle, whose label says so.
    """
    state = price["jurisdiction"].get("state")
    if not price["complete"] or state is None:
        return None
    lines = [(line, Decimal(str(line["amount"]))) for line in price["lines"]]
    subtracted = [(line["label"], amount) for line, amount in lines if amount < 0]
    shown = [(line, amount) for line, amount in lines if amount >= 0]
    vehicle, amount = shown[0]
    if subtracted:
        rest = amount + sum(each for _, each in subtracted)
        label = f"{vehicle['label']}, less {', '.join(name for name, _ in subtracted)}"
        shown[0] = vehicle | {"label": label[:LONGEST_LABEL]}, rest
        if rest < 0:
            return None
    currency = price["currency"]

    def money(amount: Decimal) -> Json:
        return {"amount": json_number(amount), "currency": currency}

    fees = [each for line, each in shown[1:] if line["payee"] == "dealer" and line["kind"] != "tax"]
    taxes = [each for line, each in shown if line["kind"] == "tax"]
    return {
        "amount": json_number(sum((each for _, each in shown), Decimal(0))),
        "currency": currency,
        "price_lines": [
            {
                "label": line["label"],
                "kind": line["kind"],
                "payee": line["payee"],
                "amount": money(each),
                "negotiable": False,
                **({"statutory_basis": line["legal_basis"]} if "legal_basis" in line else {}),
            }
            for line, each in shown
        ],
        "fees_total": money(sum(fees, Decimal(0))),
        "taxes_total": money(sum(taxes, Decimal(0))),
        "estimate": True,
        "jurisdiction": f"US-{state}",
        "as_of": as_of,
    }


def disclosure_of(estimate: Json) -> Json:
    """The pricing disclosure with the lines of an estimate."""
    currency = estimate["currency"]
    subtotal = Decimal(str(estimate["amount"])) - Decimal(str(estimate["taxes_total"]["amount"]))
    kept = {name: value for name, value in estimate.items() if name not in ("amount", "currency")}
    return {
        **kept,
        "subtotal": {"amount": json_number(subtotal), "currency": currency},
        "out_the_door": {"amount": estimate["amount"], "currency": currency},
    }


def quote_of(quote: Mapping[str, Any]) -> Json:
    """A quote from the `data` of `offer.quote`."""
    estimate = estimate_of(quote, quote["created_at"])
    return {
        "quote_id": quote["quote_id"],
        "vin": quote["vehicle"]["vin"],
        "quoted_price": quote["price"],
        "currency": quote["currency"],
        "created_at": quote["created_at"],
        "expires_at": quote["valid_until"],
        "terms": quote["terms"],
        **({} if estimate is None else {"out_the_door": estimate, "out_the_door_estimate": True}),
    }


_RESERVATIONS: Final[Mapping[HoldStatus, tuple[str, str | None]]] = {
    "active": ("active", None),
    "expired": ("expired", None),
    "released": ("released", "agent"),
    "ended_by_dealer": ("released", "dealer"),
    "sold": ("released", "dealer"),
    "became_lead": ("converted", None),
}
"""The status of a reservation, and who has released it."""


def reservation_of(hold: Mapping[str, Any], vin: str) -> Json:
    """A reservation from the `data` of `offer.hold`."""
    status, by = _RESERVATIONS[hold["status"]]
    return {
        "reservation_token": hold["hold_id"],
        "vin": vin,
        "reserved_price": hold["price"],
        "created_at": hold["created_at"],
        "expires_at": hold["expires_at"],
        "released_at": None,
        "released_by": by,
        "status": status,
        "terms": hold["terms"],
    }


def store_of(rooftop: DealerRooftop) -> Json | None:
    """The record of a store. None if a part that DMC-12 requires is absent or has another form."""
    address = rooftop.address
    if UNSET in (rooftop.store_code, rooftop.website, address):
        return None
    assert address is not UNSET
    street = ", ".join(part for part in (address.address_line_1, address.address_line_2) if part)
    fits = (
        street
        and address.city
        and _STATE.fullmatch(address.state)
        and _ZIP.fullmatch(address.zip)
        and _WEB_ADDRESS.fullmatch(str(rooftop.website))
    )
    if not fits:
        return None
    return {
        "store_code": rooftop.store_code,
        "name": rooftop.name,
        "address": {"street": street, "city": address.city, "state": address.state, "postal_code": address.zip},
        "website": rooftop.website,
    }


def masked(addresses: Sequence[str]) -> str:
    """E-mail addresses of which a person cannot be written to, such as `sa****@dealer.example`."""
    parts = (address.rpartition("@") for address in addresses)
    return ", ".join(f"{local[:2]}****@{domain}" for local, _, domain in parts)
