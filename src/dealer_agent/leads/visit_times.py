"""Chooses the time of a visit (docs/protocol.md#appointments). Pure.

A visit starts on the rooftop's grid, which counts from midnight on the rooftop's clock, and is within one span of
opening hours. Places are counted for each quarter of an hour in UTC. Windows of the buyer that overlap or touch are one
window. Of two equally near times, the earlier one is proposed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from heapq import nsmallest
from typing import Protocol
from zoneinfo import ZoneInfo

from msgspec import UNSET

from dealer_agent.dealers.opening import joined
from dealer_agent.leads.local_time import (
    Hours,
    Span,
    end_of_day,
    instant_of_minute,
    open_spans,
    read_instant,
    with_offset,
)
from dealer_agent.leads.statuses import CONFIRMED, PROPOSED, REJECTED
from dealer_agent.protocol.requests import Appointment
from dealer_agent.protocol.responses import AppointmentReply, TimeSlot

QUARTER = timedelta(minutes=15)
PROPOSALS = 3


class BusyQuarters(Protocol):
    """The number of visits in each quarter of an hour, by its start in UTC. A dictionary has this method."""

    def get(self, quarter: datetime, default: int, /) -> int:
        """The number of visits in this quarter, else `default`."""


_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A day added to a time between these cannot leave the calendar, which has the years 1 to 9999.
_EARLIEST, _LATEST = datetime(2, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class VisitPlan:
    """How a rooftop books one kind of visit: `dealers.profile.VisitRules` with the hours of the department.

    `zone` is an IANA name. `allowed` are the durations that a buyer may ask for beside the usual one. Durations and
    `grid` are whole quarters of an hour, `grid` divides the day, and no duration is longer than a day. `places` visits
    may overlap.
    """

    zone: str
    hours: Hours
    duration: timedelta
    allowed: tuple[timedelta, ...]
    places: int
    grid: timedelta
    notice: timedelta
    horizon: timedelta


@dataclass(frozen=True, slots=True)
class Slot:
    """The time of a visit. `choose_time` returns it with the rooftop's offset at that moment."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class RequestedTimes:
    """The windows, or the one time `at`, that the buyer requests. A window may be too short for the duration."""

    windows: tuple[Span, ...]
    at: datetime | None
    duration: timedelta


@dataclass(frozen=True, slots=True)
class TimeChoice:
    """A confirmed time, or up to three proposed ones in order of time, or neither if no time is free."""

    confirmed: Slot | None
    proposed: tuple[Slot, ...] = ()


def requested_times(appointment: Appointment, plan: VisitPlan) -> RequestedTimes | None:
    """The times of a valid request, in UTC. None if it names no time.

    A window's time without an offset is in the appointment's zone. A window without an end lasts until the end of its
    day at the rooftop. The duration is the shortest allowed one that is long enough, else the longest.
    """
    duration = _duration(appointment, plan)
    if appointment.appointment_at is not UNSET:
        return RequestedTimes((), _instant(appointment.appointment_at, None), duration)
    if appointment.requested_windows is UNSET:
        return None
    buyer = None if appointment.timezone is UNSET else ZoneInfo(appointment.timezone)
    rooftop = ZoneInfo(plan.zone)
    windows = []
    for window in appointment.requested_windows:
        start = _instant(window.start, buyer)
        windows.append((start, end_of_day(start, rooftop) if window.end is UNSET else _instant(window.end, buyer)))
    return RequestedTimes(tuple(windows), None, duration)


def choose_time(asked: RequestedTimes, plan: VisitPlan, busy: BusyQuarters, now: datetime) -> TimeChoice:
    """The earliest free visit in the windows, or exactly `asked.at`, else the three nearest free ones.

    Looks up only the quarters of `bookable_span` in `busy`.
    """
    calendar = _Calendar(plan, asked.duration, busy, now)
    wanted = _wanted(asked)
    for earliest, latest in wanted:
        for start in calendar.between(earliest, latest):
            return TimeChoice(slot_at(start, start + asked.duration, plan.zone))
    nearest = _nearest(wanted, calendar)
    return TimeChoice(None, tuple(slot_at(start, start + asked.duration, plan.zone) for start in nearest))


