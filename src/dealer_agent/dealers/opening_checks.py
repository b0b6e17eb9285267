"""Checks that the opening hours of a rooftop fit together. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date, timedelta
from typing import Any

import msgspec
from msgspec import UNSET

from dealer_agent.dealers.hours import clock_text, hours_text, minutes_past_midnight, read_hours, span_text
from dealer_agent.dealers.opening import DepartmentHours, Opening, SpecialDay, department_hours
from dealer_agent.dealers.profile_checks import read_date
from dealer_agent.dealers.public_holidays import YEARS, holidays_of, names, places
from dealer_agent.protocol.did_you_mean import nearest, quoted
from dealer_agent.protocol.problems import Path, Problem

_ONE_DAY = timedelta(days=1)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def opening_hours_fit(rooftops: list[Any]) -> Iterator[Problem]:
    """Special days name known departments, holidays and dates. No span overlaps with a span of another day."""
    for index, rooftop in enumerate(rooftops):
        if not isinstance(rooftop, dict):
            continue
        keys = (key for key in Opening.__struct_fields__ if key in rooftop)
        try:
            opening = msgspec.convert({key: rooftop[key] for key in keys}, Opening)
        except msgspec.ValidationError:
            continue  # `config.settings_problems` reports values of a wrong type.
        yield from (problem.below(index) for problem in _problems(opening))


def _problems(opening: Opening) -> Iterator[Problem]:
    for place, special in enumerate(opening.special_days):
        for problem in (*_day_problems(special), *_unknown_departments(special, opening)):
            yield problem.below("special_days", place)
    yield from _duplicate_days(opening)
    unknown_place = [*_unknown_place(opening)]
    yield from unknown_place or _unknown_holidays(opening)
    known = msgspec.structs.replace(opening, holidays=UNSET) if unknown_place else opening
    # The readers report invalid hours and dates.
    with suppress(ValueError):
        yield from _overlaps(known)


def _day_problems(special: SpecialDay) -> Iterator[Problem]:
    if (special.date is UNSET) == (special.holiday is UNSET):
        found = "has neither date nor holiday" if special.date is UNSET else "has both date and holiday"
        yield Problem((), f'{found}; write date = "2026-12-24", or holiday = "Christmas Day"')


def _unknown_departments(special: SpecialDay, opening: Opening) -> Iterator[Problem]:
    for place, department in enumerate(special.departments):
        if department not in opening.hours:
            known = list(opening.hours)
            advice = f"write one of {nearest(department, known) or quoted(known)}" if known else "write one"
            yield Problem(("departments", place), f"there is no [rooftops.hours.{department}]; {advice}")


def _duplicate_days(opening: Opening) -> Iterator[Problem]:
    """A day has at most one entry for all departments, and at most one for each department."""
    seen: Counter[tuple[str, str]] = Counter((day, "") for day in opening.closed_dates)
    for place, special in enumerate(opening.special_days):
        day, key = (special.date, "date") if special.date is not UNSET else (special.holiday, "holiday")
        if day is UNSET:
            continue
        for department in special.departments or ("",):
            seen[day, department] += 1
            if seen[day, department] > 1:
                whose = f"for '{department}'" if department else "for all departments"
                advice = "keep one of them; closed_dates counts, too"
                yield Problem(("special_days", place, key), f"'{day}' has other hours {whose} already; {advice}")


def _unknown_place(opening: Opening) -> Iterator[Problem]:
    """Country and subdivision are known. Only a dealer with a country needs the import of the library."""
    if opening.holidays is UNSET:
        return
    country, subdivision = opening.holidays.place
    if country not in places():
        advice = f"write the two letters of ISO 3166, such as {nearest(country, list(places())) or quoted(['US'])}"
        yield Problem(("holidays", "country"), f"the country '{country}' is not known; {advice}")
    elif subdivision is not None and subdivision not in places()[country]:
        known = places()[country]
        advice = f"write one of {nearest(subdivision, known) or quoted(known)}" if known else "leave subdivision out"
        yield Problem(("holidays", "subdivision"), f"'{subdivision}' is no known part of {country}; {advice}")


def _unknown_holidays(opening: Opening) -> Iterator[Problem]:
    for place, special in enumerate(opening.special_days):
        if special.holiday is UNSET:
            continue
        if opening.holidays is UNSET:
            advice = 'needs to know whose holidays count; write [rooftops.holidays] with country = "US"'
            yield Problem(("special_days", place, "holiday"), advice)
        elif special.holiday not in names(*opening.holidays.place):
            where = ", ".join(part for part in opening.holidays.place if part)
            known = names(*opening.holidays.place)
            advice = f"write one of {nearest(special.holiday, known) or quoted(known)}"
            message = f"'{special.holiday}' is no public holiday of {where}; {advice}"
            yield Problem(("special_days", place, "holiday"), message)


def _overlaps(opening: Opening) -> Iterator[Problem]:
    """Hours past midnight that overlap with the hours of the next day."""
    for department, hours in department_hours(opening).items():
        for number, name in enumerate(_WEEKDAYS):
            spans, after = hours.week[number], hours.week[(number + 1) % 7]
            over = minutes_past_midnight(spans)
            if after and after[0][0] < over:
                until = f"'{span_text(spans[-1])}' runs into '{span_text(after[0])}' of the next day"
                yield Problem(("hours", department, name), f"{until}; end it at {clock_text(after[0][0])}")
        for place, special in enumerate(opening.special_days):
            if not special.departments or department in special.departments:
                yield from _special_overlap(
                    ("special_days", place, "hours"), special.hours, _days_of(special, opening), hours
                )
        if opening.holidays is not UNSET and opening.holidays.hours is not UNSET:
            days = (day for year in YEARS for day in holidays_of(*opening.holidays.place, year))
            yield from _special_overlap(("holidays", "hours"), opening.holidays.hours, days, hours)


def _days_of(special: SpecialDay, opening: Opening) -> Iterable[date]:
    if special.date is not UNSET:
        return (read_date(special.date),)
    if opening.holidays is UNSET:
        return ()
    years = (holidays_of(*opening.holidays.place, year).items() for year in YEARS)
    return (day for year in years for day, names in year if special.holiday in names)


def _special_overlap(path: Path, text: str, days: Iterable[date], hours: DepartmentHours) -> Iterator[Problem]:
    """The first of the days on which these hours overlap with the hours of the day before or after."""
    written = read_hours(text)
    for day in days:
        if hours.on(day) != written:
            continue  # A setting with precedence gives other hours.
        for first, second in ((day - _ONE_DAY, day), (day, day + _ONE_DAY)):
            before, after = hours.on(first), hours.on(second)
            if after and after[0][0] < minutes_past_midnight(before):
                hours_of = f"the hours of {first}, '{hours_text(before)}', run into those of {second}"
                yield Problem(path, f"{hours_of}, '{hours_text(after)}'; a span belongs to the day on which it begins")
                return
