"""Opening hours in `dealer.toml`: refused values with their lines, and the examples of docs/how-to/opening-hours.md."""

import re
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from dealer_agent.config.loading import read_dealer_file
from dealer_agent.config.settings import DealerFile
from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.dealers.opening import department_hours
from dealer_agent.leads.local_time import current_or_next_span

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "opening-hours.md"
LEAST = """\
id = "acme"
name = "Acme Motors"
feed_price = "advertised"
[[rooftops]]
name = "North"
timezone = "America/Chicago"
"""
DAY = "[[rooftops.special_days]]\n"
SALES = "[rooftops.hours.sales]\nmonday = '09:00-20:00'\n"
US = "[rooftops.holidays]\ncountry = 'US'\n"


def refused(added: str) -> list[str]:
    """The problems, without the name of the file."""
    with pytest.raises(SettingsError) as raised:
        read_dealer_file(LEAST + added)
    return [problem.removeprefix("dealer.toml, ") for problem in str(raised.value).splitlines()]


@pytest.mark.parametrize(
    ("added", "problem"),
    [
        # A day of the week.
        (SALES + "tuesday = '09:00-25:00'", "line 9: rooftops[0].hours.sales.tuesday: '09:00-25:00' has a time that "
         "does not exist; times go from 00:00 to 24:00"),
        (SALES + "tuesday = '09:00-09:00'", "line 9: rooftops[0].hours.sales.tuesday: '09:00-09:00' has no length; "
         "write '00:00-24:00' for the whole day, or 'closed'"),
        (SALES + "tuesday = '09:00-12:00, 11:00-18:00'", "line 9: rooftops[0].hours.sales.tuesday: '09:00-12:00' and "
         "'11:00-18:00' overlap; end the first before the second begins, or write one span"),
        (SALES + "sunday = '20:00-09:30'", "line 9: rooftops[0].hours.sales.sunday: '20:00-09:30' runs into "
         "'09:00-20:00' of the next day; end it at 09:00"),
        (SALES + "tuesday = '18:00-03:00'\nwednesday = '02:00-12:00'", "line 9: rooftops[0].hours.sales.tuesday: "
         "'18:00-03:00' runs into '02:00-12:00' of the next day; end it at 02:00"),
        # Special days.
        (SALES + DAY + "hours = 'closed'", "line 9: rooftops[0].special_days[0]: has neither date nor holiday; write "
         'date = "2026-12-24", or holiday = "Christmas Day"'),
        (SALES + US + DAY + "date = '2026-12-25'\nholiday = 'Christmas Day'\nhours = 'closed'", "line 11: "
         "rooftops[0].special_days[0]: has both date and holiday; write date = \"2026-12-24\", or holiday = "
         '"Christmas Day"'),
        (SALES + DAY + "date = '2026-12-24'", "line 9: rooftops[0].special_days[0].hours: is missing; write hours = "
         '"..."'),
        (SALES + DAY + "date = 2026-12-24\nhours = 'closed'", "line 10: rooftops[0].special_days[0].date: the date or "
         "time 2026-12-24 must be text in quotes"),
        (SALES + DAY + "date = '24.12.2026'\nhours = 'closed'", "line 10: rooftops[0].special_days[0].date: "
         "'24.12.2026' is not a date from 2000 to 2199; write it in quotes as '2026-12-25'"),
        (SALES + DAY + "date = '2026-12-24'\nhours = '9 to 2'", "line 11: rooftops[0].special_days[0].hours: '9 to 2' "
         "must be hours on the 24-hour clock, such as '09:00-20:00' or '09:00-12:00, 13:00-18:00', or 'closed'"),
        (SALES + DAY + "date = '2026-12-24'\nhours = 'closed'\ndepartments = ['sale']", "line 12: "
         "rooftops[0].special_days[0].departments[0]: there is no [rooftops.hours.sale]; write one of \"sales\""),
        (DAY + "date = '2026-12-24'\nhours = 'closed'\ndepartments = ['sales']", "line 10: "
         "rooftops[0].special_days[0].departments[0]: there is no [rooftops.hours.sales]; write one"),
        ("closed_dates = ['2026-12-24']\n" + SALES + DAY + "date = '2026-12-24'\nhours = '09:00-12:00'", "line 11: "
         "rooftops[0].special_days[0].date: '2026-12-24' has hours for all departments twice; delete one of the two "
         "entries (a day in closed_dates is such an entry)"),
        (SALES + (DAY + "date = '2026-12-24'\ndepartments = ['sales']\nhours = 'closed'\n") * 2, "line 14: "
         "rooftops[0].special_days[1].date: '2026-12-24' has hours for 'sales' twice; delete one of the two "
         "entries (a day in closed_dates is such an entry)"),
        # 2026-12-28 is a Monday.
        (SALES + DAY + "date = '2026-12-27'\nhours = '20:00-10:00'", "line 11: rooftops[0].special_days[0].hours: the "
         "hours of 2026-12-27, '20:00-10:00', run into those of 2026-12-28, '09:00-20:00'; a span belongs to the day "
         "on which it begins"),
        (SALES + "sunday = '20:00-08:00'\n" + DAY + "date = '2026-12-28'\nhours = '07:00-12:00'", "line 12: "
         "rooftops[0].special_days[0].hours: the hours of 2026-12-27, '20:00-08:00', run into those of 2026-12-28, "
         "'07:00-12:00'; a span belongs to the day on which it begins"),
        (SALES + "closed_dates = 1", "line 9: rooftops[0].hours.sales.closed_dates: unknown key; it belongs under "
         "[[rooftops]]"),
        # Public holidays.
        (SALES + "[rooftops.holidays]\ncountry = 'USA'", "line 10: rooftops[0].holidays.country: the country 'USA' is "
         "not known; write the two letters of ISO 3166, such as \"US\", \"UA\", \"SA\""),
        (SALES + "[rooftops.holidays]\ncountry = '--'", "line 10: rooftops[0].holidays.country: the country '--' is "
         "not known; write the two letters of ISO 3166, such as \"US\""),
        (SALES + "[rooftops.holidays]\ncountry = 'us'", "line 10: rooftops[0].holidays.country: the country 'us' is "
         "not known; write the two letters of ISO 3166, such as \"US\""),
        (SALES + "[rooftops.holidays]\ncountry = 'CA'\nsubdivision = 'O'", "line 11: rooftops[0].holidays.subdivision: "
         "'O' is not a known part of CA; write one of \"ON\""),
        (SALES + "[rooftops.holidays]\ncountry = 'MC'\nsubdivision = 'X'", "line 11: rooftops[0].holidays.subdivision: "
         "'X' is not a known part of MC; leave subdivision out"),
        (SALES + US + DAY + "holiday = 'thanksgiving'\nhours = 'closed'", "line 12: "
         "rooftops[0].special_days[0].holiday: "
         "'thanksgiving' is not a public holiday of US; write one of \"Thanksgiving Day\""),
        (SALES + US + "subdivision = 'TN'\n" + DAY + "holiday = 'Juneteenth'\nhours = 'closed'", "line 13: "
         "rooftops[0].special_days[0].holiday: 'Juneteenth' is not a public holiday of US, TN; write one of "
         '"Juneteenth National Independence Day (observed)", "Juneteenth National Independence Day"'),
        (SALES + DAY + "holiday = 'Christmas Day'\nhours = 'closed'", "line 10: rooftops[0].special_days[0].holiday: "
         "needs to know whose holidays count; write [rooftops.holidays] with country = \"US\""),
        (SALES + "tuesday = '09:00-20:00'\n" + US + "hours = '20:00-10:00'", "line 12: rooftops[0].holidays.hours: the "
         "hours of 2020-01-20, '20:00-10:00', run into those of 2020-01-21, '09:00-20:00'; a span belongs to the day "
         "on which it begins"),
        # Bounds.
        ("closed_dates = [" + ", ".join(["'2026-12-24'"] * 401) + "]", "line 7: rooftops[0].closed_dates: has 401 "
         "entries; write at most 400"),
        (SALES + "".join(DAY + f"date = '20{10 + day // 28}-01-{day % 28 + 1:02}'\nhours = 'closed'\n"
         for day in range(101)), "line 9: rooftops[0].special_days: has 101 entries; write at most 100"),
    ],
)  # fmt: skip
def test_a_problem_names_its_line_and_key_and_says_what_to_do(added: str, problem: str) -> None:
    assert refused(added) == [problem]


