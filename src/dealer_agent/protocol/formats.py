"""Checks the string formats of the schemas, and writes e-mail addresses and phone numbers in one form. Pure.

`date-time-local` is a timestamp that needs no offset, because a time zone can be given with it.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from zoneinfo import available_timezones

from dealer_agent.protocol.requests import LONGEST
from dealer_agent.protocol.timestamps import is_timestamp, parse_timestamp

CONTACTS_KEPT = 16
"""How many e-mail addresses and phone numbers are kept in memory. Each lead needs its own twice: for the check by its
schema, and to find earlier leads. To parse an address takes longer than to decode the request."""


@lru_cache(maxsize=CONTACTS_KEPT)
def normal_email(text: str) -> str | None:
    """Returns the e-mail address in the form by which addresses are compared: normalised, in lower case.

    None if the syntax is wrong. Whether the domain exists is not checked.
    """
    # Imported here: it compiles many expressions, and most commands check no address.
    from email_validator import EmailNotValidError, validate_email

    # `test_environment` accepts the domain .test (RFC 2606), which the library refuses otherwise.
    try:
        return validate_email(text, check_deliverability=False, test_environment=True).normalized.casefold()
    except EmailNotValidError:
        return None


@lru_cache(maxsize=CONTACTS_KEPT)
def normal_phone(text: str, country: str | None = None) -> str | None:
    """Returns the phone number as E.164, the form by which numbers are compared. None if no such number can exist.

    Without a country (ISO 3166) the text must start with `+`.
    """
    if country is None and not text.lstrip().startswith("+"):
        return None
    # Imported here, as above.
    import phonenumbers

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
