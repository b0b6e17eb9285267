"""Stores which leads wait in quarantine (docs/protocol.md#quarantine), and what a person decided about them.

The caller of a function that writes holds the dealer's lock.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from sqlalchemy import String, bindparam, case, delete, func, or_, select, tuple_, update

from dealer_agent.leads.records import LeadRecord
from dealer_agent.leads.statuses import REFUSED, RELEASED, WAITING, Mark, QuarantineState
from dealer_agent.storage.columns import ExternalText, UtcTime
from dealer_agent.storage.leads.prepared_statements import Prepared
from dealer_agent.storage.leads.stored_leads import LEAD_COLUMNS, WAITS, leads_in
from dealer_agent.storage.schema import lead_events, leads
from dealer_agent.storage.statements import of_dealer, of_lead, rows_of
from dealer_agent.storage.transaction import Transaction


class LeadReview(NamedTuple):
    """What people said of a lead: the decision about its quarantine, and its mark. Names are those of staff."""

    quarantine: QuarantineState | None
    quarantined_at: datetime | None
    decided_at: datetime | None
    decided_by: str | None
    decided_why: str | None
    mark: Mark | None
    marked_at: datetime | None
    marked_by: str | None


class WaitingLeads(NamedTuple):
    """The leads of one caller that wait: their number, since when, and the id of the first. None is anonymous."""

    caller: str | None
    number: int
    oldest: datetime
    first_id: str


# An erasure ends the wait: nothing is left to deliver.
_WAITS = (of_dealer(leads), WAITS, leads.c.erased_at.is_(None))
_BY_WAIT = (leads.c.quarantined_at, leads.c.lead_id)
_OF_CALLER = leads.c.caller.is_not_distinct_from(bindparam("caller", type_=ExternalText))

QUARANTINE = Prepared(
    update(leads)
    .where(of_lead(leads), or_(leads.c.quarantine.is_(None), leads.c.quarantine != WAITING))
    .values(
        quarantine=WAITING,
        # Nobody got what was refused, so the time since which the lead waits stays.
        quarantined_at=case(
            (leads.c.quarantine == REFUSED, leads.c.quarantined_at), else_=bindparam("at", type_=UtcTime)
        ),
    )
)

READ_REVIEW = rows_of(leads, LeadReview, lead_id="of_lead")

LIST_WAITING = select(*LEAD_COLUMNS).where(*_WAITS).order_by(*_BY_WAIT).limit(bindparam("limit"))

LIST_WAITING_OF = LIST_WAITING.where(_OF_CALLER)

FIND_WAITING_OF = (
    select(leads.c.lead_id, leads.c.quarantined_at)
    .where(
        *_WAITS,
        _OF_CALLER,
        tuple_(*_BY_WAIT) > tuple_(bindparam("after_time", type_=UtcTime), bindparam("after_id", type_=String)),
    )
    .order_by(*_BY_WAIT)
    .limit(bindparam("limit"))
)

COUNT_WAITING = (
    select(leads.c.caller, func.count(), func.min(leads.c.quarantined_at, type_=UtcTime), func.min(leads.c.lead_id))
    .where(*_WAITS)
    .group_by(leads.c.caller)
    .order_by(func.min(leads.c.quarantined_at))
)

COUNT_WAITING_OF = select(func.count()).select_from(leads).where(*_WAITS, _OF_CALLER)

DECIDE = (
    update(leads)
    .where(of_lead(leads), *_WAITS)
    .values(
        quarantine=bindparam("state"),
        decided_at=bindparam("at"),
        decided_by=bindparam("by"),
        decided_why=bindparam("why"),
    )
)

DELETE_ADDITIONS = delete(lead_events).where(of_lead(lead_events), lead_events.c.at >= bindparam("since"))


def quarantine_lead(tx: Transaction, lead_id: str) -> None:
    """Lets a lead wait in quarantine, from now on. One that waits or was refused keeps its time."""
    QUARANTINE.write(tx, {"of_lead": lead_id, "at": tx.now})


def read_review(tx: Transaction, lead_id: str) -> LeadReview | None:
    """What people said of a lead; None if there is no such lead."""
    return tx.find(LeadReview, READ_REVIEW, {"of_lead": lead_id})


def list_waiting(tx: Transaction, limit: int, *, of_caller: Sequence[str | None] = ()) -> list[LeadRecord]:
    """The leads that wait, the longest waiting first. `of_caller` has one caller, or none for all callers."""
    if of_caller:
        return leads_in(tx, tx.execute(LIST_WAITING_OF, {"limit": limit, "caller": of_caller[0]}))
    return leads_in(tx, tx.execute(LIST_WAITING, {"limit": limit}))


def find_waiting(
    tx: Transaction, caller: str | None, after: tuple[datetime, str], limit: int
) -> list[tuple[str, datetime]]:
    """The ids and times of waiting leads of a caller that come after another one, the longest waiting first."""
    parameters = {"caller": caller, "limit": limit, "after_time": after[0], "after_id": after[1]}
    return [(row.lead_id, row.quarantined_at) for row in tx.execute(FIND_WAITING_OF, parameters)]


def waiting_by_caller(tx: Transaction) -> list[WaitingLeads]:
    """How many leads of each caller wait. The caller whose lead waits longest comes first."""
    return [WaitingLeads(*row) for row in tx.execute(COUNT_WAITING)]


def count_waiting(tx: Transaction, caller: str | None) -> int:
    """How many leads of a caller wait. None is anonymous."""
    return int(tx.execute(COUNT_WAITING_OF, {"caller": caller}).scalar_one())


def decide(
    tx: Transaction, lead_id: str, state: Literal["released", "refused"] | None, *, by: str, why: str | None = None
) -> bool:
    """Ends the wait of a lead. Returns False, and changes nothing, if it does not wait.

    With `state` None the lead is as before, because staff had it before it waited.
    """
    assert state in (RELEASED, REFUSED, None)
    decided = {"of_lead": lead_id, "state": state, "at": tx.now, "by": by, "why": why}
    return tx.execute(DECIDE, decided).rowcount == 1


def delete_additions(tx: Transaction, lead_id: str, since: datetime) -> None:
    """Deletes what was added to a lead while it waited."""
    tx.execute(DELETE_ADDITIONS, {"of_lead": lead_id, "since": since})
