"""Imports a file into the database, after its checks (docs/protocol.md#listings)."""

import time
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from tempfile import TemporaryFile
from typing import BinaryIO, TypeVar

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from dealer_agent.catalogue_loading.child_processes import end_reading
from dealer_agent.catalogue_loading.listings import listing_policy
from dealer_agent.config.feeds import FeedSettings
from dealer_agent.dealers.profile import Profile
from dealer_agent.feeds.files.archives import unpack
from dealer_agent.feeds.files.checks import CHECK_BY_ID, CheckRun, FeedChecks, FeedFinding
from dealer_agent.feeds.files.counts import Comparison, FileCounts, ImportEffect, check_feed, shape_of
from dealer_agent.feeds.files.feed import MOST_FILE_MIB, MOST_REPORTED, FeedError, ParsedFeed, RowProblem
from dealer_agent.feeds.files.import_plan import FileUnit, Plan
from dealer_agent.feeds.files.plausibility import Implausibility
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.row_doubts import ImplausibleRows
from dealer_agent.inventory.listing import (
    ListingPolicy,
    Unit,
    UnitRecord,
    document_of,
    list_unit,
    listing_digest,
    vehicle_id_for,
)
from dealer_agent.storage.errors import FeedRefused
from dealer_agent.storage.stock.reading import record_refused_import
from dealer_agent.storage.stock.stock_import import (
    FeedReview,
    ImportOutcome,
    Scope,
    StockBefore,
    apply_import,
    document_hash,
)
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

UNREADABLE = "unreadable"
"""The `check` of the finding of a file that cannot be read. Nobody can accept it."""

