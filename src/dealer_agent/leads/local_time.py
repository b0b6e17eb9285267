"""Converts between instants and the clock of a time zone. Pure.

Python compares and subtracts two times of one zone by the clock, which is wrong by an hour around a daylight-saving
change. So this module and `visit_times` calculate in UTC and return times with a fixed offset.
"""

from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from dealer_agent.protocol.formats import in_zone, parse_timestamp

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)


def instant_of(moment: datetime, zone: tzinfo | None) -> datetime:
    """The moment in UTC. A moment without an offset is a time on the clock of `zone`.

    By PEP 495 and RFC 5545 (3.3.5), a time that occurs twice is the first one. A time that the clock skips is read with
    the offset before the change, so 02:30 becomes 03:30.
    """
    return in_zone(moment if moment.tzinfo else moment.replace(tzinfo=zone), UTC)


def read_instant(text: str, zone: tzinfo | None) -> datetime:
    """The `instant_of` a timestamp that passed the schema."""
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
