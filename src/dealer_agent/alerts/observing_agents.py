"""Watches the leads of agents: which wait in quarantine, and which agents have so many bad ones that a person decides.

`observe_agents` only reads. `quarantine_doubtful_agents` puts such agents into quarantine, if the settings say so.

The lines of a reason that are commands are complete: a person pastes them.
"""

import shlex
from collections.abc import Iterator

from dealer_agent.alerts.rules import Observation
from dealer_agent.callers.policy import Policy
from dealer_agent.config.agent_settings import AgentsSettings
from dealer_agent.storage.agent_policies import PolicyChange, list_policies, set_policy
from dealer_agent.storage.leads.outcomes import MONTH, Outcomes, doubtful_agents
from dealer_agent.storage.leads.quarantine import WaitingLeads, waiting_by_caller
from dealer_agent.storage.privacy.accesses import PROGRAM
from dealer_agent.storage.transaction import Transaction

MOST_AGENTS = 20
"""The most agents that each condition names."""
LEAST_LEADS = 10
"""An agent with fewer leads in 30 days is not doubtful."""
ANONYMOUS = "anonymous"


def observe_agents(tx: Transaction, settings: AgentsSettings) -> dict[str, list[Observation]]:
    """The conditions of the agents of one dealer."""
    policies = list_policies(tx)
    doubtful = _undecided_doubtful_agents(tx, settings, policies)
    return {
        "leads_quarantined": [_observation_of_waiting_leads(each) for each in waiting_by_caller(tx)[:MOST_AGENTS]],
        "agent_doubtful": [_observation_of_doubtful_agent(agent, outcomes) for agent, outcomes in doubtful.items()],
        "agent_quarantined": [*_quarantined(tx, policies)],
    }


def quarantine_doubtful_agents(tx: Transaction, settings: AgentsSettings) -> list[str]:
    """Puts doubtful agents into quarantine, if the settings say so. Returns their identities.

    An agent that a person gave a policy of its own is only proposed.
    """
    if not settings.quarantine_automatically:
        return []
    policies = list_policies(tx)
    own = {each.agent for each in policies}
    doubtful = {
        agent: outcomes
        for agent, outcomes in _undecided_doubtful_agents(tx, settings, policies).items()
        if agent not in own
    }
    for agent, outcomes in doubtful.items():
        set_policy(tx, agent, Policy("quarantine"), actor=PROGRAM, reason=outcome_sentence(outcomes))
    return list(doubtful)


def outcome_sentence(outcomes: Outcomes) -> str:
    """What became of the leads of an agent in 30 days, in a sentence."""
    return (
        f"Of its {outcomes.leads:,} leads in {MONTH.days} days: {outcomes.spam:,} spam, {outcomes.wrong:,} wrong, "
        f"{outcomes.bounced:,} with a refused mail, {outcomes.withdrawn:,} withdrawn, {outcomes.reached:,} reached, "
        f"{outcomes.sold:,} sold."
    )


def _undecided_doubtful_agents(
    tx: Transaction, settings: AgentsSettings, policies: list[PolicyChange]
) -> dict[str, Outcomes]:
    """The agents above the threshold, without those about which somebody has decided.

    They are in quarantine or blocked, or a person gave them a policy in the last 30 days.
    """
    decided = {
        each.agent
        for each in policies
        if each.policy is not None
        and (each.policy.state in ("quarantine", "block") or (each.set_by != PROGRAM and each.set_at > tx.now - MONTH))
    }
    outcomes = doubtful_agents(tx, LEAST_LEADS, settings.propose_quarantine_percent)
    return {agent: outcomes[agent] for agent in sorted(outcomes.keys() - decided)[:MOST_AGENTS]}


def _observation_of_waiting_leads(waiting: WaitingLeads) -> Observation:
    """The observation that leads of an agent wait, with the commands that show, send or refuse them."""
    agent = waiting.caller or ANONYMOUS
    named = shlex.quote(agent)
    lines = [
        "The first of them:",
        f"dealer-agent leads show {waiting.first_id}",
        "All of them:",
        f"dealer-agent leads quarantined --agent {named}",
        "If they are real leads, send them to your CRM and your staff:",
        f"dealer-agent leads release --agent {named}",
        "Then let its next leads through:",
        f"dealer-agent agents allow {named}",
        "If they are not, refuse them for good:",
        f"dealer-agent leads refuse --agent {named} --reason spam",
    ]
    return Observation(agent, waiting.number, waiting.oldest, "\n".join(lines))


def _observation_of_doubtful_agent(agent: str, outcomes: Outcomes) -> Observation:
    """The observation that leads of an agent often come to nothing, with the commands to act on it."""
    named = shlex.quote(agent)
    lines = [
        outcome_sentence(outcomes),
        "To let its next leads wait until a person has read them:",
        f"dealer-agent agents quarantine {named}",
        "All about this agent:",
        f"dealer-agent agents show {named}",
    ]
    return Observation(agent, outcomes.leads, detail="\n".join(lines))


def _quarantined(tx: Transaction, policies: list[PolicyChange]) -> Iterator[Observation]:
    """The agents that the service has put into quarantine by itself in the last 30 days."""
    for change in policies:
        by_itself = change.set_by == PROGRAM and change.policy is not None and change.policy.is_quarantined
        if by_itself and change.set_at > tx.now - MONTH:
            named = shlex.quote(change.agent)
            lines = [
                change.reason,
                "If this is wrong, let it through again:",
                f"dealer-agent agents allow {named}",
                "Its leads that wait:",
                f"dealer-agent leads quarantined --agent {named}",
            ]
            yield Observation(change.agent, since=change.set_at, detail="\n".join(lines))
