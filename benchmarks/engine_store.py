"""A dealer's database with a generated stock, in the state after imports."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.stock_maker import POLICY, ROOFTOPS, listed, units
from dealer_agent.dealers.profile import Profile
from dealer_agent.feeds.files.import_plan import FileUnit
from dealer_agent.inventory.listing import Unit, document_of, listing_digest
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.stock.stock_import import Scope, apply_import, document_hash
from dealer_agent.storage.store import Store

DATABASE = "stock.db"
AT = datetime(2026, 5, 1, tzinfo=UTC)
_TOGETHER = 250_000


def profile() -> Profile:
    """The invented dealer with the policy `POLICY`."""
    rooftops = [{"name": name, "timezone": "America/Chicago"} for name in ROOFTOPS]
    said = {"id": POLICY.dealer_id, "name": "Bench Motors", "feed_price": POLICY.feed_price, "rooftops": rooftops}
    return msgspec.convert(said, Profile)


def url_of(folder: Path) -> str:
    """The address of the database in a folder."""
    return f"sqlite:///{folder / DATABASE}"


class Row(NamedTuple):
    """A unit, ready to be stored."""

    unit: Unit
    vehicle_id: str
    digest: str


def rows(count: int) -> Iterator[Row]:
    """The units of a stock."""
    for unit, changed_at in units(count):
        vehicle = listed(unit, changed_at)
        yield Row(unit, vehicle.vehicle_id, listing_digest(vehicle))


def make_store(folder: Path, count: int) -> None:
    """Makes the database with a stock of this size."""
    migrate(url_of(folder))
    coming = rows(count)
    with Store.open(url_of(folder)) as store:
        while some := list(itertools.islice(coming, _TOGETHER)):
            bring_in(store, some, AT)


def bring_in(store: Store, some: list[Row], at: datetime) -> None:
    """Imports a part of the stock."""
    documents = [document_of(row.unit) for row in some]
    apply_import(
        store,
        POLICY.dealer_id,
        [
            FileUnit(row.unit.vin or None, row.unit.stock or None, row.vehicle_id, row.digest, document_hash(document))
            for row, document in zip(some, documents, strict=True)
        ],
        documents.__getitem__,
        at=at,
        source="stock.csv",
        layout="canonical",
        remember_days=90,
        dry_run=False,
        scope=Scope((), lambda _: False),
    )
