"""Each check fails on a dealer agent that is broken in exactly that way, and no other check fails there.

In a normal run, only this check runs; the checks of limits run together, because each needs the requests of the others.
In the long one, all checks run, so that no other one fails.
"""

import os

import pytest
from tests.checker.agents import HonestAgent, check_agent
from tests.checker.breaking import Control, controls

from dealer_agent.checker.check import checks
from dealer_agent.checker.requirement import Requirement, requirements
from dealer_agent.checker.revision import REVISIONS
from dealer_agent.checker.runner import Options

CARDS = {
    "1.0.0": "/.well-known/agent-card.json",
    "0.1.0": "/cards/0.1.0.json",
    **{name: f"/{name}/.well-known/agent-card.json" for name, each in REVISIONS.items() if each.is_published},
}
"""The path of the card of each revision."""

WHOLE_RUN = bool(os.environ.get("SOAK"))

pytestmark = pytest.mark.outside_protocol("checker")


def place_of(requirement: Requirement, control: Control) -> tuple[str, str, str]:
    """Revision, binding and vocabulary in which a control is checked."""
    wanted = [
        (revision, binding, vocabulary)
        for revision in ("1.0.0", "0.1.0", *REVISIONS)
        for binding in ("HTTP+JSON", "JSONRPC")
        for vocabulary in ("proto", "autoagent")
        if requirement.applies_to(revision, binding, vocabulary)
        and binding in REVISIONS[revision].bindings
        and REVISIONS[revision].only_vocabulary in (None, vocabulary)
        and control.revision in (None, revision)
        and control.binding in (None, binding)
        and control.vocabulary in (None, vocabulary)
    ]
    return wanted[0]


def test_each_requirement_has_a_check_and_each_check_a_requirement() -> None:
    assert sorted(checks()) == sorted(requirements())


def test_each_check_has_a_control() -> None:
    assert sorted(controls()) == sorted(checks())


@pytest.mark.parametrize("requirement_id", sorted(controls()))
def test_only_this_check_fails_on_an_agent_that_is_broken_in_this_way(
    requirement_id: str, request: pytest.FixtureRequest
) -> None:
    control, requirement = controls()[requirement_id], requirements()[requirement_id]
    agent: HonestAgent = request.getfixturevalue("asking_for_tokens" if control.token else "honest")
    revision, binding, vocabulary = place_of(requirement, control)
    alone = {requirement.subject if requirement.subject == "limits" else requirement_id}
    options = Options(
        only=() if WHOLE_RUN else alone,
        revisions={revision},
        bindings={binding},
        vocabularies={vocabulary},
        token=agent.token if control.token else None,
        leads=requirement.leads,
        rate=1e9,
    )
    verdicts = check_agent(agent, options, control.answer, control.base + CARDS[revision])
    failed = {each.requirement.id: each.sentence for each in verdicts if each.outcome == "fail"}
    undone = {each.requirement.id: each.sentence for each in verdicts if each.outcome == "could not check"}
    assert set(failed) == {requirement_id}, failed
    assert not undone