def free_slots(
    duration: timedelta, plan: VisitPlan, busy: BusyQuarters, now: datetime, until: datetime
) -> Iterator[Slot]:
    """All free visits of this length that start by `until`, in order of time.

    Looks up only the quarters from `now` to the end of the last visit in `busy`.
    """
    for start in _Calendar(plan, duration, busy, now).between(now.astimezone(UTC), until.astimezone(UTC)):
        yield slot_at(start, start + duration, plan.zone)


def bookable_span(asked: RequestedTimes, plan: VisitPlan, now: datetime) -> tuple[datetime, datetime]:
    """The start (included) and the end (excluded) of the quarters that `choose_time` may look up, in UTC."""
    first, last = _bookable(plan, now)
    return first, max(first, last + asked.duration)


def slot_at(start: datetime, end: datetime, zone: str) -> Slot:
    """A time with the offsets of the zone."""
    return Slot(with_offset(start, ZoneInfo(zone)), with_offset(end, ZoneInfo(zone)))


def quarters_of(slot: Slot) -> list[datetime]:
    """The starts (UTC) of the quarters of an hour that the visit overlaps."""
    start, end = slot.start.astimezone(UTC), slot.end.astimezone(UTC)
    quarter = _next_quarter(start)
    touched = [quarter - QUARTER] if start < quarter else []
    while quarter < end:
        touched.append(quarter)
        quarter += QUARTER
    return touched


def appointment_reply(choice: TimeChoice, asked: RequestedTimes, appointment_id: str) -> AppointmentReply:
    """The response in the form of the request: one time for `at`, else windows. `rejected` if no time is free."""
    slots = choice.proposed if choice.confirmed is None else [choice.confirmed]
    times = [[moment.isoformat(timespec="seconds") for moment in (slot.start, slot.end)] for slot in slots]
    windows = [TimeSlot(start=start, end=end) for start, end in times]
    starts = [window.start for window in windows]
    exact = asked.at is not None
    if choice.confirmed is not None:
        at, window = (starts[0], UNSET) if exact else (UNSET, windows[0])
        return AppointmentReply(
            appointment_id=appointment_id, status=CONFIRMED, confirmed_at=at, confirmed_window=window
        )
    if not windows:
        return AppointmentReply(appointment_id=appointment_id, status=REJECTED)
    return AppointmentReply(
        appointment_id=appointment_id,
        status=PROPOSED,
        proposed_times=starts if exact else UNSET,
        proposed_slots=UNSET if exact else windows,
    )


def start_inside(asked: RequestedTimes, existing: Slot) -> datetime | None:
    """The start of a visit as a part of a booked one: its time is inside, or the first window that overlaps it.

    None if it cannot be a part.
    """
    start, end = existing.start.astimezone(UTC), existing.end.astimezone(UTC)
    if asked.at is not None:
        return asked.at if start <= asked.at < end else None
    return next((max(opens, start) for opens, ends in asked.windows if max(opens, start) < min(ends, end)), None)


def _instant(text: str, zone: ZoneInfo | None) -> datetime:
    return min(max(read_instant(text, zone), _EARLIEST), _LATEST)


