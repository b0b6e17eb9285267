"""Writes an import into the stock (docs/protocol.md#listings).

An import writes its changes in short transactions, so that leads do not wait for a large file. The changes have the
next revision of the stock, and no reader sees them. Then one short transaction makes this revision the current one.
Afterwards the changes move into `units`, again in short transactions. Readers see the same stock before and after each
of them. The next import finishes the work of an import that was killed, or deletes its changes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import bindparam, delete, insert, select

from dealer_agent.feeds.files.checks import CHECK_BY_ID, FeedFinding, refusals
from dealer_agent.feeds.files.counts import FeedShape
from dealer_agent.feeds.files.import_plan import FileUnit, KnownUnit, Plan, PlannedRow, plan_import
from dealer_agent.inventory.listing import Unit
from dealer_agent.storage.clock import clock_problem
from dealer_agent.storage.columns import microseconds
from dealer_agent.storage.errors import DatabaseBusy, FeedRefused
from dealer_agent.storage.jobs import add_job_at
from dealer_agent.storage.privacy.keys import check_owner, claim_dealer
from dealer_agent.storage.schema import feed_shapes, imports, revisions, unit_changes, unit_documents, units
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.stock.held_units import HELD, HeldRows, HeldUnit, decisions, good_since, put_held
from dealer_agent.storage.stock.import_parts import Parts, add_changes, clean_up, move_changes
from dealer_agent.storage.stock.reading import (
    applied_changes,
    confirmed_at,
    current_units,
    last_import,
    read_confirmations,
)
from dealer_agent.storage.stock.recorded_units import record_forgotten
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

_DOCUMENTS = 500
"""The documents that a check reads at a time."""

_REPAIRED = 0.5
_REPAIRS = FeedFinding("repairs", "warn", CHECK_BY_ID["repairs"].sentence)


class Scope(NamedTuple):
    """The rooftops of an import. `covers` says whether a unit with these rooftop hints is at one of them."""

    rooftops: tuple[str, ...]
    covers: Callable[[Sequence[str]], bool]


class StockBefore:
    """The stock before an import, in the transaction that plans it. `last_shape` is of the last file of the scope.

    `decisions` are the rows of `storage.stock.held_units` by vehicle id. With `undone` it is the stock before the last
    import, which changed the units with these vehicle ids.
    """

    def __init__(self, tx: Transaction, scope: Scope | None, undone: Collection[str] | None = None) -> None:
        self._tx = tx
        self._undone = undone or ()
        shapes = tx.execute(READ_LAST_SHAPE, {"of_rooftops": rooftops_key(scope)}).one_or_none() or (None, None)
        stored = shapes[0] if undone is None else shapes[1]
        self.last_shape = None if stored is None else msgspec.json.decode(stored, type=FeedShape)
        self.decisions = decisions(tx)
        self._confirmations = read_confirmations(tx)

    def confirmed_at(self, rooftop: str) -> datetime | None:
        """The time of the newest import of the whole stock of a rooftop."""
        return confirmed_at(self._confirmations, rooftop)

    def units(self, vehicle_ids: Sequence[str]) -> Iterator[dict[str, Unit]]:
        """The stored units by vehicle id, some at a time, in the order of `vehicle_ids`."""
        for some in self.documents(vehicle_ids):
            yield {vehicle_id: _unit.decode(document) for vehicle_id, document in some.items()}

    def documents(self, vehicle_ids: Sequence[str]) -> Iterator[dict[str, bytes]]:
        """As `units`, with the documents of the units (JSON)."""
        for start in range(0, len(vehicle_ids), _DOCUMENTS):
            ids = vehicle_ids[start : start + _DOCUMENTS]
            values = {"in_vehicles": ids}
            stored = dict(row for statement in READ_SOME_DOCUMENTS for row in self._tx.execute(statement, values))
            if undone := [vehicle_id for vehicle_id in ids if vehicle_id in self._undone]:
                for row in self._tx.execute(READ_BEFORE, {"in_vehicles": undone}):
                    stored[row.vehicle_id] = row.before
            yield {vehicle_id: stored[vehicle_id] for vehicle_id in ids if vehicle_id in stored}


class FeedReview(NamedTuple):
    """The result of the checks of a feed, what the next import of the scope remembers of it, and the held units.

    `left_out` are the positions of the rows that are not imported.
    """

    findings: tuple[FeedFinding, ...]
    shape: FeedShape
    held: HeldRows = HeldRows()
    left_out: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """The vehicle ids that an import changed, or would change.

    `before` and `after` are the numbers of units for sale in the scope of the import. `repeated` is the number of rows
    that named a unit again. `revision` is the stock's revision afterwards; None for a dry run. `findings` are those of
    the checks. `held` are the units that are held back, and those that a person hid.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    sold: tuple[str, ...]
    back: tuple[str, ...]
    before: int
    after: int
    repeated: int
    revision: int | None
    findings: tuple[FeedFinding, ...] = ()
    held: tuple[HeldUnit, ...] = ()


