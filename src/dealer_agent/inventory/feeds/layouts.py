"""The layouts of inventory feeds: which columns of a file give which member of a unit. Pure data.

The layouts of known systems are in `layouts.toml`. The service's own layout and the generic one derive from the table
of vehicle fields. Case, spaces and punctuation of column names are ignored. In JSON a column is the path of a
member: `offers.price`, or `images.uri` for the `uri` of every image.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any, Literal

import msgspec

from dealer_agent.inventory.vocabulary import fold
from dealer_agent.protocol.vehicle import FIELDS

Kind = Literal["delimited", "json"]


@dataclass(frozen=True)
class Layout:
    """How one system writes its export.

    `columns` are the columns of each member, best first. The columns of a `joined` member are joined with spaces.
    `patterns` are regular expressions of column names (`image[0].url`), each with its member, for columns that no name
    fits. `ignored` columns mean something else in this layout than their name says. `header` are the columns of a file
    without a header. `fuel_inside_engine`: the text of the engine also gives the fuel. `passes_extras`: unknown members
    of JSON are passed through to buyers.
    """

    name: str
    kinds: tuple[Kind, ...]
    columns: Mapping[str, tuple[str, ...]]
    joined: frozenset[str] = frozenset()
    patterns: tuple[tuple[str, str], ...] = ()
    ignored: frozenset[str] = frozenset()
    header: tuple[str, ...] = ()
    fuel_inside_engine: bool = False
    passes_extras: bool = False

    @cached_property
    def folded(self) -> Mapping[str, tuple[str, ...]]:
        """`columns` with folded names, which are compared."""
        return {name: tuple(map(fold, columns)) for name, columns in self.columns.items()}


FEEDS = {row.feed.member or name: row.feed for name, row in FIELDS.items() if row.feed}
"""Member of a unit to how a feed gives it."""


def _names(columns: str) -> tuple[str, ...]:
    return tuple(columns.split(" | "))


CANONICAL = Layout(
    "canonical",
    ("delimited", "json"),
    {member: _names(feed.own_columns or member) for member, feed in FEEDS.items()},
    passes_extras=True,
)

GENERIC = Layout(
    "generic",
    ("delimited", "json"),
    {
        name: _names(columns)
        for member, feed in FEEDS.items()
        for name, columns in ((member, feed.columns), *(feed.more_columns or {}).items())
        if columns
    },
    patterns=((r"(?:image|photo|picture)(?:url|link)?\d+(?:url)?", "photos"),),
)
"""The names that systems commonly use. All layouts but `canonical` fall back on them for columns they do not name."""


def _layouts() -> dict[str, Layout]:
    text = files("dealer_agent.inventory.feeds").joinpath("layouts.toml").read_text("utf-8")
    tables = msgspec.toml.decode(text, type=dict[str, dict[str, Any]])
    known = (msgspec.convert({"name": name, **table}, Layout) for name, table in tables.items())
    return {layout.name: layout for layout in (CANONICAL, *known, GENERIC)}


LAYOUTS: Mapping[str, Layout] = _layouts()
"""Layouts by name. Of two that fit a file equally, the earlier one is used."""

CARSFORSALE = LAYOUTS["carsforsale"]

_WITHHELD = re.compile(
    r"cost|invoice|holdback|bookvalue|blackbook|kbb|kelley|^nada|jdpower|wholesale|^mmr|^acv|floorplan|profit|margin|dealernet"
    r"|tradeinvalue|actualcashvalue|^bookprice|^book$|^pack$"
)


def is_withheld(column: str) -> bool:
    """Whether a column, or the path of a JSON member, shows what a unit cost or may earn. It is never read."""
    return _WITHHELD.search(fold(column)) is not None
