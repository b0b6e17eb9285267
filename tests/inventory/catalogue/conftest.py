"""A stock of invented units with the members that matter to a test."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from dealer_agent.inventory.catalogue import Catalogue, Listing, RemovedUnit
from dealer_agent.protocol.requests import Filters, Sort
from dealer_agent.protocol.vehicle import Vehicle

DAY_ONE = datetime(2026, 5, 1, tzinfo=UTC)


def made(vehicle_id: str, **members: Any) -> Vehicle:
    """A listing with its required members. Times are days: `changed=3` is the third day."""
    updated = members.pop("updated", 0)
    changed = members.pop("changed", 0)
    return Vehicle(
        vehicle_id=vehicle_id,
        status=members.pop("status", "available"),
        rooftop=members.pop("rooftop", "North"),
        updated_at=DAY_ONE + timedelta(days=updated),
        changed_at=UNSET if changed is None else DAY_ONE + timedelta(days=changed),
        **members,
    )


class Lot:
    """A catalogue, and answers by vehicle id."""

    def __init__(self, vehicles: dict[str, dict[str, Any]], gone: tuple[RemovedUnit, ...] = ()) -> None:
        self.catalogue = Catalogue.build(
            (Listing.of(made(name, **members)) for name, members in vehicles.items()), gone
        )

    def page(self, skip: int = 0, limit: int = 1000, sort: Sort | UnsetType = UNSET, **filters: Any) -> list[str]:
        """Vehicle ids of a page, in order."""
        page = self.catalogue.search(Filters(**filters), skip, limit, sort)
        return [msgspec.json.decode(listing)["vehicle_id"] for listing in page.listings]

    def finds(self, **filters: Any) -> str:
        """The sorted ids of the matching set, joined with spaces."""
        return " ".join(sorted(self.page(**filters)))


MakeLot = Callable[..., Lot]


@pytest.fixture
def lot() -> MakeLot:
    """Builds a stock of `vehicle_id={members}`."""
    return lambda gone=(), **vehicles: Lot(vehicles, gone)
