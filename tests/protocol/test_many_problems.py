"""A body with very many problems is refused without looking at each: nobody else waits for it (contract, part 3)."""

from typing import Any

import pytest
from tests.protocol.bodies import payload

from dealer_agent.protocol.problems import LOOKED_AT, payload_problems
from dealer_agent.protocol.skill import SKILL_BY_ID


@pytest.mark.parametrize(
    "members",
    [
        {"filters": {"make": [1] * 20_000}},
        {"filters": {f"unknown-{number}": 1 for number in range(20_000)}},
        {f"unknown-{number}": 1 for number in range(20_000)},
    ],
)
def test_no_more_is_looked_at_than_could_be_told(members: dict[str, Any]) -> None:
    problems = payload_problems(SKILL_BY_ID["inventory.search"], payload("inventory.search", **members))
    assert len(problems) == LOOKED_AT


@pytest.mark.parametrize("place", [0, LOOKED_AT - 1, LOOKED_AT, 19_999])
def test_one_problem_is_found_wherever_it_stands(place: int) -> None:
    makes: list[object] = ["Honda"] * 20_000
    makes[place] = 7
    problems = payload_problems(SKILL_BY_ID["inventory.search"], payload("inventory.search", filters={"make": makes}))
    assert [(problem.pointer, problem.received) for problem in problems] == [(f"/filters/make/{place}", (7,))]


def test_a_long_array_without_a_problem_has_none() -> None:
    assert (
        payload_problems(SKILL_BY_ID["inventory.search"], payload("inventory.search", filters={"make": ["a"] * 20_000}))
        == []
    )