class _Hints(Struct):
    rooftop_hints: tuple[str, ...] = ()


_hints = msgspec.json.Decoder(_Hints)
_unit = msgspec.json.Decoder(Unit)

READ_KNOWN_UNITS = current_units(*KnownUnit._fields).order_by("first_seen", "vehicle_id")

READ_DOCUMENTS = (
    select(unit_documents.c.vehicle_id, unit_documents.c.unit)
    .where(of_dealer(unit_documents))
    .execution_options(yield_per=5000)
)

READ_CHANGED_DOCUMENTS = (
    select(unit_changes.c.vehicle_id, unit_changes.c.unit)
    .where(*applied_changes, unit_changes.c.unit.is_not(None))
    .execution_options(yield_per=5000)
)

READ_SOME_DOCUMENTS = (
    select(unit_documents.c.vehicle_id, unit_documents.c.unit).where(
        of_dealer(unit_documents), unit_documents.c.vehicle_id.in_(bindparam("in_vehicles", expanding=True))
    ),
    select(unit_changes.c.vehicle_id, unit_changes.c.unit).where(
        *applied_changes,
        unit_changes.c.unit.is_not(None),
        unit_changes.c.vehicle_id.in_(bindparam("in_vehicles", expanding=True)),
    ),
)
"""A change replaces a document."""

READ_BEFORE = select(unit_documents.c.vehicle_id, unit_documents.c.before).where(
    of_dealer(unit_documents),
    unit_documents.c.before.is_not(None),
    unit_documents.c.vehicle_id.in_(bindparam("in_vehicles", expanding=True)),
)

READ_ACTIONS = select(units.c.vehicle_id, units.c.action).where(
    of_dealer(units), units.c.revision == bindparam("of_revision")
)

READ_LAST_SHAPE = select(feed_shapes.c.shape, feed_shapes.c.before).where(
    of_dealer(feed_shapes), feed_shapes.c.rooftops == bindparam("of_rooftops")
)

KEEP_SHAPE = upsert(feed_shapes, "UPDATE SET shape = excluded.shape, before = feed_shapes.shape")

# Imports of one dealer run one after the other. The upsert locks the row also against tokens.
NEXT_REVISION = (
    upsert(revisions, "UPDATE SET stock_counter = revisions.stock_counter + 1")
    .values(stock_counter=1, token_counter=0)
    .returning(revisions.c.stock_counter)
)

ADD_IMPORT = insert(imports)

LIST_FORGOTTEN = select(units.c.vehicle_id).where(of_dealer(units), units.c.sold_at < bindparam("before"))

FORGET_UNITS = delete(units).where(of_dealer(units), units.c.vehicle_id.in_(bindparam("in_vehicles", expanding=True)))


def apply_import(
    store: Store,
    dealer_id: str,
    rows: Iterable[FileUnit],
    document_at: Callable[[int], bytes],
    *,
    at: datetime,
    source: str,
    layout: str,
    dry_run: bool,
    remember_days: int,
    scope: Scope | None = None,
    review: Callable[[Plan, StockBefore], FeedReview] | None = None,
    feed: str | None = None,
    begun: float | None = None,
    on_commit: Callable[[Transaction, int], object] = lambda _tx, _revision: None,
) -> ImportOutcome:
    """Replaces the stock by `rows`: readers see the old stock or the new one. `document_at` returns the document
    of the row at a position: of each row, only ids and hashes are kept in memory.

    Units for sale that are not in `rows` become sold. With a scope, only units of its rooftops do, and all rows are of
    these rooftops. `review` checks the plan of the import: if it finds a reason to refuse, raises FeedRefused and
    writes nothing. `dry_run` finds the same outcome, or raises the same error, and writes nothing.
    Units sold more than `remember_days` before `at` are deleted. Only the file name of `source` is stored. `begun` is
    the time `at` on the monotonic clock, if reading the file took a while. `on_commit`
    gets the transaction that makes the new revision current, and the revision: if it raises, the stock is unchanged.
    """
    file = list(rows)
    if dry_run:
        with store.read(dealer_id) as tx:
            check_owner(tx)
        return _outcome(*_plan(store, dealer_id, file, scope, review), None)
    with store.import_lock(dealer_id):
        with store.write(dealer_id, at) as tx:
            claim_dealer(tx)
        parts = Parts(store, dealer_id, at, begun)
        revision = clean_up(parts) + 1
        plan, reviewed = _plan(store, dealer_id, file, scope, review)
        changes = _Changes(file, document_at, revision, at)
        for planned in (plan.added, plan.changed, plan.back):
            parts.run(planned, add_changes, changes.replaced)
        parts.run(plan.refreshed, add_changes, changes.refreshed)
        parts.run(plan.sold, add_changes, changes.sold)
        outcome = _outcome(plan, reviewed, revision)
        with store.write(dealer_id, at) as tx:
            of_file = {"source": PurePath(source).name, "layout": layout, "feed": feed, "current_at": parts.now}
            _make_current(tx, outcome, scope, reviewed, of_file)
            on_commit(tx, revision)
            # While the clock is implausible, keep everything; a later import deletes it.
            may_forget = clock_problem(tx) is None
        del file, plan, changes  # They take much memory.
        move_changes(parts)
        if may_forget:
            _forget_sold(parts, at - timedelta(days=remember_days), revision)
    return outcome


