"""Public holidays by country and subdivision, from the library `holidays`. Pure.

The library is imported at the first use: it takes 0.1 s and 11 MB, and most dealers do not need it.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache

YEARS = range(2020, 2060)
"""The years that are searched for names. Some names, such as `Christmas Day (observed)`, do not occur every year."""


@cache
def places() -> Mapping[str, Sequence[str]]:
    """The two letters of each country (ISO 3166), with the codes of its subdivisions."""
    import holidays

    return holidays.list_supported_countries(include_aliases=False)


@cache
def holidays_of(country: str, subdivision: str | None, year: int) -> Mapping[date, tuple[str, ...]]:
    """The English names of the public holidays of a year at one of the `places`, by date.

    A holiday that is observed on another date has two entries: its own date, and `... (observed)`.
    """
    import holidays

    translated = "en_US" in holidays.country_holidays(country, subdivision).supported_languages
    # Without a language the library uses the language of the environment.
    language = "en_US" if translated else None
    found = holidays.country_holidays(country, subdivision, years=year, expand=False, language=language)
    return {day: tuple(found.get_list(day)) for day in sorted(found) if day.year == year}


@cache
def names(country: str, subdivision: str | None) -> Sequence[str]:
    """The names of all public holidays of a place, in the order in which they first occur."""
    found = (name for year in YEARS for names in holidays_of(country, subdivision, year).values() for name in names)
    return tuple(dict.fromkeys(found))