def _duration(appointment: Appointment, plan: VisitPlan) -> timedelta:
    """How long the visit takes: the shortest length on offer that is at least the requested one."""
    if appointment.duration_minutes is UNSET:
        return plan.duration
    allowed = sorted({plan.duration, *plan.allowed})
    # Compared as numbers, because the request may ask for more minutes than a timedelta can hold.
    long_enough = (length for length in allowed if length // _MINUTE >= appointment.duration_minutes)
    return next(long_enough, allowed[-1])


def _bookable(plan: VisitPlan, now: datetime) -> Span:
    """The first and the last bookable start, both included. There is none if the last is before the first."""
    now = now.astimezone(UTC)
    return now + plan.notice, now + plan.horizon


def _wanted(asked: RequestedTimes) -> list[Span]:
    """The separate spans of the starts that suit, in order, ends included.

    A window that is too short for the visit makes a span that ends before it starts.
    """
    if asked.at is not None:
        at = asked.at.astimezone(UTC)
        return [(at, at)]
    windows = sorted((start.astimezone(UTC), end.astimezone(UTC)) for start, end in asked.windows)
    return [(start, end - asked.duration) for start, end in joined(windows)]


class _Calendar:
    """The starts of the free visits of one plan and duration, by day."""

    def __init__(self, plan: VisitPlan, duration: timedelta, busy: BusyQuarters, now: datetime) -> None:
        self.first, self.last = _bookable(plan, now)
        self._plan, self._duration, self._busy = plan, duration, busy
        self._zone = ZoneInfo(plan.zone)
        self._grid_minutes = plan.grid // _MINUTE
        self._touched = [number * QUARTER for number in range(duration // QUARTER)]
        # By day, the starts of the free visits. A day is computed when it is needed.
        self._days: dict[date, list[datetime]] = {}

    def between(self, earliest: datetime, latest: datetime) -> Iterator[datetime]:
        """The starts of free visits from `earliest` to `latest`, both included, in order of time."""
        earliest, latest = max(earliest, self.first), min(latest, self.last)
        if earliest > latest:
            return
        day, last_day = earliest.astimezone(self._zone).date(), latest.astimezone(self._zone).date()
        while day <= last_day:
            if day not in self._days:
                self._days[day] = list(self._allowed(day))
            starts = self._days[day]
            for start in starts[bisect_left(starts, earliest) : bisect_right(starts, latest)]:
                if all(self._busy.get(start + after, 0) < self._plan.places for after in self._touched):
                    yield start
            day += _DAY

    def _allowed(self, day: date) -> Iterator[datetime]:
        """The times of a day at which a visit may start, earliest first."""
        midnight, next_midnight = (instant_of_minute(day, minute, self._zone) for minute in (0, 24 * 60))
        for opens, closes in open_spans(self._plan.hours, self._zone, day, day):
            start = _next_quarter(max(opens, midnight, self.first))
            last_start = min(closes - self._duration, next_midnight - QUARTER, self.last)
            while start <= last_start:
                shown = start.astimezone(self._zone)
                if (shown.hour * 60 + shown.minute) % self._grid_minutes == 0:
                    yield start
                start += QUARTER


def _nearest(wanted: list[Span], calendar: _Calendar) -> list[datetime]:
    """The free starts nearest to a wanted one, in order of time. Widens the search until it has enough."""
    first, last = calendar.first, calendar.last
    # A window that is too short for the visit counts by its start.
    targets = _around([(earliest, max(earliest, latest)) for earliest, latest in wanted], first, last)
    begins = [earliest for earliest, _ in targets]

    def distance(start: datetime) -> timedelta:
        # No free start is inside a target: it would have been confirmed.
        place = bisect_right(begins, start)
        before = [start - targets[place - 1][1]] if place else []
        after = [begins[place] - start] if place < len(begins) else []
        return min(before + after)

    # The distance from the nearest target to the bookable time. The search adds one day to it, then two, four ...
    away = max(min(max(first - latest, earliest - last) for earliest, latest in targets), timedelta())
    further = _DAY
    while first <= last:
        reach = away + further
        # Compare before adding: a target may be at the end of the calendar.
        around = [
            (
                first if earliest - first < reach else earliest - reach,
                last if last - latest < reach else latest + reach,
            )
            for earliest, latest in targets
        ]
        near = [start for span in joined(around) for start in calendar.between(*span)]
        if len(near) >= PROPOSALS or further > last - first:
            return sorted(nsmallest(PROPOSALS, near, key=lambda start: (distance(start), start)))
        further *= 2
    return []


def _around(targets: list[Span], first: datetime, last: datetime) -> list[Span]:
    """The targets that can be nearest to a bookable start: only one before and one after the bookable time."""
    before = [target for target in targets if target[1] < first]
    after = [target for target in targets if target[0] > last]
    between = [target for target in targets if target[1] >= first and target[0] <= last]
    return before[-1:] + between + after[:1]


def _next_quarter(moment: datetime) -> datetime:
    return moment + (_EPOCH - moment) % QUARTER
