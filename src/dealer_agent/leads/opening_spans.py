"""When somebody is there: the stretches of time in which a department is open. Pure.

Hours are spans of minutes from midnight on the rooftop's clock. A span belongs to the day on which it begins, and may
end on the next day: 18:00 to 02:00 is (1080, 1560). It begins and ends when the clock first shows that time or a later
one, so both ends keep their place on the clock when the clock is changed between them.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from dealer_agent.leads.local_time import instant_of_minute

LOOK_AHEAD = 14
"""Days. The answer does not name the opening time of a dealer that is closed for longer."""

Hours = Callable[[date], Sequence[tuple[int, int]]]
"""The spans that begin on a day, in order, apart from each other."""

Span = tuple[datetime, datetime]

_DAY = timedelta(days=1)
_MIDNIGHT = 24 * 60


def current_or_next_span(hours: Hours, zone: str, now: datetime) -> Span | None:
    """The stretch (UTC) in which the department is open: the one that holds `now`, else the next; None without one.

    A stretch that began earlier than yesterday is given from yesterday on, and it ends within `LOOK_AHEAD` days.
    """
    clock = ZoneInfo(zone)
    today = now.astimezone(clock).date()
    return next((found for found in open_spans(hours, clock, today, today + LOOK_AHEAD * _DAY) if found[1] > now), None)


def open_spans(hours: Hours, zone: ZoneInfo, first: date, last: date) -> Iterator[Span]:
    """The stretches (UTC) in which the department is open on the days, both included, in order of time.

    Spans that touch or overlap are one stretch, also over midnight. Spans of the days before and after count where
    they touch these days.
    """
    stretch: Span | None = None
    day = first - _DAY if _reaches_midnight(hours(first - _DAY)) else first
    end = last + _DAY if _reaches_midnight(hours(last)) else last
    while day <= end:
        spans = hours(day)
        for opens, closes in spans:
            begin, finish = (instant_of_minute(day, minute, zone) for minute in (opens, closes))
            if begin == finish:
                continue  # The clock skips the whole span.
            if stretch is not None and begin <= stretch[1]:
                stretch = stretch[0], max(stretch[1], finish)
                continue
            if stretch is not None:
                yield stretch
            stretch = begin, finish
        if stretch is not None and not _reaches_midnight(spans):
            yield stretch
            stretch = None
        day += _DAY
    if stretch is not None:
        yield stretch


def _reaches_midnight(spans: Sequence[tuple[int, int]]) -> bool:
    return bool(spans) and spans[-1][1] >= _MIDNIGHT
