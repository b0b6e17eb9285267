"""Visits near the nights in which the clock of the rooftop changes (docs/protocol.md#confirmation).

The two zones below differ in their offsets alone, so one table serves both: `S` stands for the offset of standard
time and `D` for that of daylight-saving time. On 8 March 2026 the clock jumps from 02:00 S to 03:00 D; on 1 November
2026 it goes back from 02:00 D to 01:00 S. Arizona keeps its standard time.
"""

from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.leads.visiting import (
    asking,
    bookable,
    confirmed,
    filled,
    minutes,
    outcome_of,
    plan_of,
    proposed,
    week,
    windows,
)

from dealer_agent.leads.visit_times import RequestedTimes, Slot, VisitPlan, choose_time, quarters_of, start_inside

pytestmark = pytest.mark.requirement("confirm-in-hours")

ZONES = [
    pytest.param("America/New_York", {"S": "-05:00", "D": "-04:00"}, id="New York"),
    pytest.param("America/Los_Angeles", {"S": "-08:00", "D": "-07:00"}, id="Los Angeles"),
]
PHOENIX = "America/Phoenix"
IN_SOAK = pytest.param(*ZONES[1].values, id=ZONES[1].id, marks=pytest.mark.soak)
in_both_zones = pytest.mark.parametrize(("zone", "offsets"), ZONES)
in_the_first_zone = pytest.mark.parametrize(("zone", "offsets"), [ZONES[0], IN_SOAK])
"""In `make soak` in both. A zone with other offsets needs no other code."""

SPRING, AUTUMN = "2026-03-08", "2026-11-01"
ALL_DAY = week("00:00-23:59")
# Some days before either night, so that both lie inside the horizon.
BEFORE = {
    SPRING: datetime(2026, 3, 5, 12, tzinfo=UTC),
    AUTUMN: datetime(2026, 10, 29, 12, tzinfo=UTC),
}


def written(day: str, shorthand: str, offsets: dict[str, str]) -> str:
    """`01:30 S` as `2026-03-08T01:30:00-05:00`; `01:30`, without an offset, as `2026-03-08T01:30:00`."""
    clock, _, season = shorthand.partition(" ")
    return f"{day}T{clock}:00{offsets[season] if season else ''}"


AT = [
    # The night, the time asked for, and what is confirmed: the same instant, as the rooftop's clock shows it.
    (SPRING, "01:00 S", "01:00 S"),
    (SPRING, "01:30 S", "01:30 S"),
    (SPRING, "02:00 S", "03:00 D"),
    (SPRING, "02:30 S", "03:30 D"),
    (SPRING, "02:00 D", "01:00 S"),
    (SPRING, "02:30 D", "01:30 S"),
    (SPRING, "03:00 D", "03:00 D"),
    (SPRING, "09:00 D", "09:00 D"),
    (SPRING, "09:00 S", "10:00 D"),
    (AUTUMN, "00:30 D", "00:30 D"),
    (AUTUMN, "01:00 D", "01:00 D"),
    (AUTUMN, "01:30 D", "01:30 D"),
    (AUTUMN, "01:00 S", "01:00 S"),
    (AUTUMN, "01:30 S", "01:30 S"),
    (AUTUMN, "02:00 D", "01:00 S"),
    (AUTUMN, "02:30 D", "01:30 S"),
    (AUTUMN, "00:30 S", "01:30 D"),
    (AUTUMN, "02:00 S", "02:00 S"),
    (AUTUMN, "09:00 S", "09:00 S"),
    (AUTUMN, "09:00 D", "08:00 S"),
]


@in_both_zones
@pytest.mark.parametrize(("day", "asked", "expected"), AT)
def test_a_visit_near_a_clock_change_is_confirmed_at_the_instant_that_was_asked_for(
    zone: str, offsets: dict[str, str], day: str, asked: str, expected: str
) -> None:
    plan = plan_of(zone, ALL_DAY)
    outcome = outcome_of(plan, now=BEFORE[day], appointment_at=written(day, asked, offsets))
    assert confirmed(outcome) == written(day, expected, offsets)