def _make_current(
    tx: Transaction, outcome: ImportOutcome, scope: Scope | None, reviewed: FeedReview | None, of_file: dict[str, Any]
) -> None:
    """Makes the revision of an import the current one, and adds the import to the history.

    It keeps the shape of the file, its columns, because checks compare the next file with it.
    `of_file` are the columns of the history that describe the file. Raises DatabaseBusy.
    """
    counts = {name: len(getattr(outcome, name)) for name in ("added", "changed", "unchanged", "sold", "back")}
    stored = {
        "kind": "import",
        "full_file": scope is None,
        "rooftops": None if scope is None else msgspec.json.encode(scope.rooftops),
        "findings": None if reviewed is None else msgspec.json.encode(reviewed.findings),
    }
    if reviewed is not None:
        tx.execute(KEEP_SHAPE, {"rooftops": rooftops_key(scope), "shape": msgspec.json.encode(reviewed.shape)})
        put_held(tx, *reviewed.held)
        leaves_at = [each.leaves_at for each in reviewed.held.held if each.leaves_at is not None]
        if leaves_at:
            add_job_at(tx, HELD, min(leaves_at))
    begin_revision(tx, outcome.revision, of_file | counts | stored)


def begin_revision(tx: Transaction, revision: int | None, record: Mapping[str, Any]) -> None:
    """Makes a revision the current one, and adds its `record` to the history. Raises DatabaseBusy.

    The history also gets the times of held units, so the caller stores these before.
    """
    if tx.execute(NEXT_REVISION).scalar_one() != revision:
        raise DatabaseBusy("another import ended at the same time: try again")
    good = {vehicle_id: microseconds(at) for vehicle_id, at in good_since(tx).items()}
    times = {"at": tx.now, "good_since": msgspec.json.encode(good) if good else None}
    tx.execute(ADD_IMPORT, {"undoes": None, "revision": revision, **times, **record})


def _forget_sold(parts: Parts, before: datetime, revision: int) -> None:
    """Deletes the units that were sold before this time. The record keeps their last rows until this revision."""
    with parts.store.read(parts.dealer_id) as tx:
        forgotten = tx.execute(LIST_FORGOTTEN, {"before": before}).scalars().all()

    def forget(tx: Transaction, ids: list[str]) -> None:
        record_forgotten(tx, ids, revision + 1)
        tx.execute(FORGET_UNITS, {"in_vehicles": ids})

    parts.run(forgotten, forget)


def rooftops_key(scope: Scope | None) -> str:
    """The key of the shape of a scope."""
    return msgspec.json.encode(() if scope is None else scope.rooftops).decode()


def document_hash(document: bytes) -> bytes:
    """A hash of all facts of a unit."""
    return blake2b(document, digest_size=16).digest()


def _fits_better(earlier: Plan) -> bool:
    """Whether an import may replace the last one: most units of the earlier stock are in the file."""
    matched = len(earlier.changed) + len(earlier.unchanged)
    return matched > _REPAIRED * max(earlier.before, earlier.after)


