"""The type of a mail, and the layout of its text. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from dealer_agent.leads.icalendar import Method
from dealer_agent.leads.plain_text import wrapped


class CalendarPart(NamedTuple):
    """An iCalendar file in a mail, with its METHOD."""

    name: str
    method: Method
    content: bytes


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail without its addresses. The subject has no control character. `text` ends with a newline."""

    subject: str
    text: str
    calendars: tuple[CalendarPart, ...] = ()


def section(title: str, lines: Iterable[str]) -> list[str]:
    """A title with indented lines below it."""
    return [*wrapped(title), *(piece for line in lines for piece in wrapped(f"  {line}", hanging="    "))]


def joined(sections: Iterable[list[str]]) -> str:
    """The sections with empty lines between them. An empty section is left out."""
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"
