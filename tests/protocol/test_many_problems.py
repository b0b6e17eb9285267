"""A body with many problems is refused without describing each (docs/protocol.md#at-most-100-problems)."""

from typing import Any

import pytest
from tests.protocol.bodies import body, payload, refused

from dealer_agent.protocol.problems import PROBLEMS_SHOWN
from dealer_agent.protocol.request_problems import payload_problems
from dealer_agent.protocol.skill import SKILL_BY_ID


@pytest.mark.requirement("at-most-100-problems")
@pytest.mark.parametrize(
    ("skill", "members"),
    [
        ("inventory.search", {f"unknown-{number}": 1 for number in range(2_500)}),
        ("inventory.search", {"filters": {f"unknown-{number}": 1 for number in range(2_500)}}),
        ("inventory.search", {"filters": {name: [7] * 100 for name in ("make", "model", "trim")}}),
        ("lead.submit", {"trade_in": {"features": [7] * 500, "photos": [7] * 200}}),
        ("lead.submit", {"trade_in": {"other_attributes": {str(number): [] for number in range(200)}}}),
    ],
)
def test_at_most_a_hundred_problems_are_listed_and_the_rest_is_counted(skill: str, members: dict[str, Any]) -> None:
    """At most 100 problems are listed."""
    details = refused(body(skill, **members)).details
    assert len(details["errors"]) == PROBLEMS_SHOWN == 100
    assert details["errors_left_out"] > 0


@pytest.mark.parametrize("filters", [{"make": [7] * 101}, {"make": ["x"] * 101}, {"make": ["x" * 201] * 101}])
def test_the_content_of_a_value_that_is_too_long_is_not_checked(filters: dict[str, Any]) -> None:
    (problem,) = payload_problems(SKILL_BY_ID["inventory.search"], payload("inventory.search", filters=filters))
    assert (problem.pointer, problem.keyword) == ("/filters/make", "maxItems")
    assert problem.message == "must have at most 100 entries"


def test_an_address_that_is_too_long_is_not_read() -> None:
    """Sizes come before formats."""
    sent = body("lead.submit")
    sent["message"]["parts"][0]["data"]["customer"]["email"] = "a" * 250 + "@example.com"
    (problem,) = refused(sent).details["errors"]
    assert (problem["keyword"], problem["message"]) == ("maxLength", "must have at most 254 characters")


@pytest.mark.parametrize("place", [0, 100, 101, 499])
def test_one_problem_is_found_at_any_place(place: int) -> None:
    features: list[object] = ["Moonroof"] * 500
    features[place] = 7
    sent = payload("lead.submit", vehicle_of_interest={"features": features})
    problems = payload_problems(SKILL_BY_ID["lead.submit"], sent)
    assert [(each.pointer, each.received) for each in problems] == [(f"/vehicle_of_interest/features/{place}", (7,))]


@pytest.mark.requirement("request-bounds")
def test_a_long_received_value_is_cut_in_the_error() -> None:
    error = refused(body(filters={"n" * 200: "v" * 5_000, "make": {"a": ["w" * 5_000]}}))
    assert [len(each["received"]) for each in error.details["errors"]] == [200, 200]


@pytest.mark.requirement("request-bounds")
@pytest.mark.parametrize(
    ("skill", "members", "pointer"),
    [
        ("inventory.search", {"filters": {"n" * 201: 1}}, "/filters"),
        ("inventory.search", {"n" * 201: 1, "filters": 7}, ""),
        ("lead.submit", {"trade_in": {"n" * 201: 1}}, "/trade_in"),
        ("lead.submit", {"trade_in": {"x": [{"n" * 201: 1}]}}, "/trade_in/x/0"),
    ],
)
def test_a_name_that_is_too_long_is_not_repeated(skill: str, members: dict[str, Any], pointer: str) -> None:
    problem = refused(body(skill, **members)).details["errors"][0]
    assert (problem["instancePath"], problem["keyword"]) == (pointer, "propertyNames")
    assert problem["message"] == "must have no member whose name has more than 200 characters"
