"""What the record of the stock says about one unit: what agents were answered at a time, and all of its changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from dealer_agent.catalogue_loading.listings import Lister, listing_policy
from dealer_agent.dealers.profile import Profile
from dealer_agent.operations import OperationError
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.storage.stock.record import (
    MadeBy,
    Version,
    find_recorded,
    history_of,
    made_by,
    record_begins,
    record_start,
    revision_at,
    stock_times,
)
from dealer_agent.storage.transaction import Transaction

PRICED = ("price", "list_price", "fees", "condition", "status")
"""The members of a listing that the record shows."""

Answer = Literal["in stock", "not in stock", "sold", "before the record"]
"""`not in stock`: no version of the unit was there yet."""


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change of a unit, and what agents were answered from then on: None after the unit left."""

    action: str
    made_by: MadeBy
    listing: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """What agents were answered about a unit at a time.

    `change` is the one that made the answer, and `following` the next one. `begins` is the start of the record; None if
    nothing was imported yet.
    """

    vehicle_id: str
    answer: Answer
    change: RecordedChange | None
    following: RecordedChange | None
    begins: datetime | None


def answer_at(tx: Transaction, profile: Profile, name: str, at: datetime) -> RecordedAnswer:
    """What agents were answered at a time about the unit with this VIN, stock number or vehicle id.

    Raises OperationError if the record has no such unit, or several.
    """
    revision, begins = revision_at(tx, at), record_begins(tx)
    vehicle_id, changes = _unit(tx, profile, name, revision)
    if revision < record_start(tx) or (begins is not None and at < begins):
        return RecordedAnswer(vehicle_id, "before the record", None, None, begins)
    earlier = [each for each in changes if each.made_by.revision <= revision]
    later = [each for each in changes if each.made_by.revision > revision]
    if not earlier:
        return RecordedAnswer(vehicle_id, "not in stock", None, later[0] if later else None, begins)
    now = earlier[-1]
    # The newest change may be of another fact. `change` is the one that made the price of that time.
    change = now
    for each in reversed(earlier):
        if each.listing != now.listing:
            break
        change = each
    following = next((each for each in later if each.listing != now.listing), None)
    return RecordedAnswer(vehicle_id, "sold" if now.listing is None else "in stock", change, following, begins)


def changes_of(tx: Transaction, profile: Profile, name: str) -> tuple[str, list[RecordedChange]]:
    """The vehicle id of a unit and all of its changes, the oldest first. Raises OperationError, as `answer_at`."""
    return _unit(tx, profile, name, revision_at(tx, tx.now))


def _unit(tx: Transaction, profile: Profile, name: str, revision: int) -> tuple[str, list[RecordedChange]]:
    """The changes of the only unit with this name: of several, of the only one that was in stock at the revision."""
    found = {vehicle_id: history_of(tx, vehicle_id) for vehicle_id in find_recorded(tx, name)}
    if len(found) > 1:
        live = {vehicle_id for vehicle_id, versions in found.items() if _is_live(versions, revision)}
        found = {vehicle_id: versions for vehicle_id, versions in found.items() if vehicle_id in live or not live}
    if not found:
        raise OperationError(f"the record has no unit {name!a}: give its VIN, stock number or vehicle id")
    if len(found) > 1:
        raise OperationError(f"the record has {len(found)} units {name!a}: give one of the ids {', '.join(found)}")
    ((vehicle_id, versions),) = found.items()
    made = made_by(tx, [each.revision for each in versions])
    return vehicle_id, [_change(tx, profile, each, made[each.revision]) for each in versions]


def _is_live(versions: Sequence[Version], revision: int) -> bool:
    earlier = [each for each in versions if each.revision <= revision]
    return bool(earlier) and earlier[-1].document is not None


def _change(tx: Transaction, profile: Profile, version: Version, made: MadeBy) -> RecordedChange:
    """A version of a unit with the price that buyers saw, for the list of its changes."""
    live = version.live
    if live is None:
        return RecordedChange(version.action, made, None)
    times = stock_times(tx, version.revision)
    assert times is not None, "each version has an import"
    lister = Lister(listing_policy(profile), times.confirmations, times.good_since)
    return RecordedChange(version.action, made, _priced(lister.vehicle(live, lister.confirmed_at(live))))


def _priced(vehicle: Vehicle) -> dict[str, Any]:
    values = {name: getattr(vehicle, name) for name in PRICED}
    return {name: None if value is UNSET else msgspec.to_builtins(value) for name, value in values.items()}
