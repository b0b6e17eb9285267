"""Clocks of a time zone and the instants at which they show a time. Pure.

Python compares and subtracts two times of one zone by what the clock shows, which is wrong by an hour around a
daylight-saving change. So everything here and in `leads.visits` is reckoned in UTC, and shown with a fixed offset.
"""

from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from dealer_agent.protocol.formats import in_zone

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)


def instant_of(moment: datetime, zone: tzinfo | None) -> datetime:
    """The moment in UTC; one without an offset is read on the clock of `zone`.

    As PEP 495 and RFC 5545 (3.3.5) have it: a time that the clock shows twice is the first of them, and one that it
    skips is as far after the change as it would have been, had the change come later (02:30 is 03:30).
    """
    return in_zone(moment if moment.tzinfo else moment.replace(tzinfo=zone), UTC)


def first_instant(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """The instant (UTC) at which the clock shows the time or a later one for the first time on that day."""
    shown = datetime.combine(day, clock)
    after = instant_of(shown, zone)
    if after.astimezone(zone).replace(tzinfo=None) == shown:
        return after
    # The clock skips this time: the instant of the change is wanted, and lies between the two readings of PEP 495.
    change = instant_of(shown.replace(fold=1), zone) + _MINUTE
    while change.astimezone(zone).replace(tzinfo=None) < shown:
        change += _MINUTE
    return change


def instant_of_minute(day: date, minute: int, zone: ZoneInfo) -> datetime:
    """The same for a time in minutes from midnight, which may be on the next day."""
    days, shown = divmod(minute, 24 * 60)
    return first_instant(day + days * _DAY, time(*divmod(shown, 60)), zone)


def end_of_day(moment: datetime, zone: ZoneInfo) -> datetime:
    """The instant (UTC) at which the day of the moment ends in the zone."""
    return first_instant(moment.astimezone(zone).date() + _DAY, time.min, zone)


def with_offset(moment: datetime, zone: ZoneInfo) -> datetime:
    """The moment with the offset that the zone has then."""
    local = moment.astimezone(zone)
    offset = local.utcoffset()
    assert offset is not None, "a time in a zone has an offset"
    return local.replace(tzinfo=timezone(offset), fold=0)
