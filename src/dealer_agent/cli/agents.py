"""`dealer-agent agents`: which agents call, and what each may do (docs/how-to/known-agents.md)."""

import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from dealer_agent.callers.policy import CLASSES, MOST_LEADS_A_DAY, Policy
from dealer_agent.cli.command import checked_by, command, wrong_use
from dealer_agent.cli.customer_data import actor
from dealer_agent.cli.open_dealer import OWNER, Owner
from dealer_agent.cli.tables import Columns, Table
from dealer_agent.cli.terminal import out, pasted, plain, section
from dealer_agent.config.rates import read_rate, read_skill
from dealer_agent.operations.agents import (
    LONGEST_REASON,
    PolicyOwner,
    PolicyScope,
    came_from,
    change_policy,
    changes_of,
    identity_of,
    kind_of,
    limit_policy,
    policy_document,
    policy_words,
    read_agent,
    read_policy_book,
    waiting_leads,
)
from dealer_agent.storage.agent_policies import PolicyChange
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.leads.outcomes import AgentOutcomes, Outcomes, outcomes_of_agents
from dealer_agent.storage.seen_agents import SeenAgent, seen_agents

app = typer.Typer(no_args_is_help=True)

AgentArgument = Annotated[
    str,
    typer.Argument(
        metavar="AGENT",
        help="An identity from `agents list`: an origin such as https://agent.example, token:ID or ISSUER#CLIENT. Or a"
        " class of callers: anonymous, token, signed or issued.",
    ),
]


def _reason(text: str) -> str:
    if len(text) > LONGEST_REASON:
        raise typer.BadParameter(f"the reason has {len(text):,} characters; write at most {LONGEST_REASON}")
    return text


def _rates(rates: list[str]) -> list[str]:
    """Checks the values of `--rate`, and returns them unchanged. Raises BadParameter with advice."""
    for each in rates:
        skill, equals, rate = each.partition("=")
        if not equals:
            raise typer.BadParameter(f"'{each}' is not SKILL=RATE; write for example inventory.search=60/minute")
        with wrong_use():
            read_skill(skill)
            read_rate(rate)
    return rates


ReasonOption = Annotated[
    str,
    typer.Option(callback=_reason, help="The reason, for the history. Write no data of customers: others can read it."),
]
SkillOption = Annotated[
    list[str],
    typer.Option(
        "--skill",
        callback=checked_by(lambda skills: list(map(read_skill, skills))),
        help="A skill that it may use. Repeat it for several. Default: all.",
    ),
]
RateOption = Annotated[
    list[str],
    typer.Option(
        "--rate",
        metavar="SKILL=RATE",
        callback=_rates,
        help="Its own rate limit for a skill, such as inventory.search=60/minute. It replaces that of the settings.",
    ),
]
LeadsOption = Annotated[
    int | None, typer.Option(min=1, max=MOST_LEADS_A_DAY, help="The largest number of leads a day from each caller.")
]


@command(app, "list", OWNER)
def list_(owner: Owner) -> Table:
    """List the agents that were seen or have a policy: identity, class, state and where it comes from, and leads.

    Reached and bad leads are those that staff have marked so in the last 365 days: reached or sold, wrong or spam.
    In an installation without --dealer, the list has the policies that hold for all dealers.
    """
    policies = read_policy_book(_policy_owner(owner))
    agents: dict[str, SeenAgent] = {}
    outcomes: dict[str | None, AgentOutcomes] = {}
    if owner.id != ALL_DEALERS:
        with owner.store.read(owner.id) as tx:
            agents, outcomes = seen_agents(tx), outcomes_of_agents(tx)
    rows = policies.with_policy(agents)
    sources = {each.identity: policies.source_of(each.identity) for each in rows}
    columns: Columns = {
        "Agent": lambda each: each.identity or "anonymous",
        "Name": "name",
        "Class": lambda each: kind_of(each.identity),
        "State": lambda each: sources[each.identity].policy.state,
        "From": lambda each: came_from(sources[each.identity]),
        "Leads": "leads",
        "Reached": lambda each: (marks := _outcomes_of_year(outcomes, each)).reached + marks.sold,
        "Bad": lambda each: (marks := _outcomes_of_year(outcomes, each)).wrong + marks.spam,
        "Last seen": "seen_at",
    }
    note = (
        "" if owner.id != ALL_DEALERS else "With --dealer ID, the list also has the agents that this dealer has seen."
    )
    return Table.of("Agents", columns, rows, owner.local, notes=[note] if note else [])


def _outcomes_of_year(outcomes: Mapping[str | None, AgentOutcomes], agent: SeenAgent) -> Outcomes:
    """What became of the leads of an agent in 365 days."""
    return outcomes.get(agent.identity or None, AgentOutcomes()).year


def _outcomes_document(owner: Owner, agent: str) -> dict[str, Any]:
    """What became of the leads of an agent in 30 and in 365 days, and how many wait.

    Empty for a class, because its agents are counted one by one. Only `anonymous` has leads of its own.
    """
    _, *classes_of_agents = CLASSES
    if owner.id == ALL_DEALERS or agent in classes_of_agents:
        return {}
    with owner.store.read(owner.id) as tx:
        outcomes = outcomes_of_agents(tx).get(identity_of(agent) or None, AgentOutcomes())
    return {
        "in_quarantine": waiting_leads(_policy_owner(owner), agent),
        "last_30_days": outcomes.month._asdict(),
        "last_365_days": outcomes.year._asdict(),
    }


