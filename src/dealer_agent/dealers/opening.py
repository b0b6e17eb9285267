"""The opening hours of a rooftop: their settings and checks, and the hours of a department on a date. Pure.

A span is its begin and its end, in minutes from midnight in the rooftop's local time. A span belongs to the day on
which it begins. It may end on the next day: `18:00-02:00` is (1080, 1560), and `24:00` is 1440.

The first of these that names a date gives its hours: a special day with this date, `closed_dates`, a special day with
the name of the public holiday, the hours of all public holidays, the week. A special day for a department precedes one
for all departments.

The library `holidays` is imported at the first use: it takes 0.1 s and 11 MB, and most dealers do not need it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from dealer_agent.dealers.profile_checks import Text, read_by, read_date
from dealer_agent.protocol.did_you_mean import nearest, quoted
from dealer_agent.protocol.problems import Path, Problem

T = TypeVar("T", int, datetime)

Span = tuple[int, int]
Spans = tuple[Span, ...]
"""The spans of one day, in order. They do not touch. Empty: closed."""

DAY = 24 * 60
SPANS_A_DAY = 4
LONGEST_PAST_MIDNIGHT = 16 * 60
"""In minutes. A longer span past midnight is probably a mistake: `09:00-05:00` for 5 in the afternoon."""

_SPAN = re.compile(r"([0-9]{1,2}):([0-9]{2})\s*[-\u2013]\s*([0-9]{1,2}):([0-9]{2})")


def read_hours(value: str) -> Spans:
    """The spans of one day: `09:00-20:00`, `09:00-12:00, 13:00-18:00`, or `closed`.

    Spans that touch are joined. Raises ValueError.
    """
    if value.strip().casefold() == "closed":
        return ()
    texts = value.split(",")
    if len(texts) > SPANS_A_DAY:
        raise ValueError(f"'{value}' has {len(texts)} spans; a day has at most {SPANS_A_DAY}")
    spans = sorted(_read_span(text.strip(), value) for text in texts)
    for (opens, closes), later in pairwise(spans):
        if later[0] < closes:
            overlapping = f"'{span_text((opens, closes))}' and '{span_text(later)}' overlap"
            raise ValueError(f"{overlapping}; end the first before the second begins, or write one span")
    return tuple(joined(spans))


def joined(spans: Iterable[tuple[T, T]]) -> Iterator[tuple[T, T]]:
    """Joins spans that overlap or touch. `spans` are in order of their start."""
    last: tuple[T, T] | None = None
    for start, end in spans:
        if last is not None and start <= last[1]:
            last = last[0], max(last[1], end)
            continue
        if last is not None:
            yield last
        last = start, end
    if last is not None:
        yield last


def clock_text(minutes: int) -> str:
    """The time of day of a number of minutes. 1440 is `24:00`, and 1500 is `01:00` of the next day."""
    shown = minutes if minutes <= DAY else minutes - DAY
    return f"{shown // 60:02}:{shown % 60:02}"


def span_text(span: Span) -> str:
    """A span in the notation of `dealer.toml`."""
    return f"{clock_text(span[0])}-{clock_text(span[1])}"


def hours_text(spans: Spans) -> str:
    """The hours of a day in the notation of `dealer.toml`."""
    return ", ".join(map(span_text, spans)) or "closed"


def _run_into(before: Spans, after: Spans) -> bool:
    """Whether the last span of a day overlaps with the first span of the next day."""
    return bool(before and after) and after[0][0] < before[-1][1] - DAY


def _read_span(text: str, value: str) -> Span:
    """Hours such as `09:00-20:00` in minutes since midnight. Beyond 24:00 they end on the next day.

    Raises ValueError.
    """
    match = _SPAN.fullmatch(text)
    if not match:
        examples = "such as '09:00-20:00' or '09:00-12:00, 13:00-18:00', or 'closed'"
        raise ValueError(f"'{value}' must be hours on the 24-hour clock, {examples}")
    hours, minutes = (int(match[1]), int(match[3])), (int(match[2]), int(match[4]))
    opens, closes = (60 * hour + minute for hour, minute in zip(hours, minutes, strict=True))
    if max(minutes) > 59 or max(opens, closes) > DAY:
        raise ValueError(f"'{text}' has a time that does not exist; times go from 00:00 to 24:00")
    if opens == DAY:
        raise ValueError(f"'{text}' opens at 24:00; write it on the next day, where it opens at 00:00")
    if opens == closes:
        raise ValueError(f"'{text}' has no length; write '00:00-24:00' for the whole day, or 'closed'")
    if closes < opens:
        closes += DAY
        if closes > DAY and closes - opens > LONGEST_PAST_MIDNIGHT:
            hours_long = f"'{text}' closes on the next day, after more than {LONGEST_PAST_MIDNIGHT // 60} hours"
            raise ValueError(f"{hours_long}; 5 in the afternoon is 17:00, or divide the span at 24:00")
    return opens, closes


YEARS = range(2020, 2060)
"""The years that are searched for names. Some names, such as `Christmas Day (observed)`, do not occur every year."""


@cache
def regions() -> Mapping[str, Sequence[str]]:
    """The two letters of each country (ISO 3166), with the codes of its subdivisions."""
    import holidays

    return holidays.list_supported_countries(include_aliases=False)


@cache
def holidays_of(country: str, subdivision: str | None, year: int) -> Mapping[date, tuple[str, ...]]:
    """The English names of the public holidays of a year in one of the `regions`, by date.

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
    """The names of all public holidays of a region, in the order in which they first occur."""
    found = (name for year in YEARS for names in holidays_of(country, subdivision, year).values() for name in names)
    return tuple(dict.fromkeys(found))