ENDS = [
    (SPRING, "00:30 S", 60, "01:30 S"),
    (SPRING, "01:00 S", 60, "03:00 D"),
    (SPRING, "01:30 S", 60, "03:30 D"),
    (SPRING, "01:30 S", 240, "06:30 D"),
    (AUTUMN, "00:30 D", 60, "01:30 D"),
    (AUTUMN, "01:00 D", 60, "01:00 S"),
    (AUTUMN, "01:30 D", 60, "01:30 S"),
    (AUTUMN, "00:30 D", 120, "01:30 S"),
    (AUTUMN, "01:30 S", 60, "02:30 S"),
    (AUTUMN, "01:00 D", 240, "04:00 S"),
]


@in_the_first_zone
@pytest.mark.parametrize(("day", "start", "length", "end"), ENDS)
def test_a_visit_across_the_change_keeps_its_length(
    zone: str, offsets: dict[str, str], day: str, start: str, length: int, end: str
) -> None:
    plan = plan_of(zone, ALL_DAY, duration=length)
    visit = outcome_of(plan, now=BEFORE[day], appointment_at=written(day, start, offsets)).confirmed
    assert visit is not None
    assert visit.start.isoformat() == written(day, start, offsets)
    assert visit.end.isoformat() == written(day, end, offsets)
    # Slots can be compared and subtracted like any times, also within the hour that comes twice.
    assert visit.end - visit.start == minutes(length)
    assert len(quarters_of(visit)) == length // 15


WINDOWS = [
    # The night, the window, the length of the visit, and its start. In the gap a clock time is as far after the
    # change as it would have been; in the overlap it is the first of the two.
    (SPRING, "01:00", "02:00", 60, "01:00 S"),
    (SPRING, "01:30", "02:30", 60, "01:30 S"),
    (SPRING, "01:30", "03:30", 60, "01:30 S"),
    (SPRING, "01:30", "03:30", 90, None),
    (SPRING, "02:00", "03:00", 60, None),
    (SPRING, "02:00", "04:00", 60, "03:00 D"),
    (SPRING, "02:30", "04:30", 60, "03:30 D"),
    (SPRING, "02:30", "03:30", 60, None),
    (SPRING, "02:30", "03:15", 60, None),
    (SPRING, "03:00", "04:00", 60, "03:00 D"),
    (SPRING, "02:00", None, 60, "03:00 D"),
    (SPRING, "02:30", None, 60, "03:30 D"),
    (SPRING, "01:01", None, 60, "01:30 S"),
    (SPRING, "01:31", None, 60, "03:00 D"),
    (AUTUMN, "00:30", "01:30", 60, "00:30 D"),
    (AUTUMN, "00:31", "01:30", 60, None),
    (AUTUMN, "01:00", "02:00", 120, "01:00 D"),
    (AUTUMN, "01:00", "02:00", 150, None),
    (AUTUMN, "01:30", "02:30", 120, "01:30 D"),
    (AUTUMN, "01:31", "02:00", 60, "01:00 S"),
    (AUTUMN, "02:00", "03:00", 60, "02:00 S"),
    (AUTUMN, "01:30", None, 60, "01:30 D"),
    (AUTUMN, "01:31", None, 60, "01:00 S"),
    # With offsets, either hour of the overlap can be named.
    (SPRING, "01:30 S", "03:30 D", 60, "01:30 S"),
    (SPRING, "02:00 S", "03:00 S", 60, "03:00 D"),
    (SPRING, "02:00 D", None, 60, "01:00 S"),
    (SPRING, "02:30 S", None, 60, "03:30 D"),
    (AUTUMN, "01:00 D", "01:00 S", 60, "01:00 D"),
    (AUTUMN, "01:30 D", "01:30 S", 60, "01:30 D"),
    (AUTUMN, "01:30 S", "02:30 S", 60, "01:30 S"),
    (AUTUMN, "01:00 S", "02:00 S", 120, None),
    (AUTUMN, "01:00 D", "02:00 S", 120, "01:00 D"),
    (AUTUMN, "01:30 S", None, 60, "01:30 S"),
    # One end of each kind.
    (AUTUMN, "01:30", "02:30 S", 120, "01:30 D"),
    (AUTUMN, "01:00 S", "02:00", 60, "01:00 S"),
]


