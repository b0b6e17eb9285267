"""When the checks ask for a visit: inside the hours that a dealer publishes, at another time in each run. Pure.

Hours are read leniently: the dealer counts as closed at times that are malformed.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dealer_agent.checker import forms
from dealer_agent.checker.exchange import at, dicts

Span = tuple[datetime, datetime]
"""Start and end, in UTC."""

NOTICE, REACH = timedelta(days=2), timedelta(days=9)
"""How far ahead visits are: as soon as most dealers allow, and as late."""
LENGTH = timedelta(hours=1)
"""How long a dealer is open at least after the begin of a visit."""

USUAL_HOURS = {"open": "09:00", "close": "17:00"}
USUAL_ZONE = ZoneInfo("America/Chicago")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
USUAL_WEEK = dict.fromkeys(_DAYS[:5], USUAL_HOURS)
"""When a dealer that publishes no hours is open, probably."""


def open_spans(information: Any, rooftop: object, now: datetime) -> list[Span]:
    """The open hours of the days on which a visit makes sense: of this rooftop, or of the first that has hours."""
    rooftops = dicts(at(information, "rooftops"))
    named = [each for each in rooftops if each.get("name") == rooftop]
    for each in named or rooftops:
        if found := list(_spans(_sales_week(each), _zone(each), now)):
            return found
    return list(_spans(USUAL_WEEK, USUAL_ZONE, now))


def starts_in(spans: list[Span]) -> list[datetime]:
    """The times at which a visit can begin: each hour from the opening on."""
    return [
        start + timedelta(hours=hours)
        for start, end in spans
        for hours in range((end - start) // timedelta(hours=1))
        if start + timedelta(hours=hours) + LENGTH <= end
    ]


def is_open(information: Any, moment: datetime) -> bool:
    """Whether any department of any rooftop is open at a time. Hours that end before they begin end on the next day."""
    for rooftop in dicts(at(information, "rooftops")):
        if (zone := _zone(rooftop)) is None:
            continue
        local = moment.astimezone(zone)
        clock = local.strftime("%H:%M")
        for week in (each["value"] for each in dicts(rooftop.get("schedules")) if isinstance(each.get("value"), dict)):
            today, before = (week.get(_DAYS[(local.weekday() - days) % 7]) for days in (0, 1))
            first, last = at(today, "open"), at(today, "close")
            if forms.clock(first) and forms.clock(last) and first <= clock and (clock < last or last <= first):
                return True
            first, last = at(before, "open"), at(before, "close")
            if forms.clock(first) and forms.clock(last) and last <= first and clock < last:
                return True
    return False


def _spans(week: dict[str, Any], zone: ZoneInfo | None, now: datetime) -> Iterator[Span]:
    first = (now + NOTICE).date()
    for day in (first + timedelta(days=count) for count in range((REACH - NOTICE).days)):
        hours = week.get(_DAYS[day.weekday()])
        if zone and isinstance(hours, dict) and forms.clock(hours.get("open")) and forms.clock(hours.get("close")):
            start, end = (_instant(day, hours[name], zone) for name in ("open", "close"))
            if end - start >= LENGTH:
                yield start, end


def _instant(day: date, clock: str, zone: ZoneInfo) -> datetime:
    """A time of day, of which 24:00 is the midnight after it."""
    hours, minutes = map(int, clock.split(":"))
    local = datetime.combine(day + timedelta(days=hours // 24), time(hours % 24, minutes), zone)
    return local.astimezone(UTC)


def _sales_week(rooftop: dict[str, Any]) -> dict[str, Any]:
    """The hours of the sales department, else of the first department."""
    schedules = [each for each in dicts(rooftop.get("schedules")) if isinstance(each.get("value"), dict)]
    sales = [each for each in schedules if "sale" in str(each.get("name")).casefold()]
    schedule: dict[str, Any] = next(iter([*sales, *schedules]), {"value": {}})["value"]
    return schedule


def _zone(rooftop: dict[str, Any]) -> ZoneInfo | None:
    try:
        return ZoneInfo(str(rooftop.get("timezone")))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
