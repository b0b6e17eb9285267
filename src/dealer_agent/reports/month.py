"""Months of a dealer's time zone. Pure."""

import calendar
import re
from datetime import date, datetime, time
from typing import NamedTuple, Self
from zoneinfo import ZoneInfo

_TEXT = re.compile(r"(\d{4})-(\d{2})", re.ASCII)


class Month(NamedTuple):
    """A month of the calendar."""

    year: int
    number: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The month of a text such as `2026-10`. Raises ValueError."""
        match = _TEXT.fullmatch(text)
        if match is None or not 1 <= int(match[2]) <= 12 or int(match[1]) < 2000:
            raise ValueError(f"'{text}' is not a month; write it as 2026-10")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of(cls, moment: datetime, zone: str) -> Self:
        """The month of a moment in a time zone."""
        local = moment.astimezone(ZoneInfo(zone))
        return cls(local.year, local.month)

    def __str__(self) -> str:
        return f"{self.year}-{self.number:02}"

    @property
    def name(self) -> str:
        """`October 2026`."""
        return f"{calendar.month_name[self.number]} {self.year}"

    @property
    def previous(self) -> "Month":
        """The month before."""
        return Month(self.year - 1, 12) if self.number == 1 else Month(self.year, self.number - 1)

    @property
    def next(self) -> "Month":
        """The month after."""
        return Month(self.year + 1, 1) if self.number == 12 else Month(self.year, self.number + 1)

    @property
    def first_day(self) -> date:
        """The first day."""
        return date(self.year, self.number, 1)

    @property
    def last_day(self) -> date:
        """The last day."""
        return date(self.year, self.number, calendar.monthrange(self.year, self.number)[1])

    def start(self, zone: str) -> datetime:
        """The moment at which the month begins in a time zone."""
        return datetime.combine(self.first_day, time(), ZoneInfo(zone))

    def end(self, zone: str) -> datetime:
        """The moment at which the next month begins."""
        return self.next.start(zone)