@in_the_first_zone
@pytest.mark.parametrize(("day", "start", "end", "length", "expected"), WINDOWS)
def test_a_window_lasts_as_long_as_the_clock_takes_from_its_start_to_its_end(
    zone: str, offsets: dict[str, str], day: str, start: str, end: str | None, length: int, expected: str | None
) -> None:
    plan = plan_of(zone, ALL_DAY, duration=length)
    asked = windows((written(day, start, offsets), None if end is None else written(day, end, offsets)))
    outcome = outcome_of(plan, now=BEFORE[day], requested_windows=asked, timezone=zone)
    assert confirmed(outcome) == (None if expected is None else written(day, expected, offsets))
    assert len(outcome.proposed) == (3 if expected is None else 0)


@in_the_first_zone
@pytest.mark.parametrize(
    ("day", "start", "end", "nearest"),
    [
        (SPRING, "02:00", "03:00", ["01:30 S", "03:00 D", "03:30 D"]),
        (SPRING, "02:30", "03:30", ["03:00 D", "03:30 D", "04:00 D"]),
        (AUTUMN, "01:00", "01:30", ["00:30 D", "01:00 D", "01:30 D"]),
        (AUTUMN, "01:00 S", "01:30 S", ["01:30 D", "01:00 S", "01:30 S"]),
    ],
)
def test_how_near_a_time_is_does_not_depend_on_what_the_clock_shows(
    zone: str, offsets: dict[str, str], day: str, start: str, end: str, nearest: list[str]
) -> None:
    asked = windows((written(day, start, offsets), written(day, end, offsets)))
    outcome = outcome_of(plan_of(zone, ALL_DAY), now=BEFORE[day], requested_windows=asked, timezone=zone)
    assert outcome.confirmed is None
    assert proposed(outcome) == [written(day, start, offsets) for start in nearest]


HOURS = [
    # Hours that span the change; grid and length in minutes; all that can be booked.
    (SPRING, "00:00-04:00", 60, 60, ["00:00 S", "01:00 S", "03:00 D"]),
    (SPRING, "00:00-04:00", 30, 60, ["00:00 S", "00:30 S", "01:00 S", "01:30 S", "03:00 D"]),
    (SPRING, "01:00-04:00", 15, 120, ["01:00 S"]),
    (SPRING, "01:00-04:00", 15, 135, []),
    (SPRING, "00:00-06:00", 90, 30, ["00:00 S", "01:30 S", "03:00 D", "04:30 D"]),
    (SPRING, "00:00-06:00", 45, 45, ["00:00 S", "00:45 S", "01:30 S", "03:00 D", "03:45 D", "04:30 D", "05:15 D"]),
    (SPRING, "00:00-06:00", 120, 60, ["00:00 S", "04:00 D"]),
    # Hours that begin or end in the hour that is skipped: the change is when the clock first shows a later time.
    (SPRING, "02:30-05:00", 30, 60, ["03:00 D", "03:30 D", "04:00 D"]),
    (SPRING, "02:00-05:00", 60, 60, ["03:00 D", "04:00 D"]),
    (SPRING, "00:00-02:30", 30, 60, ["00:00 S", "00:30 S", "01:00 S"]),
    (SPRING, "00:00-03:00", 60, 60, ["00:00 S", "01:00 S"]),
    (SPRING, "02:15-02:45", 15, 15, []),
    (AUTUMN, "00:00-03:00", 60, 60, ["00:00 D", "01:00 D", "01:00 S", "02:00 S"]),
    (AUTUMN, "00:00-03:00", 60, 240, ["00:00 D"]),
    (AUTUMN, "00:00-04:00", 90, 30, ["00:00 D", "01:30 D", "01:30 S", "03:00 S"]),
    (AUTUMN, "00:30-03:00", 45, 45, ["00:45 D", "01:30 D", "01:30 S", "02:15 S"]),
    (AUTUMN, "00:00-04:00", 120, 60, ["00:00 D", "02:00 S"]),
    # Hours that begin or end in the hour that comes twice: once, and the first time.
    (AUTUMN, "01:30-03:00", 30, 60, ["01:30 D", "01:00 S", "01:30 S", "02:00 S"]),
    (AUTUMN, "00:00-01:30", 30, 60, ["00:00 D", "00:30 D"]),
    (AUTUMN, "01:00-01:30", 15, 15, ["01:00 D", "01:15 D"]),
    (AUTUMN, "00:00-02:00", 60, 60, ["00:00 D", "01:00 D", "01:00 S"]),
]


