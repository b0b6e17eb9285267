"""Instants and the clock of a time zone, and the spans of time in which a department is open. Pure.

Python compares and subtracts two times of one zone by the clock, which is wrong by an hour around a daylight-saving
change. So this module and `visit_times` calculate in UTC and return times with a fixed offset.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from dealer_agent.dealers.opening import joined
from dealer_agent.protocol.timestamps import in_zone, parse_timestamp

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)


def instant_of(moment: datetime, zone: tzinfo | None) -> datetime:
    """The moment in UTC. A moment without an offset is a time on the clock of `zone`.

    By PEP 495 and RFC 5545 (3.3.5), a time that occurs twice is the first one. A time that the clock skips is read with
    the offset before the change, so 02:30 becomes 03:30.
    """
    return in_zone(moment if moment.tzinfo else moment.replace(tzinfo=zone), UTC)


def read_instant(text: str, zone: tzinfo | None) -> datetime:
    """The result of `instant_of` for a timestamp that passed the schema."""
    moment = parse_timestamp(text)
    assert moment is not None, "the schema accepts only timestamps"
    return instant_of(moment, zone)


def first_instant(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """The first instant (UTC) of the day at which the clock shows this time or a later one."""
    shown = datetime.combine(day, clock)
    after = instant_of(shown, zone)
    if after.astimezone(zone).replace(tzinfo=None) == shown:
        return after
    # The clock skips this time. The change is between the two readings of PEP 495.
    change = instant_of(shown.replace(fold=1), zone) + _MINUTE
    while change.astimezone(zone).replace(tzinfo=None) < shown:
        change += _MINUTE
    return change


def instant_of_minute(day: date, minute: int, zone: ZoneInfo) -> datetime:
    """The `first_instant` of a time in minutes from midnight, which may be on the next day."""
    days, shown = divmod(minute, 24 * 60)
    return first_instant(day + days * _DAY, time(*divmod(shown, 60)), zone)


def end_of_day(moment: datetime, zone: ZoneInfo) -> datetime:
    """The instant (UTC) at which the moment's day ends in the zone."""
    return first_instant(moment.astimezone(zone).date() + _DAY, time.min, zone)


def with_offset(moment: datetime, zone: ZoneInfo) -> datetime:
    """The moment with the offset of the zone at that moment."""
    local = moment.astimezone(zone)
    offset = local.utcoffset()
    assert offset is not None, "a time in a zone has an offset"
    return local.replace(tzinfo=timezone(offset), fold=0)


LOOK_AHEAD = 14
"""Days in which the next opening time is searched."""

Hours = Callable[[date], Sequence[tuple[int, int]]]
"""Returns the spans that start on a day, in order. They do not touch each other."""

Span = tuple[datetime, datetime]


def current_or_next_span(hours: Hours, zone: str, now: datetime) -> Span | None:
    """The span (UTC) that contains `now`, else the next one. None if there is none within `LOOK_AHEAD` days.

    A span that started before yesterday is returned with yesterday as its start.
    """
    clock = ZoneInfo(zone)
    today = now.astimezone(clock).date()
    return next((found for found in open_spans(hours, clock, today, today + LOOK_AHEAD * _DAY) if found[1] > now), None)


def open_spans(hours: Hours, zone: ZoneInfo, first: date, last: date) -> Iterator[Span]:
    """The open spans (UTC) of the days from `first` to `last`, both included, in order of time.

    Spans that touch or overlap are joined, also over midnight. A span of the day before or after counts if it overlaps
    or touches these days.
    """
    day = first - _DAY if _reaches_midnight(hours(first - _DAY)) else first
    end = last + _DAY if _reaches_midnight(hours(last)) else last
    days = (day + number * _DAY for number in range((end - day).days + 1))
    spans = (
        (instant_of_minute(each, opens, zone), instant_of_minute(each, closes, zone))
        for each in days
        for opens, closes in hours(each)
    )
    # The clock can skip a whole span.
    return joined(span for span in spans if span[0] != span[1])


def _reaches_midnight(spans: Sequence[tuple[int, int]]) -> bool:
    return bool(spans) and spans[-1][1] >= 24 * 60
