"""Lists the agents that a dealer has seen, with what its leads, its counts and its tokens say about each agent."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, select

from dealer_agent.callers.caller import is_identity, token_caller
from dealer_agent.storage.daily_counts import OTHER
from dealer_agent.storage.leads.outcomes import Outcomes, newest_outcomes
from dealer_agent.storage.schema import daily_counts, leads
from dealer_agent.storage.statements import of_dealer
from dealer_agent.storage.tokens import list_tokens
from dealer_agent.storage.transaction import Transaction

ANONYMOUS_IDENTITY = ""
"""The identity of all anonymous callers together."""


class SeenAgent(NamedTuple):
    """An agent. `name` is that of its token. `requests` are the answered ones by skill, as far as counts are kept.

    `seen_at` is the newest of its last lead, the last use of its token, and the start of its last day with requests.
    """

    identity: str
    name: str = ""
    leads: int = 0
    last_lead_at: datetime | None = None
    seen_at: datetime | None = None
    requests: Mapping[str, int] = {}


_counts = daily_counts.c

COUNT_LEADS = (
    select(leads.c.caller, func.count(), func.max(leads.c.received_at))
    .where(of_dealer(leads), leads.c.caller.is_not(None))
    .group_by(leads.c.caller)
)

COUNT_ALL_LEADS = select(func.count()).select_from(leads).where(of_dealer(leads))

FIND_LAST_ANONYMOUS = (
    select(leads.c.received_at)
    .where(of_dealer(leads), leads.c.caller.is_(None))
    .order_by(leads.c.received_at.desc())
    .limit(1)
)

SUM_REQUESTS = (
    select(_counts.item, func.sum(_counts.number), func.max(_counts.day))
    .where(of_dealer(daily_counts), _counts.subject == bindparam("about"))
    .group_by(_counts.item)
)

# The days are named, so that the rows of other subjects are not read.
SUM_RECENT_REQUESTS = SUM_REQUESTS.where(_counts.day.in_(bindparam("days", expanding=True)))


def seen_agents(tx: Transaction) -> dict[str, SeenAgent]:
    """The known callers that the dealer has seen or given a token, and the anonymous ones together, by identity."""
    agents = _with_tokens(tx)
    identified = 0
    for identity, number, at in tx.execute(COUNT_LEADS):
        identified += number
        agent = agents.get(identity, SeenAgent(identity))
        agents[identity] = agent._replace(leads=number, last_lead_at=at, seen_at=_newer(agent.seen_at, at))
    last = tx.execute(FIND_LAST_ANONYMOUS).scalar()
    agents[ANONYMOUS_IDENTITY] = SeenAgent(
        ANONYMOUS_IDENTITY, "", tx.execute(COUNT_ALL_LEADS).scalar_one() - identified, last, last
    )
    _add_requests(agents, tx.execute(SUM_REQUESTS, {"about": "agents"}))
    return agents


def recent_agents(
    tx: Transaction, days: int, most_leads: int
) -> tuple[dict[str, SeenAgent], dict[str | None, Outcomes]]:
    """As `seen_agents`, of the newest leads and the requests of the last days, and what became of these leads.

    However many leads there are, it reads a bounded number of rows. None has the outcomes of anonymous callers.
    """
    agents, outcomes = _with_tokens(tx), newest_outcomes(tx, most_leads)
    for caller, (marks, at) in outcomes.items():
        identity = caller or ANONYMOUS_IDENTITY
        agent = agents.get(identity, SeenAgent(identity))
        agents[identity] = agent._replace(leads=marks.leads, last_lead_at=at, seen_at=_newer(agent.seen_at, at))
    _add_requests(agents, _recent_requests(tx, days))
    return agents, {caller: marks for caller, (marks, _) in outcomes.items()}


def claimed_agents(tx: Transaction, days: int) -> dict[str, int]:
    """The answered requests of anonymous callers in the last days, by the name that their `User-Agent` claims."""
    numbers: dict[str, int] = {}
    for item, number, _ in _recent_requests(tx, days):
        name = item.rpartition(" ")[0]
        if name not in ("", OTHER) and not is_identity(name):
            numbers[name] = numbers.get(name, 0) + int(number)
    return numbers


def _with_tokens(tx: Transaction) -> dict[str, SeenAgent]:
    """One entry for all anonymous callers, and one for each token for skills."""
    agents = {ANONYMOUS_IDENTITY: SeenAgent(ANONYMOUS_IDENTITY)}
    for token in list_tokens(tx):
        if token.purpose == "skills":
            identity = token_caller(token.token_id).identity
            agents[identity] = SeenAgent(identity, token.name, seen_at=token.used_at)
    return agents


def _recent_requests(tx: Transaction, days: int) -> Iterable[Any]:
    """The answered requests of the last days. The day of the dealer may be one after that of UTC."""
    named = [(tx.now.date() + timedelta(days=1 - number)).isoformat() for number in range(days + 2)]
    return tx.execute(SUM_RECENT_REQUESTS, {"about": "agents", "days": named})


def _add_requests(agents: dict[str, SeenAgent], rows: Iterable[Any]) -> None:
    """Adds the counts of answered requests in `rows` (item, number, day) to the agents."""
    for item, number, day in rows:
        identity, _, skill = item.rpartition(" ")
        if not is_identity(identity):
            continue
        agent = agents.get(identity, SeenAgent(identity))
        seen_at = _newer(agent.seen_at, datetime.fromisoformat(day).replace(tzinfo=UTC))
        requests = {**agent.requests, skill: agent.requests.get(skill, 0) + int(number)}
        agents[identity] = agent._replace(seen_at=seen_at, requests=requests)


def _newer(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((at for at in (one, other) if at is not None), default=None)