@in_the_first_zone
@pytest.mark.parametrize(("day", "open_", "grid", "length", "starts"), HOURS)
def test_hours_and_grid_are_what_the_clock_shows_on_both_sides_of_the_change(
    zone: str, offsets: dict[str, str], day: str, open_: str, grid: int, length: int, starts: list[str]
) -> None:
    plan = plan_of(zone, week(open_), grid=grid, duration=length)
    assert bookable(plan, day) == [written(day, start, offsets) for start in starts]


@in_the_first_zone
def test_the_two_hours_of_one_name_have_places_of_their_own(zone: str, offsets: dict[str, str]) -> None:
    first, second = written(AUTUMN, "01:00 D", offsets), written(AUTUMN, "01:00 S", offsets)
    plan = plan_of(zone, ALL_DAY)
    for taken, free in ((first, second), (second, first)):
        busy = filled((taken, 60))
        assert confirmed(outcome_of(plan, busy, BEFORE[AUTUMN], appointment_at=free)) == free
        assert confirmed(outcome_of(plan, busy, BEFORE[AUTUMN], appointment_at=taken)) is None
        local = windows((f"{AUTUMN}T01:00:00", f"{AUTUMN}T02:00:00"))
        assert confirmed(outcome_of(plan, busy, BEFORE[AUTUMN], requested_windows=local, timezone=zone)) == free
    early = outcome_of(plan, now=BEFORE[AUTUMN], appointment_at=first).confirmed
    late = outcome_of(plan, now=BEFORE[AUTUMN], appointment_at=second).confirmed
    assert early is not None
    assert late is not None
    assert early != late
    assert set(quarters_of(early)).isdisjoint(quarters_of(late))


@in_the_first_zone
def test_an_appraisal_shares_the_hour_that_was_meant_of_two_with_one_name(zone: str, offsets: dict[str, str]) -> None:
    plan = plan_of(zone, ALL_DAY)
    first = outcome_of(plan, now=BEFORE[AUTUMN], appointment_at=written(AUTUMN, "01:00 D", offsets)).confirmed
    assert first is not None
    assert start_inside(asking(plan, appointment_at=written(AUTUMN, "01:30 D", offsets)), first) is not None
    assert start_inside(asking(plan, appointment_at=written(AUTUMN, "01:30 S", offsets)), first) is None
    clock = ZoneInfo(zone)
    second = Slot(
        datetime(2026, 11, 1, 1, tzinfo=clock, fold=1),
        datetime(2026, 11, 1, 2, tzinfo=clock),
    )
    assert start_inside(asking(plan, appointment_at=written(AUTUMN, "01:30 S", offsets)), second) is not None
    assert start_inside(asking(plan, appointment_at=written(AUTUMN, "01:30 D", offsets)), second) is None


@in_the_first_zone
@pytest.mark.parametrize(
    ("day", "start", "rest"),
    [
        ("2026-03-07", "00:00 S", 24),
        (SPRING, "00:00 S", 23),
        (SPRING, "02:00 S", 21),
        ("2026-03-09", "00:00 D", 24),
        (AUTUMN, "00:00 D", 25),
        (AUTUMN, "01:00 S", 23),
        ("2026-11-02", "00:00 S", 24),
    ],
)
def test_a_window_without_an_end_reaches_to_midnight_at_the_rooftop(
    zone: str, offsets: dict[str, str], day: str, start: str, rest: int
) -> None:
    ((begins, ends),) = asking(plan_of(zone), requested_windows=windows((written(day, start, offsets), None))).windows
    assert ends - begins == timedelta(hours=rest)
    local = ends.astimezone(ZoneInfo(zone))
    assert (local.time(), local.date().day) == (time(0), int(day[-2:]) + 1)


