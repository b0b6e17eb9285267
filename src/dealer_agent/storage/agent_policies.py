"""Stores the policies of agents (`callers.policy`), with their history. Rows are only added.

They belong to a dealer, or to ALL_DEALERS: then they are of all dealers of the installation. A change
raises the same revision number as a change of tokens, so all processes load it within two seconds (`server.refresh`).
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import bindparam, func, insert, select

from dealer_agent.callers.policy import Policies, Policy, PolicyState
from dealer_agent.storage.errors import TooManyPolicies
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.privacy.keys import claim_dealer
from dealer_agent.storage.schema import agent_policies
from dealer_agent.storage.statements import of_dealer
from dealer_agent.storage.tokens import NEXT_REVISION
from dealer_agent.storage.transaction import Transaction

MOST_POLICIES = 1000
"""The most agents that have a policy of one dealer, or of the installation."""
NONE = "none"
"""The state of a row that has removed the policy of an agent."""


class PolicyChange(NamedTuple):
    """A change of the policy of an agent. `policy` is None if the change removed it."""

    agent: str
    policy: Policy | None
    reason: str
    set_by: str
    set_at: datetime


_columns = agent_policies.c
_newer = agent_policies.alias("newer")

_CHANGES = select(
    _columns.agent,
    _columns.state,
    _columns.skills,
    _columns.rates,
    _columns.leads_a_day,
    _columns.reason,
    _columns.set_by,
    _columns.set_at,
).where(of_dealer(agent_policies))

LIST_POLICIES = _CHANGES.where(
    _columns.state != NONE,
    ~select(_newer.c.number)
    .where(of_dealer(_newer), _newer.c.agent == _columns.agent, _newer.c.number > _columns.number)
    .exists(),
).order_by(_columns.agent)

LIST_CHANGES = (
    _CHANGES.where(_columns.agent == bindparam("of_agent")).order_by(_columns.number.desc()).limit(bindparam("most"))
)

LAST_NUMBER = select(func.max(_columns.number)).where(
    of_dealer(agent_policies), _columns.agent == bindparam("of_agent")
)

ADD_CHANGE = insert(agent_policies)


def set_policy(tx: Transaction, agent: str, policy: Policy | None, *, actor: str, reason: str = "") -> None:
    """Gives an agent or a class a policy, or removes it (None). The transaction is that of its dealer or ALL_DEALERS.

    Raises TooManyPolicies. For a dealer, raises KeyMissing and WrongKey if another folder uses the dealer's id.
    """
    if tx.dealer_id != ALL_DEALERS:
        claim_dealer(tx)
    # The row of the revision is the lock: changes of a dealer come one after the other.
    tx.execute(NEXT_REVISION)
    if policy is not None and agent not in (known := read_policies(tx)) and len(known) >= MOST_POLICIES:
        raise TooManyPolicies(
            f"{MOST_POLICIES:,} agents have a policy already: remove one with dealer-agent agents forget AGENT"
        )
    content = policy or Policy()
    row = {
        "agent": agent,
        "number": (tx.execute(LAST_NUMBER, {"of_agent": agent}).scalar() or 0) + 1,
        "state": NONE if policy is None else policy.state,
        "skills": None if content.skills is None else msgspec.json.encode(sorted(content.skills)),
        "rates": msgspec.json.encode(dict(content.rates)),
        "leads_a_day": content.leads_a_day,
        "reason": reason,
        "set_by": actor,
        "set_at": tx.now,
    }
    tx.execute(ADD_CHANGE, row)


def list_policies(tx: Transaction) -> list[PolicyChange]:
    """The last change of each agent that has a policy, by agent."""
    return list(_changes(tx.execute(LIST_POLICIES)))


def read_policies(tx: Transaction) -> Policies:
    """The policies by agent."""
    return {change.agent: change.policy for change in list_policies(tx) if change.policy is not None}


def policy_history(tx: Transaction, agent: str, most: int) -> list[PolicyChange]:
    """The changes of the policy of an agent, newest first."""
    return list(_changes(tx.execute(LIST_CHANGES, {"of_agent": agent, "most": most})))


def _changes(rows: Iterable[Any]) -> Iterable[PolicyChange]:
    for agent, state, skills, rates, leads_a_day, reason, set_by, set_at in rows:
        policy = None if state == NONE else _policy(state, skills, rates, leads_a_day)
        yield PolicyChange(agent, policy, reason, set_by, set_at)


def _policy(state: PolicyState, skills: bytes | None, rates: bytes, leads_a_day: int | None) -> Policy:
    return Policy(
        state,
        None if skills is None else frozenset(msgspec.json.decode(skills, type=list[str])),
        tuple(sorted(msgspec.json.decode(rates, type=dict[str, str]).items())),
        leads_a_day,
    )
