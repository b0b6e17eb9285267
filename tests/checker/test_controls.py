"""Each check fails on a dealer agent that is broken in exactly that way, and no other check fails there but those of
which it is a cause (`implied_by`).

In a normal run, only this check runs, and those that it needs before it. In the long one, all checks run, so that no
other one fails.
"""

import os

import pytest
from tests.checker.agents import HonestAgent, check_agent

from dealer_agent.checker.check import checks
from dealer_agent.checker.requirement import requirements
from dealer_agent.self_test.defect import defects, sentences
from dealer_agent.self_test.matrix import checks_before, options_of, url_of

WHOLE_RUN = bool(os.environ.get("SOAK"))
pytestmark = pytest.mark.outside_protocol("checker")


def are_related(one: str, other: str) -> bool:
    """Whether they are the same, or one is a cause of the other."""
    rows = requirements()
    return one == other or rows[one].is_among(rows[other].implied_by) or rows[other].is_among(rows[one].implied_by)


def test_each_requirement_has_a_check_and_each_check_a_requirement() -> None:
    assert sorted(checks()) == sorted(requirements())


def test_each_check_has_a_defect() -> None:
    assert {each.requirement for each in defects().values()} == checks().keys()


def test_each_sentence_is_that_of_a_defect() -> None:
    unused = [
        each
        for each in sentences()
        if each not in defects() and not any(name.startswith(each[:-1]) for name in defects())
    ]
    assert not unused


@pytest.mark.parametrize("name", defects())
def test_only_this_check_fails_on_an_agent_that_is_broken_in_this_way(
    name: str, request: pytest.FixtureRequest
) -> None:
    defect = defects()[name]
    wanted = defect.requirement
    agent: HonestAgent = request.getfixturevalue("asking_for_tokens" if defect.token else "honest")
    only = () if WHOLE_RUN else {wanted, *checks_before(defect)}
    options = options_of(defect, agent.token, only)
    verdicts = check_agent(agent, options, defect.answer, url_of(defect))
    failed = {each.requirement.id: each.sentence for each in verdicts if each.outcome == "fail"}
    undone = {each.requirement.id: each.sentence for each in verdicts if each.outcome == "could not check"}
    assert wanted in failed
    assert {name: said for name, said in failed.items() if not are_related(name, wanted)} == {}
    assert not undone
