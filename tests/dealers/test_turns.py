"""The queue that serves dealers in turn."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.dealers.turns import Turns

pytestmark = pytest.mark.requirement("fair-share")

ARRIVALS = st.lists(st.sampled_from("abcde"), max_size=60)


def filled(arrivals: list[str]) -> Turns[int]:
    turns: Turns[int] = Turns()
    for number, dealer_id in enumerate(arrivals):
        turns.add(dealer_id, number)
    return turns


def taken(turns: Turns[int]) -> list[tuple[str, int]]:
    return [turns.take() for _ in range(turns.size)]


@given(ARRIVALS)
def test_items_of_a_dealer_keep_their_order_and_none_is_lost(arrivals: list[str]) -> None:
    turns = filled(arrivals)
    assert (turns.size, turns.dealers) == (len(arrivals), len(set(arrivals)))
    by_dealer = defaultdict(list)
    for dealer_id, number in taken(turns):
        by_dealer[dealer_id].append(number)
    assert {number: dealer for dealer, numbers in by_dealer.items() for number in numbers} == dict(enumerate(arrivals))
    assert all(numbers == sorted(numbers) for numbers in by_dealer.values())
    assert (turns.size, turns.dealers) == (0, 0)


@given(ARRIVALS)
def test_no_dealer_gets_a_second_turn_while_another_waits_for_its_first(arrivals: list[str]) -> None:
    order = [dealer_id for dealer_id, _ in taken(filled(arrivals))]
    for place, dealer_id in enumerate(order):
        turn = order[:place].count(dealer_id)
        waiting = [other for other in set(arrivals) if arrivals.count(other) > turn]
        assert all(order[:place].count(other) >= turn for other in waiting)


def test_a_dealer_that_arrives_beside_a_flood_is_next_after_one_of_its_items() -> None:
    turns = filled(["flood"] * 100)
    turns.take()
    turns.add("late", 100)
    assert [turns.take()[0] for _ in range(3)] == ["flood", "late", "flood"]


def test_an_item_that_is_put_first_comes_before_all_others() -> None:
    turns = filled(["a", "b", "b"])
    turns.put_first("b", 7)
    assert (turns.size, turns.next_dealers(1)) == (4, ["b"])
    assert turns.take_all("a") == filled(["a"]).take_all("a")
    assert [number for _, number in taken(turns)] == [7, 1, 2]
    turns.put_first("c", 8)
    assert (turns.size, turns.dealers) == (1, 1)


def test_the_dealers_of_the_last_call_wait_while_others_have_items() -> None:
    turns = filled(["flood"] * 100)
    assert turns.next_dealers(4) == ["flood"]
    for number, dealer_id in enumerate("abcde"):
        turns.add(dealer_id, number)
    assert turns.next_dealers(4) == ["a", "b", "c", "d"]
    assert turns.next_dealers(4) == ["flood", "e"]
    turns.put_first("e", 7)
    assert turns.next_dealers(1) == ["e"]


def test_the_items_of_a_named_dealer_are_taken_in_their_order() -> None:
    turns = filled(["a", "b", "b"])
    assert [turns.take("b"), turns.take("b"), turns.take()] == [("b", 1), ("b", 2), ("a", 0)]
    with pytest.raises(KeyError):
        turns.take("b")
