"""The string formats of the schemas, as predicates. Pure.

`date-time-local` is a timestamp that needs no offset, because a time zone can be given with it.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import cache
from zoneinfo import available_timezones

import phonenumbers
from email_validator import EmailNotValidError, validate_email

from dealer_agent.protocol.requests import LONGEST

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


def is_timestamp(text: str) -> bool:
    """A date and time with an offset."""
    moment = parse_timestamp(text)
    return moment is not None and moment.tzinfo is not None


def normal_email(text: str) -> str | None:
    """The e-mail address for comparisons: normalised, in lower case. None if the syntax is wrong."""
    try:
        return validate_email(text, check_deliverability=False, test_environment=True).normalized.casefold()
    except EmailNotValidError:
        return None


def normal_phone(text: str, country: str | None = None) -> str | None:
    """The number as E.164; None if it is not possible. Without a country (ISO 3166) it must start with `+`."""
    if country is None and not text.lstrip().startswith("+"):
        return None
    try:
        number = phonenumbers.parse(text, country)
    except phonenumbers.NumberParseException:
        return None
    if not phonenumbers.is_possible_number(number):
        return None
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


_zones = cache(available_timezones)


def is_timezone(text: str) -> bool:
    """A name of the IANA time zone database."""
    return text in _zones()


def _format(name: str, predicate: Callable[[str], object]) -> Callable[[str], bool]:
    # An e-mail address of 250 KB takes 0.4 s to parse.
    return lambda text: len(text) <= LONGEST[name] and bool(predicate(text))


FORMATS: dict[str, Callable[[str], bool]] = {
    "email": _format("email", normal_email),
    "phone": _format("phone", normal_phone),
    "date-time": _format("date-time", is_timestamp),
    "date-time-local": _format("date-time-local", parse_timestamp),
    "timezone": _format("timezone", is_timezone),
}
"""The predicate of each format. It rejects a text that is longer than `LONGEST` without parsing it."""
