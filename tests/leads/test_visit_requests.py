"""What a request asks of a rooftop, and how the buyer is answered (docs/protocol.md#appointments)."""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import Any, get_args
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.leads.visiting import CHICAGO, NOW, asking, minutes, outcome_of, plan_of, request_of, windows

from dealer_agent.leads.visit_times import (
    RequestedTimes,
    Slot,
    TimeChoice,
    appointment_reply,
    bookable_span,
    choose_time,
    quarters_of,
    requested_times,
    start_inside,
)
from dealer_agent.protocol.requests import VISIT_KIND_OF, AppointmentType
from dealer_agent.protocol.responses import AppointmentReply, TimeSlot
from dealer_agent.protocol.timestamps import is_timestamp, parse_timestamp

PLAN = plan_of()


def test_every_type_of_appointment_has_its_kind_of_visit() -> None:
    assert set(VISIT_KIND_OF) == set(get_args(AppointmentType))
    assert {name: kind for name, kind in VISIT_KIND_OF.items() if kind != name} == {
        "showroom_visit": "sales",
        "trade_in_appraisal": "trade_in",
    }


def test_without_a_time_nothing_is_asked_for() -> None:
    assert requested_times(request_of(duration_minutes=30, timezone=CHICAGO), PLAN) is None


@pytest.mark.parametrize(
    ("asked", "given_"),
    [
        (None, 60),
        (15, 30),
        (30, 30),
        (31, 45),
        (45, 45),
        (46, 60),
        (60, 60),
        (61, 90),
        (90, 90),
        (91, 90),
        (1440, 90),
        (2**63 - 1, 90),
    ],
)
def test_a_visit_lasts_the_shortest_allowed_time_that_is_long_enough_else_the_longest(
    asked: int | None, given_: int
) -> None:
    plan = plan_of(duration=60, allowed=(90, 30, 45))
    members: dict[str, Any] = {} if asked is None else {"duration_minutes": asked}
    at = "2026-03-03T10:00:00-06:00"
    assert asking(plan, appointment_at=at, **members).duration == minutes(given_)
    visit = outcome_of(plan, appointment_at=at, **members).confirmed
    assert visit is not None
    assert visit.end - visit.start == minutes(given_)


@pytest.mark.parametrize("buyer", ["America/Chicago", "America/New_York", "Pacific/Honolulu", "Asia/Tokyo"])
@pytest.mark.parametrize("start", ["2026-03-03T00:30:00", "2026-03-03T12:00:00", "2026-03-03T23:30:00"])
def test_a_window_without_an_end_reaches_to_midnight_at_the_rooftop_and_not_at_the_buyers(
    buyer: str, start: str
) -> None:
    asked = asking(PLAN, requested_windows=windows((start, None)), timezone=buyer)
    ((begins, ends),) = asked.windows
    assert begins == datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(buyer))
    midnight = ends.astimezone(ZoneInfo(CHICAGO))
    assert midnight.time() == time(0)
    assert timedelta() < ends - begins <= timedelta(hours=24)


SLOT = Slot(datetime.fromisoformat("2026-03-03T10:00:00-06:00"), datetime.fromisoformat("2026-03-03T11:00:00-06:00"))
LATER = Slot(datetime.fromisoformat("2026-03-09T10:00:00-05:00"), datetime.fromisoformat("2026-03-09T11:00:00-05:00"))
TOLD = TimeSlot(start="2026-03-03T10:00:00-06:00", end="2026-03-03T11:00:00-06:00")
TOLD_LATER = TimeSlot(start="2026-03-09T10:00:00-05:00", end="2026-03-09T11:00:00-05:00")


def replied(status: Any, **members: Any) -> AppointmentReply:
    return AppointmentReply(appointment_id="01TEST", status=status, **members)


AT_ASKED = RequestedTimes((), SLOT.start, minutes(60))
WINDOW_ASKED = RequestedTimes(((SLOT.start, SLOT.end),), None, minutes(60))


