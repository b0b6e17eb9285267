"""A person hears of leads in quarantine and of agents whose leads are bad, with the commands to type."""

import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.alerts.watched import MINUTE, Watched, do_jobs, make_watch
from tests.storage.calls import lock_at, read_at, write_at
from tests.storage.samples import DEALER, consent, lead

from dealer_agent.alerts.checking import Watch
from dealer_agent.callers.policy import Policy
from dealer_agent.config.agent_settings import AgentsSettings
from dealer_agent.leads.statuses import Mark
from dealer_agent.pasted_commands import Where
from dealer_agent.storage.agent_policies import list_policies, set_policy
from dealer_agent.storage.leads.outcomes import set_mark
from dealer_agent.storage.leads.quarantine import decide
from dealer_agent.storage.leads.stored_leads import record_lead
from dealer_agent.storage.transaction import Transaction

pytestmark = pytest.mark.outside_protocol("alerts")

NOW = datetime(2026, 3, 2, 16, 0, tzinfo=UTC)
AGENT = "https://agent.example"
ODD = "https://login.example#it's $HOME"


def add(dealer: Watched, lead_id: str, caller: str | None, *, waits: bool = False, mark: Mark | None = None) -> None:
    """A lead of an agent, which waits in quarantine or has a mark."""

    def job(tx: Transaction) -> None:
        held = {"quarantine": "waiting", "quarantined_at": NOW} if waits else {}
        record_lead(tx, lead(lead_id, NOW, caller=caller, **held), consent(NOW), contacts=[lead_id], vehicle_key=None)
        if mark is not None:
            set_mark(tx, lead_id, mark, by="kim")

    lock_at(NOW, dealer.store, DEALER, job)


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line) for line in text.splitlines() if line.strip().startswith("dealer-agent ")]


def test_leads_that_wait_are_told_at_once_with_the_commands_that_decide(dealer: Watched) -> None:
    watch = make_watch(dealer.folder, dealer.mail.port, where=Where(Path("/my store"), "north"))
    for number in range(3):
        add(dealer, f"L{number}", ODD, waits=True)
    add(dealer, "L9", None, waits=True)
    do_jobs(dealer.store, watch, NOW)
    assert len(dealer.mail.taken) == 1
    text = dealer.text()
    assert "In quarantine: 3 leads of" in " ".join(text.split())
    assert "1 lead of anonymous" in " ".join(text.split())
    options = ["--dir", "/my store", "--dealer", "north"]
    found = commands(text)
    for words, rest in (
        (["leads", "show"], ["L0"]),
        (["leads", "quarantined"], ["--agent", ODD]),
        (["leads", "release"], ["--agent", ODD]),
        (["agents", "allow"], [ODD]),
        (["leads", "refuse"], ["--agent", ODD, "--reason", "spam"]),
        (["leads", "release"], ["--agent", "anonymous"]),
        (["agents", "allow"], ["anonymous"]),
    ):
        assert ["dealer-agent", *words, *options, *rest] in found
    add(dealer, "L4", ODD, waits=True)
    do_jobs(dealer.store, watch, NOW + MINUTE)
    assert len(dealer.mail.taken) == 1, "one message at the start"


def test_the_alert_ends_when_all_leads_of_the_sender_are_decided(dealer: Watched) -> None:
    watch = make_watch(dealer.folder, dealer.mail.port)
    add(dealer, "L1", AGENT, waits=True)
    do_jobs(dealer.store, watch, NOW)
    assert lock_at(NOW, dealer.store, DEALER, decide, "L1", "refused", by="kim", why="spam")
    do_jobs(dealer.store, watch, NOW + 2 * MINUTE)
    assert "No lead of https://agent.example waits in quarantine any more" in " ".join(dealer.text().split())


def bad_leads(dealer: Watched) -> None:
    """An agent with ten leads, of which three are bad, and an agent whose leads are good."""
    for number in range(10):
        add(dealer, f"L{number}", AGENT, mark="spam" if number < 3 else "reached")
        add(dealer, f"G{number}", "https://good.example", mark="sold")


def watch_with(dealer: Watched, **agents: bool | int) -> Watch:
    watch = make_watch(dealer.folder, dealer.mail.port)
    object.__setattr__(watch, "agents", AgentsSettings(**agents))  # type: ignore[arg-type]
    return watch


def test_an_agent_whose_leads_are_bad_is_proposed_with_numbers_and_nothing_is_done(dealer: Watched) -> None:
    bad_leads(dealer)
    do_jobs(dealer.store, watch_with(dealer), NOW)
    text = " ".join(dealer.text().split())
    assert "Of its 10 leads in 30 days: 3 spam, 0 wrong, 0 with a refused mail" in text
    assert ["dealer-agent", "agents", "quarantine", AGENT] in commands(dealer.text())
    assert "good.example" not in text
    assert read_at(NOW, dealer.store, DEALER, list_policies) == []


def test_nothing_is_proposed_below_the_threshold_of_the_settings_or_for_an_agent_with_a_policy(
    dealer: Watched,
) -> None:
    """The agent has 30 percent bad leads, for which it is proposed otherwise: see the test before."""
    bad_leads(dealer)
    do_jobs(dealer.store, watch_with(dealer, propose_quarantine_percent=31), NOW)
    assert dealer.mail.taken == []
    write_at(NOW, dealer.store, DEALER, set_policy, AGENT, Policy("block"), actor="kim")
    do_jobs(dealer.store, watch_with(dealer), NOW + 2 * MINUTE)
    assert dealer.mail.taken == []


def test_the_service_quarantines_by_itself_only_when_it_is_told_so_and_says_it(dealer: Watched) -> None:
    bad_leads(dealer)
    watch = watch_with(dealer, quarantine_automatically=True)
    do_jobs(dealer.store, watch, NOW)
    (change,) = read_at(NOW, dealer.store, DEALER, list_policies)
    assert (change.agent, change.policy, change.set_by) == (AGENT, Policy("quarantine"), "dealer-agent")
    assert "3 spam" in change.reason
    assert "The service has put https://agent.example into quarantine" in " ".join(dealer.text().split())
    assert ["dealer-agent", "agents", "allow", AGENT] in commands(dealer.text())
    write_at(NOW + MINUTE, dealer.store, DEALER, set_policy, AGENT, Policy("allow"), actor="kim")
    do_jobs(dealer.store, watch, NOW + timedelta(minutes=3))
    (change,) = read_at(NOW, dealer.store, DEALER, list_policies)
    assert change.set_by == "kim", "what a person allows stays allowed"
