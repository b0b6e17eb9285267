"""Which time a visit gets: the earliest that suits buyer and rooftop, else the nearest three (contract, part 10). Pure.

A visit begins on the rooftop's grid, which is counted from midnight on the rooftop's clock as the clock shows it, and
lies wholly inside one stretch of opening hours (`leads.opening`). It keeps its length when the clock is changed during
the visit. Places are counted by quarters of an hour of UTC, on which every zone's grid falls.

What the buyer says: windows that overlap or touch are one stretch of time; a visit fits a window when it lies wholly
inside. The nearest visit is the one that would have to be moved least to suit; of two equally near, the earlier.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from heapq import nsmallest
from typing import Protocol
from zoneinfo import ZoneInfo

from msgspec import UNSET

from dealer_agent.leads.local_time import end_of_day, instant_of, instant_of_minute, with_offset
from dealer_agent.leads.opening_spans import Hours, Span, open_spans
from dealer_agent.protocol.formats import parse_timestamp
from dealer_agent.protocol.requests import Appointment, VisitKind
from dealer_agent.protocol.responses import AppointmentReply, TimeSlot

QUARTER = timedelta(minutes=15)
PROPOSALS = 3


class BusyQuarters(Protocol):
    """How many visits touch which quarters of an hour; a dictionary is one. It may be asked much, and in no order."""

    def get(self, quarter: datetime, default: int, /) -> int:
        """Of the quarter that begins then (UTC); `default` where there are none."""


_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The calendar begins with year 1 and ends with year 9999: a day added to a time in between cannot leave it.
_EARLIEST, _LATEST = datetime(2, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class VisitPlan:
    """How one kind of visit is booked at a rooftop: `dealers.profile.VisitRules` and the hours that they name.

    `zone` is an IANA name; `hours` are those of the department, on the days on which the kind of visit is booked.
    `duration` is the usual one, `allowed` are the others that a buyer may ask for; both, and `grid`, are whole
    quarters of an hour, and `grid` divides the day. No duration is longer than a day. `places` visits may overlap.
    """

    kind: VisitKind
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
    """The time of a visit. Aware; `settle` gives the rooftop's offset of that moment, as a fixed one."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class RequestedTimes:
    """When the buyer would come, by windows or `at` one time, and for how long. Aware; a window may end too early."""

    windows: tuple[Span, ...]
    at: datetime | None
    duration: timedelta


@dataclass(frozen=True, slots=True)
class TimeChoice:
    """A confirmed time, or up to three proposed ones in order of time, or neither: nothing is to be had."""

    confirmed: Slot | None
    proposed: tuple[Slot, ...] = ()


