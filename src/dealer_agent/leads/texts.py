"""Makes text from outside safe for documents, and renders the texts for people in `templates`. Pure.

A character that XML 1.0 cannot hold (a control character, a lone surrogate, U+FFFE) becomes U+FFFD, so that the reader
sees that a character is missing. All other characters stay, emoji and right-to-left marks included.
"""

import re
import unicodedata
from collections.abc import Collection
from functools import cache
from itertools import chain
from textwrap import wrap
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import UNSET

from dealer_agent.leads import wording
from dealer_agent.leads.consent import CHANNELS
from dealer_agent.leads.received_lead import names_a_vehicle
from dealer_agent.leads.us_formats import join_words, money, period_words, phone_number, time_words
from dealer_agent.protocol.vehicle import VehicleMembers

WIDTH = 76
"""Columns of a plain-text mail."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_INVALID = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
# Bidirectional overrides and isolates: in a name they would reverse the words around it.
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    """The text on one line, with single spaces. Empty if no character is visible."""
    line = _INVALID.sub(REPLACEMENT, " ".join(text.split()))
    return line if any(map(_is_visible, line)) else ""


def lines(text: str) -> list[str]:
    """The lines of a text, without trailing white space and without empty lines at the start and the end."""
    cleaned = "\n".join(_INVALID.sub(REPLACEMENT, line).rstrip() for line in text.splitlines()).strip("\n")
    return cleaned.split("\n") if cleaned else []


def short(text: str, most: int = 200) -> str:
    """One line of at most `most` characters, cut with an ellipsis, without characters that change the direction."""
    line = one_line(_DIRECTIONS.sub("", text))
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def quoted(text: str) -> list[str]:
    """The sender's text as wrapped lines of a mail. Each line starts with `> `."""
    return [
        f"> {piece}".rstrip() for line in lines(_DIRECTIONS.sub("", text)) for piece in wrapped(line, WIDTH - 2) or [""]
    ]


def wrapped(text: str, width: int = WIDTH, hanging: str = "") -> list[str]:
    """One paragraph as lines. A longer word is not split. `hanging` indents all lines but the first."""
    return wrap(text, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def _is_visible(character: str) -> bool:
    # Categories C (control, format, unassigned) and Z (space) are invisible. A character that is newer than this
    # Unicode database is unassigned here (Cn) and counts as visible.
    category = unicodedata.category(character)
    return category == "Cn" or category[0] not in "CZ"


MOST_FACTS = 20
"""The most facts from a described vehicle in a mail. ADF and JSON have all of them."""


MOST_TIMES = 10
"""The most requested windows that are listed."""


def render_paragraphs(template: str, **facts: Any) -> str:
    """A text with at most one empty line between two lines. It ends with a newline."""
    return re.sub(r"\n{3,}", "\n\n", _environment().get_template(template).render(facts)).strip("\n") + "\n"


def render_lines(template: str, **facts: Any) -> list[str]:
    """The lines of a text that are not empty."""
    return filled_lines(_environment().get_template(template).render(facts))


def filled_lines(text: str) -> list[str]:
    """The lines of a text that are not empty."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def paragraph(text: str, hanging: str = "") -> str:
    """The words of a text as one wrapped paragraph."""
    return "\n".join(wrapped(" ".join(text.split()), hanging=hanging))


def _indented(text: str) -> str:
    return "\n".join(chain.from_iterable(wrapped(f"  {line}", hanging="    ") for line in filled_lines(text)))


def _channels(channels: Collection[str], conjunction: str) -> str:
    return join_words([words.prose for channel, words in CHANNELS.items() if channel in channels], conjunction)


def _numbers(vehicle: VehicleMembers) -> str:
    known = (("Stock", vehicle.stock), ("VIN", vehicle.vin))
    return ", ".join(f"{name} {number}" for name, text in known if text and (number := short(text, 60)))


def _appearance(vehicle: VehicleMembers) -> str:
    parts = [] if vehicle.mileage is UNSET else [f"{vehicle.mileage:,} miles"]
    for text, suffix in (
        (vehicle.exterior_color, " outside"),
        (vehicle.interior_color, " inside"),
        (vehicle.body, ""),
        (vehicle.transmission, " transmission"),
    ):
        if text and (words := short(text.replace("_", " "), 60)):
            parts.append(f"{words}{suffix}")
    return ", ".join(parts)


def _first_facts(facts: list[str]) -> str:
    more = len(facts) - MOST_FACTS
    return "\n".join([*map(short, facts[:MOST_FACTS]), *([f"... and {more} more"] if more > 0 else [])])


@cache
def _environment() -> Environment:
    # The texts are no HTML.
    environment = Environment(loader=PackageLoader("dealer_agent.leads"), undefined=StrictUndefined)  # noqa: S701
    environment.tests["known"] = lambda value: value is not UNSET
    environment.filters |= {
        "paragraph": paragraph,
        "indented": _indented,
        "lines": filled_lines,
        "channels": _channels,
        "one_line": one_line,
        "hanging": lambda text: "\n".join(wrapped(text, hanging=" " * 10)),
        "quoted": lambda text: "\n".join(quoted(text)),
        "short": short,
        "first_facts": _first_facts,
        "money": money,
        "phone_number": phone_number,
        "names_a_vehicle": names_a_vehicle,
        "vehicle_words": wording.vehicle_words,
    }
    environment.globals |= {
        "wording": wording,
        "most_times": MOST_TIMES,
        "numbers": _numbers,
        "appearance": _appearance,
        "time_words": time_words,
        "period_words": period_words,
    }
    return environment