@pytest.mark.requirement("confirmed-at")
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (TimeChoice(SLOT, ()), replied("confirmed", confirmed_at=TOLD.start)),
        (TimeChoice(None, (SLOT, LATER)), replied("proposed", proposed_times=[TOLD.start, TOLD_LATER.start])),
        (TimeChoice(None, ()), replied("rejected")),
    ],
)
def test_appointment_at_is_answered_by_times(outcome: TimeChoice, expected: AppointmentReply) -> None:
    assert appointment_reply(outcome, AT_ASKED, "01TEST") == expected


@pytest.mark.requirement("confirmed-window")
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (TimeChoice(SLOT, ()), replied("confirmed", confirmed_window=TOLD)),
        (TimeChoice(None, (SLOT, LATER)), replied("proposed", proposed_slots=[TOLD, TOLD_LATER])),
        (TimeChoice(None, ()), replied("rejected")),
    ],
)
def test_windows_are_answered_by_windows(outcome: TimeChoice, expected: AppointmentReply) -> None:
    assert appointment_reply(outcome, WINDOW_ASKED, "01TEST") == expected


@pytest.mark.requirement("confirmed-at", "confirmed-window")
@pytest.mark.parametrize(
    ("zone", "now", "at", "expected"),
    [
        (CHICAGO, NOW, "2026-03-03T16:00:00.000Z", "2026-03-03T10:00:00-06:00"),
        ("Asia/Kathmandu", NOW, "2026-03-03T10:15:00Z", "2026-03-03T16:00:00+05:45"),
        ("UTC", NOW, "2026-03-03T10:00:00-06:00", "2026-03-03T16:00:00+00:00"),
    ],
)
def test_times_have_the_rooftops_offset(zone: str, now: datetime, at: str, expected: str) -> None:
    plan = plan_of(zone)
    asked = asking(plan, appointment_at=at)
    answer = msgspec.to_builtins(appointment_reply(choose_time(asked, plan, {}, now), asked, "01TEST"))
    assert answer["confirmed_at"] == expected
    windowed = asking(plan, requested_windows=windows((at, None)))
    answer = msgspec.to_builtins(appointment_reply(choose_time(windowed, plan, {}, now), windowed, "01TEST"))
    assert answer["confirmed_window"]["start"] == expected
    assert is_timestamp(answer["confirmed_window"]["end"])


@pytest.mark.parametrize(
    ("start", "length", "count", "first"),
    [
        ("2026-03-03T10:00:00-06:00", 60, 4, "2026-03-03T16:00:00+00:00"),
        ("2026-03-03T10:00:00-06:00", 15, 1, "2026-03-03T16:00:00+00:00"),
        ("2026-03-03T10:15:00+05:45", 30, 2, "2026-03-03T04:30:00+00:00"),
        ("2026-03-03T10:05:00Z", 15, 2, "2026-03-03T10:00:00+00:00"),
        ("2026-03-03T10:05:00Z", 10, 1, "2026-03-03T10:00:00+00:00"),
        ("2026-03-03T10:00:00Z", 16, 2, "2026-03-03T10:00:00+00:00"),
        ("1969-12-31T23:50:00Z", 15, 2, "1969-12-31T23:45:00+00:00"),
    ],
)
def test_a_visit_touches_its_quarters_of_an_hour(start: str, length: int, count: int, first: str) -> None:
    begins = datetime.fromisoformat(start)
    touched = quarters_of(Slot(begins, begins + minutes(length)))
    assert [quarter.isoformat() for quarter in touched[:1]] == [first]
    assert len(touched) == count
    assert all(after - before == minutes(15) for before, after in pairwise(touched))
    assert {quarter.tzinfo for quarter in touched} == {UTC}


