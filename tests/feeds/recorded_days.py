"""A dealer whose stock changes in every way, and what buyers saw after each change."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any, NamedTuple

from hypothesis import strategies as st
from msgspec import UNSET
from tests.feeds.held_feeds import FeedDays

from dealer_agent.catalogue_loading.listings import listing_policy
from dealer_agent.catalogue_loading.snapshots import LoadedSnapshot, SnapshotInputs, write_recorded, write_stock
from dealer_agent.dealers.profile import DealerRooftop, Policies, Profile
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.inventory.catalogue import Catalogue, RemovedUnit
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays
from dealer_agent.protocol.responses import Facets
from dealer_agent.storage.errors import NothingToUndo
from dealer_agent.storage.stock.reading import read_revision

ROOFTOPS = ("North", "South")
VINS = tuple(f"1HGCM82633A00435{number}" for number in range(6))
PRICES = (20_000, 21_000, 900)
"""The last one is so much lower that the unit is held back."""
REMEMBER_DAYS = 2

Cars = Mapping[str, tuple[int, str, bool]]
"""By VIN: the price, the rooftop, and whether the feed says when it updated the unit."""


def dealer_named(dealer_id: str) -> Profile:
    return Profile(
        id=dealer_id,
        name="Ridgeline Motors",
        feed_price="advertised",
        policies=Policies(remember_sold_days=REMEMBER_DAYS),
        rooftops=tuple(DealerRooftop(name=name, timezone="America/Chicago") for name in ROOFTOPS),
    )


def csv_of(cars: Cars) -> bytes:
    lines = ["vin,stock,year,make,model,mileage,condition,price,rooftop,feed_updated_at"]
    for vin, (price, rooftop, is_dated) in cars.items():
        dated = "2026-03-01T10:00:00Z" if is_dated else ""
        lines.append(f"{vin},S{vin[-1]},2021,Honda,Accord,30000,used,{price},{rooftop},{dated}")
    return "\n".join(lines).encode()


class Seen(NamedTuple):
    """What buyers see: all listings in their order, the facets, and the units that were removed lately."""

    listings: list[bytes]
    facets: Facets
    gone: list[RemovedUnit]


@dataclass
class RecordedDays(FeedDays):
    """Changes of the stock, each some hours after the last one. `seen` has the stock after each, by revision."""

    seen: dict[int, tuple[Seen, datetime]] = field(default_factory=dict)

    @property
    def revision(self) -> int:
        with self.store.read(self.profile.id) as tx:
            return read_revision(tx).stock

    @property
    def inputs(self) -> SnapshotInputs:
        return SnapshotInputs(listing_policy(self.profile), REMEMBER_DAYS)

    def change(self, kind: str, cars: Cars, vin: str, hours: int) -> None:
        """One change. An undo of nothing, and a decision about an unknown unit, change nothing."""
        self.now += timedelta(hours=hours)
        match kind:
            case "import" | "import North":
                only = kind.removeprefix("import").split()
                rows = {vin: car for vin, car in cars.items() if not only or car[1] in only}
                if rows:
                    import_feed(
                        self.store,
                        self.profile,
                        read_feed(csv_of(rows)),
                        source="feed.csv",
                        at=self.now,
                        rooftops=only,
                        accept=EVERY_CHECK,
                        feed_name="website",
                    )
            case "undo":
                try:
                    self.undo()
                except NothingToUndo:
                    return
            case "hide" | "release":
                self.decide(vin, "hidden" if kind == "hide" else "released")
            case _:
                self.remove_due()
        self.see()

    def see(self) -> None:
        """Remembers what buyers see now."""
        self.seen.setdefault(self.revision, (seen_in(self.snapshot()), self.now))

    def snapshot(self) -> Catalogue:
        file = BytesIO()
        write_stock(self.store, self.inputs, self.now, file)
        return catalogue_of(file)

    def recorded(self, revision: int, at: datetime) -> Catalogue:
        """The snapshot of a revision, made from the record."""
        file = BytesIO()
        write_recorded(self.store, self.inputs, revision, at, file)
        return catalogue_of(file)

    def listings_at(self, revision: int) -> dict[str, Any]:
        """What a search over everything answers at a revision, under the policy of now, by vehicle id."""
        if not revision:
            return {}
        listings = map(json.loads, seen_in(self.recorded(revision, self.seen[revision][1])).listings)
        return {listing["vehicle_id"]: listing for listing in listings}


def catalogue_of(file: BytesIO) -> Catalogue:
    return LoadedSnapshot.of(FlatArrays(file.getvalue())).catalogue


def seen_in(catalogue: Catalogue) -> Seen:
    found = [catalogue.find(vin=vin) for vin in VINS]
    return Seen(
        catalogue.search(UNSET, 0, len(VINS)).listings,
        catalogue.facets(),
        [each for each in found if isinstance(each, RemovedUnit)],
    )


cars = st.dictionaries(
    st.sampled_from(VINS), st.tuples(st.sampled_from(PRICES), st.sampled_from(ROOFTOPS), st.booleans()), max_size=6
)
kinds = st.sampled_from(["import"] * 4 + ["import North", "undo", "undo", "hide", "release", "remove due"])
changes = st.tuples(kinds, cars, st.sampled_from(VINS), st.sampled_from([1, 20, 50]))
