"""Changes the stock without an import: an undo, a person's decision, and the end of a held unit's day.

They write like an import (`storage.stock.stock_import`): readers see the stock before or after it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import bindparam, func, select

from dealer_agent.inventory.listing import Unit, document_of
from dealer_agent.storage.errors import NothingToUndo
from dealer_agent.storage.privacy.keys import claim_dealer
from dealer_agent.storage.schema import feed_shapes, unit_documents, units
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.stock.held_units import Decision, HeldUnit, decisions, due_units, put_held
from dealer_agent.storage.stock.import_parts import Parts, add_changes, clean_up, move_changes
from dealer_agent.storage.stock.reading import ChangeKind, LastImport, last_import
from dealer_agent.storage.stock.stock_import import READ_ACTIONS, Scope, begin_revision, document_hash, rooftops_key
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

DigestOf = Callable[[str, Unit], str]
"""The digest of the listing of a unit, with its vehicle id."""

_COUNTED = ("added", "changed", "sold", "back")
_unit = msgspec.json.Decoder(Unit)

READ_ROWS = (
    select(units, unit_documents.c.unit, unit_documents.c.before)
    .join_from(units, unit_documents, isouter=True)
    .where(of_dealer(units), units.c.vehicle_id.in_(bindparam("in_vehicles", expanding=True)))
)

COUNT_ACTIONS = (
    select(units.c.action, func.count().label("number"))
    .where(of_dealer(units), units.c.revision == bindparam("of_revision"))
    .group_by(units.c.action)
)

COUNT_LATER = (
    select(func.count()).select_from(units).where(of_dealer(units), units.c.revision > bindparam("of_revision"))
)

PUT_SHAPE_BACK = upsert(feed_shapes, "UPDATE SET shape = COALESCE(feed_shapes.before, excluded.shape), before = NULL")


class UndoResult(NamedTuple):
    """What an undo did, or would do. `left_alone` units were changed after the import, and stay as they are.

    `removed` had been added, `restored` changed, `returned` sold and `sold` returned by the import. `revision` is None
    for a rehearsal.
    """

    undone: LastImport
    removed: int
    restored: int
    returned: int
    sold: int
    left_alone: int
    revision: int | None


def undo_import(
    store: Store, dealer_id: str, digest_of: DigestOf, *, at: datetime, revision: int | None = None, dry_run: bool
) -> UndoResult:
    """Takes the last import back: every unit that it changed is as before, unless something changed it afterwards.

    With a `revision`, only that import. Raises NothingToUndo, and StorageError. `dry_run` changes nothing.
    """
    if dry_run:
        with store.read(dealer_id) as tx:
            last = _last_import(tx, revision)
            of_last = {"of_revision": last.revision}
            counts = {row.action: row.number for row in tx.execute(COUNT_ACTIONS, of_last)}
            return _undone(last, counts, tx.execute(COUNT_LATER, of_last).scalar_one(), None)
    with store.import_lock(dealer_id):
        parts, next_revision = _begin(store, dealer_id, at)
        with store.read(dealer_id) as tx:
            last, actions, left_alone = _plan_undo(tx, revision)

        def before(row: Any) -> tuple[str, bytes | None]:
            match row.action:
                case "added" | "back":
                    return "sold", None
                case "sold":
                    return "back", row.unit
            return "changed", row.before

        acts = _write(parts, next_revision, list(actions), before, digest_of)
        scope = None if last.rooftops is None else Scope(last.rooftops, lambda _: True)
        with store.write(dealer_id, at) as tx:
            tx.execute(PUT_SHAPE_BACK, {"rooftops": rooftops_key(scope), "shape": b'{"columns":{}}', "before": None})
            new = [row for row in decisions(tx).values() if row.decision == "none" and row.since >= last.at]
            released = [row.as_released for row in new if row.released]
            put_held(tx, released, [row.vehicle_id for row in new if not row.released])
            _end(tx, parts, next_revision, "undo", last.source, acts, undoes=last.revision)
        move_changes(parts)
    return _undone(last, Counter(actions.values()), left_alone, next_revision)


def _undone(last: LastImport, counts: Mapping[str, int], left_alone: int, revision: int | None) -> UndoResult:
    added, changed, sold, back = (counts.get(action, 0) for action in _COUNTED)
    return UndoResult(last, added, changed, sold, back, left_alone, revision)


def _plan_undo(tx: Transaction, revision: int | None) -> tuple[LastImport, dict[str, str], int]:
    """The last import, what it did to each unit, and how many units were changed since."""
    last = _last_import(tx, revision)
    of_last = {"of_revision": last.revision}
    actions = {row.vehicle_id: row.action for row in tx.execute(READ_ACTIONS, of_last)}
    return last, actions, tx.execute(COUNT_LATER, of_last).scalar_one()


def _last_import(tx: Transaction, revision: int | None) -> LastImport:
    """The import that an undo takes back. Raises NothingToUndo."""
    last = last_import(tx)
    if last is None:
        raise NothingToUndo("No import can be undone: there is none, or the last one was undone. Import a file.")
    if revision is not None and revision != last.revision:
        raise NothingToUndo(f"The last import is revision {last.revision}. An undo goes one step back.")
    return last


def decide(
    store: Store, dealer_id: str, vehicle_id: str, decision: Decision, digest_of: DigestOf, *, at: datetime, by: str
) -> HeldUnit | None:
    """Stores a person's decision about a unit, and publishes or removes it. None if no unit has this vehicle id.

    A release publishes the facts that were held back. Without any, the next import publishes the unit. Raises
    StorageError.
    """
    with store.import_lock(dealer_id):
        parts, revision = _begin(store, dealer_id, at)
        with store.read(dealer_id) as tx:
            row = tx.execute(READ_ROWS, {"in_vehicles": [vehicle_id]}).one_or_none()
            held = decisions(tx).get(vehicle_id)
        if held is None:
            if row is None or row.unit is None:
                return None
            unit = _unit.decode(row.unit)
            rooftop = next(iter(unit.rooftop_hints), "")
            held = HeldUnit(vehicle_id, row.vin, row.stock, rooftop, "", (), at)
        # A unit that a person hid has its facts in the stock.
        document = held.unit or (None if row is None or row.sold_at is None else row.unit)
        now = held._replace(decision=decision, decided_by=by, decided_at=at, leaves_at=None, good_at=None)
        if decision == "released":
            now = now._replace(released=(*held.released, *held.doubts), doubts=(), unit=None)
        is_live = row is not None and row.sold_at is None
        acts: list[str] = []
        if decision == "hidden" and is_live:
            acts = _write(parts, revision, [vehicle_id], lambda _: ("sold", None), digest_of)
        elif decision == "released" and document is not None:
            action = "added" if row is None else "changed" if is_live else "back"
            acts = _publish(parts, revision, held, document, action, digest_of)
        with store.write(dealer_id, at) as tx:
            put_held(tx, [now])
            if acts:
                _end(tx, parts, revision, "held", f"{decision}: {held.name}", acts)
        move_changes(parts)
    return now


def remove_due(store: Store, dealer_id: str, now: datetime) -> datetime | None:
    """Removes the units whose day has ended, and returns when the next day ends. Raises StorageError."""
    with store.import_lock(dealer_id):
        with store.read(dealer_id, now) as tx:
            due = due_units(tx, now)
        if due:
            parts, revision = _begin(store, dealer_id, now)
            acts = _write(parts, revision, [each.vehicle_id for each in due], lambda _: ("sold", None), lambda *_: "")
            with store.write(dealer_id, now) as tx:
                put_held(tx, [each._replace(leaves_at=None, good_at=None) for each in due])
                if acts:
                    _end(tx, parts, revision, "held", "held back for a day", acts)
            move_changes(parts)
        with store.read(dealer_id, now) as tx:
            waiting = [each.leaves_at for each in decisions(tx).values() if each.leaves_at is not None]
    return min(waiting, default=None)


def _begin(store: Store, dealer_id: str, at: datetime) -> tuple[Parts, int]:
    """The parts of a change, and its revision: the next one. First finishes or undoes an import that was killed."""
    with store.write(dealer_id, at) as tx:
        claim_dealer(tx)
    parts = Parts(store, dealer_id, at)
    return parts, clean_up(parts) + 1


def _end(
    tx: Transaction,
    parts: Parts,
    revision: int,
    kind: ChangeKind,
    source: str,
    actions: Sequence[str],
    undoes: int | None = None,
) -> None:
    """Makes the change visible, and adds it to the history. Raises DatabaseBusy."""
    counts = {name: actions.count(name) for name in _COUNTED}
    record = {"kind": kind, "source": source, "layout": "", "feed": None, "full_file": False, "unchanged": 0}
    stored = {"rooftops": None, "findings": None, "undoes": undoes, "current_at": parts.now}
    begin_revision(tx, revision, {**record, **counts, **stored})


def _write(
    parts: Parts,
    revision: int,
    vehicle_ids: Sequence[str],
    decide_action: Callable[[Any], tuple[str, bytes | None]],
    digest_of: DigestOf,
) -> list[str]:
    """Writes the changes of known units, in short transactions. Returns what was done to each.

    `decide_action` gets the row of a unit, and returns the action and the new document of the unit. A unit without a
    new document leaves the stock. A unit that has already left stays as it is.
    """
    actions: list[str] = []

    def write(tx: Transaction, ids: list[str]) -> None:
        """Decides about each of these units again, and stores what changes."""
        changes: list[dict[str, Any]] = []
        for row in tx.execute(READ_ROWS, {"in_vehicles": ids}):
            action, document = decide_action(row)
            if action == "sold" and row.sold_at is not None:
                continue
            changes.append(_change(row, revision, parts.at, action, document, digest_of))
        if changes:
            add_changes(tx, changes)
        actions.extend(change["action"] for change in changes)

    parts.run(vehicle_ids, write)
    return actions


def _change(
    row: Any, revision: int, at: datetime, action: str, document: bytes | None, digest_of: DigestOf
) -> dict[str, Any]:
    """The row of a unit that a person's decision or an undo changes. Without a `document`, it is sold."""
    names = ("vehicle_id", "vin", "stock", "digest", "document_hash", "first_seen", "changed_at")
    change = {name: getattr(row, name) for name in names}
    change |= {"revision": revision, "action": action, "updated_at": at, "unit": document}
    if document is None:
        return change | {"sold_at": at}
    return change | {"sold_at": None, "changed_at": at} | _identity(row.vehicle_id, document, digest_of)


def _identity(vehicle_id: str, document: bytes, digest_of: DigestOf) -> dict[str, Any]:
    """The columns that come from the document of a unit: VIN, stock number and two hashes."""
    unit = _unit.decode(document)
    return {
        "vin": unit.vin or None,
        "stock": unit.stock or None,
        "digest": digest_of(vehicle_id, unit),
        "document_hash": document_hash(document_of(unit)),
    }


def _publish(
    parts: Parts, revision: int, held: HeldUnit, document: bytes, action: str, digest_of: DigestOf
) -> list[str]:
    """Writes a held unit to the stock with the facts of `document`, which were held back.

    `action` is what this does to the unit: added, changed, sold or back. Returns the actions that were written.
    """
    if action != "added":
        return _write(parts, revision, [held.vehicle_id], lambda _: (action, document), digest_of)
    times = dict.fromkeys(("first_seen", "changed_at", "updated_at"), parts.at)
    change = {"vehicle_id": held.vehicle_id, "revision": revision, "action": action, "unit": document, "sold_at": None}
    change |= times | _identity(held.vehicle_id, document, digest_of)
    parts.run([change], add_changes)
    return [action]
