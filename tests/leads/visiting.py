"""A rooftop that takes visits, and requests as buyers send them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

from dealer_agent.leads.local_time import Hours
from dealer_agent.leads.visit_times import (
    QUARTER,
    BusyQuarters,
    RequestedTimes,
    Slot,
    TimeChoice,
    VisitPlan,
    choose_time,
    quarters_of,
    requested_times,
)
from dealer_agent.protocol.requests import Appointment

CHICAGO = "America/Chicago"
# A Monday, 06:00 in Chicago; winter time until the Sunday that follows.
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
NOTHING_BUSY: BusyQuarters = {}


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


Spans = tuple[tuple[int, int], ...]
Week = Mapping[int, Spans]


def hours(text: str) -> Spans:
    """`09:00-12:00, 18:00-02:00` in minutes from midnight."""
    spans = []
    for span in text.split(", "):
        opens, closes = (60 * int(clock[:2]) + int(clock[3:]) for clock in span.split("-"))
        spans.append((opens, closes if closes > opens else closes + 24 * 60))
    return tuple(spans)


def week(text: str = "09:00-20:00", days: Iterable[int] = range(7)) -> dict[int, Spans]:
    return dict.fromkeys(days, hours(text))


def hours_of(open_on: Week, special: Mapping[date, Spans]) -> Hours:
    """The hours of a department; a day of the week that is left out is closed. 0 = Monday."""
    return lambda day: special.get(day, open_on.get(day.weekday(), ()))


def plan_of(
    zone: str = CHICAGO,
    open_on: Week | None = None,
    *,
    duration: int = 60,
    allowed: Iterable[int] = (),
    places: int = 1,
    grid: int = 30,
    notice: float = 120,
    horizon_days: float = 30,
    closed: Iterable[str] = (),
) -> VisitPlan:
    """Test drives, every day from nine to eight, unless told otherwise. Minutes."""
    return VisitPlan(
        zone=zone,
        hours=hours_of(week() if open_on is None else open_on, {date.fromisoformat(day): () for day in closed}),
        duration=minutes(duration),
        allowed=tuple(minutes(length) for length in allowed),
        places=places,
        grid=minutes(grid),
        notice=minutes(notice),
        horizon=timedelta(days=horizon_days),
    )


def request_of(**members: Any) -> Appointment:
    """The request's appointment, decoded as the service does it."""
    return msgspec.convert({"appointment_type": "test_drive", **members}, Appointment, strict=True)


def asking(plan: VisitPlan, **members: Any) -> RequestedTimes:
    asked = requested_times(request_of(**members), plan)
    assert asked is not None
    return asked


def windows(*pairs: tuple[str, str | None]) -> list[dict[str, str]]:
    return [{"start": start} | ({} if end is None else {"end": end}) for start, end in pairs]


def filled(*slots: tuple[str, int], visits: int = 1) -> BusyQuarters:
    """Quarters that are taken: each from a start, for so many minutes."""
    busy = {}
    for start, length in slots:
        begins = datetime.fromisoformat(start)
        busy.update(dict.fromkeys(quarters_of(Slot(begins, begins + minutes(length))), visits))
    return busy


def outcome_of(plan: VisitPlan, busy: BusyQuarters = NOTHING_BUSY, now: datetime = NOW, **members: Any) -> TimeChoice:
    return choose_time(asking(plan, **members), plan, busy, now)


def confirmed(outcome: TimeChoice) -> str | None:
    """The start that was confirmed, as it is written."""
    return None if outcome.confirmed is None else outcome.confirmed.start.isoformat()


def proposed(outcome: TimeChoice) -> list[str]:
    return [slot.start.isoformat() for slot in outcome.proposed]


def bookable(plan: VisitPlan, day: str, busy: BusyQuarters = NOTHING_BUSY) -> list[str]:
    """Every start that is confirmed between noon of the day before and noon of the day after, asked one by one."""
    noon = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
    found = []
    for number in range(-96, 96):
        start = noon + number * QUARTER
        outcome = choose_time(RequestedTimes((), start, plan.duration), plan, busy, noon - timedelta(days=3))
        if (text := confirmed(outcome)) is not None and text.startswith(day):
            found.append(text)
    return found
