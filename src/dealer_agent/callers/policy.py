"""Decides what a dealer allows an agent: which of several policies holds (docs/protocol.md#policies). Pure.

A policy is of one agent (an identity) or of a class of callers. It comes from a command (`dealer-agent agents`), for a
dealer or for all dealers of an installation, or from the section `[agents]` of the settings. The most exact one holds,
and nothing of the others.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from dealer_agent.callers.caller import Caller, CallerClass, class_of

PolicyState = Literal["allow", "limit", "quarantine", "block"]
STATES: tuple[PolicyState, ...] = get_args(PolicyState)
CLASSES: tuple[CallerClass, ...] = get_args(CallerClass)

ANONYMOUS_LEADS_A_DAY = 1000
"""The most leads of an IP address in a day, unless the settings or a command say another number."""
QUARANTINED_LEADS_A_DAY = 20
"""The same for a caller in quarantine: a person reads each of its leads."""
MOST_LEADS_A_DAY = 1_000_000

LEADS_A_DAY = "leads_a_day"
"""The name of the rate limit that counts the leads of a caller in a day."""


class Policy(NamedTuple):
    """What a caller may do.

    `skills` are the ids of the skills that it may use; None is all of them. `rates` replace the rate limits of the
    dealer, as pairs of a skill and a rate limit in the notation of the settings. `leads_a_day` None is the default of
    the state or class. The leads of a caller in `quarantine` wait for a person. A caller in `block` gets no answer from
    any skill. `limit` is `allow` with limits of its own.
    """

    state: PolicyState = "allow"
    skills: frozenset[str] | None = None
    rates: tuple[tuple[str, str], ...] = ()
    leads_a_day: int | None = None

    @property
    def is_blocked(self) -> bool:
        """Whether no skill answers the caller."""
        return self.state == "block"

    @property
    def is_quarantined(self) -> bool:
        """Whether its leads wait for a person."""
        return self.state == "quarantine"

    def allows(self, skill_id: str) -> bool:
        """Whether the caller may use a skill."""
        return not self.is_blocked and (self.skills is None or skill_id in self.skills)

    @property
    def rules(self) -> dict[str, str]:
        """The rate limits of the policy by rule: those that replace the dealer's, and that of leads in a day."""
        days = {} if self.leads_a_day is None else {LEADS_A_DAY: f"{self.leads_a_day}/day"}
        return dict(self.rates) | days


ALLOWED = Policy()

Policies = Mapping[str, Policy]
"""Policies by agent: an identity or the name of a class."""


class PolicySource(NamedTuple):
    """The policy that holds for a caller, and where it comes from.

    `agent` is the identity or the class that it is of. `owner` is who gave it: `dealer` or `installation` with a
    command, or `settings`.
    """

    policy: Policy
    agent: str
    owner: Literal["dealer", "installation", "settings"]


class PolicyBook:
    """The policies of one dealer: `own` are its own, `shared` those of its installation, `classes` its settings.

    `anonymous_leads_a_day` is the default for callers that anybody can be: anonymous ones, and signed ones without a
    policy of their own. None means no limit.
    """

    __slots__ = ("_anonymous_leads_a_day", "_classes", "_own", "_shared")

    def __init__(
        self,
        own: Policies,
        shared: Policies,
        classes: Mapping[CallerClass, Policy],
        anonymous_leads_a_day: int | None = ANONYMOUS_LEADS_A_DAY,
    ) -> None:
        self._own = own
        self._shared = shared
        self._classes = classes
        self._anonymous_leads_a_day = anonymous_leads_a_day

    def of(self, caller: Caller) -> Policy:
        """The policy that holds for a caller, with its leads a day."""
        return self.source_of(caller.identity, caller.kind).policy

    def source_of(self, identity: str, kind: CallerClass | None = None) -> PolicySource:
        """The policy that holds for an identity, and where it comes from. An empty identity is anonymous."""
        kind = kind or class_of(identity)
        found = self._found(identity, kind)
        if found.policy.leads_a_day is None:
            if found.policy.is_quarantined:
                return found._replace(policy=found.policy._replace(leads_a_day=QUARANTINED_LEADS_A_DAY))
            is_open = kind == "anonymous" or (kind == "signed" and found.agent != identity)
            if is_open and self._anonymous_leads_a_day is not None:
                return found._replace(policy=found.policy._replace(leads_a_day=self._anonymous_leads_a_day))
        return found

    def _found(self, identity: str, kind: CallerClass) -> PolicySource:
        for agent in (identity, kind):
            if (policy := self._own.get(agent)) is not None:
                return PolicySource(policy, agent, "dealer")
            if (policy := self._shared.get(agent)) is not None:
                return PolicySource(policy, agent, "installation")
        return PolicySource(self._classes.get(kind, ALLOWED), kind, "settings")

    def with_own(self, own: Policies) -> "PolicyBook":
        """The book after the dealer has changed its policies."""
        return PolicyBook(own, self._shared, self._classes, self._anonymous_leads_a_day)

    def with_shared(self, shared: Policies) -> "PolicyBook":
        """The book after the installation has changed its policies."""
        return PolicyBook(self._own, shared, self._classes, self._anonymous_leads_a_day)
