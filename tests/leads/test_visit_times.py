"""Which time a visit gets (docs/protocol.md#appointments)."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.leads.visiting import (
    CHICAGO,
    NOW,
    asking,
    bookable,
    confirmed,
    filled,
    hours,
    minutes,
    outcome_of,
    plan_of,
    proposed,
    week,
    windows,
)

from dealer_agent.leads.visit_times import (
    BusyQuarters,
    RequestedTimes,
    TimeChoice,
    VisitPlan,
    bookable_span,
    choose_time,
)

PLAN = plan_of()


AT = [
    # Monday to Saturday 09:00-18:00, closed on the 4th, in Chicago; every time is asked from another offset, too.
    ("2026-03-03T09:00:00-06:00", True),
    ("2026-03-03T17:00:00-06:00", True),
    ("2026-03-03T15:00:00Z", True),
    ("2026-03-03T23:00:00Z", True),
    ("2026-03-04T00:00:00+01:00", True),
    ("2026-03-03T08:30:00-06:00", False),
    ("2026-03-03T09:00:00-05:00", False),
    ("2026-03-03T09:00:00Z", False),
    ("2026-03-03T17:30:00-06:00", False),
    ("2026-03-03T18:00:00-06:00", False),
    ("2026-03-03T23:00:00-06:00", False),
    ("2026-03-04T10:00:00-06:00", False),
    ("2026-03-07T10:00:00-06:00", True),
    ("2026-03-08T10:00:00-05:00", False),
    ("2026-03-09T09:00:00-05:00", True),
    ("2026-03-09T09:00:00-06:00", True),
    ("2026-03-09T08:00:00-05:00", False),
]


@pytest.mark.requirement("confirm-in-hours")
@pytest.mark.parametrize(("at", "free"), AT)
def test_a_time_is_confirmed_only_inside_the_rooftops_hours_on_its_clock(at: str, free: bool) -> None:
    plan = plan_of(open_on=week("09:00-18:00", range(6)), closed=("2026-03-04",))
    outcome = outcome_of(plan, appointment_at=at)
    assert (outcome.confirmed is not None) == free
    if outcome.confirmed is not None:
        assert outcome.confirmed.start == datetime.fromisoformat(at)
        assert outcome.confirmed.end == datetime.fromisoformat(at) + minutes(60)


@pytest.mark.requirement("confirm-in-hours")
@pytest.mark.parametrize(
    ("open_", "duration", "grid", "starts"),
    [
        ("09:00-11:00", 60, 30, ["09:00", "09:30", "10:00"]),
        ("09:00-11:00", 60, 60, ["09:00", "10:00"]),
        ("09:10-11:00", 60, 30, ["09:30", "10:00"]),
        ("09:00-10:59", 60, 30, ["09:00", "09:30"]),
        ("09:01-10:30", 30, 15, ["09:15", "09:30", "09:45", "10:00"]),
        ("09:00-12:00", 15, 45, ["09:00", "09:45", "10:30", "11:15"]),
        ("09:00-12:30", 30, 90, ["09:00", "10:30", "12:00"]),
        ("09:00-13:00", 60, 120, ["10:00", "12:00"]),
        ("09:00-10:00", 60, 60, ["09:00"]),
        ("09:00-09:45", 60, 15, []),
        ("00:00-01:00", 30, 30, ["00:00", "00:30"]),
        ("22:30-23:59", 30, 30, ["22:30", "23:00"]),
    ],
)
def test_visits_begin_on_the_grid_from_midnight_and_end_before_the_rooftop_closes(
    open_: str, duration: int, grid: int, starts: list[str]
) -> None:
    plan = plan_of(open_on=week(open_), duration=duration, grid=grid, notice=0)
    assert bookable(plan, "2026-03-03") == [f"2026-03-03T{start}:00-06:00" for start in starts]


@pytest.mark.parametrize("at", ["2026-03-03T10:07:00-06:00", "2026-03-03T10:00:01-06:00", "2026-03-03T10:15:00-06:00"])
def test_a_time_beside_the_grid_is_not_confirmed(at: str) -> None:
    outcome = outcome_of(PLAN, appointment_at=at)
    assert confirmed(outcome) is None
    assert "2026-03-03T10:00:00-06:00" in proposed(outcome)


@pytest.mark.requirement("confirm-notice")
@pytest.mark.parametrize(
    ("notice", "now", "at", "free"),
    [
        (120, "2026-03-03T10:00:00-06:00", "2026-03-03T12:00:00-06:00", True),
        (120, "2026-03-03T10:00:01-06:00", "2026-03-03T12:00:00-06:00", False),
        (120, "2026-03-03T10:00:00-06:00", "2026-03-03T11:30:00-06:00", False),
        (0, "2026-03-03T10:00:00-06:00", "2026-03-03T10:00:00-06:00", True),
        (0, "2026-03-03T10:00:00.000001-06:00", "2026-03-03T10:00:00-06:00", False),
        (1440, "2026-03-03T10:00:00-06:00", "2026-03-04T10:00:00-06:00", True),
        (1440, "2026-03-03T10:00:00-06:00", "2026-03-04T09:30:00-06:00", False),
        # 24 hours are 24 hours, also over the night that has 23.
        (1440, "2026-03-07T10:00:00-06:00", "2026-03-08T10:30:00-05:00", False),
        (1440, "2026-03-07T10:00:00-06:00", "2026-03-08T11:00:00-05:00", True),
    ],
)
def test_a_time_is_confirmed_no_sooner_than_the_dealers_notice(notice: int, now: str, at: str, free: bool) -> None:
    outcome = outcome_of(plan_of(notice=notice), now=datetime.fromisoformat(now), appointment_at=at)
    assert (outcome.confirmed is not None) == free
    earliest = datetime.fromisoformat(now) + minutes(notice)
    assert all(slot.start >= earliest for slot in outcome.proposed)
    assert len(outcome.proposed) == (0 if free else 3)


@pytest.mark.parametrize(
    ("at", "free"),
    [
        ("2026-03-09T13:00:00-05:00", True),
        ("2026-03-09T13:30:00-05:00", False),
        ("2026-03-10T10:00:00-05:00", False),
        ("2027-03-09T10:00:00-06:00", False),
    ],
)
def test_a_time_is_confirmed_no_later_than_the_dealers_horizon(at: str, free: bool) -> None:
    now = datetime.fromisoformat("2026-03-02T12:00:00-06:00")
    outcome = outcome_of(plan_of(horizon_days=7), now=now, appointment_at=at)
    assert (outcome.confirmed is not None) == free
    last = ["2026-03-09T12:00:00-05:00", "2026-03-09T12:30:00-05:00", "2026-03-09T13:00:00-05:00"]
    assert proposed(outcome) == ([] if free else last)


@pytest.mark.parametrize(
    ("busy", "places", "free"),
    [
        ({}, 1, True),
        (filled(("2026-03-03T09:00:00-06:00", 60)), 1, True),
        (filled(("2026-03-03T11:00:00-06:00", 60)), 1, True),
        (filled(("2026-03-03T10:00:00-06:00", 15)), 1, False),
        (filled(("2026-03-03T10:45:00-06:00", 15)), 1, False),
        (filled(("2026-03-03T09:30:00-06:00", 60)), 1, False),
        (filled(("2026-03-03T10:30:00-06:00", 15)), 2, True),
        (filled(("2026-03-03T10:30:00-06:00", 15), visits=2), 2, False),
        (filled(("2026-03-03T10:30:00-06:00", 15), visits=3), 2, False),
        (filled(("2026-03-03T10:30:00-06:00", 15), visits=0), 1, True),
    ],
)
def test_a_visit_needs_a_place_in_every_quarter_that_it_touches(
    busy: dict[datetime, int], places: int, free: bool
) -> None:
    outcome = outcome_of(plan_of(places=places), busy, appointment_at="2026-03-03T10:00:00-06:00")
    assert (outcome.confirmed is not None) == free


WINDOWS = [
    ([("2026-03-03T10:00:00-06:00", "2026-03-03T12:00:00-06:00")], "2026-03-03T10:00:00-06:00"),
    ([("2026-03-03T10:01:00-06:00", "2026-03-03T12:00:00-06:00")], "2026-03-03T10:30:00-06:00"),
    ([("2026-03-03T10:00:00-06:00", "2026-03-03T11:00:00-06:00")], "2026-03-03T10:00:00-06:00"),
    ([("2026-03-03T10:00:00-06:00", "2026-03-03T10:59:00-06:00")], None),
    ([("2026-03-03T05:00:00-06:00", "2026-03-03T23:00:00-06:00")], "2026-03-03T09:00:00-06:00"),
    # The window has begun: what is left of it counts, after the notice.
    ([("2026-03-01T00:00:00-06:00", "2026-03-03T00:00:00-06:00")], "2026-03-02T09:00:00-06:00"),
    # The earliest time, not the first window.
    (
        [
            ("2026-03-05T10:00:00-06:00", "2026-03-05T12:00:00-06:00"),
            ("2026-03-03T15:00:00-06:00", "2026-03-03T17:00:00-06:00"),
            ("2026-03-04T10:00:00-06:00", "2026-03-04T12:00:00-06:00"),
        ],
        "2026-03-03T15:00:00-06:00",
    ),
    # Overlapping and touching windows are one stretch of time, whoever wrote them in which offset.
    (
        [
            ("2026-03-03T10:30:00-06:00", "2026-03-03T11:00:00-06:00"),
            ("2026-03-03T16:00:00Z", "2026-03-03T16:30:00Z"),
        ],
        "2026-03-03T10:00:00-06:00",
    ),
    (
        [
            ("2026-03-03T10:00:00-06:00", "2026-03-03T10:30:00-06:00"),
            ("2026-03-03T10:31:00-06:00", "2026-03-03T11:00:00-06:00"),
        ],
        None,
    ),
    # A window that ends before it starts finds nothing, and takes nothing from the others.
    ([("2026-03-03T12:00:00-06:00", "2026-03-03T10:00:00-06:00")], None),
    ([("2026-03-03T12:00:00-06:00", "2026-03-03T12:00:00-06:00")], None),
    (
        [
            ("2026-03-03T12:00:00-06:00", "2026-03-03T10:00:00-06:00"),
            ("2026-03-03T12:30:00-06:00", "2026-03-03T13:30:00-06:00"),
        ],
        "2026-03-03T12:30:00-06:00",
    ),
    (
        [
            ("2026-03-03T11:00:00-06:00", "2026-03-03T14:00:00-06:00"),
            ("2026-03-03T11:30:00-06:00", "2026-03-03T10:00:00-06:00"),
        ],
        "2026-03-03T11:00:00-06:00",
    ),
    # Without an end: to the end of its day at the rooftop, which is not the day of the offset.
    ([("2026-03-03T18:30:00-06:00", None)], "2026-03-03T18:30:00-06:00"),
    ([("2026-03-03T19:01:00-06:00", None)], None),
    ([("2026-03-04T02:00:00+01:00", None)], "2026-03-03T19:00:00-06:00"),
    ([("2026-03-04T12:00:00+14:00", None)], "2026-03-03T16:00:00-06:00"),
]


@pytest.mark.requirement("confirm-in-hours")
@pytest.mark.parametrize(("asked", "start"), WINDOWS)
def test_the_earliest_time_that_fits_a_window_is_confirmed(
    asked: list[tuple[str, str | None]], start: str | None
) -> None:
    outcome = outcome_of(PLAN, requested_windows=windows(*asked))
    assert confirmed(outcome) == start
    assert len(outcome.proposed) == (3 if start is None else 0)


@pytest.mark.parametrize(
    ("zone", "start"),
    [
        ("America/Chicago", "2026-03-03T10:00:00-06:00"),
        ("America/New_York", "2026-03-03T09:00:00-06:00"),
        ("America/Los_Angeles", "2026-03-03T12:00:00-06:00"),
        ("UTC", "2026-03-03T09:00:00-06:00"),
    ],
)
def test_a_window_without_an_offset_is_read_in_the_buyers_time_zone(zone: str, start: str) -> None:
    asked = windows(("2026-03-03T10:00:00", "2026-03-03T17:00:00"))
    assert confirmed(outcome_of(PLAN, requested_windows=asked, timezone=zone)) == start


@pytest.mark.parametrize("form", ["windows", "at"])
def test_an_offset_is_stronger_than_the_time_zone_beside_it(form: str) -> None:
    at = "2026-03-03T10:00:00-06:00"
    members = {"appointment_at": at} if form == "at" else {"requested_windows": windows((at, None))}
    assert confirmed(outcome_of(PLAN, timezone="Asia/Tokyo", **members)) == at


def test_windows_of_one_request_may_be_written_in_both_ways() -> None:
    asked = windows(("2026-03-03T10:00:00", "2026-03-03T16:30:00Z"), ("2026-03-03T16:30:00Z", "2026-03-03T11:00:00"))
    outcome = outcome_of(PLAN, requested_windows=asked, timezone=CHICAGO)
    assert confirmed(outcome) == "2026-03-03T10:00:00-06:00"


def test_the_first_place_taken_the_next_time_in_the_window_is_confirmed() -> None:
    busy = filled(("2026-03-03T10:00:00-06:00", 60))
    asked = windows(("2026-03-03T10:00:00-06:00", "2026-03-03T13:00:00-06:00"))
    assert confirmed(outcome_of(PLAN, busy, requested_windows=asked)) == "2026-03-03T11:00:00-06:00"


FULL_TUESDAY = ("2026-03-03T09:00:00-06:00", 660)
ALTERNATIVES = [
    # What is asked, what is taken, and the nearest three, in order of time.
    ("at", "2026-03-03T12:00:00-06:00", [("2026-03-03T12:00:00-06:00", 60)], ["03T10:30", "03T11:00", "03T13:00"]),
    # As near before as after: the earlier.
    ("at", "2026-03-03T12:00:00-06:00", [("2026-03-03T12:15:00-06:00", 15)], ["03T11:00", "03T12:30", "03T13:00"]),
    ("at", "2026-03-03T12:00:00-06:00", [("2026-03-03T12:30:00-06:00", 15)], ["03T11:00", "03T11:30", "03T13:00"]),
    ("at", "2026-03-03T12:10:00-06:00", [], ["03T11:30", "03T12:00", "03T12:30"]),
    ("at", "2026-03-03T12:20:00-06:00", [], ["03T12:00", "03T12:30", "03T13:00"]),
    # The edges of the day, and a day that is full.
    ("at", "2026-03-03T08:00:00-06:00", [], ["03T09:00", "03T09:30", "03T10:00"]),
    ("at", "2026-03-03T20:00:00-06:00", [], ["03T18:00", "03T18:30", "03T19:00"]),
    ("at", "2026-03-03T15:00:00-06:00", [FULL_TUESDAY], ["04T09:00", "04T09:30", "04T10:00"]),
    ("at", "2026-03-03T14:00:00-06:00", [FULL_TUESDAY], ["02T18:30", "02T19:00", "04T09:00"]),
    ("at", "2026-03-03T13:30:00-06:00", [FULL_TUESDAY], ["02T18:00", "02T18:30", "02T19:00"]),
    ("at", "2026-03-03T19:00:00-06:00", [FULL_TUESDAY], ["04T09:00", "04T09:30", "04T10:00"]),
    ("at", "2026-03-04T02:00:00-06:00", [], ["03T18:30", "03T19:00", "04T09:00"]),
    # Windows: what would have to be moved least to suit; a window too short for the visit counts by its start.
    (
        "2026-03-03T12:00:00-06:00",
        "2026-03-03T14:00:00-06:00",
        [("2026-03-03T12:00:00-06:00", 120)],
        ["03T10:30", "03T11:00", "03T14:00"],
    ),
    ("2026-03-03T12:00:00-06:00", "2026-03-03T12:30:00-06:00", [], ["03T11:30", "03T12:00", "03T12:30"]),
    ("2026-03-03T13:00:00-06:00", "2026-03-03T12:00:00-06:00", [], ["03T12:30", "03T13:00", "03T13:30"]),
    ("2026-03-03T05:00:00-06:00", "2026-03-03T07:00:00-06:00", [], ["03T09:00", "03T09:30", "03T10:00"]),
    ("2026-03-03T21:00:00-06:00", None, [], ["03T18:00", "03T18:30", "03T19:00"]),
]


@pytest.mark.requirement("propose-three")
@pytest.mark.parametrize("case", ALTERNATIVES)
def test_without_a_place_the_nearest_three_are_proposed_in_order_of_time(case: tuple[Any, ...]) -> None:
    first, second, taken, nearest = case
    if first == "at":
        outcome = outcome_of(PLAN, filled(*taken), appointment_at=second)
    else:
        outcome = outcome_of(PLAN, filled(*taken), requested_windows=windows((first, second)))
    assert outcome.confirmed is None
    assert proposed(outcome) == [f"2026-03-{time}:00-06:00" for time in nearest]
    assert all(slot.end - slot.start == minutes(60) for slot in outcome.proposed)


@pytest.mark.requirement("propose-three")
def test_of_several_windows_each_has_its_neighbours() -> None:
    asked = windows(
        ("2026-03-04T10:00:00-06:00", "2026-03-04T11:00:00-06:00"),
        ("2026-03-06T15:00:00-06:00", "2026-03-06T16:00:00-06:00"),
        ("2026-03-05T12:00:00-06:00", "2026-03-05T13:00:00-06:00"),
    )
    # To move: an hour on the 4th, half an hour on the 5th, an hour on the 6th, and everything else by more.
    busy = filled(
        ("2026-03-04T09:00:00-06:00", 120),
        ("2026-03-05T10:00:00-06:00", 75),
        ("2026-03-05T12:30:00-06:00", 60),
        ("2026-03-06T14:00:00-06:00", 120),
    )
    outcome = outcome_of(PLAN, busy, requested_windows=asked)
    assert proposed(outcome) == [
        "2026-03-04T11:00:00-06:00",
        "2026-03-05T11:30:00-06:00",
        "2026-03-06T16:00:00-06:00",
    ]


PAST = ["2026-03-02T05:00:00-06:00", "2026-03-01T10:00:00-06:00", "2020-01-01T10:00:00Z", "0002-01-01T00:00:00Z"]


@pytest.mark.requirement("past-alternatives")
@pytest.mark.parametrize("form", ["at", "window", "window without end"])
@pytest.mark.parametrize("past", PAST)
def test_for_a_time_in_the_past_the_first_times_to_be_had_are_proposed(past: str, form: str) -> None:
    end = (datetime.fromisoformat(past) + minutes(59)).isoformat()
    forms: dict[str, dict[str, Any]] = {
        "at": {"appointment_at": past},
        "window": {"requested_windows": windows((past, end))},
        "window without end": {"requested_windows": windows((past, None))},
    }
    # It is so late on Monday that no time is left on the day of the request.
    now = datetime.fromisoformat("2026-03-02T20:00:00-06:00")
    outcome = outcome_of(PLAN, now=now, **forms[form])
    assert outcome.confirmed is None
    assert proposed(outcome) == [f"2026-03-03T{time}:00-06:00" for time in ("09:00", "09:30", "10:00")]


@pytest.mark.requirement("propose-three")
@pytest.mark.parametrize(
    ("hours_", "taken", "times"),
    [
        ("09:00-10:00", [], ["09:00"]),
        ("09:00-10:30", [], ["09:00", "09:30"]),
        ("09:00-11:00", [("2026-03-03T09:00:00-06:00", 30)], ["09:30", "10:00"]),
    ],
)
def test_fewer_than_three_are_proposed_when_there_are_no_more(
    hours_: str, taken: list[tuple[str, int]], times: list[str]
) -> None:
    plan = plan_of(open_on=week(hours_, [1]), horizon_days=7)
    outcome = outcome_of(plan, filled(*taken), appointment_at="2026-03-03T12:00:00-06:00")
    assert proposed(outcome) == [f"2026-03-03T{time}:00-06:00" for time in times]


NOTHING: dict[str, tuple[VisitPlan, BusyQuarters]] = {
    "never open": (plan_of(open_on={}), {}),
    "closed all week": (plan_of(open_on={}), {}),
    "closed dates": (plan_of(horizon_days=2, closed=("2026-03-02", "2026-03-03", "2026-03-04")), {}),
    "visits longer than the day": (plan_of(open_on=week("09:00-10:45"), duration=120), {}),
    "a notice beyond the horizon": (plan_of(notice=20160, horizon_days=1), {}),
    "every place taken": (plan_of(horizon_days=2, places=3), filled(("2026-03-02T00:00:00Z", 6000), visits=3)),
}


@pytest.mark.parametrize("form", ["at", "windows"])
@pytest.mark.parametrize("case", NOTHING)
def test_where_nothing_is_to_be_had_nothing_is_confirmed_or_proposed(case: str, form: str) -> None:
    plan, busy = NOTHING[case]
    at = "2026-03-03T10:00:00-06:00"
    members = {"appointment_at": at} if form == "at" else {"requested_windows": windows((at, None))}
    assert outcome_of(plan, busy, **members) == TimeChoice(None, ())


def test_hundreds_of_windows_are_judged_like_one() -> None:
    start = datetime(2026, 3, 3, 6, tzinfo=UTC)
    # Ten minutes each, one after the other, in no order: a whole day at the rooftop.
    day = [(start + minutes(10 * number), start + minutes(10 * number + 10)) for number in range(144)]
    assert confirmed(choose_time(RequestedTimes(tuple(reversed(day)), None, minutes(60)), PLAN, {}, NOW)) == (
        "2026-03-03T09:00:00-06:00"
    )
    # Too short and far apart, for the next years, on both sides of what can be booked.
    apart = [(start + minutes(95 * number), start + minutes(95 * number + 30)) for number in range(-5000, 5000)]
    outcome = choose_time(RequestedTimes(tuple(apart), None, minutes(60)), PLAN, {}, NOW)
    assert len(outcome.proposed) == 3


class Recorder(Mapping[datetime, int]):
    """A busy calendar that knows what it was asked, and whether everything is taken."""

    def __init__(self, taken: int) -> None:
        self.taken = taken
        self.asked: set[datetime] = set()

    def __getitem__(self, quarter: datetime) -> int:
        self.asked.add(quarter)
        return self.taken

    def __iter__(self) -> Iterator[datetime]:
        raise AssertionError("nobody walks through it")

    def __len__(self) -> int:
        raise AssertionError("nobody counts it")


@pytest.mark.parametrize("taken", [0, 1])
@pytest.mark.parametrize("now", ["2026-03-02T06:00:00-06:00", "2026-03-02T13:00:00-06:00", "2026-03-02T13:00:01-06:00"])
@pytest.mark.parametrize("at", ["2026-03-03T10:00:00-06:00", "2026-03-02T06:00:00-06:00", "2026-04-30T10:00:00-05:00"])
def test_nothing_is_looked_up_outside_the_span(at: str, now: str, taken: int) -> None:
    asked = asking(PLAN, appointment_at=at)
    busy = Recorder(taken)
    moment = datetime.fromisoformat(now)
    choose_time(asked, PLAN, busy, moment)
    first, end = bookable_span(asked, PLAN, moment)
    assert first == moment + minutes(120)
    assert end == moment + timedelta(days=30, minutes=60)
    assert busy.asked
    assert all(first <= quarter < end and quarter.minute % 15 == 0 for quarter in busy.asked)


@pytest.mark.parametrize(("days", "far"), [(range(7), 2), ([2], 8), ([0], 8)])
def test_the_search_ends_where_three_are_found(days: Sequence[int], far: int) -> None:
    plan = plan_of(open_on=week("09:00-12:00", days), horizon_days=365)
    # A Saturday in June.
    asked = asking(plan, appointment_at="2026-06-06T10:07:00-05:00")
    busy = Recorder(0)
    assert len(choose_time(asked, plan, busy, NOW).proposed) == 3
    assert asked.at is not None
    assert max(abs(quarter - asked.at) for quarter in busy.asked) < timedelta(days=far)


def test_the_span_of_a_notice_beyond_the_horizon_is_empty() -> None:
    plan = plan_of(notice=20160, horizon_days=1)
    first, end = bookable_span(asking(plan, appointment_at="2026-03-03T10:00:00-06:00"), plan, NOW)
    assert first == end


def test_hours_are_those_of_each_day() -> None:
    plan = plan_of(open_on={0: hours("09:00-10:00"), 1: (), 2: hours("15:00-16:00")}, horizon_days=14)
    outcome = outcome_of(plan, appointment_at="2026-03-03T12:00:00-06:00")
    assert proposed(outcome) == [
        "2026-03-02T09:00:00-06:00",
        "2026-03-04T15:00:00-06:00",
        "2026-03-09T09:00:00-05:00",
    ]


@pytest.mark.requirement("confirm-in-hours")
@pytest.mark.parametrize(
    ("at", "free"),
    [
        # Tuesday 18:00 to 24:00 and Wednesday 00:00 to 02:00 are one stretch.
        ("2026-03-03T17:30:00-06:00", False),
        ("2026-03-03T23:30:00-06:00", True),
        ("2026-03-04T00:00:00-06:00", True),
        ("2026-03-04T01:00:00-06:00", True),
        ("2026-03-04T01:30:00-06:00", False),
        # Nothing of Thursday touches the last hour of Wednesday.
        ("2026-03-04T23:00:00-06:00", True),
        ("2026-03-04T23:30:00-06:00", False),
        # Friday and Saturday are open for 48 hours.
        ("2026-03-06T23:30:00-06:00", True),
        ("2026-03-07T23:30:00-06:00", False),
    ],
)
def test_a_visit_lies_across_midnight_where_the_hours_meet_there(at: str, free: bool) -> None:
    open_on = {1: hours("18:00-24:00"), 2: hours("00:00-02:00, 22:00-24:00"), 4: hours("00:00-24:00")}
    plan = plan_of(open_on=open_on | {5: hours("00:00-24:00")})
    assert (outcome_of(plan, appointment_at=at).confirmed is not None) == free
