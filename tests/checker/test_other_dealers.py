"""Dealer agents of other companies, and of ours with small limits: no check that is a MUST fails on them."""

import asyncio
from collections import Counter
from pathlib import Path

import httpx
import pytest
from benchmarks.peers.spec_dealer import Agent, Limits
from tests.checker.agents import check_agent, running

from dealer_agent.checker.events import Verdict
from dealer_agent.checker.runner import Options, run_checks
from dealer_agent.self_test.dealer import make_dealer

pytestmark = pytest.mark.outside_protocol("checker")

ADDRESS = "http://spec-dealer.example"
CARDS = {"1.0.0": ADDRESS, "0.1.0": f"{ADDRESS}/v0/agent-card.json"}
LITERAL = Limits(page=5, default_page=3, filter_values=3, facet_values=3, body=4_000, literal=True)
CHOICES = {
    "appointments.of-a-vehicle",
    "cards.etag",
    "cards.last-modified",
    "envelope.push-configuration",
    "errors.status-of-code",
    "http.content-type-a2a",
    "http.empty-body",
    "http.not-json",
    "http.not-utf8",
    "leads.test-drive-unknown",
}
"""What is recommended, and what this dealer decided otherwise. Its code does all of it on purpose."""
SMALL_CAPS = "[search]\ndefault_limit = 3\nlimit_cap = 5\n[service]\nbody_limit_kib = 4\nlead_body_limit_kib = 4\n"


def check_spec_dealer(agent: Agent, card: str) -> list[Verdict]:
    """The verdicts of a run with leads, without the decisions of this project."""

    async def run() -> list[Verdict]:
        transport = httpx.ASGITransport(agent, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport) as client:
            return await run_checks(CARDS[card], Options(rate=1e9, leads=True), client, lambda _: None)

    return asyncio.run(run())


def with_outcome(verdicts: list[Verdict], *outcomes: str) -> set[str]:
    return {each.requirement.id for each in verdicts if each.outcome in outcomes}


@pytest.mark.parametrize(("card", "limits"), [("0.1.0", Limits()), ("1.0.0", LITERAL)], ids=["usual", "literal"])
def test_a_dealer_written_from_the_specification_alone_fails_no_must(card: str, limits: Limits) -> None:
    verdicts = check_spec_dealer(Agent(ADDRESS, limits), card)
    assert with_outcome(verdicts, "fail") == CHOICES | ({"json-rpc.http-status"} if limits.literal else set())
    assert not [each for each in verdicts if each.outcome == "fail" and each.requirement.level == "MUST"]
    assert with_outcome(verdicts, "could not check") == set()
    assert Counter(each.outcome for each in verdicts)["pass"] > 400


@pytest.mark.soak
def test_our_own_dealer_with_small_limits_fails_nothing(tmp_path: Path) -> None:
    make_dealer(tmp_path / "dealer", tables=SMALL_CAPS)
    with running(tmp_path / "dealer") as agent:
        verdicts = check_agent(agent, Options(rate=1e9, leads=True, revisions=["1.0.0"]))
    assert with_outcome(verdicts, "fail", "could not check") == set()
    assert Counter(each.outcome for each in verdicts)["pass"] > 900
