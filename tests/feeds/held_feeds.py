"""A dealer whose feeds a test damages: imports one day after the other, and shows what buyers see."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.feeds.feed_files import FeedFile, Row
from tests.feeds.mutation_results import AT, DEALER, stock_of

from dealer_agent.catalogue_loading.listings import digest_of
from dealer_agent.dealers.profile import Profile
from dealer_agent.feeds.files.checks import FeedChecks
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import ImportResult, import_feed
from dealer_agent.inventory.listing import Unit
from dealer_agent.storage.errors import FeedRefused
from dealer_agent.storage.stock.held_units import Decision, HeldUnit, held_units
from dealer_agent.storage.stock.reading import read_stock
from dealer_agent.storage.stock.stock_changes import UndoResult, decide, remove_due, undo_import
from dealer_agent.storage.store import Store


@dataclass
class FeedDays:
    """A dealer and its stock. Each import is an hour after the last one, unless a test sets `now`."""

    store: Store
    profile: Profile = DEALER
    checks: FeedChecks = field(default_factory=FeedChecks)
    now: datetime = AT

    def imports(self, data: bytes, *accept: str, hours: int = 1) -> ImportResult:
        """Imports a file. Raises FeedRefused."""
        self.now += timedelta(hours=hours)
        feed = read_feed(data, status_words=self.checks.status_words)
        return import_feed(
            self.store, self.profile, feed, source="feed.csv", at=self.now, checks=self.checks, accept=accept
        )

    def refusals(self, data: bytes) -> set[str]:
        """The checks that refuse a file."""
        try:
            self.imports(data)
        except FeedRefused as refusal:
            return {finding.check for finding in refusal.findings if finding.action == "refuse"}
        return set()

    def live(self) -> dict[str, Unit]:
        """What buyers see, by VIN, else by stock number."""
        with self.store.read(self.profile.id, self.now) as tx:
            return {live.unit.vin or live.unit.stock or "": live.unit for live in read_stock(tx, 30).live}

    def held(self) -> dict[str, HeldUnit]:
        """The held units, by VIN, else by stock number."""
        with self.store.read(self.profile.id) as tx:
            return {each.vin or each.stock or "": each for each in held_units(tx)}

    def decide(self, vin: str, decision: Decision) -> HeldUnit | None:
        """A person decides about a unit."""
        self.now += timedelta(hours=1)
        digest = digest_of(self.profile, self.now)
        return decide(self.store, self.profile.id, f"vin-{vin}", decision, digest, at=self.now, by="pat")

    def undo(self, *, dry_run: bool = False) -> UndoResult:
        """A person takes the last import back."""
        self.now += timedelta(hours=1)
        digest = digest_of(self.profile, self.now)
        return undo_import(self.store, self.profile.id, digest, at=self.now, dry_run=dry_run)

    def remove_due(self) -> datetime | None:
        """The job that removes units whose day has ended."""
        return remove_due(self.store, self.profile.id, self.now)


@contextmanager
def feed_days(data: bytes | None, **settings: object) -> Iterator[FeedDays]:
    """A dealer whose stock is that of a feed, or empty."""
    with stock_of(data) as store:
        yield FeedDays(store, **settings)  # type: ignore[arg-type]


def changed(file: FeedFile, number: int, **members: str) -> FeedFile:
    """The file with other values in one row, by member."""
    rows = list(file.rows)
    rows[number] = rows[number] | {file.columns[member]: value for member, value in members.items()}
    return file.with_rows(rows)


def each_row(file: FeedFile, numbers: range, change: Callable[[Row], Row]) -> FeedFile:
    """The file with some rows changed."""
    return file.with_rows([change(row) if n in numbers else row for n, row in enumerate(file.rows)])


def vin_of(file: FeedFile, number: int) -> str:
    """The VIN of a row."""
    return file.rows[number][file.columns["vin"]]
