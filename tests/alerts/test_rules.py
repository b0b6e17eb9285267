"""The rule about messages: one at the start, one at the end, and at most one digest a day. Pure."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.alerts.rules import (
    DAY,
    KEPT,
    MOST_CHANGES,
    AlertChanges,
    AlertMessage,
    Observation,
    Timing,
    check,
    observe,
)
from dealer_agent.storage.alerts import AlertState

pytestmark = pytest.mark.outside_protocol("alerts")

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
AT_ONCE = Timing(timedelta(0), timedelta(0))
SLOWLY = Timing(10 * MINUTE, 10 * MINUTE)


class Memory:
    """What a database would remember between checks."""

    def __init__(self, timing: Timing = AT_ONCE) -> None:
        self.timing = timing
        self.states: dict[tuple[str, str], AlertState] = {}
        self.digest_at: datetime | None = None
        self.sent: list[tuple[datetime, AlertMessage]] = []

    def check(self, now: datetime, seen: dict[str, list[Observation]], off: tuple[str, ...] = ()) -> AlertChanges:
        today = sum(message.kind == "change" and now - at < DAY for at, message in self.sent)
        result = check(
            self.states.values(),
            seen,
            lambda _: self.timing,
            now=now,
            digest_at=self.digest_at,
            changes_today=today,
            off=off,
        )
        for state in result.forgotten:
            del self.states[state[:2]]
        self.states |= {state[:2]: state for state in result.stored}
        self.digest_at = result.digest_at
        self.sent += [(now, message) for message in result.messages]
        return result

    def kinds(self) -> list[str]:
        return [message.kind for _, message in self.sent]


def seen(*subjects: str) -> dict[str, list[Observation]]:
    return {"broken": [Observation(subject) for subject in subjects]}


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        pytest.param("1", "", id="too short"),
        pytest.param("1" * 11, "start", id="it lasts"),
        pytest.param("1" * 9 + "0" + "1" * 9, "", id="with a break it begins anew"),
        pytest.param("1" * 11 + "0" * 9 + "1", "start", id="a short break is no end"),
        pytest.param("1" * 11 + "0" * 9 + "1" + "0" * 5, "start", id="nor are two short breaks"),
        pytest.param("1" * 11 + "0" * 11, "start end", id="the end"),
        pytest.param("1" * 9 + "?" * 5 + "1", "start", id="what is unknown changes nothing"),
        pytest.param("1" * 11 + "0" * 5 + "?" * 30, "start", id="nor does it end"),
    ],
)
def test_an_alert_begins_and_ends_after_a_time(minutes: str, expected: str) -> None:
    memory = Memory(SLOWLY)
    for number, what in enumerate(minutes):
        memory.check(NOW + number * MINUTE, {} if what == "?" else seen("") if what == "1" else seen())
    found = ["start" if message.started else "end" for _, message in memory.sent]
    assert " ".join(found) == expected


def test_what_begins_and_ends_at_one_check_is_in_one_message() -> None:
    memory = Memory()
    memory.check(NOW, seen("a", "b"))
    memory.check(NOW + MINUTE, seen("b", "c"))
    (_, first), (_, second) = memory.sent
    assert [state.subject for state in first.started] == ["a", "b"]
    assert [[state.subject for state in each] for each in (second.started, second.ended, second.open)] == [
        ["c"],
        ["a"],
        ["b"],
    ]


def test_an_alert_that_stays_open_is_in_a_digest_each_day() -> None:
    memory = Memory()
    for hour in range(73):
        memory.check(NOW + hour * HOUR, seen("a"))
    assert memory.kinds() == ["change", "digest", "digest", "digest"]
    assert [at - NOW for at, _ in memory.sent] == [timedelta(0), DAY, 2 * DAY, 3 * DAY]
    memory.check(NOW + 73 * HOUR, seen())
    assert [state.subject for state in memory.sent[-1][1].ended] == ["a"]


def test_a_condition_that_comes_and_goes_causes_no_more_than_the_digest() -> None:
    memory = Memory()
    for number in range(10 * 24 * 6):
        memory.check(NOW + number * 10 * MINUTE, seen("a") if number % 2 else seen())
    changes = [at for at, message in memory.sent if message.kind == "change"]
    digests = [at for at, message in memory.sent if message.kind == "digest"]
    assert len(changes) == 2, "the first start and its end"
    assert len(digests) == 10
    assert memory.sent[3][1].open[0].unreported + len(memory.sent[3][1].ended) > 100, "the digest counts them"


def test_after_a_day_without_changes_a_new_start_is_reported_at_once() -> None:
    memory = Memory()
    for at, what in ((0, seen("a")), (1, seen()), (25, seen("a")), (26, seen())):
        memory.check(NOW + at * HOUR, what)
    assert memory.kinds() == ["change"] * 4


def test_a_condition_that_is_switched_off_is_forgotten_without_a_message() -> None:
    memory = Memory()
    memory.check(NOW, seen("a"))
    memory.check(NOW + MINUTE, seen("a"), off=("broken",))
    assert memory.states == {}
    assert len(memory.sent) == 1


def test_many_subjects_that_break_one_by_one_are_in_few_messages() -> None:
    memory = Memory()
    subjects = [f"channel {number}" for number in range(100)]
    for number in range(100):
        memory.check(NOW + number * MINUTE, seen(*subjects[: number + 1]))
    assert memory.kinds().count("change") == MOST_CHANGES
    assert memory.kinds().count("digest") == 1


def test_an_old_alert_is_forgotten() -> None:
    memory = Memory()
    memory.check(NOW, seen("a"))
    memory.check(NOW + HOUR, seen())
    memory.check(NOW + KEPT, seen())
    assert len(memory.states) == 1
    memory.check(NOW + KEPT + 2 * HOUR, seen())
    assert memory.states == {}


def test_a_clock_that_was_set_back_stops_no_alert() -> None:
    state = observe(AlertState("broken", ""), Observation(), NOW, SLOWLY)
    assert observe(state, Observation(), NOW - 365 * DAY, SLOWLY).is_open


CHECKS = st.lists(
    st.tuples(
        st.sampled_from([1, 5, 30, 240, 1500]),
        st.tuples(*[st.booleans()] * 3),
        st.booleans(),
    ),
    max_size=60,
)


@given(CHECKS)
def test_any_story_keeps_the_rule_and_ends_with_the_truth(story: list[tuple[int, tuple[bool, ...], bool]]) -> None:
    memory, now = Memory(Timing(5 * MINUTE, 5 * MINUTE)), NOW
    last: tuple[str, ...] = ()
    for minutes, broken, is_known in story:
        now += minutes * MINUTE
        last = tuple(subject for subject, is_broken in zip("abc", broken, strict=True) if is_broken)
        memory.check(now, seen(*last) if is_known else {})
    for _ in range(2 * 24 * 4):
        now += 15 * MINUTE
        memory.check(now, seen(*last))
    _check_rule(memory)
    known: dict[str, bool] = {}
    for _, message in memory.sent:
        known |= {state.subject: True for state in (*message.started, *message.open)}
        known |= {state.subject: False for state in message.ended}
    assert {subject for subject, is_open in known.items() if is_open} == set(last)


def _check_rule(memory: Memory) -> None:
    digests = [at for at, message in memory.sent if message.kind == "digest"]
    assert all(later - earlier >= DAY for earlier, later in pairwise(digests))
    changes = [(at, message) for at, message in memory.sent if message.kind == "change"]
    for subject in "abc":
        starts = [at for at, message in changes if subject in {state.subject for state in message.started}]
        ends = [at for at, message in changes if subject in {state.subject for state in message.ended}]
        assert all(later - earlier >= DAY for earlier, later in pairwise(starts))
        assert len(ends) <= len(starts)
        assert all(start <= end for start, end in zip(starts, ends, strict=False))
