"""The price of a vehicle for buyers of an area (docs/protocol.md#offered-price). Pure."""

from collections.abc import Iterable

from msgspec import UNSET

from dealer_agent.dealers.profile import AreaOffer
from dealer_agent.protocol.vehicle import Vehicle


def offered_price(vehicle: Vehicle, zip_code: str, offers: Iterable[AreaOffer]) -> int | None:
    """The advertised price minus the largest offer that applies, in whole US dollars, at least 0.

    None if no offer applies or the vehicle has no price. Offers are not added together.
    """
    if vehicle.price is UNSET:
        return None
    amounts = [offer.amount_off for offer in offers if _applies(offer, vehicle, zip_code.strip())]
    return max(0, vehicle.price - max(amounts)) if amounts else None


def _applies(offer: AreaOffer, vehicle: Vehicle, zip_code: str) -> bool:
    """Whether an offer is for a vehicle and a ZIP code."""
    if offer.conditions and vehicle.condition not in offer.conditions:
        return False
    if offer.makes and (vehicle.make is UNSET or _plain(vehicle.make) not in map(_plain, offer.makes)):
        return False
    return zip_code.startswith(offer.zip_prefixes)


def _plain(make: str) -> str:
    return "".join(letter for letter in make.casefold() if letter.isalnum())
