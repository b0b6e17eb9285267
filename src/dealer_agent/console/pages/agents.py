"""The agents that call a dealer: how often, what their leads became, what each may do, and their tokens."""

from typing import NamedTuple

from starlette.responses import Response

from dealer_agent.callers.caller import LONGEST_IDENTITY
from dealer_agent.callers.policy import CLASSES, MOST_LEADS_A_DAY, STATES, Policy, PolicySource
from dealer_agent.console.pages.stock import PAGE, Pages
from dealer_agent.console.requests import ConsoleRequest, not_found, refuse, sentence_of
from dealer_agent.operations.agents import (
    LONGEST_REASON,
    PolicyOwner,
    came_from,
    change_policy,
    changes_of,
    identity_of,
    kind_of,
    limit_policy,
    policy_words,
    read_agent,
    read_policy_book,
    waiting_leads,
)
from dealer_agent.operations.tokens import MOST_DAYS, end_token, make_token, read_scopes, read_token_name
from dealer_agent.protocol.skill import ALL_SKILLS, SCOPES
from dealer_agent.storage.leads.outcomes import Outcomes
from dealer_agent.storage.seen_agents import SeenAgent, claimed_agents, recent_agents
from dealer_agent.storage.tokens import list_tokens

DAYS = 30
"""The requests of so many days are counted."""
MOST_LEADS = 3_000
"""The newest leads of the dealer are counted, however many there are."""
LONGEST_TOKEN_NAME = 100
_LONGEST_RATE = 100
_FORGET = "forget"


class AgentRow(NamedTuple):
    """An agent in the list. `id` is its identity, or the name of a class."""

    id: str
    kind: str
    seen: SeenAgent
    outcomes: Outcomes
    source: PolicySource

    @property
    def requests(self) -> int:
        """The answered requests of the agent."""
        return sum(self.seen.requests.values())

    @property
    def bad(self) -> int:
        """The leads of the agent that staff have marked as wrong or spam."""
        return self.outcomes.wrong + self.outcomes.spam


def list_(request: ConsoleRequest) -> Response:
    """Who calls: the agents that were seen, and those that have a policy."""
    rows = _rows(request)
    pages = Pages(request.page_number(), len(rows))
    with request.dealer.read() as tx:
        claimed = claimed_agents(tx, DAYS)
    return request.page(
        "agents.html",
        rows=rows[pages.skip :][:PAGE],
        pages=pages,
        claimed=sorted(claimed.items(), key=lambda each: (-each[1], each[0]))[:PAGE],
        days=DAYS,
        most_leads=MOST_LEADS,
    )


def show(request: ConsoleRequest) -> Response:
    """One agent or class: its requests, its leads, its policy with each change, and the form to change it."""
    agent = _agent(request, request.query.get("id", ""))
    owner = _owner(request)
    seen = next((row for row in _rows(request) if row.id == agent), None)
    source = read_policy_book(owner).source_of(agent)
    row = seen or AgentRow(agent, kind_of(agent), SeenAgent(identity_of(agent)), Outcomes(), source)
    return request.page(
        "agent.html",
        row=row,
        policy=source.policy,
        words_of_policy=policy_words(source.policy),
        origin=came_from(source),
        waiting=waiting_leads(owner, agent),
        history=[
            (scope, change, policy_words(change.policy) if change.policy else _FORGET)
            for scope, change in changes_of(owner, agent)[:PAGE]
        ],
        states=(*STATES, _FORGET),
        skills=[skill for skill in ALL_SKILLS if skill.id in request.dealer.settings.skills],
        most_leads_a_day=MOST_LEADS_A_DAY,
        longest_reason=LONGEST_REASON,
        days=DAYS,
        most_leads=MOST_LEADS,
    )


