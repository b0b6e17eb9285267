"""Whether a department is open, and when it opens next (docs/protocol.md#confirmation)."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.leads.opening_oracle import DAY, open_steps
from tests.leads.visiting import CHICAGO, Spans, hours, hours_of, week
from tests.soak import examples

from dealer_agent.leads.local_time import Hours, current_or_next_span

MINUTE = timedelta(minutes=1)
ZONES = [
    "America/New_York",
    "America/Phoenix",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "America/Havana",
    "Asia/Beirut",
    "Europe/London",
]
# Around changes of the clock in these zones, and around the turn of a year.
DAYS = [datetime(2026, 3, day, tzinfo=UTC) for day in (7, 28)] + [
    datetime(2026, 4, 4, tzinfo=UTC),
    datetime(2026, 10, 24, tzinfo=UTC),
    datetime(2026, 10, 31, tzinfo=UTC),
    datetime(2026, 12, 31, tzinfo=UTC),
]
HOURS: list[Spans] = [
    (),
    hours("09:00-18:00"),
    hours("09:00-12:00, 13:00-18:00"),
    hours("00:00-24:00"),
    hours("18:00-02:00"),
    hours("00:00-01:30, 22:15-24:00"),
    hours("02:00-03:00"),
    hours("02:30-03:30, 04:00-04:01"),
    hours("01:30-04:30"),
    hours("00:00-00:30, 01:00-01:15, 02:10-02:20, 23:59-01:01"),
    hours("10:00-02:00"),
    hours("23:00-02:30"),
]

Case = tuple[Hours, str, datetime]


def a_case(chance: Random) -> Case:
    midnight = chance.choice(DAYS)
    special = {(midnight + number * DAY).date(): chance.choice(HOURS) for number in chance.sample(range(-2, 5), 2)}
    open_on = {day: chance.choice(HOURS) for day in range(7)} if chance.random() < 0.7 else week("00:00-24:00")
    now = midnight + chance.randrange(-24 * 60, 48 * 60) * MINUTE
    return hours_of(open_on, special), chance.choice(ZONES), now


@pytest.mark.requirement("confirm-in-hours")
@settings(max_examples=examples(100), deadline=None)
@given(case=st.randoms(use_true_random=True).map(a_case))
def test_a_walk_along_the_clock_finds_the_same_opening_and_closing(case: Case) -> None:
    opening, zone, now = case
    until = now + 2 * DAY
    walk = list(open_steps(opening, zone, now, until, MINUTE))
    expected_open = next((moment for moment, is_open in walk if is_open), None)
    expected_close = next(
        (moment for moment, is_open in walk if expected_open and moment > expected_open and not is_open), None
    )
    found = current_or_next_span(opening, zone, now)
    if expected_open is None:
        assert found is None or found[0] > until
        return
    assert found is not None
    opens, closes = found
    assert opens <= now if expected_open == now else opens == expected_open
    assert closes > until if expected_close is None else closes == expected_close


def at(text: str) -> datetime:
    """`11 09:00` on the clock in UTC in March 2026."""
    return datetime.fromisoformat(f"2026-03-{text.replace(' ', 'T')}").replace(tzinfo=UTC)


NINE_TO_FIVE = week("09:00-17:00", range(5))
LATE = week("18:00-02:00")
NOTHING: dict[date, Spans] = {}
CLOSED = {date(2026, 3, 11): (), date(2026, 3, 12): ()}


@pytest.mark.parametrize(
    ("open_on", "special", "now", "expected"),
    # The clocks of Chicago go forward on 8 March: nine is at 15:00 UTC before that day and at 14:00 UTC from it on.
    [
        (NINE_TO_FIVE, NOTHING, "11 16:00", ("11 14:00", "11 22:00")),
        (NINE_TO_FIVE, NOTHING, "11 13:00", ("11 14:00", "11 22:00")),
        (NINE_TO_FIVE, NOTHING, "11 22:00", ("12 14:00", "12 22:00")),
        (NINE_TO_FIVE, NOTHING, "14 03:00", ("16 14:00", "16 22:00")),
        (NINE_TO_FIVE, CLOSED, "11 16:00", ("13 14:00", "13 22:00")),
        (week("09:00-17:00", [6]), NOTHING, "02 16:00", ("08 14:00", "08 22:00")),
        (NINE_TO_FIVE, {date(2026, 3, 1) + timedelta(days=day): () for day in range(31)}, "11 12:00", None),
        ({}, NOTHING, "11 12:00", None),
        # A special day opens on a day that is closed otherwise.
        ({}, {date(2026, 3, 12): hours("10:00-12:00")}, "11 12:00", ("12 15:00", "12 17:00")),
        # Several spans: between them it is closed.
        (week("09:00-12:00, 13:00-18:00"), NOTHING, "11 17:30", ("11 18:00", "11 23:00")),
        # After midnight the span of the day before is open until its end.
        (LATE, NOTHING, "11 06:30", ("10 23:00", "11 07:00")),
        (LATE, NOTHING, "11 07:00", ("11 23:00", "12 07:00")),
        # A closed day has no span of its own, and the night before ends at its time.
        (LATE, CLOSED, "11 06:30", ("10 23:00", "11 07:00")),
        (LATE, CLOSED, "11 07:00", ("13 23:00", "14 07:00")),
        # Two spans that meet at midnight are one.
        (week("18:00-24:00") | {3: hours("00:00-02:00")}, NOTHING, "12 00:00", ("11 23:00", "12 07:00")),
        # In the night of the change a span keeps its end on the clock: it is an hour shorter.
        (week("18:00-04:00", [5]), NOTHING, "08 02:00", ("08 00:00", "08 09:00")),
        # The clock skips the whole span.
        (week("02:00-03:00", [6]), NOTHING, "08 06:00", ("15 07:00", "15 08:00")),
    ],
)
def test_the_hours_are_those_of_now_or_the_next_ones(
    open_on: Mapping[int, Spans], special: Mapping[date, Spans], now: str, expected: tuple[str, str] | None
) -> None:
    found = current_or_next_span(hours_of(open_on, special), CHICAGO, at(now))
    assert found == (expected and (at(expected[0]), at(expected[1])))


@pytest.mark.usefixtures("machine_zone")
def test_an_evening_is_of_today_though_it_is_tomorrow_elsewhere() -> None:
    found = current_or_next_span(hours_of(week("09:00-21:00"), NOTHING), CHICAGO, at("12 01:30"))
    assert found == (at("11 14:00"), at("12 02:00"))


def test_a_dealer_that_is_closed_for_more_than_two_weeks_has_no_opening_time() -> None:
    closed: list[date] = [date(2026, 3, 11) + timedelta(days=day) for day in range(15)]
    every_day = week("09:00-21:00")
    found = current_or_next_span(hours_of(every_day, dict.fromkeys(closed[:14], ())), CHICAGO, at("11 13:00"))
    assert found == (at("25 14:00"), at("26 02:00"))
    assert current_or_next_span(hours_of(every_day, dict.fromkeys(closed, ())), CHICAGO, at("11 13:00")) is None
