"""Makes the HTML of the console from its templates."""

import hashlib
import re
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dealer_agent.console.words import SAID
from dealer_agent.leads.us_formats import money
from dealer_agent.protocol.timestamps import zone_abbreviation

STATIC = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "htmx-4.0.1.min.js": "text/javascript; charset=utf-8",
}
"""The files of pages, by name."""


@cache
def static(name: str) -> bytes:
    """A file of pages."""
    return files(__package__).joinpath("static", name).read_bytes()


@cache
def version_of(name: str) -> str:
    """A part of the digest of a file, for its URL: a browser may keep it."""
    return hashlib.sha256(static(name)).hexdigest()[:12]


def moment(at: datetime | None) -> str:
    """A local time with its zone, to the minute."""
    return "" if at is None else f"{at:%a %Y-%m-%d %H:%M} {zone_abbreviation(at)}"


def words(value: Any) -> str:
    """A status or a kind as words."""
    return str(value).replace("_", " ")


def masked(text: str | None) -> str:
    """The first letter of each word of a name, so that a list discloses no customer."""
    return " ".join(f"{word[0]}." for word in re.findall(r"\w+", text or "")[:3]) or "-"


def browser(user_agent: str) -> str:
    """The name of a browser and its system, such as `Chrome on Windows`; the text itself if neither is known."""
    name = next((shown for part, shown in _BROWSERS.items() if part in user_agent), None)
    system = next((shown for part, shown in _SYSTEMS.items() if part in user_agent), None)
    return " on ".join(filter(None, (name, system))) or clipped(user_agent, 60) or "Unknown browser"


def clipped(value: Any, longest: int) -> str:
    """A text of a stranger, cut so that a page stays small."""
    text = str(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


# Most browsers also name others, so the order counts.
_BROWSERS = {"Edg": "Edge", "OPR/": "Opera", "Firefox": "Firefox", "Chrome": "Chrome", "Safari": "Safari"}
_SYSTEMS = {
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Android": "Android",
    "Windows": "Windows",
    "Mac OS X": "Mac",
    "Linux": "Linux",
}

_templates = Environment(
    loader=PackageLoader("dealer_agent.console"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {each.__name__: each for each in (money, moment, words, masked, browser, clipped)}
_templates.globals |= {"said_words": SAID, "version_of": version_of}


def render(template: str, **shown: object) -> str:
    """A page of HTML. The values are escaped."""
    return _templates.get_template(template).render(**shown)


def markup(svg: str) -> Markup:
    """An SVG element that this program has made: its texts are escaped."""
    return Markup(svg)  # noqa: S704 - made here
