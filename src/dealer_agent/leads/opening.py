"""When somebody is there: the hours in which a department is open now, or opens next. Pure."""

from collections.abc import Collection, Mapping
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dealer_agent.leads.zones import first_showing

LOOK_AHEAD = 14
"""Days. A dealer that is closed for longer is not said to open on a day so far away."""


def open_hours(
    week: Mapping[int, tuple[time, time] | None], closed: Collection[date], zone: str, now: datetime
) -> tuple[datetime, datetime] | None:
    """The stretch (UTC) in which the department is open: the one that holds `now`, else the next; None without one.

    `week` has the hours of each day on the clock of the IANA zone, 0 = Monday, absent or None = closed.
    """
    clock = ZoneInfo(zone)
    today = now.astimezone(clock).date()
    for day in (today + timedelta(days=ahead) for ahead in range(LOOK_AHEAD + 1)):
        hours = None if day in closed else week.get(day.weekday())
        if hours is None:
            continue
        opens, closes = (first_showing(day, shown, clock) for shown in hours)
        if closes > now:
            return opens, closes
    return None
