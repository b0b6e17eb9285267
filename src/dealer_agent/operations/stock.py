"""What a person does with the stock of a dealer: rules of an import, decisions about units, and where a unit is from.

The commands `inventory` and the console's pages of the stock call these functions.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from dealer_agent.catalogue_loading.listings import digest_of
from dealer_agent.config.feeds import FeedSettings
from dealer_agent.dealers.profile import Profile
from dealer_agent.feeds.files.feed import MOST_FILE_MIB
from dealer_agent.feeds.importing import FileImport
from dealer_agent.open_installation import OpenDealer
from dealer_agent.operations import OperationError
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.storage.stock.held_units import Decision, HeldUnit, find_held
from dealer_agent.storage.stock.reading import list_imports
from dealer_agent.storage.stock.stock_changes import UndoResult, decide, undo_import
from dealer_agent.storage.transaction import Transaction

MOST_IMPORTS = 100
"""How many imports are looked at for the one that had a unit's rooftop."""


def how_to_import(
    dealer: OpenDealer, source: str, feed: FeedSettings | None, rooftops: Sequence[str] = (), layout: str | None = None
) -> FileImport:
    """How a person's file is read and imported: as that of a feed, if any. `max_mib` of the feed does not count.

    Raises OperationError for a rooftop that the dealer does not have.
    """
    how = FileImport(source=source, checks=dealer.settings.checks)
    if feed is not None:
        how = FileImport.of_feed(source, feed, dealer.settings.checks)
    known = _known_rooftops(dealer.profile, rooftops or how.rooftops)
    return replace(how, rooftops=known, layout=layout or how.layout, most_bytes=MOST_FILE_MIB << 20)


def _known_rooftops(dealer: Profile, wanted: Sequence[str]) -> tuple[str, ...]:
    """The rooftops as the settings write them."""
    names = {rooftop.name.casefold(): rooftop.name for rooftop in dealer.rooftops}
    for name in wanted:
        if name.strip().casefold() not in names:
            known = list(names.values())
            advice = did_you_mean(name, known)
            raise OperationError(
                f"{name!r} is not a rooftop of dealer.toml. The rooftops are: {', '.join(known)}{advice}"
            )
    return tuple(names[name.strip().casefold()] for name in wanted)


def decide_unit(dealer: OpenDealer, vehicle_id: str, decision: Decision, *, by: str) -> HeldUnit:
    """Releases or hides a unit. Raises OperationError if it cannot be, and StorageError."""
    at = datetime.now(UTC)
    if decision == "released":
        with dealer.read() as tx:
            held = find_held(tx, vehicle_id)
        if held is None or held.decision == "released":
            raise OperationError("The unit is not held back: there is nothing to release")
        wrong = next((doubt for doubt in held.doubts if not doubt.is_releasable), None)
        if wrong is not None:
            raise OperationError(f"{wrong.sentence} Its facts are wrong. {wrong.advice.rstrip('.')}")
    done = decide(dealer.store, dealer.profile.id, vehicle_id, decision, digest_of(dealer.profile, at), at=at, by=by)
    if done is None:
        raise OperationError("The unit is not in the stock any more, or an import is adding it. Try again")
    return done


def undo_last_import(dealer: OpenDealer, *, revision: int | None = None, dry_run: bool) -> UndoResult:
    """Takes the last import back, only if it is `revision`. Raises NothingToUndo, and StorageError."""
    at = datetime.now(UTC)
    digest = digest_of(dealer.profile, at)
    return undo_import(dealer.store, dealer.profile.id, digest, at=at, revision=revision, dry_run=dry_run)


def counts_of_undo(done: UndoResult) -> dict[str, int]:
    """What an undo does to how many units."""
    return {
        "Added units removed": done.removed,
        "Changed units restored": done.restored,
        "Sold units for sale again": done.returned,
        "Returned units sold again": done.sold,
        "Changed since, left alone": done.left_alone,
    }


def facts_of(document: bytes | None) -> dict[str, Any] | None:
    """The members of a unit or a listing."""
    return None if document is None else msgspec.json.decode(document)


def other_facts(facts: dict[str, Any] | None, shown: dict[str, Any] | None) -> dict[str, Any]:
    """The facts that are not among those that are shown."""
    return {name: value for name, value in (facts or {}).items() if (shown or {}).get(name) != value}


def held_document(dealer: OpenDealer, held: HeldUnit) -> dict[str, Any]:
    """What there is to say about a unit that is held back."""
    return {
        "reason": held.reason,
        "why": held.sentence,
        "advice": held.advice,
        "decision": held.decision,
        "by": held.decided_by,
        "since": dealer.local(held.since, held.rooftop),
        "leaves": dealer.local(held.leaves_at, held.rooftop),
        "feed": facts_of(held.unit),
    }


def origin_of(
    tx: Transaction, dealer: OpenDealer, rooftop: str | None, changed_at: datetime | None, held: HeldUnit | None
) -> dict[str, Any] | None:
    """The newest import that had all units of the unit's rooftop, which is None for a unit that buyers do not see."""
    if rooftop is None:
        return None if held is None else {"file": held.source}
    imports = (each for each in list_imports(tx, MOST_IMPORTS) if each.kind == "import")
    newest = next((each for each in imports if each.rooftops is None or rooftop in each.rooftops), None)
    if newest is None:
        return None
    return {
        "file": newest.source,
        "feed": newest.feed,
        "layout": newest.layout,
        "imported": dealer.local(newest.at, rooftop),
        "changed": dealer.local(changed_at, rooftop),
    }
