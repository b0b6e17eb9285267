"""Which monthly reports were mailed, and the leads and visits that they count.

One process mails a report: it claims the month, and records that the mail was accepted. If it stops in between, another
attempt follows, so a report may arrive twice, but is never lost.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import bindparam, func, select, update

from dealer_agent.leads.statuses import CANCELLED, REPLACED
from dealer_agent.storage.columns import UtcTime
from dealer_agent.storage.schema import appointments, imports, leads, monthly_reports, of_dealer, upsert
from dealer_agent.storage.transaction import Transaction

FIRST_WAIT = timedelta(hours=1)
LONGEST_WAIT = timedelta(days=1)
"""The wait after a failed attempt doubles from the first to the longest."""


class LeadCounts(NamedTuple):
    """Leads and visits of a period. A visit that was moved counts once. `confirmed` visits had a time."""

    leads: int
    visits: int
    confirmed: int
    cancelled: int


_between = bindparam("since", type_=UtcTime), bindparam("until", type_=UtcTime)
_created = (of_dealer(appointments), appointments.c.created_at >= _between[0], appointments.c.created_at < _between[1])

COUNT_LEADS = (
    select(func.count())
    .select_from(leads)
    .where(of_dealer(leads), leads.c.received_at >= _between[0], leads.c.received_at < _between[1])
)

COUNT_VISITS = select(func.count(), func.count(appointments.c.starts_at)).where(
    *_created, appointments.c.status != REPLACED
)

COUNT_CANCELLED = select(func.count()).where(
    of_dealer(appointments),
    appointments.c.status == CANCELLED,
    appointments.c.cancelled_at >= _between[0],
    appointments.c.cancelled_at < _between[1],
)

FIND_FIRST_IMPORT = select(func.min(imports.c.at)).where(of_dealer(imports))

CLAIM_REPORT = upsert(
    monthly_reports,
    "UPDATE SET attempts = monthly_reports.attempts + 1, due_at = excluded.due_at "
    "WHERE monthly_reports.sent_at IS NULL AND monthly_reports.due_at <= :now",
    bindparam("now", type_=UtcTime),
).returning(monthly_reports.c.attempts)

SET_WAIT = (
    update(monthly_reports)
    .where(of_dealer(monthly_reports), monthly_reports.c.month == bindparam("of_month"))
    .values(due_at=bindparam("next_at", type_=UtcTime))
)

SET_SENT = (
    update(monthly_reports)
    .where(of_dealer(monthly_reports), monthly_reports.c.month == bindparam("of_month"))
    .values(sent_at=bindparam("at", type_=UtcTime))
)


def count_leads(tx: Transaction, since: datetime, until: datetime) -> LeadCounts:
    """The leads and visits from `since` to before `until`."""
    period = {"since": since, "until": until}
    visits, confirmed = tx.execute(COUNT_VISITS, period).one()
    received = tx.execute(COUNT_LEADS, period).scalar_one()
    return LeadCounts(received, visits, confirmed, tx.execute(COUNT_CANCELLED, period).scalar_one())


def first_import(tx: Transaction) -> datetime | None:
    """When the dealer's stock was first imported."""
    at: datetime | None = tx.execute(FIND_FIRST_IMPORT).scalar()
    return at


def claim_report(tx: Transaction, month: str) -> bool:
    """Claims the report of a month (`2026-10`) for one attempt to mail it. False if it was mailed, or must wait."""
    row = {"month": month, "attempts": 1, "due_at": tx.now + FIRST_WAIT, "now": tx.now}
    attempts = tx.execute(CLAIM_REPORT, row).scalar_one_or_none()
    if attempts is None:
        return False
    # More doublings exceed the longest wait.
    wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(attempts - 1, 10))
    tx.execute(SET_WAIT, {"of_month": month, "next_at": tx.now + wait})
    return True


def record_sent(tx: Transaction, month: str) -> None:
    """Records that the mail server accepted the report of a month."""
    tx.execute(SET_SENT, {"of_month": month, "at": tx.now})
