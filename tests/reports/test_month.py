"""Months begin and end in the dealer's time zone."""

from datetime import UTC, date, datetime

import pytest

from dealer_agent.reports.month import Month
from dealer_agent.reports.monthly_mail import due_month

pytestmark = pytest.mark.outside_protocol("the monthly report")

CHICAGO, TOKYO = "America/Chicago", "Asia/Tokyo"


@pytest.mark.parametrize(
    ("text", "name", "previous", "days"),
    [
        ("2026-10", "October 2026", "2026-09", 31),
        ("2026-01", "January 2026", "2025-12", 31),
        ("2028-02", "February 2028", "2028-01", 29),
    ],
)
def test_a_month_is_read_from_its_text(text: str, name: str, previous: str, days: int) -> None:
    month = Month.parse(text)
    assert (str(month), month.name, str(month.previous), month.last_day.day) == (text, name, previous, days)
    assert month.previous.next == month
    assert month.first_day == date(month.year, month.number, 1)


@pytest.mark.parametrize(
    "text", ["2026", "2026-13", "2026-00", "26-10", "2026-10-01", "0026-10", "", "october", "२०२६-१०"]
)
def test_a_text_that_is_not_a_month_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 2026-10"):
        Month.parse(text)


def test_a_month_has_the_length_of_its_zone() -> None:
    march = Month(2026, 3)
    assert march.start(CHICAGO) == datetime(2026, 3, 1, 6, tzinfo=UTC)
    assert march.end(CHICAGO) == datetime(2026, 4, 1, 5, tzinfo=UTC), "summer time began"


@pytest.mark.parametrize(
    ("now", "zone", "month"),
    [
        (datetime(2026, 11, 1, 10, 59, tzinfo=UTC), CHICAGO, "2026-09"),
        (datetime(2026, 11, 1, 12, tzinfo=UTC), CHICAGO, "2026-10"),
        (datetime(2026, 11, 30, 12, tzinfo=UTC), CHICAGO, "2026-10"),
        (datetime(2026, 10, 31, 20, 59, tzinfo=UTC), TOKYO, "2026-09"),
        (datetime(2026, 10, 31, 21, tzinfo=UTC), TOKYO, "2026-10"),
    ],
)
def test_the_report_is_due_some_hours_after_the_month(now: datetime, zone: str, month: str) -> None:
    assert str(due_month(now, zone)) == month
