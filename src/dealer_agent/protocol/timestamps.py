"""Reads and writes timestamps: ISO 8601 texts, and times in a zone (docs/protocol.md#timestamps). Pure."""

import re
from datetime import UTC, datetime, tzinfo

_LEAP_SECOND = re.compile(r"(?<=T\d\d:\d\d:)60|(?<=T\d{4})60")


def parse_timestamp(text: str) -> datetime | None:
    """An ISO 8601 date and time, aware or naive; None for any other text, a date alone included.

    An aware time is always within the years 1 to 9999 of UTC: an earlier or later one becomes the first or the last
    moment of the calendar. `datetime` has no leap seconds: a leap second becomes the microsecond before midnight UTC.
    """
    # RFC 3339 allows lower-case T and Z; Python reads a lower-case t only.
    text = text.upper()
    if "T" not in text or not text.isascii():
        return None
    text, leaps = _LEAP_SECOND.subn("59", text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if leaps:
        if not _may_be_leap(moment):
            return None
        moment = moment.replace(microsecond=999_999)
    if moment.tzinfo is not None and in_zone(moment, UTC) != moment:
        return in_zone(moment, UTC)
    return moment


def in_zone(moment: datetime, zone: tzinfo) -> datetime:
    """An aware time in a zone. A time before year 1 or after year 9999 becomes the first or the last moment of the
    calendar."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        return datetime.min.replace(tzinfo=zone) if moment.year == 1 else datetime.max.replace(tzinfo=zone)


def _may_be_leap(last_second: datetime) -> bool:
    """Whether a leap second can follow: the time is 23:59:59 UTC, or can be if its offset is unknown."""
    if last_second.tzinfo is None:
        # Offsets are multiples of 15 minutes.
        return last_second.minute % 15 == 14
    utc = in_zone(last_second, UTC)
    return (utc.hour, utc.minute) == (23, 59)


def utc_text(moment: datetime) -> str:
    """An aware time in UTC, to the second, such as `2026-01-05T15:30:00Z`."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def is_timestamp(text: str) -> bool:
    """A date and time with an offset."""
    moment = parse_timestamp(text)
    return moment is not None and moment.tzinfo is not None


def zone_abbreviation(moment: datetime) -> str:
    """The abbreviation of the moment's own zone, such as `CST`, else its offset: `UTC+0530`."""
    name = moment.tzname()
    # Some zones have a number in place of an abbreviation.
    return name if name and name.isalpha() else f"UTC{moment:%z}"