def requested_times(appointment: Appointment, plan: VisitPlan) -> RequestedTimes | None:
    """What a valid request asks for, in UTC; None when it gives no time.

    A window's times without an offset are read in the appointment's time zone, by `zones.instant_of`. A window without
    an end reaches to the end of its day at the rooftop. The duration is the shortest that the rooftop allows and that
    is no shorter than asked, else the longest.
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
    """The earliest free visit in the windows, or the one exactly `at`; else the three nearest free ones.

    Only quarters inside `span` are looked up in `busy`.
    """
    calendar = _Calendar(plan, asked.duration, busy, now)
    wanted = _wanted(asked)
    for earliest, latest in wanted:
        for start in calendar.between(earliest, latest):
            return TimeChoice(_slot(start, asked, plan))
    return TimeChoice(None, tuple(_slot(start, asked, plan) for start in _nearest(wanted, calendar)))


def free_slots(
    duration: timedelta, plan: VisitPlan, busy: BusyQuarters, now: datetime, until: datetime
) -> Iterator[Slot]:
    """Every free visit of this length that begins by `until`, in order of time.

    Only quarters from `now` to the end of the last visit are looked up in `busy`.
    """
    zone = ZoneInfo(plan.zone)
    for start in _Calendar(plan, duration, busy, now).between(now.astimezone(UTC), until.astimezone(UTC)):
        yield Slot(with_offset(start, zone), with_offset(start + duration, zone))


def bookable_span(asked: RequestedTimes, plan: VisitPlan, now: datetime) -> tuple[datetime, datetime]:
    """From when until when (UTC, the end excluded) `settle` may ask for busy quarters: all that can be booked."""
    first, last = _bookable(plan, now)
    return first, max(first, last + asked.duration)


def quarters_of(slot: Slot) -> list[datetime]:
    """The quarters of an hour that the visit touches, by their beginning in UTC."""
    start, end = slot.start.astimezone(UTC), slot.end.astimezone(UTC)
    quarter = _next_quarter(start)
    touched = [quarter - QUARTER] if start < quarter else []
    while quarter < end:
        touched.append(quarter)
        quarter += QUARTER
    return touched


def appointment_reply(outcome: TimeChoice, asked: RequestedTimes, appointment_id: str) -> AppointmentReply:
    """What the buyer is answered, in the form in which they asked; `rejected` when nothing is to be had."""
    if outcome.confirmed is not None:
        window = _told(outcome.confirmed)
        if asked.at is not None:
            return AppointmentReply(appointment_id=appointment_id, status="confirmed", confirmed_at=window.start)
        return AppointmentReply(appointment_id=appointment_id, status="confirmed", confirmed_window=window)
    if not outcome.proposed:
        return AppointmentReply(appointment_id=appointment_id, status="rejected")
    windows = [_told(slot) for slot in outcome.proposed]
    if asked.at is not None:
        times = [window.start for window in windows]
        return AppointmentReply(appointment_id=appointment_id, status="proposed", proposed_times=times)
    return AppointmentReply(appointment_id=appointment_id, status="proposed", proposed_slots=windows)


def fits_inside(asked: RequestedTimes, existing: Slot) -> bool:
    """Whether a visit can be part of one that stands: its time is in it, or one of its windows overlaps it."""
    start, end = existing.start.astimezone(UTC), existing.end.astimezone(UTC)
    if asked.at is not None:
        return start <= asked.at < end
    return any(max(opens.astimezone(UTC), start) < min(ends.astimezone(UTC), end) for opens, ends in asked.windows)


def _instant(text: str, zone: ZoneInfo | None) -> datetime:
    moment = parse_timestamp(text)
    assert moment is not None, "the schema lets only timestamps through"
    return min(max(instant_of(moment, zone), _EARLIEST), _LATEST)


def _duration(appointment: Appointment, plan: VisitPlan) -> timedelta:
    if appointment.duration_minutes is UNSET:
        return plan.duration
    allowed = sorted({plan.duration, *plan.allowed})
    # Compared as numbers: what is asked for may be longer than time can be counted.
    long_enough = (length for length in allowed if length // _MINUTE >= appointment.duration_minutes)
    return next(long_enough, allowed[-1])


def _bookable(plan: VisitPlan, now: datetime) -> Span:
    """The earliest and the latest start of a visit, both included; the latest may be the earlier one."""
    now = now.astimezone(UTC)
    return now + plan.notice, now + plan.horizon


def _wanted(asked: RequestedTimes) -> list[Span]:
    """The stretches in which a visit that suits begins, ends included, in order and apart from each other.

    A window that is too short for the visit gives one that ends before it starts.
    """
    if asked.at is not None:
        at = asked.at.astimezone(UTC)
        return [(at, at)]
    windows = sorted((start.astimezone(UTC), end.astimezone(UTC)) for start, end in asked.windows)
    return [(start, end - asked.duration) for start, end in _merged(windows)]


def _merged(stretches: Sequence[Span]) -> list[Span]:
    """Stretches in order of their start, with those that overlap or touch made one."""
    merged: list[Span] = []
    for start, end in open_spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


class _Calendar:
    """The starts of free visits, in UTC, found as they are asked for."""

    def __init__(self, plan: VisitPlan, duration: timedelta, busy: BusyQuarters, now: datetime) -> None:
        self.first, self.last = _bookable(plan, now)
        self._plan, self._duration, self._busy = plan, duration, busy
        self._zone = ZoneInfo(plan.zone)
        self._grid_minutes = plan.grid // _MINUTE
        self._touched = [number * QUARTER for number in range(duration // QUARTER)]
        self._days: dict[date, list[datetime]] = {}

    def between(self, earliest: datetime, latest: datetime) -> Iterator[datetime]:
        """The starts of free visits between the two, both included, in order of time."""
        earliest, latest = max(earliest, self.first), min(latest, self.last)
        if earliest > latest:
            return
        day, last_day = earliest.astimezone(self._zone).date(), latest.astimezone(self._zone).date()
        while day <= last_day:
            if day not in self._days:
                self._days[day] = list(self._allowed(day))
            starts = self._days[day]
            for start in starts[bisect_left(starts, earliest) : bisect_right(starts, latest)]:
                if self._is_free(start):
                    yield start
            day += _DAY

    def _is_free(self, start: datetime) -> bool:
        return all(self._busy.get(start + after, 0) < self._plan.places for after in self._touched)

    def _allowed(self, day: date) -> Iterator[datetime]:
        """The starts of visits that hours, grid, notice and horizon allow on the day."""
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
    """The free starts nearest to a wanted one, in order of time. Looks ever further around until enough are found."""
    first, last = calendar.first, calendar.last
    # A stretch that is no longer than a moment still says when: a window too short for the visit counts by its start.
    targets = _around([(earliest, max(earliest, latest)) for earliest, latest in wanted], first, last)
    begins = [earliest for earliest, _ in targets]

    def distance(start: datetime) -> timedelta:
        # Nothing free lies between the ends of a target: it would have been confirmed.
        place = bisect_right(begins, start)
        before = [start - targets[place - 1][1]] if place else []
        after = [begins[place] - start] if place < len(begins) else []
        return min(before + after)

    # How far the nearest target lies from what can be booked; from there a day more, two, four ...
    away = max(min(max(first - latest, earliest - last) for earliest, latest in targets), timedelta())
    further = _DAY
    while first <= last:
        reach = away + further
        # Compared before it is added: a target may lie at the end of time.
        around = [
            (
                first if earliest - first < reach else earliest - reach,
                last if last - latest < reach else latest + reach,
            )
            for earliest, latest in targets
        ]
        near = [start for stretch in _merged(around) for start in calendar.between(*stretch)]
        if len(near) >= PROPOSALS or further > last - first:
            return sorted(nsmallest(PROPOSALS, near, key=lambda start: (distance(start), start)))
        further *= 2
    return []


def _around(targets: list[Span], first: datetime, last: datetime) -> list[Span]:
    """The targets that something bookable can be nearest to: of those before and of those after all of it, one."""
    before = [target for target in targets if target[1] < first]
    after = [target for target in targets if target[0] > last]
    between = [target for target in targets if target[1] >= first and target[0] <= last]
    return before[-1:] + between + after[:1]


def _next_quarter(moment: datetime) -> datetime:
    """The moment itself or the first after it on which a quarter of an hour begins."""
    return moment + (_EPOCH - moment) % QUARTER


def _slot(start: datetime, asked: RequestedTimes, plan: VisitPlan) -> Slot:
    zone = ZoneInfo(plan.zone)
    return Slot(with_offset(start, zone), with_offset(start + asked.duration, zone))


def _told(slot: Slot) -> TimeSlot:
    return TimeSlot(start=slot.start.isoformat(timespec="seconds"), end=slot.end.isoformat(timespec="seconds"))
