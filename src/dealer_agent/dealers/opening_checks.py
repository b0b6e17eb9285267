"""What the opening hours of a rooftop must agree on. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date, timedelta
from typing import Any

import msgspec
from msgspec import UNSET

from dealer_agent.dealers.hours import clock_text, hours_text, read_hours, runs_past_midnight, span_text
from dealer_agent.dealers.opening import DepartmentHours, Opening, SpecialDay, department_hours
from dealer_agent.dealers.profile_checks import read_date
from dealer_agent.dealers.public_holidays import YEARS, holidays_of, names, places
from dealer_agent.protocol.did_you_mean import nearest, quoted
from dealer_agent.protocol.problems import Path, Problem

_ONE_DAY = timedelta(days=1)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def hours_agree(rooftops: list[Any]) -> Iterator[Problem]:
    """Special days name departments, holidays and days that are there, and no span runs into another day's span."""
    for index, rooftop in enumerate(rooftops):
        if not isinstance(rooftop, dict):
            continue
        keys = (key for key in Opening.__struct_fields__ if key in rooftop)
        try:
            opening = msgspec.convert({key: rooftop[key] for key in keys}, Opening)
        except msgspec.ValidationError:
            continue  # The walk over the types reports what has the wrong shape.
        yield from (problem.below(index) for problem in _problems(opening))


def _problems(opening: Opening) -> Iterator[Problem]:
    for place, special in enumerate(opening.special_days):
        for problem in (*_unclear_day(special), *_unknown_departments(special, opening)):
            yield problem.below("special_days", place)
    yield from _said_twice(opening)
    unknown_place = [*_unknown_place(opening)]
    yield from unknown_place or _unknown_holidays(opening)
    known = msgspec.structs.replace(opening, holidays=UNSET) if unknown_place else opening
    # The readers report hours and dates that cannot be read.
    with suppress(ValueError):
        yield from _running_over(known)


def _unclear_day(special: SpecialDay) -> Iterator[Problem]:
    if (special.date is UNSET) == (special.holiday is UNSET):
        found = "has neither date nor holiday" if special.date is UNSET else "has both date and holiday"
        yield Problem((), f'{found}; write date = "2026-12-24", or holiday = "Christmas Day"')


def _unknown_departments(special: SpecialDay, opening: Opening) -> Iterator[Problem]:
    for place, department in enumerate(special.departments):
        if department not in opening.hours:
            known = list(opening.hours)
            advice = f"write one of {nearest(department, known) or quoted(known)}" if known else "write one"
            yield Problem(("departments", place), f"there is no [rooftops.hours.{department}]; {advice}")


def _said_twice(opening: Opening) -> Iterator[Problem]:
    """A day has one entry for all departments, and one for each department."""
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
    """Country and subdivision are known. The library is imported only for a dealer who names a country."""
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


def _running_over(opening: Opening) -> Iterator[Problem]:
    """Hours past midnight that reach into hours of the next day."""
    for department, hours in department_hours(opening).items():
        for number, name in enumerate(_WEEKDAYS):
            spans, after = hours.week[number], hours.week[(number + 1) % 7]
            over = runs_past_midnight(spans)
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
    """The first of the days whose hours overlap those of the day before or after, where the text gives its hours."""
    written = read_hours(text)
    for day in days:
        if hours.on(day) != written:
            continue  # Something that comes first gives other hours.
        for first, second in ((day - _ONE_DAY, day), (day, day + _ONE_DAY)):
            before, after = hours.on(first), hours.on(second)
            if after and after[0][0] < runs_past_midnight(before):
                hours_of = f"the hours of {first}, '{hours_text(before)}', run into those of {second}"
                yield Problem(path, f"{hours_of}, '{hours_text(after)}'; a span belongs to the day on which it begins")
                return