MOST_SPECIAL_DAYS = 100
MOST_CLOSED_DATES = 400

DayHours = Annotated[str, read_by(read_hours)]
Dates = Annotated[tuple[Annotated[str, read_by(read_date)], ...], Meta(max_length=MOST_CLOSED_DATES)]


class WeekHours(Struct, frozen=True, forbid_unknown_fields=True):
    """The hours of one department in the notation of `read_hours`. A day without a key is closed."""

    monday: DayHours = "closed"
    tuesday: DayHours = "closed"
    wednesday: DayHours = "closed"
    thursday: DayHours = "closed"
    friday: DayHours = "closed"
    saturday: DayHours = "closed"
    sunday: DayHours = "closed"

    def days(self) -> tuple[Spans, ...]:
        """The spans of the seven days, Monday first."""
        return tuple(map(read_hours, msgspec.structs.astuple(self)))


class SpecialDay(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other hours on one date, or on a public holiday every year. No `departments` means all departments."""

    date: Annotated[str, read_by(read_date)] | UnsetType = UNSET
    holiday: Text | UnsetType = UNSET
    hours: DayHours
    departments: tuple[Text, ...] = ()


class Holidays(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The region whose public holidays apply. `hours`: on holidays without a special day, by default as in the week."""

    country: Text
    subdivision: Text | UnsetType = UNSET
    hours: DayHours | UnsetType = UNSET

    @property
    def region(self) -> tuple[str, str | None]:
        """Country and subdivision, as arguments of `holidays_of`."""
        return self.country, self.subdivision or None


class Opening(Struct, frozen=True, kw_only=True):
    """All settings of a rooftop about opening hours."""

    hours: dict[str, WeekHours] = {}
    closed_dates: Dates = ()
    special_days: Annotated[tuple[SpecialDay, ...], Meta(max_length=MOST_SPECIAL_DAYS)] = ()
    holidays: Holidays | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class DepartmentHours:
    """The hours of one department. `week` is Monday first.

    With a `region`, its public holidays apply. `named` has the holidays for which the dealer wrote a special day. If
    `others` is None, the other holidays have the hours of the week.
    """

    week: tuple[Spans, ...]
    dates: Mapping[date, Spans]
    region: tuple[str, str | None] | None = None
    named: Mapping[str, Spans] = field(default_factory=dict)
    others: Spans | None = None

    def on(self, day: date) -> Spans:
        """The spans that begin on the date."""
        if day in self.dates:
            return self.dates[day]
        names = holidays_of(*self.region, day.year).get(day, ()) if self.region else ()
        spans = next((self.named[name] for name in names if name in self.named), self.others if names else None)
        return self.week[day.weekday()] if spans is None else spans


def department_hours(opening: Opening) -> dict[str, DepartmentHours]:
    """The hours of each department."""
    return {department: _hours(opening, department, week) for department, week in opening.hours.items()}


def _hours(opening: Opening, department: str, week: WeekHours) -> DepartmentHours:
    """The hours of one department. Entries for the department replace those for all departments."""
    closed: Iterator[tuple[date, Spans]] = ((read_date(day), ()) for day in opening.closed_dates)
    dates, named = dict(closed), {}
    # Entries for single departments come last, and replace entries for all departments.
    for special in sorted(opening.special_days, key=lambda special: bool(special.departments)):
        if special.departments and department not in special.departments:
            continue
        if special.date is not UNSET:
            dates[read_date(special.date)] = read_hours(special.hours)
        if special.holiday is not UNSET:
            named[special.holiday] = read_hours(special.hours)
    region, others = None, None
    if opening.holidays is not UNSET:
        region = opening.holidays.region
        others = None if opening.holidays.hours is UNSET else read_hours(opening.holidays.hours)
    return DepartmentHours(week.days(), dates, region, named, others)


def opening_hours_fit(rooftops: list[Any]) -> Iterator[Problem]:
    """Special days name known departments, holidays and dates. No span overlaps with a span of another day."""
    for index, rooftop in enumerate(rooftops):
        if not isinstance(rooftop, dict):
            continue
        try:
            opening = msgspec.convert(rooftop, Opening)
        except msgspec.ValidationError:
            continue  # `config.settings_problems` reports values of a wrong type.
        yield from (problem.below(index) for problem in _problems(opening))


def _problems(opening: Opening) -> Iterator[Problem]:
    """What is wrong with the hours of a rooftop, beyond the type of each value."""
    for position, special in enumerate(opening.special_days):
        yield from (problem.below("special_days", position) for problem in _day_problems(special, opening))
    yield from _duplicate_days(opening)
    unknown_region = [*_unknown_region(opening)]
    yield from unknown_region or _unknown_holidays(opening)
    # Invalid hours and dates are reported when they are parsed.
    with suppress(ValueError):
        yield from _overlaps(msgspec.structs.replace(opening, holidays=UNSET) if unknown_region else opening)


def _day_problems(special: SpecialDay, opening: Opening) -> Iterator[Problem]:
    """What is wrong with one special day."""
    if (special.date is UNSET) == (special.holiday is UNSET):
        found = "has neither date nor holiday" if special.date is UNSET else "has both date and holiday"
        yield Problem((), f'{found}; write date = "2026-12-24", or holiday = "Christmas Day"')
    for position, department in enumerate(special.departments):
        if department not in opening.hours:
            advice = _one_of(department, list(opening.hours))
            yield Problem(("departments", position), f"there is no [rooftops.hours.{department}]; {advice}")


def _duplicate_days(opening: Opening) -> Iterator[Problem]:
    """The days that have hours twice for a department."""
    seen: Counter[tuple[str, str]] = Counter((day, "") for day in opening.closed_dates)
    for position, special in enumerate(opening.special_days):
        day, key = (special.date, "date") if special.date is not UNSET else (special.holiday, "holiday")
        if day is UNSET:
            continue
        for department in special.departments or ("",):
            seen[day, department] += 1
            if seen[day, department] > 1:
                whose = f"for '{department}'" if department else "for all departments"
                advice = "delete one of the two entries (a day in closed_dates is such an entry)"
                yield Problem(("special_days", position, key), f"'{day}' has hours {whose} twice; {advice}")


def _unknown_region(opening: Opening) -> Iterator[Problem]:
    """Problems of a country or subdivision that `holidays` does not know. It is imported only if a country is set."""
    if opening.holidays is UNSET:
        return
    country, subdivision = opening.holidays.region
    known = regions().get(country)
    if known is None:
        advice = f"write the two letters of ISO 3166, such as {nearest(country, list(regions())) or quoted(['US'])}"
        yield Problem(("holidays", "country"), f"the country '{country}' is not known; {advice}")
    elif subdivision is not None and subdivision not in known:
        advice = _one_of(subdivision, known) if known else "leave subdivision out"
        yield Problem(("holidays", "subdivision"), f"'{subdivision}' is not a known part of {country}; {advice}")


def _unknown_holidays(opening: Opening) -> Iterator[Problem]:
    """The public holidays that the region of the rooftop does not have."""
    for position, special in enumerate(opening.special_days):
        if special.holiday is UNSET:
            continue
        if opening.holidays is UNSET:
            advice = 'needs to know whose holidays count; write [rooftops.holidays] with country = "US"'
            yield Problem(("special_days", position, "holiday"), advice)
        elif special.holiday not in names(*opening.holidays.region):
            where = ", ".join(part for part in opening.holidays.region if part)
            advice = _one_of(special.holiday, names(*opening.holidays.region))
            message = f"'{special.holiday}' is not a public holiday of {where}; {advice}"
            yield Problem(("special_days", position, "holiday"), message)


def _one_of(word: str, known: Sequence[str]) -> str:
    return f"write one of {nearest(word, known) or quoted(known)}" if known else "write one"


def _overlaps(opening: Opening) -> Iterator[Problem]:
    """The hours after midnight that run into the hours of the next day."""
    for department, hours in department_hours(opening).items():
        for number, name in enumerate(WeekHours.__struct_fields__):
            spans, after = hours.week[number], hours.week[(number + 1) % 7]
            if _run_into(spans, after):
                until = f"'{span_text(spans[-1])}' runs into '{span_text(after[0])}' of the next day"
                yield Problem(("hours", department, name), f"{until}; end it at {clock_text(after[0][0])}")
        for position, special in enumerate(opening.special_days):
            if not special.departments or department in special.departments:
                path = ("special_days", position, "hours")
                yield from _special_overlap(path, special.hours, _days_of(special, opening), hours)
        if opening.holidays is not UNSET and opening.holidays.hours is not UNSET:
            days = (day for year in YEARS for day in holidays_of(*opening.holidays.region, year))
            yield from _special_overlap(("holidays", "hours"), opening.holidays.hours, days, hours)


def _days_of(special: SpecialDay, opening: Opening) -> Iterable[date]:
    """The dates of a special day: its own date, or the days of its holiday."""
    if special.date is not UNSET:
        return (read_date(special.date),)
    if opening.holidays is UNSET:
        return ()
    years = (holidays_of(*opening.holidays.region, year).items() for year in YEARS)
    return (day for year in years for day, names in year if special.holiday in names)


def _special_overlap(path: Path, text: str, days: Iterable[date], hours: DepartmentHours) -> Iterator[Problem]:
    """Problems of special hours that run into the next day. Only days on which these hours count are checked."""
    written = read_hours(text)
    for day in days:
        if hours.on(day) != written:
            continue  # A setting with precedence gives other hours.
        for first, second in ((day - timedelta(1), day), (day, day + timedelta(1))):
            before, after = hours.on(first), hours.on(second)
            if _run_into(before, after):
                hours_of = f"the hours of {first}, '{hours_text(before)}', run into those of {second}"
                yield Problem(path, f"{hours_of}, '{hours_text(after)}'; a span belongs to the day on which it begins")
                return
