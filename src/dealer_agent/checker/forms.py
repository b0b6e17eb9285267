"""Forms of values: what a string, a number or an array of a response must look like. Pure.

Each is a predicate of a JSON value that is present and not null.
"""

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, TypeGuard
from urllib.parse import urlsplit

Form = Callable[[Any], bool]


def of_type(kind: type) -> Form:
    """A value of this type of Python."""
    return lambda value: isinstance(value, kind)


text, truth, array, an_object = of_type(str), of_type(bool), of_type(list), of_type(dict)


def name(value: Any) -> bool:
    """A string that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def number(value: Any) -> bool:
    """A number that is not negative."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


def whole(value: Any) -> bool:
    """A whole number that is not negative. `2020.0` is one here: `envelope.reply.integers-plain` judges its form."""
    return number(value) and bool(value == int(value))


def year(value: Any) -> bool:
    """A model year."""
    return whole(value) and 1900 <= value <= 2100


def vin(value: Any) -> bool:
    """A VIN."""
    return isinstance(value, str) and re.fullmatch("[A-HJ-NPR-Z0-9]{17}", value) is not None


def url(value: object) -> TypeGuard[str]:
    """An absolute URL with http or https and a host."""
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
    except ValueError:
        return False
    return parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)


def day(value: Any) -> bool:
    """A date such as 2026-04-21."""
    try:
        return isinstance(value, str) and len(value) == 10 and bool(date.fromisoformat(value))
    except ValueError:
        return False


def moment(value: Any) -> bool:
    """A timestamp of RFC 3339, with an offset."""
    pattern = r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)"
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        return False
    try:
        # The second 60 is a leap second, which `datetime` does not have.
        return bool(
            datetime.fromisoformat(f"{value[:10]}T{value[11:17]}{'59' if value[17:19] == '60' else value[17:19]}")
        )
    except ValueError:
        return False


def clock(value: Any) -> bool:
    """A time of day as HH:MM."""
    return isinstance(value, str) and re.fullmatch(r"([01]\d|2[0-4]):[0-5]\d", value) is not None


def e_mail(value: Any) -> bool:
    """An e-mail address: something on both sides of one @."""
    return isinstance(value, str) and re.fullmatch(r"[^@\s]+@[^@\s]+", value) is not None


def one_of(*words: object) -> Form:
    """One of some values."""
    return lambda value: value in words


def array_of(form: Form) -> Form:
    """An array whose entries have a form."""
    return lambda value: isinstance(value, list) and all(form(each) for each in value)


def fee(value: Any) -> bool:
    """A charge: a name, and an amount in whole dollars."""
    return isinstance(value, dict) and name(value.get("name")) and whole(value.get("amount"))


def scalars(value: Any) -> bool:
    """An object of strings, numbers and booleans, or arrays of them."""
    kinds = (str, int, float)
    return isinstance(value, dict) and all(
        isinstance(each, kinds) or (isinstance(each, list) and all(isinstance(entry, kinds) for entry in each))
        for each in value.values()
    )


def whole_number(value: object) -> int | None:
    """A whole number, also if it is written as `60.0`: `envelope.reply.integers-plain` judges that. None for others."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
        return None
    return int(value)
