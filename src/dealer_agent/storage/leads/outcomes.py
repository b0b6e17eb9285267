"""Reads what became of the leads of each agent: marks of staff, withdrawals, and mails that were refused."""

from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, FromClause, Integer, and_, bindparam, case, func, literal_column, select, update

from dealer_agent.leads.statuses import Mark
from dealer_agent.storage.columns import UtcTime
from dealer_agent.storage.privacy.withdrawals import IS_WITHDRAWAL
from dealer_agent.storage.schema import consent_events, leads
from dealer_agent.storage.statements import of_dealer, of_lead
from dealer_agent.storage.transaction import Transaction

MONTH, YEAR = timedelta(days=30), timedelta(days=365)


class Outcomes(NamedTuple):
    """The leads of an agent, and how many of them are marked so, had their consent withdrawn, or had a mail to the
    customer refused for good.
    """

    leads: int = 0
    reached: int = 0
    wrong: int = 0
    spam: int = 0
    sold: int = 0
    withdrawn: int = 0
    bounced: int = 0


class AgentOutcomes(NamedTuple):
    """The outcomes of the leads of the last 30 and of the last 365 days."""

    month: Outcomes = Outcomes()
    year: Outcomes = Outcomes()


_WITHDRAWN = select(consent_events.c.lead_id).where(of_dealer(consent_events), IS_WITHDRAWAL)
_newest = (
    select(leads.c.caller, leads.c.received_at, leads.c.lead_id, leads.c.mark, leads.c.bounced_at)
    .where(of_dealer(leads))
    .order_by(leads.c.received_at.desc(), leads.c.lead_id.desc())
    .limit(bindparam("most"))
    .subquery()
)
_in_month = leads.c.received_at >= bindparam("month", type_=UtcTime)
# A lead whose mark is NULL is not bad: NULL or false is NULL.
_is_bad = leads.c.mark.in_(("wrong", "spam")) | leads.c.bounced_at.is_not(None)


def _number(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))


def _outcomes_in(table: FromClause) -> dict[str, ColumnElement[bool]]:
    """The condition of each outcome for the rows of a table with the columns of leads."""
    return {
        "leads": literal_column("1 = 1"),
        **{mark: table.c.mark == mark for mark in ("reached", "wrong", "spam", "sold")},
        "withdrawn": table.c.lead_id.in_(_WITHDRAWN),
        "bounced": table.c.bounced_at.is_not(None),
    }


_OUTCOMES = _outcomes_in(leads)

COUNT_NEWEST = select(
    _newest.c.caller, func.max(_newest.c.received_at), *map(_number, _outcomes_in(_newest).values())
).group_by(_newest.c.caller)

COUNT_OUTCOMES = (
    select(
        leads.c.caller,
        *(_number(and_(_in_month, _OUTCOMES[name])) for name in Outcomes._fields),
        *(_number(_OUTCOMES[name]) for name in Outcomes._fields),
    )
    .where(of_dealer(leads), leads.c.received_at >= bindparam("year", type_=UtcTime))
    .group_by(leads.c.caller)
)

# The last month of the same index.
FIND_DOUBTFUL = (
    select(leads.c.caller, *(_number(condition) for condition in _OUTCOMES.values()))
    .where(of_dealer(leads), _in_month, leads.c.caller.is_not(None))
    .group_by(leads.c.caller)
    .having(
        func.count() >= bindparam("least", type_=Integer),
        100 * _number(_is_bad) >= bindparam("percent", type_=Integer) * func.count(),
    )
)

SET_MARK = (
    update(leads)
    .where(of_lead(leads))
    .values(mark=bindparam("new_mark"), marked_at=bindparam("at"), marked_by=bindparam("by"))
)

NOTE_BOUNCE = update(leads).where(of_lead(leads)).values(bounced_at=bindparam("at"))


def outcomes_of_agents(tx: Transaction) -> dict[str | None, AgentOutcomes]:
    """What became of the leads of each caller, those in quarantine too. None is anonymous.

    One pass over the index of the leads of the last year.
    """
    outcomes: dict[str | None, AgentOutcomes] = {}
    width = len(Outcomes._fields)
    for caller, *numbers in tx.execute(COUNT_OUTCOMES, {"month": tx.now - MONTH, "year": tx.now - YEAR}):
        month, year = (Outcomes(*map(int, part)) for part in (numbers[:width], numbers[width:]))
        outcomes[caller] = AgentOutcomes(month, year)
    return outcomes


def newest_outcomes(tx: Transaction, most: int) -> dict[str | None, tuple[Outcomes, datetime]]:
    """What became of the newest leads of the dealer, and the time of the last one, by caller. None is anonymous.

    However many leads there are, it reads `most` entries of the index.
    """
    return {
        caller: (Outcomes(*map(int, numbers)), last_at)
        for caller, last_at, *numbers in tx.execute(COUNT_NEWEST, {"most": most})
    }


def doubtful_agents(tx: Transaction, least: int, percent: int) -> dict[str, Outcomes]:
    """The known agents with at least `least` leads in 30 days, of which `percent` or more are bad.

    A lead is bad if it is marked as spam or wrong, or a server refused its mail for good.
    """
    parameters = {"month": tx.now - MONTH, "least": least, "percent": percent}
    return {caller: Outcomes(*map(int, numbers)) for caller, *numbers in tx.execute(FIND_DOUBTFUL, parameters)}


def set_mark(tx: Transaction, lead_id: str, mark: Mark, *, by: str) -> bool:
    """Records what staff say of a lead, in place of an earlier mark. Returns False if there is no such lead."""
    return tx.execute(SET_MARK, {"of_lead": lead_id, "new_mark": mark, "at": tx.now, "by": by}).rowcount == 1


def note_bounce(tx: Transaction, lead_id: str) -> None:
    """Records that a server refused a mail to the lead's customer for good."""
    tx.execute(NOTE_BOUNCE, {"of_lead": lead_id, "at": tx.now})
