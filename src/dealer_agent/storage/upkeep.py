"""When the upkeep of each dealer of an installation is due. One process of all machines claims it."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import bindparam, or_, select, update

from dealer_agent.storage.columns import UtcTime
from dealer_agent.storage.schema import of_dealer, registered_dealers, upkeep, upsert
from dealer_agent.storage.transaction import InstallationTransaction, Transaction


class DueUpkeep(NamedTuple):
    """A dealer whose upkeep is due, and the number of its current settings."""

    dealer_id: str
    settings_number: int


class ClaimedUpkeep(NamedTuple):
    """The upkeep of a dealer that this process claimed. `heads_at` is when the heads of its chains were recorded."""

    heads_at: datetime | None


FIND_DUE_UPKEEP = (
    select(registered_dealers.c.dealer_id, registered_dealers.c.settings_number)
    .join(upkeep, upkeep.c.dealer_id == registered_dealers.c.dealer_id, isouter=True)
    .where(registered_dealers.c.enabled, or_(upkeep.c.due_at.is_(None), upkeep.c.due_at <= bindparam("now")))
    .order_by(upkeep.c.due_at, registered_dealers.c.dealer_id)
    .limit(bindparam("most"))
)

CLAIM_UPKEEP = upsert(
    upkeep,
    "UPDATE SET due_at = excluded.due_at WHERE upkeep.due_at <= :now",
    bindparam("now", type_=UtcTime),
).returning(upkeep.c.heads_at)

RECORD_HEADS = update(upkeep).where(of_dealer(upkeep)).values(heads_at=bindparam("at"))


def find_due_upkeep(tx: InstallationTransaction, most: int) -> list[DueUpkeep]:
    """Up to `most` enabled dealers whose upkeep is due, the longest overdue first."""
    return [DueUpkeep(*row) for row in tx.execute(FIND_DUE_UPKEEP, {"now": tx.now, "most": most})]


def claim_upkeep(tx: Transaction, next_at: datetime) -> ClaimedUpkeep | None:
    """Claims the dealer's upkeep if it is due. It is due again at `next_at`. None if it is not due now."""
    row = tx.execute(CLAIM_UPKEEP, {"due_at": next_at, "now": tx.now}).one_or_none()
    return None if row is None else ClaimedUpkeep(row.heads_at)


def note_recorded_heads(tx: Transaction) -> None:
    """Stores that the heads of the dealer's chains were recorded at the time of the transaction."""
    tx.execute(RECORD_HEADS, {"at": tx.now})
