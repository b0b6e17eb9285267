"""The hours of a department on any day, from the settings of its rooftop."""

import subprocess
import sys
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from dealer_agent.dealers.opening import Holidays, Opening, SpecialDay, WeekHours, department_hours, hours_text

DAILY = WeekHours(*["09:00-20:00"] * 7)
LATE = WeekHours(*["18:00-02:00"] * 7)
TENNESSEE = Holidays(country="US", subdivision="TN")


def on(opening: Opening, day: str, department: str = "sales") -> str:
    return hours_text(department_hours(opening)[department].on(date.fromisoformat(day)))


OPENING = Opening(
    hours={"sales": DAILY, "service": WeekHours(monday="07:00-12:00, 13:00-18:00"), "bar": LATE},
    closed_dates=("2026-12-25", "2026-11-26"),
    special_days=(
        SpecialDay(date="2026-12-24", hours="09:00-14:00"),
        SpecialDay(date="2026-12-24", hours="closed", departments=("service",)),
        SpecialDay(date="2026-12-25", hours="10:00-12:00", departments=("bar",)),
        SpecialDay(holiday="Thanksgiving Day", hours="08:00-10:00"),
        SpecialDay(holiday="Independence Day", hours="10:00-16:00", departments=("sales",)),
        SpecialDay(holiday="Independence Day", hours="closed"),
    ),
    holidays=Holidays(country="US", subdivision="TN", hours="11:00-15:00"),
)


@pytest.mark.parametrize(
    ("day", "department", "hours"),
    [
        ("2026-11-23", "sales", "09:00-20:00"),
        ("2026-11-23", "service", "07:00-12:00, 13:00-18:00"),
        ("2026-11-24", "service", "closed"),
        ("2026-11-24", "bar", "18:00-02:00"),
        # A date for all departments, and one for a department alone.
        ("2026-12-24", "sales", "09:00-14:00"),
        ("2026-12-24", "bar", "09:00-14:00"),
        ("2026-12-24", "service", "closed"),
        ("2026-12-25", "sales", "closed"),
        ("2026-12-25", "bar", "10:00-12:00"),
        # A date comes before the holiday on it: Thanksgiving Day of 2026 is closed, that of 2027 is not.
        ("2026-11-26", "sales", "closed"),
        ("2027-11-25", "sales", "08:00-10:00"),
        # A holiday for a department alone comes before the same one for all.
        ("2026-07-04", "sales", "10:00-16:00"),
        ("2026-07-04", "service", "closed"),
        # Where it is observed on another day, that day has a name of its own.
        ("2026-07-03", "sales", "11:00-15:00"),
        # Every other public holiday, here only in Tennessee and some other states.
        ("2026-04-03", "sales", "11:00-15:00"),
        ("2026-04-03", "service", "11:00-15:00"),
        # The holiday of the next year, observed in this one.
        ("2027-12-31", "sales", "11:00-15:00"),
    ],
)
def test_the_first_setting_that_names_a_day_gives_its_hours(day: str, department: str, hours: str) -> None:
    assert on(OPENING, day, department) == hours


def test_public_holidays_without_hours_of_their_own_are_days_of_the_week() -> None:
    closed = SpecialDay(holiday="Christmas Day", hours="closed")
    opening = Opening(hours={"sales": DAILY}, special_days=(closed,), holidays=TENNESSEE)
    assert [on(opening, day) for day in ("2026-12-25", "2026-07-04")] == ["closed", "09:00-20:00"]


def test_the_names_of_holidays_do_not_depend_on_the_language_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labor Day of Canada, whose names the library has in French, too."""
    monkeypatch.setenv("LANGUAGE", "fr")
    closed = SpecialDay(holiday="Labor Day", hours="closed")
    opening = Opening(hours={"sales": DAILY}, special_days=(closed,), holidays=Holidays(country="CA"))
    assert on(opening, "2041-09-02") == "closed"


def test_the_library_is_imported_only_for_a_dealer_who_asks_for_holidays() -> None:
    read = "from dealer_agent.config.loading import read_dealer_file; import sys; read_dealer_file(sys.stdin.read()); "
    dealer = (
        'id = "a"\nname = "A"\nfeed_price = "advertised"\n[[rooftops]]\nname = "A"\ntimezone = "America/Chicago"\n'
        '[rooftops.hours.sales]\nmonday = "09:00-12:00"\n'
        '[[rooftops.special_days]]\ndate = "2026-12-24"\nhours = "closed"\n'
    )
    asked = dealer + '[rooftops.holidays]\ncountry = "US"\n'
    told = [
        subprocess.run(
            [sys.executable, "-c", read + "print('holidays' in sys.modules)"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for text in (dealer, asked)
    ]
    assert told == ["False", "True"]


SOME_HOURS = st.sampled_from(["closed", "09:00-12:00, 13:00-18:00", "10:00-16:00", "18:00-24:00", "08:00-22:00"])
NAMES = ("Christmas Day", "Thanksgiving Day", "Good Friday", "Independence Day", "Independence Day (observed)")
DAYS = ("2026-04-03", "2026-07-03", "2026-07-04", "2026-11-26", "2026-12-24", "2026-12-25", "2026-12-28")
NAME_ON = {
    "2026-04-03": "Good Friday",
    "2026-07-03": "Independence Day (observed)",
    "2026-07-04": "Independence Day",
    "2026-11-26": "Thanksgiving Day",
    "2026-12-25": "Christmas Day",
}
"""Two holidays of Tennessee never fall on one of these days."""
DEPARTMENTS = ("sales", "service")


@st.composite
def openings(draw: st.DrawFn) -> Opening:
    """Any settings that mention a day or a holiday at most once for each department, and once for all of them."""
    whose = st.sampled_from([(), ("sales",), ("service",)])
    dates = draw(st.sets(st.tuples(st.sampled_from(DAYS), whose), max_size=4))
    holidays = draw(st.sets(st.tuples(st.sampled_from(NAMES), whose), max_size=4))
    specials = [SpecialDay(date=day, hours=draw(SOME_HOURS), departments=of) for day, of in sorted(dates)]
    specials += [SpecialDay(holiday=name, hours=draw(SOME_HOURS), departments=of) for name, of in sorted(holidays)]
    return Opening(
        hours={name: WeekHours(*(draw(SOME_HOURS) for _ in range(7))) for name in DEPARTMENTS},
        closed_dates=tuple(draw(st.sets(st.sampled_from(DAYS), max_size=2)) - {day for day, of in dates if not of}),
        special_days=tuple(draw(st.permutations(specials))),
        holidays=Holidays(country="US", subdivision="TN", hours=draw(SOME_HOURS | st.just(UNSET))),
    )


@given(openings(), st.sampled_from(DAYS), st.sampled_from(DEPARTMENTS))
def test_of_any_settings_the_first_that_names_a_day_gives_its_hours(
    opening: Opening, day: str, department: str
) -> None:
    """The order of docs/how-to/opening-hours.md, rule by rule."""
    special, name = opening.special_days, NAME_ON.get(day)
    week = opening.hours[department]
    steps = [
        [one.hours for one in special if one.date == day and department in one.departments],
        [one.hours for one in special if one.date == day and not one.departments],
        ["closed" for closed in opening.closed_dates if closed == day],
        [one.hours for one in special if name and one.holiday == name and department in one.departments],
        [one.hours for one in special if name and one.holiday == name and not one.departments],
        [hours for holidays in [opening.holidays] if name and holidays and (hours := holidays.hours)],
        [getattr(week, f"{date.fromisoformat(day):%A}".lower())],
    ]
    assert on(opening, day, department) == next(hours for found in steps for hours in found)
