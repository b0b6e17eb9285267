"""Which agents call a dealer, and what each may do: for `dealer-agent agents`, and for the console.

The policies of a dealer are its own, and those of its installation hold, too (`callers.policy`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dealer_agent.callers.caller import class_of, read_identity, token_id_of
from dealer_agent.callers.policy import CLASSES, Policies, Policy, PolicyBook, PolicySource
from dealer_agent.config.rates import read_rate, read_skill
from dealer_agent.config.settings import Sections
from dealer_agent.operations import OperationError
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.storage.agent_policies import PolicyChange, policy_history, read_policies, set_policy
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.leads.quarantine import count_waiting
from dealer_agent.storage.seen_agents import ANONYMOUS_IDENTITY, SeenAgent
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import list_tokens

ANONYMOUS_CLASS = CLASSES[0]
MOST_CHANGES = 100
"""The newest changes of a policy that are shown."""
LONGEST_REASON = 500

PolicyScope = Literal["dealer", "all dealers"]
"""For whom a policy holds."""


@dataclass(frozen=True)
class PolicyOwner:
    """Whose policies these are: a dealer's, or ALL_DEALERS for those of an installation. `sections` are its settings.

    `in_installation`: it is a dealer of an installation.
    """

    id: str
    store: Store
    sections: Sections
    in_installation: bool = False

    @property
    def is_operator(self) -> bool:
        """Whether these are the policies for all dealers."""
        return self.id == ALL_DEALERS


class PoliciesInForce(NamedTuple):
    """The policies that hold, those of the dealer, and those of the installation."""

    book: PolicyBook
    own: Policies
    shared: Policies

    def source_of(self, agent: str) -> PolicySource:
        """The policy of an agent or a class. That of a class is the one of its callers that have none of their own."""
        kind = next((each for each in CLASSES if each == agent), None)
        return self.book.source_of("" if kind is not None else agent, kind)

    def with_policy(self, seen: Mapping[str, SeenAgent]) -> list[SeenAgent]:
        """The seen agents and those that have a policy: the anonymous ones first, then by their leads.

        A class of known callers is listed if it has a policy. Its leads are those of its agents.
        """
        known = {agent: SeenAgent(agent) for agent in (*self.own, *self.shared) if agent not in CLASSES}
        agents = {ANONYMOUS_IDENTITY: SeenAgent(ANONYMOUS_IDENTITY), **known, **seen}
        rows = sorted(agents.values(), key=lambda each: (each.identity != "", -each.leads, each.identity))
        rows[1:1] = [SeenAgent(each) for each in CLASSES[1:] if each in self.own or each in self.shared]
        return rows


def read_policy_book(owner: PolicyOwner) -> PoliciesInForce:
    """The policies of a dealer, or those for all dealers. Raises StorageError."""
    own: Policies = {}
    shared: Policies = {}
    if not owner.is_operator:
        with owner.store.read(owner.id) as tx:
            own = read_policies(tx)
    if owner.is_operator or owner.in_installation:
        with owner.store.read(ALL_DEALERS) as tx:
            shared = read_policies(tx)
    sections = owner.sections
    return PoliciesInForce(
        PolicyBook(own, shared, sections.agents.policies, sections.anonymous_leads_a_day), own, shared
    )


def kind_of(agent: str) -> str:
    """The class of an agent or of a class."""
    return agent if agent in CLASSES else class_of(agent)


def identity_of(agent: str) -> str:
    """The identity under which an agent was seen: that of `anonymous` is empty."""
    return ANONYMOUS_IDENTITY if agent == ANONYMOUS_CLASS else agent


def came_from(source: PolicySource) -> str:
    """Where a policy comes from: `dealer`, `installation`, or `dealer, class signed`."""
    return f"{source.owner}, class {source.agent}" if source.agent in CLASSES else source.owner


def policy_words(policy: Policy) -> str:
    """A policy in words: `limit, skills inventory.search, 10 leads a day`."""
    parts: list[str] = [policy.state]
    if policy.skills is not None:
        parts.append(f"skills {', '.join(sorted(policy.skills))}")
    parts += [f"{skill} {rate or 'without a limit'}" for skill, rate in policy.rates]
    if policy.leads_a_day is not None:
        parts.append(f"{policy.leads_a_day:,} leads a day")
    return ", ".join(parts)


def policy_document(policy: Policy) -> dict[str, Any]:
    """The JSON of a policy."""
    return {
        "state": policy.state,
        "skills": None if policy.skills is None else sorted(policy.skills),
        "rates": dict(policy.rates) or None,
        "leads_a_day": policy.leads_a_day,
    }


def limit_policy(skills: Sequence[str], rates: Sequence[tuple[str, str]], leads_a_day: int | None) -> Policy:
    """The policy of an agent with limits of its own. Raises ValueError for a wrong one, and for none."""
    chosen = frozenset(map(read_skill, skills))
    pairs = tuple(sorted((read_skill(skill), read_rate(rate)) for skill, rate in rates))
    if not chosen and not pairs and leads_a_day is None:
        raise ValueError("say what to limit: the skills, the rates, or the leads a day")
    return Policy("limit", chosen or None, pairs, leads_a_day)


def changes_of(owner: PolicyOwner, agent: str) -> list[tuple[PolicyScope, PolicyChange]]:
    """The changes of an agent's policy, newest first: those for the dealer, and those for all dealers of a service."""
    changes: list[tuple[PolicyScope, PolicyChange]] = []
    if not owner.is_operator:
        with owner.store.read(owner.id) as tx:
            changes += [("dealer", row) for row in policy_history(tx, agent, MOST_CHANGES)]
    if owner.is_operator or owner.in_installation:
        with owner.store.read(ALL_DEALERS) as tx:
            changes += [("all dealers", row) for row in policy_history(tx, agent, MOST_CHANGES)]
    return sorted(changes, key=lambda change: change[1].set_at, reverse=True)


