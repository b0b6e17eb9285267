"""The contents of the catalogue: listings, and units that were removed but are still remembered. Pure."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Struct, UnsetType

from dealer_agent.inventory.listing import listing_json
from dealer_agent.protocol.vehicle import Scalar, Vehicle

Text = str | UnsetType

_VEHICLE = msgspec.json.Decoder(Vehicle)


class Listing:
    """A unit in stock. `json` is the listing as responses contain it.

    A large stock is kept as bytes, so `vehicle` is decoded at its first use.
    """

    __slots__ = ("_vehicle", "json")

    def __init__(self, json: bytes, vehicle: Vehicle | None = None) -> None:
        self.json = json
        self._vehicle = vehicle

    @classmethod
    def of(cls, vehicle: Vehicle, extras: Mapping[str, Scalar] | None = None) -> "Listing":
        """The listing of a vehicle, with the dealer's extra members."""
        return cls(listing_json(vehicle, extras), vehicle)

    @property
    def vehicle(self) -> Vehicle:
        """The listing without its extra members."""
        if self._vehicle is None:
            self._vehicle = _VEHICLE.decode(self.json)
        return self._vehicle


class RemovedUnit(Struct, frozen=True):
    """A unit that was sold or left the feed, and is still remembered (docs/protocol.md#inventory-vehicle)."""

    vehicle_id: str
    vin: Text = UNSET
    stock: Text = UNSET
