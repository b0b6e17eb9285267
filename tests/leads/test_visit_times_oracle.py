"""`choose_time` against a slow oracle that tries every quarter of an hour (docs/protocol.md#confirmation)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.leads.opening_oracle import open_steps
from tests.leads.visiting import hours, hours_of, minutes
from tests.soak import examples

from dealer_agent.leads.visit_times import RequestedTimes, Slot, VisitPlan, bookable_span, choose_time, quarters_of

QUARTER = timedelta(minutes=15)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


STEP = 5 * MINUTE
"""All hours below fall on these steps."""


def can_begin(plan: VisitPlan, start: datetime, now: datetime) -> bool:
    """Whether grid, notice and horizon allow a visit."""
    local = start.astimezone(ZoneInfo(plan.zone))
    on_grid = local.second == local.microsecond == 0 and (60 * local.hour + local.minute) % (plan.grid // MINUTE) == 0
    return on_grid and now + plan.notice <= start <= now + plan.horizon


def free_visits(plan: VisitPlan, length: timedelta, busy: Mapping[datetime, int], now: datetime) -> list[datetime]:
    quarter = datetime(now.year, now.month, now.day, tzinfo=UTC)
    end = now + plan.horizon + length
    opened = {moment for moment, is_open in open_steps(plan.hours, plan.zone, quarter, end, STEP) if is_open}
    found = []
    while quarter <= now + plan.horizon:
        touched = [quarter + number * QUARTER for number in range(length // QUARTER)]
        is_open = all(quarter + number * STEP in opened for number in range(length // STEP))
        is_free = not any(busy.get(one, 0) >= plan.places for one in touched)
        if is_open and is_free and can_begin(plan, quarter, now):
            found.append(quarter)
        quarter += QUARTER
    return found


def reached(asked: RequestedTimes, start: datetime) -> datetime:
    """Until when the buyer has time without a break, from a moment at which they have."""
    while later := [end for begin, end in asked.windows if begin <= start < end]:
        start = max(later)
    return start


def suits(asked: RequestedTimes, start: datetime) -> bool:
    if asked.at is not None:
        return start == asked.at
    return reached(asked, start) >= start + asked.duration


def to_move(asked: RequestedTimes, start: datetime) -> timedelta:
    """By how much a visit would have to be moved to suit; to the start of a window that is too short for it."""
    if asked.at is not None:
        return abs(start - asked.at)
    if suits(asked, start):
        return timedelta()
    marks = []
    for begin, end in asked.windows:
        if suits(asked, end - asked.duration):
            marks.append(end - asked.duration)
        inside = any(other < begin <= until for other, until in asked.windows)
        if suits(asked, begin) or not inside:
            marks.append(begin)
    return min(abs(start - mark) for mark in marks)


def expected(
    asked: RequestedTimes, plan: VisitPlan, busy: Mapping[datetime, int], now: datetime
) -> tuple[datetime | None, list[datetime]]:
    free = free_visits(plan, asked.duration, busy, now)
    fitting = [start for start in free if suits(asked, start)]
    if fitting:
        return fitting[0], []
    return None, sorted(sorted(free, key=lambda start: (to_move(asked, start), start))[:3])


ZONES = [
    "America/New_York",
    "America/Los_Angeles",
    "America/Phoenix",
    "America/Chicago",
    "Pacific/Honolulu",
    "America/St_Johns",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "America/Havana",
]
# Around the changes of the clock, and around the turn of a year.
DAYS = [datetime(2026, 3, 6, tzinfo=UTC), datetime(2026, 10, 30, tzinfo=UTC), datetime(2026, 12, 30, tzinfo=UTC)]

HOURS = [
    hours("09:00-18:00"),
    hours("00:00-24:00"),
    hours("00:00-23:55"),
    hours("01:00-05:00"),
    hours("09:10-12:05"),
    hours("01:30-04:30"),
    hours("02:30-12:00"),
    hours("00:00-01:30"),
    hours("00:00-02:30"),
    hours("18:00-02:00"),
    hours("22:30-03:30"),
    hours("09:00-12:00, 12:30-17:00, 20:00-24:00"),
]

Case = tuple[RequestedTimes, VisitPlan, dict[datetime, int], datetime]


def a_plan(chance: Random) -> VisitPlan:
    every_day = [*HOURS[:2] * 5, *HOURS, ()]
    if chance.random() < 0.5:
        week = dict.fromkeys(range(7), chance.choice(every_day))
    else:
        week = {day: chance.choice(every_day) for day in range(7) if chance.random() < 0.9}
    closed = [(day + number * DAY).date() for day in DAYS for number in range(5)]
    days_off = chance.sample(closed, 2) if chance.random() < 0.3 else []
    return VisitPlan(
        zone=chance.choice(ZONES),
        hours=hours_of(week, dict.fromkeys(days_off, ())),
        duration=minutes(60),
        allowed=(),
        places=chance.randint(1, 3),
        grid=minutes(chance.choice([15, 15, 30, 30, 45, 60, 90, 120])),
        notice=minutes(chance.choice([0, 0, 0, 15, 60, 120, 120, 1440])),
        horizon=timedelta(days=chance.choice([1, 2, 3, 3])),
    )


def a_moment(chance: Random, midnight: datetime) -> datetime:
    """Mostly on half an hour, sometimes on a quarter or beside it, now and then very far away."""
    step = chance.choice([2, 2, 1])
    moment = midnight + chance.randrange(-30, 3 * 96, step) * QUARTER
    if chance.random() < 0.15:
        moment += timedelta(seconds=chance.choice([1, 450, 899]))
    if chance.random() < 0.05:
        moment += timedelta(days=chance.choice([-1, 1]) * 365 * chance.choice([1, 700]))
    return moment


def some_busy(chance: Random, midnight: datetime) -> dict[datetime, int]:
    everything = [midnight + number * QUARTER for number in range(7 * 96)]
    if chance.random() < 0.2:
        return {quarter: 3 for quarter in everything if chance.random() < 0.9}
    busy = {}
    for _ in range(chance.choice([0, 0, 3, 8, 30])):
        begin, count = chance.choice(everything), chance.randint(1, 3)
        busy.update({begin + number * QUARTER: count for number in range(chance.choice([1, 4, 30]))})
    return busy


def a_case(chance: Random) -> Case:
    plan = a_plan(chance)
    midnight = chance.choice(DAYS)
    now = midnight + timedelta(seconds=chance.choice([0, 900, chance.randrange(86_400)]))
    length = minutes(chance.choice([15, 15, 30, 30, 30, 60, 60, 60, 90, 150, 480]))
    busy = some_busy(chance, midnight)
    if chance.random() < 0.4:
        return RequestedTimes((), a_moment(chance, midnight), length), plan, busy, now
    lengths = [-90, 0, 10, 15, 30, 60, 60, 75, 120, 120, 240, 480]
    starts = [a_moment(chance, midnight) for _ in range(chance.choice([1, 1, 2, 3, 8]))]
    windows = tuple((start, start + minutes(chance.choice(lengths))) for start in starts)
    return RequestedTimes(windows, None, length), plan, busy, now


# A seed each: so that the cases are as varied as the functions above say.
cases = st.randoms(use_true_random=True).map(a_case)


@pytest.mark.requirement("confirm-in-hours", "confirm-notice", "propose-three")
@settings(max_examples=examples(300), deadline=None)
@given(case=cases)
def test_the_earliest_fitting_visit_is_confirmed_else_the_nearest_three_are_proposed(
    case: Case,
) -> None:
    asked, plan, busy, now = case
    outcome = choose_time(asked, plan, busy, now)
    confirmed, nearest = expected(asked, plan, busy, now)
    event("confirmed" if confirmed else f"{len(nearest)} proposed")
    slots = list(outcome.proposed) if outcome.confirmed is None else [outcome.confirmed, *outcome.proposed]
    assert [slot.start for slot in slots] == ([confirmed] if confirmed else nearest)
    assert (outcome.confirmed is not None) == (confirmed is not None)
    for slot in slots:
        assert slot.end - slot.start == asked.duration
        for moment in (slot.start, slot.end):
            assert moment.utcoffset() == moment.astimezone(ZoneInfo(plan.zone)).utcoffset()


@settings(max_examples=examples(100), deadline=None)
@given(case=cases, noise=st.integers(0, 3))
def test_what_is_busy_outside_the_span_changes_nothing(case: Case, noise: int) -> None:
    asked, plan, busy, now = case
    first, end = bookable_span(asked, plan, now)
    loaded = {quarter: count for quarter, count in busy.items() if first <= quarter < end}
    midnight = datetime(now.year, now.month, now.day, tzinfo=UTC)
    elsewhere = [midnight + number * QUARTER for number in range(-96, 8 * 96)]
    noisy = loaded | {quarter: noise for quarter in elsewhere if not first <= quarter < end}
    assert (
        choose_time(asked, plan, noisy, now)
        == choose_time(asked, plan, loaded, now)
        == choose_time(asked, plan, busy, now)
    )


@settings(max_examples=examples(60), deadline=None)
@given(case=cases)
def test_repeated_booking_never_exceeds_the_places_and_proposals_can_be_booked(
    case: Case,
) -> None:
    asked, plan, busy, now = case
    asked = replace(asked, duration=max(asked.duration, minutes(60)))
    taken = dict(busy)
    for _ in range(40):
        visit = choose_time(asked, plan, taken, now).confirmed
        if visit is None:
            break
        for quarter in quarters_of(visit):
            taken[quarter] = taken.get(quarter, 0) + 1
            assert taken[quarter] <= plan.places
    else:
        return
    # What is proposed in the end can be had by asking for it.
    for slot in choose_time(asked, plan, taken, now).proposed:
        again = RequestedTimes((), slot.start, asked.duration)
        assert choose_time(again, plan, taken, now).confirmed == Slot(slot.start, slot.end)


@given(case=cases, zone=st.sampled_from(ZONES))
@settings(max_examples=examples(60), deadline=None)
def test_the_offset_in_which_times_are_given_changes_nothing(case: Case, zone: str) -> None:
    asked, plan, busy, now = case
    there = ZoneInfo(zone)
    moved = RequestedTimes(
        tuple((start.astimezone(there), end.astimezone(there)) for start, end in asked.windows),
        asked.at and asked.at.astimezone(there),
        asked.duration,
    )
    assert choose_time(moved, plan, busy, now.astimezone(there)) == choose_time(asked, plan, busy, now)