def set_policy(request: ConsoleRequest) -> Response:
    """Gives an agent or a class a policy, or removes it."""
    agent = _agent(request, request.text("agent", LONGEST_IDENTITY))
    reason = request.text("reason", LONGEST_REASON)
    if not reason:
        refuse("Write down why, for the history. Nothing was changed.")
    try:
        policy = _policy(request)
    except ValueError as problem:
        refuse(sentence_of(problem))
    change_policy(_owner(request), agent, policy, by=request.actor, reason=reason)
    return request.go("agents", "agent", id=agent, said="policy-changed")


def show_tokens(request: ConsoleRequest) -> Response:
    """The tokens, the newest first, and the form for a new one."""
    with request.dealer.read() as tx:
        tokens = [token for token in reversed(list_tokens(tx)) if token.purpose == "skills"]
    pages = Pages(request.page_number(), len(tokens))
    return request.page(
        "tokens.html",
        tokens=tokens[pages.skip :][:PAGE],
        pages=pages,
        scopes=SCOPES,
        most_days=MOST_DAYS,
        longest_name=LONGEST_TOKEN_NAME,
        needs_token=request.dealer.settings.auth.mode != "none",
    )


def create_token(request: ConsoleRequest) -> Response:
    """Makes a token, and shows it this once."""
    days = request.text("days", 6)
    if days and not (days.isascii() and days.isdigit() and 1 <= int(days) <= MOST_DAYS):
        refuse(f"The days are a number from 1 to {MOST_DAYS:,}, or empty for a token that never expires.")
    try:
        name = read_token_name(request.text("name", LONGEST_TOKEN_NAME))
        scopes = read_scopes(request.form.get("scope", ()))
    except ValueError as problem:
        refuse(sentence_of(problem))
    created = make_token(request.dealer, name, int(days) if days else None, scopes)
    return request.page("token_created.html", name=name, created=created)


def revoke_token(request: ConsoleRequest) -> Response:
    """Revokes a token for ever."""
    end_token(request.dealer, request.text("token", 40))
    return request.go("agents", "tokens", said="token-revoked")


def _rows(request: ConsoleRequest) -> list[AgentRow]:
    """The agents that called lately or have a policy, with what became of their leads."""
    policies = read_policy_book(_owner(request))
    with request.dealer.read() as tx:
        seen, outcomes = recent_agents(tx, DAYS, MOST_LEADS)
    return [
        AgentRow(
            each.identity or CLASSES[0],
            kind_of(each.identity),
            each,
            outcomes.get(each.identity or None, Outcomes()),
            policies.source_of(each.identity),
        )
        for each in policies.with_policy(seen)
    ]


def _policy(request: ConsoleRequest) -> Policy | None:
    """The policy of the form. Raises ValueError for a wrong one."""
    state = request.text("state", 20)
    if state == _FORGET:
        return None
    if state == "allow":
        return Policy("allow")
    if state == "block":
        return Policy("block")
    leads_a_day = _number(request, "leads_a_day")
    if state == "quarantine":
        return Policy("quarantine", leads_a_day=leads_a_day)
    if state != "limit":
        raise ValueError("choose what the agent may do")
    rates = [(skill.id, rate) for skill in ALL_SKILLS if (rate := request.text(f"rate-{skill.id}", _LONGEST_RATE))]
    return limit_policy(request.form.get("skill", ()), rates, leads_a_day)


def _number(request: ConsoleRequest, name: str) -> int | None:
    """The most leads a day from the form; None without one. Raises ValueError."""
    text = request.text(name, 10)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_LEADS_A_DAY):
        raise ValueError(f"the leads a day must be a number from 1 to {MOST_LEADS_A_DAY:,}")
    return int(text)


def _agent(request: ConsoleRequest, text: str) -> str:
    try:
        return read_agent(_owner(request), text)
    except ValueError as problem:
        not_found(sentence_of(problem))


def _owner(request: ConsoleRequest) -> PolicyOwner:
    settings = request.dealer.settings
    return PolicyOwner(request.dealer.profile.id, request.dealer.store, settings, settings.installation is not None)
