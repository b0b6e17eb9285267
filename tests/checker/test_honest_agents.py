"""Dealer agents that follow the protocol: no check fails on them."""

import pytest
from tests.checker.agents import HonestAgent, check_agent

from dealer_agent.checker.runner import Options

pytestmark = pytest.mark.outside_protocol("checker")


def test_no_check_fails_on_our_own_agent(honest: HonestAgent) -> None:
    verdicts = check_agent(honest, Options(rate=1e9))
    assert {
        str(each.place): (each.requirement.id, each.sentence)
        for each in verdicts
        if each.outcome in ("fail", "could not check")
    } == {}
    assert any(each.outcome == "pass" for each in verdicts)


def test_a_dealer_that_asks_for_tokens_passes_with_one(asking_for_tokens: HonestAgent) -> None:
    verdicts = check_agent(asking_for_tokens, Options(rate=1e9, token=asking_for_tokens.token))
    assert {
        each.requirement.id: each.sentence for each in verdicts if each.outcome in ("fail", "could not check")
    } == {}
    assert any(each.outcome == "pass" for each in verdicts)


def test_a_dealer_that_asks_for_tokens_is_skipped_without_one(asking_for_tokens: HonestAgent) -> None:
    verdicts = check_agent(asking_for_tokens, Options(rate=1e9))
    assert {
        each.requirement.id: each.sentence for each in verdicts if each.outcome in ("fail", "could not check")
    } == {}
    assert any("--token" in each.sentence for each in verdicts if each.outcome == "skipped")