def before_last_import(tx: Transaction, known: Sequence[KnownUnit]) -> tuple[list[KnownUnit], set[str]] | None:
    """The known units before the last import, and the vehicle ids that it changed. None if it cannot be undone."""
    last = last_import(tx)
    if last is None:
        return None
    actions = {row.vehicle_id: row.action for row in tx.execute(READ_ACTIONS, {"of_revision": last.revision})}
    units: list[KnownUnit] = []
    for unit in known:
        match actions.get(unit.vehicle_id):
            case "added":
                continue
            case "sold":
                units.append(unit._replace(sold_at=None))
            case "back":
                units.append(unit._replace(sold_at=unit.changed_at))
            case "changed":
                units.append(unit._replace(digest=""))
            case _:
                units.append(unit)
    return units, {vehicle_id for vehicle_id, action in actions.items() if action == "changed"}


def _plan(
    store: Store,
    dealer_id: str,
    file: Sequence[FileUnit],
    scope: Scope | None,
    review: Callable[[Plan, StockBefore], FeedReview] | None,
) -> tuple[Plan, FeedReview | None]:
    """What an import would change. Raises FeedRefused if a finding of `review` refuses the feed.

    A file that fits the stock before the last import is not refused: it repairs what a mistaken import did.
    """
    with store.read(dealer_id) as tx:
        known = [KnownUnit(*row) for row in tx.execute(READ_KNOWN_UNITS)]
        outside = set() if scope is None else _outside(tx, scope)
        plan = plan_import(known, file, outside)
        reviewed = None if review is None else review(plan, StockBefore(tx, scope))
        if reviewed is None or review is None or not refusals(reviewed.findings):
            return plan, reviewed
        earlier = before_last_import(tx, known)
        if earlier is not None:
            units, changed = earlier
            fitting = plan_import(units, file, outside)
            if _fits_better(fitting):
                repair = review(fitting, StockBefore(tx, scope, changed))
                if not refusals(repair.findings):
                    plan = plan_import(known, file, outside)
                    # The stock has mistaken facts, so units that are held back do not keep them.
                    plan.leave_out(repair.left_out, {unit.vehicle_id for unit in plan.known_at.values()})
                    return plan, repair._replace(findings=(*repair.findings, _REPAIRS))
    raise FeedRefused(reviewed.findings)


def _outside(tx: Transaction, scope: Scope) -> set[str]:
    """The vehicle ids of the units that are not at the rooftops of the scope. A change replaces a document."""
    outside: set[str] = set()
    for statement in (READ_DOCUMENTS, READ_CHANGED_DOCUMENTS):
        for vehicle_id, document in tx.execute(statement):
            if scope.covers(_hints.decode(document).rooftop_hints):
                outside.discard(vehicle_id)
            else:
                outside.add(vehicle_id)
    return outside


def _outcome(plan: Plan, reviewed: FeedReview | None, revision: int | None) -> ImportOutcome:
    """What the import changed, for its caller."""
    return ImportOutcome(
        added=tuple(row.vehicle_id for row in plan.added),
        changed=tuple(row.vehicle_id for row in plan.changed),
        unchanged=tuple(plan.unchanged),
        sold=tuple(unit.vehicle_id for unit in plan.sold),
        back=tuple(row.vehicle_id for row in plan.back),
        before=plan.before,
        after=plan.after,
        repeated=plan.repeated,
        revision=revision,
        findings=() if reviewed is None else reviewed.findings,
        held=() if reviewed is None else tuple(each for each in reviewed.held.held if each.decision != "released"),
    )


@dataclass(frozen=True, slots=True)
class _Changes:
    """The rows of `unit_changes` for the units of a file."""

    file: Sequence[FileUnit]
    document_at: Callable[[int], bytes]
    revision: int
    at: datetime

    def replaced(self, row: PlannedRow) -> dict[str, Any]:
        """The stored row of a unit that is new, changed or back."""
        unit = self.file[row.position]
        return {
            "vehicle_id": row.vehicle_id,
            "revision": self.revision,
            "vin": unit.vin,
            "stock": unit.stock,
            "digest": unit.digest,
            "document_hash": unit.document_hash,
            "first_seen": self.at if row.known is None else row.known.first_seen,
            "changed_at": self.at,
            "updated_at": self.at,
            "sold_at": None,
            "action": "added" if row.known is None else "changed" if row.known.sold_at is None else "back",
            "unit": self.document_at(row.position),
        }

    def refreshed(self, row: PlannedRow) -> dict[str, Any]:
        """A unit with a change that buyers do not see."""
        assert row.known is not None, "a refreshed unit is known"
        return self.replaced(row) | {"changed_at": row.known.changed_at}

    def sold(self, unit: KnownUnit) -> dict[str, Any]:
        """A unit that became sold."""
        now = {"updated_at": self.at, "sold_at": self.at}
        return unit._asdict() | now | {"revision": self.revision, "action": "sold", "unit": None}
