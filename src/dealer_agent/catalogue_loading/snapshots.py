"""Writes a snapshot of a dealer's stock, with a label that says what it was made from."""

from datetime import datetime
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import UNSET, Struct

import dealer_agent
from dealer_agent.catalogue_loading.listings import StockListings
from dealer_agent.inventory.catalogue import Catalogue, Listing, RemovedUnit
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter
from dealer_agent.inventory.catalogue.snapshot_builder import write_snapshot
from dealer_agent.inventory.listing import (
    ListingPolicy,
)
from dealer_agent.storage.stock.reading import Stock, StockMark, read_stock
from dealer_agent.storage.stock.record import recorded_stock
from dealer_agent.storage.store import Store

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
        _write_snapshot(read_stock(tx, inputs.remember_days), inputs, now, file, boot)


def write_recorded(store: Store, inputs: SnapshotInputs, revision: int, at: datetime, file: BinaryIO) -> None:
    """As `write_stock`, with the stock at a revision of the record, as it was at the time `at`. Raises StorageError."""
    with store.read(inputs.policy.dealer_id) as tx:
        _write_snapshot(recorded_stock(tx, revision, inputs.remember_days, at), inputs, at, file)


def _write_snapshot(stock: Stock, inputs: SnapshotInputs, now: datetime, file: BinaryIO, boot: str = "") -> None:
    removed = [RemovedUnit(unit.vehicle_id, unit.vin or UNSET, unit.stock or UNSET) for unit in stock.gone]
    listings = StockListings(stock, inputs.policy)
    writer = FlatWriter(file)
    write_snapshot(writer, (Listing.of(vehicle, unit.extras) for vehicle, unit in listings.units()), removed)
    writer.json(_LABEL, SnapshotLabel(inputs.digest, stock.mark, now, listings.confirmed_at, boot))
    writer.finish()
