"""Writes a snapshot of a dealer's stock, with a label that says what it was made from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import UNSET, Struct

import dealer_agent
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.catalogue import Catalogue, Listing, RemovedUnit
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter
from dealer_agent.inventory.catalogue.snapshot_builder import write_snapshot
from dealer_agent.inventory.listing import (
    ListingPolicy,
    RooftopRule,
    Unit,
    UnitRecord,
    list_unit,
    listing_digest,
    listing_json,
)
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.storage.stock.reading import Confirmation, LiveUnit, Stock, StockMark, confirmed_at, read_stock
from dealer_agent.storage.stock.record import recorded_stock
from dealer_agent.storage.store import Store


def listing_policy(profile: Profile) -> ListingPolicy:
    """The policy that turns a dealer's units into listings."""
    rooftops = tuple(
        RooftopRule(rooftop.name, frozenset(rooftop.feed_ids), None if rooftop.fees is UNSET else rooftop.fees)
        for rooftop in profile.rooftops
    )
    return ListingPolicy(profile.id, profile.feed_price, rooftops)


def digest_of(profile: Profile, at: datetime) -> Callable[[str, Unit], str]:
    """A function of a vehicle id and its unit: the digest of the listing that buyers see.

    Imports store it, to notice which listings change. `at` is the time of the import.
    """
    policy = listing_policy(profile)

    def digest(vehicle_id: str, unit: Unit) -> str:
        listing = list_unit(unit, UnitRecord(vehicle_id, confirmed_at=at, changed_at=at), policy)
        return listing_digest(listing, unit.extras)

    return digest


_LABEL = "label"


class SnapshotInputs(Struct, frozen=True, dict=True):
    """The settings that determine a snapshot. Sold units are kept for `remember_days`."""

    policy: ListingPolicy
    remember_days: int

    @cached_property
    def digest(self) -> str:
        """A digest of these settings and of the code, so that no snapshot of other code is used."""
        hashed = msgspec.json.encode((self, dealer_agent.__version__, _code_changed_at()), order="deterministic")
        return blake2b(hashed, digest_size=16).hexdigest()


@cache
def _code_changed_at() -> int:
    package = Path(dealer_agent.__file__).parent
    return max(module.stat().st_mtime_ns for module in package.rglob("*.py"))


class SnapshotLabel(Struct, frozen=True, omit_defaults=True):
    """The inputs of a snapshot. `confirmed_at` is the time of the last import with one of its units.

    `boot` is the id of the machine's boot if the file may be incomplete after a power failure.
    """

    inputs: str
    stock: StockMark
    made_at: datetime
    confirmed_at: datetime | None
    boot: str = ""


class LoadedSnapshot(NamedTuple):
    """A searchable stock of `size` bytes and its revision. `at` is the last import with one of its units."""

    catalogue: Catalogue
    revision: int
    at: datetime | None
    size: int

    @classmethod
    def of(cls, snapshot: FlatArrays, *, copies_listings: bool = True) -> "LoadedSnapshot":
        """Loads a snapshot. This version of the code must have written it."""
        label = label_of(snapshot)
        catalogue = Catalogue(snapshot, copies_listings=copies_listings)
        return cls(catalogue, label.stock.revision, label.confirmed_at, len(snapshot.buffer))


def label_of(snapshot: FlatArrays) -> SnapshotLabel:
    """The label of a snapshot."""
    return snapshot.json(_LABEL, SnapshotLabel)


def write_stock(store: Store, inputs: SnapshotInputs, now: datetime, file: BinaryIO, boot: str = "") -> None:
    """Writes a snapshot of the current stock. Keeps one listing at a time in memory. Raises StorageError."""
    with store.read(inputs.policy.dealer_id, now) as tx:
        _write(read_stock(tx, inputs.remember_days), inputs, now, file, boot)


def write_recorded(store: Store, inputs: SnapshotInputs, revision: int, at: datetime, file: BinaryIO) -> None:
    """As `write_stock`, with the stock at a revision of the record, as it was at the time `at`. Raises StorageError."""
    with store.read(inputs.policy.dealer_id) as tx:
        _write(recorded_stock(tx, revision, inputs.remember_days, at), inputs, at, file)


def _write(stock: Stock, inputs: SnapshotInputs, now: datetime, file: BinaryIO, boot: str = "") -> None:
    removed = [RemovedUnit(unit.vehicle_id, unit.vin or UNSET, unit.stock or UNSET) for unit in stock.gone]
    listings = _Listings(stock, inputs.policy)
    writer = FlatWriter(file)
    write_snapshot(writer, listings, removed)
    writer.json(_LABEL, SnapshotLabel(inputs.digest, stock.mark, now, listings.confirmed_at, boot))
    writer.finish()


def listed_units(stock: Stock, policy: ListingPolicy) -> Iterator[tuple[Vehicle, Unit]]:
    """Each unit for sale as buyers see it, and as the feed gave it."""
    return _Listings(stock, policy).units()


class Lister:
    """Makes listings of the units of a stock, from the dealer's policy and the times of confirmations.

    `confirmed` has the newest import of the whole stock of each rooftop, by name.
    """

    def __init__(
        self, policy: ListingPolicy, confirmations: Sequence[Confirmation], good_since: Mapping[str, datetime]
    ) -> None:
        self._policy = policy
        self._good_since = good_since
        self.confirmed = {rooftop.name: confirmed_at(confirmations, rooftop.name) for rooftop in policy.rooftops}

    def confirmed_at(self, live: LiveUnit) -> datetime:
        """The newest import that had all units of the rooftop, else the last one with this unit.

        A newer import says something implausible about a unit that keeps its last good facts.
        """
        rooftop = self._policy.rule_of(live.unit).name
        return self._good_since.get(live.vehicle_id) or self.confirmed[rooftop] or live.updated_at

    def vehicle(self, live: LiveUnit, confirmed_at: datetime) -> Vehicle:
        """The unit as a listing."""
        record = UnitRecord(live.vehicle_id, confirmed_at=confirmed_at, changed_at=live.changed_at)
        return list_unit(live.unit, record, self._policy)

    def json(self, live: LiveUnit) -> bytes:
        """The listing as responses contain it."""
        return listing_json(self.vehicle(live, self.confirmed_at(live)), live.unit.extras)


class _Listings:
    """Makes listings one by one. `confirmed_at` is complete after the last one."""

    def __init__(self, stock: Stock, policy: ListingPolicy) -> None:
        self.confirmed_at: datetime | None = None
        self._units = stock.live
        self._lister = Lister(policy, stock.confirmations, stock.good_since)

    def __iter__(self) -> Iterator[Listing]:
        for vehicle, unit in self.units():
            yield Listing.of(vehicle, unit.extras)

    def units(self) -> Iterator[tuple[Vehicle, Unit]]:
        """Each unit as a listing, with the unit itself. `confirmed_at` becomes the newest confirmation."""
        for live in self._units:
            confirmed_at = self._lister.confirmed_at(live)
            if self.confirmed_at is None or confirmed_at > self.confirmed_at:
                self.confirmed_at = confirmed_at
            yield self._lister.vehicle(live, confirmed_at), live.unit