@in_the_first_zone
@pytest.mark.parametrize(
    ("sunday", "before", "after"), [(SPRING, "S", "D"), (AUTUMN, "D", "S")], ids=["spring", "autumn"]
)
def test_the_doors_open_at_nine_before_and_after_the_night(
    zone: str, offsets: dict[str, str], sunday: str, before: str, after: str
) -> None:
    saturday = (datetime.fromisoformat(sunday) - timedelta(days=1)).date().isoformat()
    plan = plan_of(zone, week("09:00-11:00"))
    for day, season in ((saturday, before), (sunday, after)):
        nine = [written(day, f"{clock} {season}", offsets) for clock in ("09:00", "09:30", "10:00")]
        assert bookable(plan, day) == nine
        for members in (
            {"appointment_at": nine[0]},
            {"requested_windows": windows((nine[0], None))},
            {"requested_windows": windows((f"{day}T08:00:00", f"{day}T12:00:00")), "timezone": zone},
            {"requested_windows": windows((f"{day}T08:00:00", None)), "timezone": zone},
        ):
            assert confirmed(outcome_of(plan, now=BEFORE[sunday], **members)) == nine[0]


MST = "-07:00"


@pytest.mark.parametrize(
    ("day", "members", "expected"),
    [
        (SPRING, {"appointment_at": f"{SPRING}T02:00:00-07:00"}, "02:00"),
        (SPRING, {"appointment_at": f"{SPRING}T02:30:00-07:00"}, "02:30"),
        (SPRING, {"requested_windows": windows((f"{SPRING}T02:30:00", f"{SPRING}T03:30:00"))}, "02:30"),
        (SPRING, {"requested_windows": windows((f"{SPRING}T02:30:00", None))}, "02:30"),
        (SPRING, {"requested_windows": windows((f"{SPRING}T02:00:00", f"{SPRING}T03:00:00"))}, "02:00"),
        (AUTUMN, {"appointment_at": f"{AUTUMN}T01:30:00-07:00"}, "01:30"),
        (AUTUMN, {"requested_windows": windows((f"{AUTUMN}T01:00:00", f"{AUTUMN}T02:00:00"))}, "01:00"),
        (AUTUMN, {"requested_windows": windows((f"{AUTUMN}T01:31:00", f"{AUTUMN}T03:00:00"))}, "02:00"),
        (AUTUMN, {"requested_windows": windows((f"{AUTUMN}T01:31:00", None))}, "02:00"),
    ],
)
def test_in_arizona_no_hour_is_skipped_or_comes_twice(day: str, members: dict[str, Any], expected: str) -> None:
    outcome = outcome_of(plan_of(PHOENIX, ALL_DAY), now=BEFORE[day], timezone=PHOENIX, **members)
    assert confirmed(outcome) == f"{day}T{expected}:00{MST}"


@pytest.mark.parametrize("day", [SPRING, AUTUMN])
def test_in_arizona_a_day_has_24_hours(day: str) -> None:
    plan = plan_of(PHOENIX, week("00:00-04:00"), grid=60)
    assert bookable(plan, day) == [f"{day}T0{hour}:00:00{MST}" for hour in range(4)]
    ((begins, ends),) = asking(plan, requested_windows=windows((f"{day}T00:00:00-07:00", None))).windows
    assert ends - begins == timedelta(hours=24)


@pytest.mark.parametrize(
    ("buyer", "day", "clock", "expected"),
    [
        # Who reads another clock: New York is two hours ahead of Arizona in winter and three in summer.
        ("America/New_York", "2026-03-07", "14:00", "12:00"),
        ("America/New_York", SPRING, "14:00", "11:00"),
        ("America/New_York", "2026-10-31", "14:00", "11:00"),
        ("America/New_York", AUTUMN, "14:00", "12:00"),
        ("America/Los_Angeles", "2026-03-07", "11:00", "12:00"),
        ("America/Los_Angeles", SPRING, "11:00", "11:00"),
        ("America/Los_Angeles", "2026-10-31", "11:00", "11:00"),
        ("America/Los_Angeles", AUTUMN, "11:00", "12:00"),
    ],
)
def test_a_buyer_from_elsewhere_reads_their_own_clock(buyer: str, day: str, clock: str, expected: str) -> None:
    plan = plan_of(PHOENIX)
    asked = windows((f"{day}T{clock}:00", None))
    now = datetime.fromisoformat(f"{day}T00:00:00+00:00")
    outcome = outcome_of(plan, now=now, requested_windows=asked, timezone=buyer)
    assert confirmed(outcome) == f"{day}T{expected}:00{MST}"


