"""The spans of time in which a department is open. Pure.

Opening hours are minutes from midnight on the rooftop's clock. A span belongs to the day on which it starts, and may
end on the next day: 18:00 to 02:00 is (1080, 1560). Each end is the first instant at which the clock shows that time or
a later one, so it keeps its clock time on a day of daylight-saving change.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from dealer_agent.leads.local_time import instant_of_minute

LOOK_AHEAD = 14
"""Days in which the next opening time is searched."""

Hours = Callable[[date], Sequence[tuple[int, int]]]
"""Returns the spans that start on a day, in order. They do not touch each other."""

Span = tuple[datetime, datetime]

_DAY = timedelta(days=1)
_MIDNIGHT = 24 * 60


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
    span: Span | None = None
    day = first - _DAY if _reaches_midnight(hours(first - _DAY)) else first
    end = last + _DAY if _reaches_midnight(hours(last)) else last
    while day <= end:
        spans = hours(day)
        for opens, closes in spans:
            start, finish = (instant_of_minute(day, minute, zone) for minute in (opens, closes))
            if start == finish:
                continue  # The clock skips the whole span.
            if span is not None and start <= span[1]:
                span = span[0], max(span[1], finish)
                continue
            if span is not None:
                yield span
            span = start, finish
        if span is not None and not _reaches_midnight(spans):
            yield span
            span = None
        day += _DAY
    if span is not None:
        yield span


def _reaches_midnight(spans: Sequence[tuple[int, int]]) -> bool:
    return bool(spans) and spans[-1][1] >= _MIDNIGHT
