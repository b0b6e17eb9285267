"""The string formats that the schemas name, as predicates. Pure.

`date-time-local` is a timestamp whose offset may be missing, because a time zone beside it says how to read it.
"""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from zoneinfo import available_timezones

import phonenumbers
from email_validator import EmailNotValidError, validate_email


def parse_timestamp(text: str) -> datetime | None:
    """An ISO 8601 date and time, aware or naive; None when it is none. A bare date is none."""
    # RFC 3339 lets T and Z be small; Python takes a small t only.
    text = text.upper()
    if "T" not in text or not text.isascii():
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def is_timestamp(text: str) -> bool:
    """A date and time with an offset."""
    moment = parse_timestamp(text)
    return moment is not None and moment.tzinfo is not None and _fits_utc(moment)


def is_local_timestamp(text: str) -> bool:
    """A date and time, with or without an offset."""
    moment = parse_timestamp(text)
    return moment is not None and _fits_utc(moment)


def _fits_utc(moment: datetime) -> bool:
    # The first and last years cannot be moved between zones without leaving the calendar.
    return 1 < moment.year < 9999


def is_email(text: str) -> bool:
    """An e-mail address by its syntax; nothing is looked up."""
    return normal_email(text) is not None


def normal_email(text: str) -> str | None:
    """The address as it is compared: without case, in its normalised form. None when the syntax is wrong."""
    try:
        return validate_email(text, check_deliverability=False, test_environment=True).normalized.casefold()
    except EmailNotValidError:
        return None


def is_phone(text: str) -> bool:
    """A possible phone number in international form."""
    return normal_phone(text) is not None


def normal_phone(text: str) -> str | None:
    """The number as E.164; None unless it starts with `+` and is possible."""
    if not text.lstrip().startswith("+"):
        return None
    try:
        number = phonenumbers.parse(text, None)
    except phonenumbers.NumberParseException:
        return None
    if not phonenumbers.is_possible_number(number):
        return None
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def is_timezone(text: str) -> bool:
    """A name of the IANA time zone database."""
    return text in _zones()


_PREDICATES: dict[str, Callable[[str], bool]] = {
    "email": is_email,
    "phone": is_phone,
    "date-time": is_timestamp,
    "date-time-local": is_local_timestamp,
    "timezone": is_timezone,
}

LONGEST: dict[str, int] = {"email": 254, "phone": 64, "date-time": 64, "date-time-local": 64, "timezone": 64}
"""The most characters of a text of each format."""


def _bounded(predicate: Callable[[str], bool], longest: int) -> Callable[[str], bool]:
    # Reading an e-mail address of 250 KB takes 0.4 s.
    return lambda text: len(text) <= longest and predicate(text)


FORMATS: dict[str, Callable[[str], bool]] = {
    name: _bounded(predicate, LONGEST[name]) for name, predicate in _PREDICATES.items()
}
"""The predicate of each format. It rejects a text that is longer than `LONGEST` without reading it."""