MOST_UNKNOWN_ROOFTOPS = 5
MOST_COUNTED = 5_000
"""The most units of a file whose values are counted. In a larger file, a regular sample of units is counted."""
MOST_COMPARED = 20_000
"""The most changed units that are compared with the stock. If more changed, a regular sample of them is compared."""
_PROGRESS_ROWS = 200

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import. `without_rooftop` units named no rooftop of the dealer and went to `default_rooftop`.

    `unknown_rooftops` are the first ids and names that those units gave. `outside` units are at rooftops outside the
    scope of the import, so they were not imported. `outside_row_problems` has the first of them.
    """

    outcome: ImportOutcome
    default_rooftop: str
    without_rooftop: int
    unknown_rooftops: tuple[str, ...]
    outside: int
    outside_row_problems: tuple[RowProblem, ...]


class FileImport(Struct, frozen=True, kw_only=True):
    """How a file is read and imported. The history shows `source`, the name of the file, and `feed`, that of the feed.

    Without a `layout`, it is recognised. `columns` are those that no layout knows. `rooftops` is the scope: empty means
    all rooftops. The file has at most `most_bytes`, packed and unpacked.
    """

    source: str
    checks: FeedChecks
    feed: str | None = None
    layout: str | None = None
    columns: dict[str, str] = {}
    rooftops: tuple[str, ...] = ()
    most_bytes: int = MOST_FILE_MIB << 20

    @classmethod
    def of_feed(cls, source: str, feed: FeedSettings, checks: FeedChecks) -> "FileImport":
        """A file of a feed. `checks` are those of the dealer, which the feed may replace."""
        return cls(
            source=source,
            checks=checks if feed.checks is UNSET else feed.checks,
            feed=feed.name,
            layout=None if feed.layout is UNSET else feed.layout,
            columns=feed.columns,
            rooftops=feed.rooftops,
            most_bytes=feed.most_bytes,
        )


def import_file(
    store: Store,
    profile: Profile,
    content: Callable[[], BinaryIO] | bytes,
    how: FileImport,
    *,
    accept: Collection[str] = (),
    accepted_by: str = "",
    accepted_why: str = "",
    dry_run: bool = False,
    on_progress: Callable[[str, int, int], None] = lambda _step, _done, _all: None,
    on_read: Callable[[ParsedFeed], object] = lambda _: None,
    on_commit: Callable[[Transaction, int], object] = lambda _tx, _revision: None,
) -> ImportResult:
    """Reads a file and imports its stock with `import_feed`, in a process that has limits (`limit_process`).

    `content` opens the file. `on_read` gets what was read, before its import. The steps of `on_progress` are "Reading"
    and "Storing". Raises FeedError for a file that cannot be read: except in a `dry_run`, the history then has it.
    """
    at, begun = datetime.now(UTC), time.monotonic()
    with TemporaryFile() as spool, TemporaryFile() as unpacked:
        try:
            feed = read_feed(
                unpack(content, unpacked, how.most_bytes),
                layout=how.layout,
                columns=how.columns,
                status_words=how.checks.status_words,
                on_progress=partial(on_progress, "Reading"),
                spool=spool,
            )
        except FeedError as problem:
            if not dry_run:
                record_unreadable(store, profile, problem, how)
            raise
        end_reading()
        on_read(feed)
        return import_feed(
            store,
            profile,
            feed,
            source=how.source,
            at=at,
            rooftops=how.rooftops,
            checks=how.checks,
            accept=accept,
            accepted_by=accepted_by,
            accepted_why=accepted_why,
            dry_run=dry_run,
            on_progress=partial(on_progress, "Storing"),
            feed_name=how.feed,
            begun=begun,
            on_commit=on_commit,
        )


def import_feed(
    store: Store,
    profile: Profile,
    feed: ParsedFeed,
    *,
    source: str,
    at: datetime,
    rooftops: Sequence[str] = (),
    checks: FeedChecks | None = None,
    accept: Collection[str] = (),
    accepted_by: str = "",
    accepted_why: str = "",
    dry_run: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    feed_name: str | None = None,
    begun: float | None = None,
    on_commit: Callable[[Transaction, int], object] = lambda _tx, _revision: None,
) -> ImportResult:
    """Replaces the stock with a full feed. With `rooftops`, which are names, replaces the stock of these rooftops only.

    `accept` has the ids of checks that cannot refuse this feed; `accepted_by` and `accepted_why` say who accepts what
    they find, and why, for the history. Raises StorageError, and FeedRefused if another check
    refuses it. A refusal is added to the history of imports, except in a `dry_run`. `source` is the name of the file,
    and `feed_name` that of the feed: the history shows both. `begun` is the time `at` on the monotonic clock.
    `on_commit` gets the transaction that makes the new revision current, and the revision (`apply_import`).
    """
    settings = checks_of(profile, checks or FeedChecks())
    rows = _Rows(
        feed,
        listing_policy(profile),
        tuple(dict.fromkeys(rooftops)),
        at,
        on_progress,
        source,
        timedelta(days=profile.policies.remember_sold_days),
        lambda: CheckRun(settings, accept, by=accepted_by, why=accepted_why),
    )
    try:
        outcome = apply_import(
            store,
            profile.id,
            rows.read(),
            rows.document_at,
            at=at,
            source=source,
            layout=feed.layout,
            dry_run=dry_run,
            remember_days=profile.policies.remember_sold_days,
            scope=Scope(rows.rooftops, rows.covers) if rooftops else None,
            review=rows.review,
            feed=feed_name,
            begun=begun,
            on_commit=on_commit,
        )
    except FeedRefused as refusal:
        if not dry_run:
            findings = refusal.findings
            record_refused_import(
                store,
                profile.id,
                findings,
                at=at,
                source=source,
                layout=feed.layout,
                rooftops=rows.rooftops,
                feed=feed_name,
            )
        raise
    return ImportResult(
        outcome,
        rows.default_rooftop,
        rows.without_rooftop,
        tuple(rows.unknown)[:MOST_UNKNOWN_ROOFTOPS],
        rows.outside,
        tuple(rows.outside_row_problems),
    )


def record_unreadable(store: Store, profile: Profile, error: FeedError, how: FileImport) -> None:
    """Adds a file that cannot be read to the history of imports. Raises StorageError."""
    findings, at = [FeedFinding(UNREADABLE, "refuse", str(error))], datetime.now(UTC)
    record_refused_import(
        store, profile.id, findings, at=at, source=how.source, layout=None, rooftops=how.rooftops, feed=how.feed
    )


def checks_of(profile: Profile, checks: FeedChecks) -> FeedChecks:
    """The checks of a dealer. `policies.max_shrink` is the threshold of `units_lost` if [checks] does not set it."""
    older = profile.policies.max_shrink
    lost = CHECK_BY_ID["units_lost"]
    if older is UNSET or checks.threshold(lost) != lost.threshold:
        return checks
    return replace(checks, units_lost=older)


_FEWEST_FOR_ROOFTOPS = 20
"""A first file with fewer units may lack a rooftop."""


class _Price(Struct):
    selling_price: int = 0


_price = msgspec.json.Decoder(_Price)
_unit = msgspec.json.Decoder(Unit)


def _sample(items: Sequence[_Item], most: int) -> tuple[Sequence[_Item], int]:
    """At most `most` of the items at regular distances, and that distance."""
    step = max(1, -(-len(items) // most))
    return items[::step], step


@dataclass
class _Rows:
    """The rows of a feed that are in the scope of an import."""

    feed: ParsedFeed
    policy: ListingPolicy
    rooftops: tuple[str, ...]
    at: datetime
    on_progress: Callable[[int, int], None] | None
    source: str
    remember: timedelta
    new_check_run: Callable[[], CheckRun]
    without_rooftop: int = 0
    outside: int = 0
    outside_row_problems: list[RowProblem] = field(default_factory=list)
    # The names of rooftops that the dealer does not have, in the order of the rows.
    unknown: dict[str, None] = field(default_factory=dict)
    by_rooftop: Counter[str] = field(default_factory=Counter)
    _unknown_rooftops: int = 0
    _numbers: "array[int]" = field(default_factory=lambda: array("q"))

    def __post_init__(self) -> None:
        bounds = self.new_check_run().bounds
        self.doubts = ImplausibleRows(self.policy, bounds, self.unit_at, at=self.at, source=self.source)

    @property
    def default_rooftop(self) -> str:
        """The rooftop of units that name no rooftop of the dealer."""
        return self.rooftops[0] if self.rooftops else self.policy.rooftops[0].name

    def covers(self, hints: Sequence[str]) -> bool:
        """Whether a unit with these rooftop hints is at a rooftop of the scope."""
        return (self.policy.rooftop_of(hints) or self.policy.rooftops[0]).name in self.rooftops

    def read(self) -> Iterator[FileUnit]:
        """The rows in the scope. Counts the others."""
        for number in range(len(self.feed.units)):
            document = self.feed.units.document(number)
            unit = _unit.decode(document)
            if self.on_progress is not None and number % _PROGRESS_ROWS == 0:
                self.on_progress(number, len(self.feed.units))
            rooftop = self.policy.rooftop_of(unit.rooftop_hints)
            if rooftop is None:
                self.without_rooftop += 1
                self._unknown_rooftops += bool(unit.rooftop_hints)
                if len(self.unknown) < MOST_UNKNOWN_ROOFTOPS:
                    self.unknown.update(dict.fromkeys(unit.rooftop_hints))
            elif self.rooftops and rooftop.name not in self.rooftops:
                self.outside += 1
                if self.outside <= MOST_REPORTED:
                    line = self.feed.units[number].line
                    identifier = unit.vin or unit.stock or None
                    self.outside_row_problems.append(RowProblem(line, identifier, f"The unit is at {rooftop.name}."))
                continue
            position = len(self._numbers)
            self._numbers.append(number)
            if self.rooftops:
                unit = self._with_rooftop(unit)
                document = document_of(unit)
            noted = self.feed.doubts.get(unit.vin or unit.stock or "")
            self.doubts.add(position, unit, noted, is_ours=rooftop is not None)
            vehicle_id = vehicle_id_for(unit)
            listing = list_unit(unit, UnitRecord(vehicle_id, confirmed_at=self.at, changed_at=self.at), self.policy)
            self.by_rooftop[listing.rooftop] += 1
            digest = listing_digest(listing, unit.extras)
            yield FileUnit(unit.vin or None, unit.stock or None, vehicle_id, digest, document_hash(document))

    def unit_at(self, position: int) -> Unit:
        """The unit of a row in the scope."""
        return self._with_rooftop(self.feed.units[self._numbers[position]].unit)

    def document_at(self, position: int) -> bytes:
        """The JSON of `unit_at`."""
        document = self.feed.units.document
        return document_of(self.unit_at(position)) if self.rooftops else document(self._numbers[position])

    def review(self, plan: Plan, stock: StockBefore) -> FeedReview:
        """Checks the feed against the stock. Reads the stored units that the import changes or marks as sold.

        Leaves implausible units out of the plan.
        """
        check_run = self.new_check_run()
        foreign = self.doubts.leave_out_foreign(check_run, plan, stock)
        # The number of units of each rooftop in the stock before: that of the file, without what the import changes.
        before = self.by_rooftop.copy()
        comparison, scale, jumps = self._compare_changed(before, plan, stock)
        self._undo_arrivals_and_sales(before, plan, stock)
        change = ImportEffect(
            for_sale=plan.before,
            after=plan.after,
            sold=len(plan.sold),
            added=len(plan.added),
            changed=len(plan.changed),
            unchanged=len(plan.unchanged),
            comparison=comparison,
            scale=scale,
            rooftops={name: count for name, count in before.items() if count > 0},
            rooftops_after=self.by_rooftop,
        )
        if not plan.before and len(self._numbers) >= _FEWEST_FOR_ROOFTOPS and not self.rooftops:
            for rule in self.policy.rooftops:
                if not self.by_rooftop[rule.name]:
                    check_run.add("rooftop_empty", rooftop=rule.name)
        unknown_rooftops = max(0, self._units_of_unknown_rooftops(plan) - len(foreign.positions))
        held, left_out = self.doubts.hold_back(check_run, plan, stock, jumps, self.rooftops, self.remember)
        findings = check_feed(
            check_run,
            self.feed,
            self._counts(),
            change,
            last=stock.last_shape,
            unknown_rooftops=unknown_rooftops,
        )
        dealers = {*self.doubts.dealers} - {*foreign.dealers}
        if stock.last_shape is not None:
            dealers |= {*stock.last_shape.dealers}
        return FeedReview(findings, shape_of(self.feed, sorted(dealers)), held, {*foreign.positions, *left_out})

    def _counts(self) -> FileCounts:
        """What the values of the file look like, counted in a sample of its units."""
        positions, scale = _sample(range(len(self._numbers)), MOST_COUNTED)
        counts = FileCounts(scale)
        for position in positions:
            counts.add(self.unit_at(position))
        return counts

    def _compare_changed(
        self, before: Counter[str], plan: Plan, stock: StockBefore
    ) -> tuple[Comparison, float, dict[int, Implausibility]]:
        """Compares units that change or come back with the stored ones. Undoes their moves in `before`.

        Returns the comparison, how many changed units each compared one stands for, and the jumps of prices by the
        position of the unit. The comparison has a sample of the changed units, and the prices of all.
        """
        comparison = Comparison()
        changed, weight = _sample(plan.changed, MOST_COMPARED)
        sampled = {row.vehicle_id for row in changed}
        returned = {row.vehicle_id for row in plan.back}
        positions = {row.vehicle_id: row.position for row in (*plan.changed, *plan.back)}
        jumps: dict[int, Implausibility] = {}
        for documents in stock.documents(list(positions)):
            for vehicle_id, document in documents.items():
                position = positions[vehicle_id]
                old = _unit.decode(document) if vehicle_id in sampled else None
                # Units outside the sample are compared by price only, which is fast to read.
                before_price = (_price.decode(document) if old is None else old).selling_price or 0
                prices = before_price, self.doubts.prices[position]
                if vehicle_id not in returned:
                    comparison.add_price(*prices)
                if (jump := self.doubts.compare(position, *prices)) is not None:
                    jumps[position] = jump
                if old is None:
                    continue
                new = self.unit_at(position)
                old_rooftop, rooftop = self.policy.rule_of(old).name, self.policy.rule_of(new).name
                before[old_rooftop] += weight
                before[rooftop] -= weight
                comparison.add(old, new, moves=old_rooftop != rooftop)
        return comparison, len(plan.changed) / len(changed) if changed else 1.0, jumps

    def _undo_arrivals_and_sales(self, before: Counter[str], plan: Plan, stock: StockBefore) -> None:
        """Removes the units that are new or back from `before`, the units of each rooftop, and adds the sold ones.

        For the check `rooftop_lost`, which compares the rooftops of the file with those of the stock. Counts a sample.
        """
        if not self._has_several_rooftops or plan.before == 0:
            return
        for planned in (plan.added, plan.back):
            rows, weight = _sample(planned, MOST_COMPARED)
            for row in rows:
                before[self.policy.rule_of(self.unit_at(row.position)).name] -= weight
        sold, weight = _sample(plan.sold, MOST_COMPARED)
        for stored in stock.units([unit.vehicle_id for unit in sold]):
            for old in stored.values():
                before[self.policy.rule_of(old).name] += weight

    def _units_of_unknown_rooftops(self, plan: Plan) -> int:
        """The number of units for the check `rooftops_unknown`: those that name only rooftops that the dealer lacks.

        Of a first import, also those that name none.
        """
        if not self._has_several_rooftops:
            return 0
        return self._unknown_rooftops if plan.before else self.without_rooftop

    @property
    def _has_several_rooftops(self) -> bool:
        return len(self.policy.rooftops) > 1

    def _with_rooftop(self, unit: Unit) -> Unit:
        """The unit, with the scope's rooftop as its last hint if it names no rooftop of the dealer."""
        if not self.rooftops or self.policy.rooftop_of(unit.rooftop_hints) is not None:
            return unit
        return replace(unit, rooftop_hints=(*unit.rooftop_hints, self.default_rooftop))