@command(app, "show", OWNER)
def show(owner: Owner, agent: AgentArgument) -> dict[str, Any]:
    """Show all about one agent or class: its policy and where it comes from, its leads, and each change with a reason.

    It ends with the commands that change the policy.
    """
    agent = _known_agent(owner, agent)
    seen = SeenAgent(agent)
    if owner.id != ALL_DEALERS:
        with owner.store.read(owner.id) as tx:
            seen = seen_agents(tx).get(identity_of(agent), seen)
    source = read_policy_book(_policy_owner(owner)).source_of(agent)
    changes = changes_of(_policy_owner(owner), agent)
    document = {
        "agent": agent,
        "name": seen.name or None,
        "class": kind_of(agent),
        **policy_document(source.policy),
        "from": came_from(source),
        "leads": seen.leads,
        **_outcomes_document(owner, agent),
        "last_lead": owner.local(seen.last_lead_at),
        "last_seen": owner.local(seen.seen_at),
        "requests": dict(sorted(seen.requests.items())),
        "history": [_change_document(owner, change) for change in changes],
    }
    shown = {name: value for name, value in document.items() if name not in ("agent", "history") and value != {}}
    section(f"Agent {agent}", shown)
    for change in document["history"]:
        facts = {name: value for name, value in change.items() if name not in ("at", "by")}
        section(f"Changed {change['at']:%Y-%m-%d %H:%M} by {change['by']}", facts)
    out.print("\nTo change it:")
    for words in ("allow AGENT", "limit AGENT --leads-a-day 10", "quarantine AGENT", "block AGENT", "forget AGENT"):
        out.print(plain(pasted(f"  dealer-agent agents {words.replace('AGENT', shlex.quote(agent))}")))
    return document


@command(app, "allow", OWNER)
def allow(owner: Owner, agent: AgentArgument, reason: ReasonOption = "") -> dict[str, Any]:
    """Allow an agent or a class all skills, within the dealer's rate limits. This replaces its policy here."""
    return _set_policy(owner, agent, Policy("allow"), reason)


@command(app, "limit", OWNER)
def limit(
    owner: Owner,
    agent: AgentArgument,
    skill: SkillOption = [],  # noqa: B006 - Typer needs it.
    rate: RateOption = [],  # noqa: B006
    leads_a_day: LeadsOption = None,
    reason: ReasonOption = "",
) -> dict[str, Any]:
    """Limit an agent or a class: to some skills, to rates of its own, or to a number of leads a day.

    The options replace all earlier limits of the agent.
    """
    if not skill and not rate and leads_a_day is None:
        raise typer.BadParameter("say what to limit: --skill, --rate or --leads-a-day")
    pairs = (each.partition("=") for each in rate)
    policy = limit_policy(skill, [(skill_id, limits) for skill_id, _, limits in pairs], leads_a_day)
    return _set_policy(owner, agent, policy, reason)


@command(app, "quarantine", OWNER)
def quarantine(
    owner: Owner, agent: AgentArgument, leads_a_day: LeadsOption = None, reason: ReasonOption = ""
) -> dict[str, Any]:
    """Quarantine an agent or a class: its leads are accepted, and wait for a person before any CRM, mail or visit.

    The answers to the agent are the same as before. Without --leads-a-day, it may send 20 leads a day.
    """
    return _set_policy(owner, agent, Policy("quarantine", leads_a_day=leads_a_day), reason)


@command(app, "block", OWNER)
def block(owner: Owner, agent: AgentArgument, reason: ReasonOption = "") -> dict[str, Any]:
    """Block an agent or a class: each of its requests to a skill is refused."""
    return _set_policy(owner, agent, Policy("block"), reason)


@command(app, "forget", OWNER)
def forget(owner: Owner, agent: AgentArgument, reason: ReasonOption = "") -> dict[str, Any]:
    """Remove the policy of an agent or a class. Then the policy of the installation, its class or the settings applies.

    The history of its changes stays.
    """
    return _set_policy(owner, agent, None, reason)


def _set_policy(owner: Owner, agent: str, policy: Policy | None, reason: str) -> dict[str, Any]:
    """Sets the policy of an agent, or removes it (None), and prints what holds now. Returns the JSON of the command."""
    agent = _known_agent(owner, agent)
    source = change_policy(_policy_owner(owner), agent, policy, by=actor(), reason=reason)
    for_all = " for all dealers" if owner.id == ALL_DEALERS else ""
    out.print(plain(f"{agent}: {policy_words(source.policy)}{for_all} ({came_from(source)})."))
    out.print("All processes of the service apply it within two seconds.")
    waiting = 0 if source.policy.state == "quarantine" else waiting_leads(_policy_owner(owner), agent)
    if waiting:
        release = pasted(f"dealer-agent leads release --agent {shlex.quote(agent)}")
        out.print(plain(f"{waiting:,} of its leads wait in quarantine. To send them to your CRM and staff: {release}"))
    return {
        "agent": agent,
        **policy_document(source.policy),
        "from": came_from(source),
        "reason": reason or None,
        "in_quarantine": waiting,
    }


def _change_document(owner: Owner, change: tuple[PolicyScope, PolicyChange]) -> dict[str, Any]:
    """The JSON of one change in the history of policies."""
    scope, entry = change
    policy: Mapping[str, Any] = {"state": "forget"} if entry.policy is None else policy_document(entry.policy)
    return {
        "at": owner.local(entry.set_at),
        "by": entry.set_by,
        "for": scope,
        **policy,
        "reason": entry.reason or None,
    }


def _policy_owner(owner: Owner) -> PolicyOwner:
    """The owner of the policies."""
    return PolicyOwner(owner.id, owner.store, owner.sections, owner.in_installation)


def _known_agent(owner: Owner, text: str) -> str:
    """The identity or class that a person has written. A wrong one ends the command with advice."""
    with wrong_use():
        return read_agent(_policy_owner(owner), text)