def test_without_a_near_name_all_names_are_listed() -> None:
    (problem,) = refused(SALES + US + "subdivision = 'Tennessee'")
    assert problem.startswith(
        "line 11: rooftops[0].holidays.subdivision: 'Tennessee' is not a known part of US; write one of "
    )
    assert '"TN"' in problem
    assert problem.count('"') > 100


def test_every_problem_of_the_hours_is_reported_at_once() -> None:
    added = SALES + "[rooftops.holidays]\ncountry = 'XY'\n" + DAY + "hours = 'closed'\ndepartments = ['parts']"
    assert [problem.split(":")[0] for problem in refused(added)] == ["line 10", "line 11", "line 13"]


def _examples() -> list[tuple[str, list[list[str]]]]:
    """The settings of each example, and the rows below them."""
    found = re.findall(r"```toml\n(.*?)```\n\n(.*?)(?=\n\n|\Z)", DOCS.read_text("utf-8"), re.DOTALL)
    return [(toml, [row.strip("| ").split(" | ") for row in table.splitlines()[2:]]) for toml, table in found]


def _as_documented(dealer: DealerFile, department: str, at: str) -> str:
    zone = ZoneInfo("America/Chicago")
    now = datetime.strptime(at, "%A %Y-%m-%d %H:%M").replace(tzinfo=zone)
    assert f"{now:%A %Y-%m-%d %H:%M}" == at
    hours = current_or_next_span(department_hours(dealer.rooftops[0])[department].on, str(zone), now)
    assert hours is not None
    opens, closes = (moment.astimezone(zone) for moment in hours)
    is_open = opens <= now
    return f"{'open' if is_open else 'closed'} until {closes if is_open else opens:%A %Y-%m-%d %H:%M}"


@pytest.mark.parametrize(("toml", "rows"), _examples())
def test_the_examples_of_the_documentation_are_right(toml: str, rows: list[list[str]]) -> None:
    dealer = read_dealer_file(LEAST + toml)
    assert len(rows) >= 4
    assert [_as_documented(dealer, department, at) for department, at, _ in rows] == [told for *_, told in rows]


def test_there_are_three_examples() -> None:
    assert len(_examples()) == 3
