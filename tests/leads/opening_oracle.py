"""A slow oracle for opening hours: it walks along the clock, step by step, and knows no shortcuts."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from dealer_agent.leads.local_time import Hours

DAY = timedelta(days=1)


def open_steps(
    hours: Hours, zone: str, first: datetime, last: datetime, step: timedelta
) -> Iterator[tuple[datetime, bool]]:
    """Whether the department is open at each step between the two moments (UTC).

    What counts is the latest time that the clock has shown so far: an hour that comes twice is over after the first.
    """
    clock = ZoneInfo(zone)
    moment = first - DAY / 4
    latest = moment.astimezone(clock).replace(tzinfo=None)
    while moment <= last:
        latest = max(latest, moment.astimezone(clock).replace(tzinfo=None))
        if moment >= first:
            minute = 60 * latest.hour + latest.minute
            today = any(opens <= minute < closes for opens, closes in hours(latest.date()))
            yesterday = any(opens <= minute + 1440 < closes for opens, closes in hours(latest.date() - DAY))
            yield moment, today or yesterday
        moment += step