@pytest.mark.parametrize(
    ("members", "fits"),
    [
        ({"appointment_at": "2026-03-03T10:00:00-06:00"}, True),
        ({"appointment_at": "2026-03-03T16:59:59Z"}, True),
        ({"appointment_at": "2026-03-03T11:00:00-06:00"}, False),
        ({"appointment_at": "2026-03-03T09:59:59-06:00"}, False),
        ({"requested_windows": windows(("2026-03-03T09:00:00-06:00", "2026-03-03T12:00:00-06:00"))}, True),
        ({"requested_windows": windows(("2026-03-03T10:20:00-06:00", "2026-03-03T10:30:00-06:00"))}, True),
        ({"requested_windows": windows(("2026-03-03T09:00:00-06:00", "2026-03-03T10:01:00-06:00"))}, True),
        ({"requested_windows": windows(("2026-03-03T10:59:00-06:00", "2026-03-03T12:00:00-06:00"))}, True),
        ({"requested_windows": windows(("2026-03-03T09:00:00-06:00", "2026-03-03T10:00:00-06:00"))}, False),
        ({"requested_windows": windows(("2026-03-03T11:00:00-06:00", "2026-03-03T12:00:00-06:00"))}, False),
        ({"requested_windows": windows(("2026-03-03T10:30:00-06:00", "2026-03-03T10:15:00-06:00"))}, False),
        ({"requested_windows": windows(("2026-03-03T00:00:00-06:00", None))}, True),
        ({"requested_windows": windows(("2026-03-03T11:00:00-06:00", None))}, False),
        ({"requested_windows": windows(("2026-03-02T10:00:00-06:00", None))}, False),
        (
            {
                "requested_windows": windows(
                    ("2026-03-02T10:00:00-06:00", None), ("2026-03-03T10:30:00-06:00", "2026-03-03T10:45:00-06:00")
                )
            },
            True,
        ),
    ],
)
def test_an_appraisal_fits_a_visit_in_which_its_time_lies_or_that_its_window_overlaps(
    members: dict[str, Any], fits: bool
) -> None:
    asked = asking(PLAN, **members)
    assert (start_inside(asked, SLOT) is not None) == fits
    # As it comes out of the database.
    assert (start_inside(asked, Slot(SLOT.start.astimezone(UTC), SLOT.end.astimezone(UTC))) is not None) == fits


EXTREMES = [
    "0002-01-01T00:00:00+23:59",
    "0002-01-01T00:00:00-23:59",
    "0002-01-01T00:00:00",
    "9998-12-31T23:59:59.999999-23:59",
    "9998-12-31T23:59:59.999999+23:59",
    "9998-12-31T23:59:59.999999",
    "2026-03-03T10:00:00.5+05:45:30",
    "1850-01-01T00:00:00",
]
stamps = st.one_of(
    st.sampled_from(EXTREMES),
    st.builds(
        lambda moment, offset: moment.isoformat() + offset,
        st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31, 23, 59, 59)),  # noqa: DTZ001
        st.sampled_from(["", "Z", "+14:00", "-12:00", "+23:59:59", "-23:59:59.999999"]),
    ),
)
zones = st.sampled_from([CHICAGO, "Pacific/Kiritimati", "Pacific/Apia", "Europe/Dublin", "America/St_Johns", "UTC"])


@given(
    pairs=st.lists(st.tuples(stamps, st.none() | stamps), min_size=1, max_size=4),
    buyer=zones,
    rooftop=zones,
    longest=st.booleans(),
)
def test_no_timestamp_that_a_request_may_hold_raises(
    pairs: list[tuple[str, str | None]], buyer: str, rooftop: str, longest: bool
) -> None:
    plan = plan_of(rooftop, allowed=(480,) if longest else (), horizon_days=3)
    requests: list[dict[str, Any]] = [
        {"requested_windows": windows(*pairs), "timezone": buyer, "duration_minutes": 2**63 - 1}
    ]
    requests += [{"appointment_at": start} for start, _ in pairs if is_timestamp(start)]
    for members in requests:
        texts = [text for pair in pairs for text in pair if text is not None]
        assert all(parse_timestamp(text) for text in texts)
        asked = asking(plan, **members)
        outcome = choose_time(asked, plan, {}, NOW)
        assert len(outcome.proposed) == (3 if outcome.confirmed is None else 0)
        assert appointment_reply(outcome, asked, "01TEST").status in ("confirmed", "proposed")
        assert bookable_span(asked, plan, NOW)
        start_inside(asked, SLOT)
