"""A snapshot of a dealer's stock out of the store, with a label that says what it was made of."""

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import UNSET, Struct

import dealer_agent
from dealer_agent.inventory.catalogue import Catalogue, Listing, RemovedUnit
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter
from dealer_agent.inventory.catalogue.snapshot_builder import write_snapshot
from dealer_agent.inventory.listing import ListingPolicy, UnitRecord, list_unit
from dealer_agent.storage.stock import LiveUnit, StockMark, read_stock
from dealer_agent.storage.store import Store


class SnapshotInputs(Struct, frozen=True, dict=True):
    """How a dealer's stock becomes a snapshot. Sold units are remembered so many days."""

    policy: ListingPolicy
    remember_days: int

    @cached_property
    def digest(self) -> str:
        """The same for the same recipe in the same code: a snapshot that other code made is not shown."""
        home = Path(dealer_agent.__file__).parent
        newest = max(module.stat().st_mtime_ns for module in home.rglob("*.py"))
        said = msgspec.json.encode((self, dealer_agent.__version__, newest), order="deterministic")
        return blake2b(said, digest_size=16).hexdigest()


class SnapshotLabel(Struct, frozen=True):
    """What a snapshot was made of, and when; `confirmed_at` is when a feed last confirmed any of the stock."""

    recipe: str
    stock: StockMark
    made_at: datetime
    confirmed_at: datetime | None


class LoadedSnapshot(NamedTuple):
    """The stock ready to be searched, its revision, and when a feed last confirmed any of it."""

    catalogue: Catalogue
    revision: int
    at: datetime | None


def write_stock(store: Store, recipe: SnapshotInputs, now: datetime, file: BinaryIO) -> None:
    """A snapshot of the stock as it stands. One listing after the other is in memory. Raises StorageError."""
    dealer_id = recipe.policy.dealer_id
    with store.read(dealer_id, now) as tx:
        stock = read_stock(tx, recipe.remember_days)
        gone = [RemovedUnit(unit.vehicle_id, unit.vin or UNSET, unit.stock or UNSET) for unit in stock.gone]
        listed = _Listed(stock.live, recipe.policy)
        writer = FlatWriter(file)
        write_snapshot(writer, listed, gone)
    writer.json(_LABEL, SnapshotLabel(recipe.digest, stock.mark, now, listed.confirmed_at))
    writer.finish()


def label_of(snapshot: FlatArrays) -> SnapshotLabel:
    """What it was made of."""
    return snapshot.json(_LABEL, SnapshotLabel)


def shown(snapshot: FlatArrays) -> LoadedSnapshot:
    """The stock of a snapshot that this code made."""
    label = label_of(snapshot)
    return LoadedSnapshot(Catalogue(snapshot), label.stock.revision, label.confirmed_at)


_LABEL = "label"


class _Listed:
    """The listings of units, made one by one; how fresh they are is known in the end."""

    def __init__(self, units: Iterator[LiveUnit], policy: ListingPolicy) -> None:
        self.confirmed_at: datetime | None = None
        self._units = units
        self._policy = policy

    def __iter__(self) -> Iterator[Listing]:
        for live in self._units:
            if self.confirmed_at is None or live.updated_at > self.confirmed_at:
                self.confirmed_at = live.updated_at
            record = UnitRecord(live.vehicle_id, confirmed_at=live.updated_at, changed_at=live.changed_at)
            yield Listing.of(list_unit(live.unit, record, self._policy), live.unit.extras)
