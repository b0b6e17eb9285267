"""When a failed delivery is retried, and when a channel pauses (docs/reference/delivery.md)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.delivery.slots import Breaker
from dealer_agent.jobs.loop import pause_after


@pytest.mark.parametrize(
    ("attempts", "longest"), [(1, 15), (2, 30), (3, 60), (4, 120), (8, 1920), (9, 3600), (10, 3600), (10_000, 3600)]
)
def test_the_longest_wait_doubles_up_to_the_set_one(attempts: int, longest: int) -> None:
    assert pause_after(attempts, timedelta(seconds=15), timedelta(hours=1)) == timedelta(seconds=longest)


@given(first=st.integers(1, 3600), longest=st.integers(1, 1440), attempts=st.integers(1, 10**6))
def test_no_settings_overflow(first: int, longest: int, attempts: int) -> None:
    pause = pause_after(attempts, timedelta(seconds=first), timedelta(minutes=longest))
    assert timedelta() <= pause <= timedelta(minutes=longest)


def test_a_channel_rests_after_so_many_failures_in_a_row_then_one_tries_it() -> None:
    breaker = Breaker(failures_allowed=3, pause_seconds=60)
    for now in (0.0, 1.0):
        breaker.failed(now)
        assert breaker.capacity(now, in_progress=1, at_once=4) == 3
    breaker.failed(2.0)
    assert breaker.capacity(61.9, in_progress=0, at_once=4) == 0
    assert breaker.capacity(62.0, in_progress=0, at_once=4) == 1
    assert breaker.capacity(62.0, in_progress=1, at_once=4) == 0
    breaker.failed(63.0)
    assert breaker.capacity(122.9, in_progress=0, at_once=4) == 0
    assert breaker.capacity(123.0, in_progress=0, at_once=4) == 1


def test_one_success_ends_the_rest() -> None:
    breaker = Breaker(failures_allowed=2, pause_seconds=60)
    breaker.failed(0.0)
    breaker.succeeded()
    breaker.failed(1.0)
    assert breaker.capacity(1.0, in_progress=0, at_once=4) == 4
    breaker.failed(2.0)
    assert breaker.capacity(3.0, in_progress=0, at_once=4) == 0
    breaker.succeeded()
    assert breaker.capacity(3.0, in_progress=0, at_once=4) == 4


def test_a_receiver_that_asks_for_time_gets_it_from_the_whole_channel() -> None:
    breaker = Breaker(failures_allowed=5, pause_seconds=60)
    breaker.failed(0.0, asked_to_wait=30)
    breaker.failed(1.0)
    assert breaker.capacity(29.9, in_progress=0, at_once=4) == 0
    assert breaker.capacity(30.0, in_progress=0, at_once=4) == 4
