"""Renders the texts for people in `templates`: mails, and the comments of ADF. Pure."""

import re
from collections.abc import Collection
from functools import cache
from itertools import chain
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import UNSET

from dealer_agent.leads import wording
from dealer_agent.leads.consent import CHANNELS
from dealer_agent.leads.plain_text import one_line, quoted, short, wrapped
from dealer_agent.leads.received_lead import names_a_vehicle
from dealer_agent.leads.us_formats import join_words, money, period_words, phone_number, time_words
from dealer_agent.protocol.vehicle import VehicleMembers

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
    """Mileage, colours, body and transmission of a vehicle in one line."""
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
    """The templates of the texts, with their filters and tests."""
    # The texts are not HTML. To look for a changed file takes longer than most texts.
    loader = PackageLoader("dealer_agent.leads")
    environment = Environment(loader=loader, auto_reload=False, undefined=StrictUndefined)  # noqa: S701
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
