"""The opening hours of a rooftop: their settings, and the hours of a department on a date. Pure.

The first of these that names a date gives its hours: a special day with this date, `closed_dates`, a special day with
the name of the public holiday, the hours of all public holidays, the week. A special day for a department precedes one
for all departments.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from dealer_agent.dealers.hours import Spans, read_hours
from dealer_agent.dealers.profile_checks import Text, read_by, read_date
from dealer_agent.dealers.public_holidays import holidays_of

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
        days = (self.monday, self.tuesday, self.wednesday, self.thursday, self.friday, self.saturday, self.sunday)
        return tuple(map(read_hours, days))


class SpecialDay(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other hours on one date, or on a public holiday every year. No `departments` means all departments."""

    date: Annotated[str, read_by(read_date)] | UnsetType = UNSET
    holiday: Text | UnsetType = UNSET
    hours: DayHours
    departments: tuple[Text, ...] = ()


class Holidays(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place whose public holidays apply. `hours`: on holidays without a special day, by default as in the week."""

    country: Text
    subdivision: Text | UnsetType = UNSET
    hours: DayHours | UnsetType = UNSET

    @property
    def place(self) -> tuple[str, str | None]:
        """Country and subdivision, as arguments of `public_holidays`."""
        return self.country, self.subdivision or None


class Opening(Struct, frozen=True, kw_only=True):
    """All settings of a rooftop about opening hours."""

    hours: dict[str, WeekHours] = {}
    closed_dates: Dates = ()
    special_days: Annotated[tuple[SpecialDay, ...], Meta(max_length=MOST_SPECIAL_DAYS)] = ()
    holidays: Holidays | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class HolidayHours:
    """The hours of a department on public holidays: `named` holidays have a special day."""

    place: tuple[str, str | None]
    named: Mapping[str, Spans]
    others: Spans | None

    def on(self, day: date) -> Spans | None:
        """The hours of the date; None if it is no holiday, or if it has the hours of the week."""
        names = holidays_of(*self.place, day.year).get(day, ())
        return next((self.named[name] for name in names if name in self.named), self.others if names else None)


@dataclass(frozen=True, slots=True)
class DepartmentHours:
    """The hours of one department. `week` is Monday first."""

    week: tuple[Spans, ...]
    dates: Mapping[date, Spans]
    holidays: HolidayHours | None = None

    def on(self, day: date) -> Spans:
        """The spans that begin on the date."""
        spans = self.dates.get(day)
        if spans is None and self.holidays is not None:
            spans = self.holidays.on(day)
        return self.week[day.weekday()] if spans is None else spans


def department_hours(opening: Opening) -> dict[str, DepartmentHours]:
    """The hours of each department."""
    return {department: _hours(opening, department, week) for department, week in opening.hours.items()}


def _hours(opening: Opening, department: str, week: WeekHours) -> DepartmentHours:
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
    if opening.holidays is UNSET:
        return DepartmentHours(week.days(), dates)
    others = None if opening.holidays.hours is UNSET else read_hours(opening.holidays.hours)
    return DepartmentHours(week.days(), dates, HolidayHours(opening.holidays.place, named, others))