def change_policy(owner: PolicyOwner, agent: str, policy: Policy | None, *, by: str, reason: str) -> PolicySource:
    """Sets the policy of an agent, or removes it (None). Returns the one that holds now.

    Raises OperationError if there is none to remove, and StorageError.
    """
    with owner.store.write(owner.id) as tx:
        if policy is None and agent not in read_policies(tx):
            raise OperationError(f"{agent} has no policy of its own here; see dealer-agent agents list")
        set_policy(tx, agent, policy, actor=by, reason=reason)
    return read_policy_book(owner).source_of(agent)


def waiting_leads(owner: PolicyOwner, agent: str) -> int:
    """How many leads of an agent wait in quarantine. A class of known callers has none of its own."""
    if owner.is_operator or agent in CLASSES[1:]:
        return 0
    with owner.store.read(owner.id) as tx:
        return count_waiting(tx, identity_of(agent) or None)


def read_agent(owner: PolicyOwner, text: str) -> str:
    """The identity or class that a person has written. Raises ValueError with advice for a wrong one."""
    if text in CLASSES:
        return text
    tokens: dict[str, str] = {}
    if not owner.is_operator:
        with owner.store.read(owner.id) as tx:
            tokens = {each.token_id: each.name for each in list_tokens(tx) if each.purpose == "skills"}
    by_name = {name: f"token:{token_id}" for token_id, name in tokens.items()}
    if text in tokens or text in by_name:
        raise ValueError(f"'{text}' is a token; did you mean {by_name.get(text, f'token:{text}')}?")
    if (near := did_you_mean(text, CLASSES)) and "://" not in text and ":" not in text:
        raise ValueError(f"'{text}' is not an agent{near}")
    identity = read_identity(text)
    token_id = token_id_of(identity)
    if token_id is not None and owner.is_operator:
        raise ValueError("a token belongs to one dealer: add --dealer ID")
    if token_id is not None and token_id not in tokens:
        known = [f"token:{each}" for each in tokens]
        hint = did_you_mean(identity, known) or "; see dealer-agent tokens list"
        raise ValueError(f"there is no token {token_id}{hint}")
    return identity
