"""Counts the leads and visits of a month, for its report."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import bindparam, func, select

from dealer_agent.leads.statuses import CANCELLED, REPLACED
from dealer_agent.storage.columns import UtcTime
from dealer_agent.storage.schema import appointments, imports, leads
from dealer_agent.storage.statements import of_dealer, shown_to_staff
from dealer_agent.storage.transaction import Transaction


class LeadCounts(NamedTuple):
    """Leads and visits of a period, without those in quarantine.

    A visit that was moved counts once. `confirmed` visits had a time.
    """

    leads: int
    visits: int
    confirmed: int
    cancelled: int


_between = bindparam("since", type_=UtcTime), bindparam("until", type_=UtcTime)
_created = (of_dealer(appointments), appointments.c.created_at >= _between[0], appointments.c.created_at < _between[1])

COUNT_LEADS = (
    select(func.count())
    .select_from(leads)
    .where(
        of_dealer(leads), shown_to_staff(leads), leads.c.received_at >= _between[0], leads.c.received_at < _between[1]
    )
)

COUNT_VISITS = (
    select(func.count(), func.count(appointments.c.starts_at))
    .join_from(appointments, leads)
    .where(*_created, shown_to_staff(leads), appointments.c.status != REPLACED)
)

COUNT_CANCELLED = (
    select(func.count())
    .join_from(appointments, leads)
    .where(
        of_dealer(appointments),
        shown_to_staff(leads),
        appointments.c.status == CANCELLED,
        appointments.c.cancelled_at >= _between[0],
        appointments.c.cancelled_at < _between[1],
    )
)

FIND_FIRST_IMPORT = select(func.min(imports.c.at)).where(of_dealer(imports))


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
