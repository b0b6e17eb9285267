"""The listings as rows of one table, for the peers."""

from collections.abc import Iterable, Iterator

from msgspec import UNSET

from dealer_agent.protocol.vehicle import Vehicle

TEXT = (
    "make", "model", "trim", "condition", "status", "rooftop", "body", "transmission", "driveline", "fuel",
    "exterior_color", "interior_color",
)  # fmt: skip
NUMBERS = ("year", "price", "mileage", "electric_range_mi", "dc_fast_charge")
RANGES = ("price", "mileage", "year", "electric_range_mi")
COUNTED = (*TEXT, "year", "dc_fast_charge")
COLUMNS = ("vehicle_id", "vin", "stock", *TEXT, *NUMBERS, "changed_at", "updated_at", "words", "listing")

_SEARCHED = ("year", "make", "model", "trim", "condition", "body", "fuel", "driveline", "transmission", "engine")


def rows(listings: Iterable[tuple[Vehicle, bytes]]) -> Iterator[tuple[object, ...]]:
    """A row for each listing. Times are microseconds since 1970; free text searches `words`."""
    for vehicle, listing in listings:
        given = {name: getattr(vehicle, name) for name in ("vehicle_id", "vin", "stock", *TEXT, *NUMBERS)}
        values = [None if value is UNSET else value for value in given.values()]
        changed = int(vehicle.changed_at.timestamp() * 1e6) if vehicle.changed_at is not UNSET else 0
        said = [str(getattr(vehicle, name)) for name in _SEARCHED if getattr(vehicle, name) is not UNSET]
        said += [*(vehicle.features or ()), vehicle.description or "", vehicle.exterior_color or "", vehicle.vin or ""]
        words = " ".join(said).lower().replace("-", " ")
        yield (*values, changed, int(vehicle.updated_at.timestamp() * 1e6), words, listing)