def whole_year(plan: VisitPlan) -> list[Slot]:
    """What each day of 2026 has at or after the hour at which it opens."""
    zone = ZoneInfo(plan.zone)
    now = datetime(2025, 12, 31, tzinfo=UTC)
    slots = []
    for number in range(365):
        day = datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=number)
        opens, closes = (datetime.combine(day.date(), clock, zone) for clock in (time(9), time(17)))
        visit = choose_time(RequestedTimes(((opens, closes),), None, plan.duration), plan, {}, now).confirmed
        assert visit is not None
        slots.append(visit)
    return slots


@pytest.mark.parametrize(
    ("zone", "offsets"),
    [
        ("Pacific/Honolulu", {"-10:00"}),
        ("America/St_Johns", {"-03:30", "-02:30"}),
        ("Asia/Kathmandu", {"+05:45"}),
        ("Australia/Lord_Howe", {"+10:30", "+11:00"}),
        ("Pacific/Chatham", {"+12:45", "+13:45"}),
        ("America/New_York", {"-05:00", "-04:00"}),
        ("America/Phoenix", {"-07:00"}),
    ],
)
@pytest.mark.parametrize("grid", [30, 45])
def test_all_year_the_grid_falls_on_quarters_of_utc(zone: str, offsets: set[str], grid: int) -> None:
    slots = whole_year(plan_of(zone, week("09:00-17:00"), grid=grid, duration=45, horizon_days=367))
    assert {slot.start.isoformat()[11:19] for slot in slots} == {"09:00:00"}
    assert {slot.start.isoformat()[19:] for slot in slots} == offsets
    for slot in slots:
        touched = quarters_of(slot)
        assert touched[0] == slot.start
        assert len(touched) == 3
        assert all(quarter.minute % 15 == 0 and quarter.second == 0 for quarter in touched)


@pytest.mark.parametrize(
    ("zone", "day", "starts"),
    [
        # Half an hour is skipped, and comes twice.
        ("Australia/Lord_Howe", "2026-10-04", ["01:00+10:30", "01:30+10:30", "02:30+11:00"]),
        (
            "Australia/Lord_Howe",
            "2026-04-05",
            ["01:00+11:00", "01:30+11:00", "01:30+10:30", "02:00+10:30", "02:30+10:30"],
        ),
        ("America/St_Johns", "2026-03-08", ["01:00-03:30", "01:30-03:30"]),
        # The hour from 02:45 on is skipped, and closing time with it.
        ("Pacific/Chatham", "2026-09-27", ["01:00+12:45", "01:30+12:45", "02:00+12:45"]),
        ("Asia/Kathmandu", "2026-03-08", ["01:00+05:45", "01:30+05:45", "02:00+05:45", "02:30+05:45"]),
    ],
)
def test_zones_that_keep_no_whole_hours_are_no_exception(zone: str, day: str, starts: list[str]) -> None:
    plan = plan_of(zone, week("01:00-03:00"), duration=30)
    assert bookable(plan, day) == [f"{day}T{start[:5]}:00{start[5:]}" for start in starts]


@pytest.mark.parametrize(
    ("zone", "day", "starts"),
    [
        # The clock skips from midnight to one; it shows the hour after midnight, or the one before it, twice.
        ("America/Havana", "2026-03-08", ["01:00-04:00"]),
        ("America/Havana", "2026-11-01", ["00:00-04:00", "00:00-05:00", "01:00-05:00"]),
        ("Africa/Cairo", "2026-04-24", ["01:00+03:00"]),
        ("Africa/Cairo", "2026-10-30", ["00:00+02:00", "01:00+02:00"]),
    ],
)
def test_a_change_at_midnight_leaves_the_days_whole(zone: str, day: str, starts: list[str]) -> None:
    plan = plan_of(zone, week("00:00-02:00"), grid=60)
    assert bookable(plan, day) == [f"{day}T{start[:5]}:00{start[5:]}" for start in starts]


def test_a_day_that_ends_twice_ends_the_second_time() -> None:
    cairo = plan_of("Africa/Cairo", week("22:00-23:59"), grid=60)
    ((begins, ends),) = asking(cairo, requested_windows=windows(("2026-10-29T22:00:00+03:00", None))).windows
    assert ends - begins == timedelta(hours=3)
