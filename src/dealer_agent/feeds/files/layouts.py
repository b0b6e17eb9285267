"""The layouts of inventory feeds: which columns of a file give which member of a unit. Pure.

The layouts of known systems are in `layouts.toml`. The service's own layout and the generic one derive from the table
of vehicle fields. Case, spaces and punctuation of column names are ignored. In JSON a column is the path of a
member: `offers.price`, or `images.uri` for the `uri` of every image.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from typing import Any, Final, Literal

import msgspec

from dealer_agent.feeds.files.feed import FeedError
from dealer_agent.inventory.canonical_words.text import fold
from dealer_agent.protocol.vehicle import FIELDS

Kind = Literal["delimited", "json"]


@dataclass(frozen=True)
class Layout:
    """How one system writes its export.

    `columns` are the columns of each member, best first. The columns of a `joined` member are joined with spaces.
    `patterns` are regular expressions of column names (`image[0].url`), each with its member, for columns that no name
    fits. `ignored` columns mean something else in this layout than their name says. `header` are the columns of a file
    without a header. `fuel_inside_engine`: the text of the engine also gives the fuel. `passes_extras`: unknown members
    of JSON are passed through to buyers. `status_words` are the dealer's own words of `status`, folded.
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
    status_words: Mapping[str, str] = dataclasses.field(default_factory=dict)

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
    text = files("dealer_agent.feeds.files").joinpath("layouts.toml").read_text("utf-8")
    tables = msgspec.toml.decode(text, type=dict[str, dict[str, Any]])
    named = (msgspec.convert({"name": name, **table}, Layout) for name, table in tables.items())
    return {layout.name: layout for layout in (CANONICAL, *named, GENERIC)}


LAYOUTS: Mapping[str, Layout] = _layouts()
"""Layouts by name. Of two that fit a file equally, the earlier one is used."""

LAYOUT_NAMES = tuple(LAYOUTS)
"""The names that `read_feed(layout=...)` takes."""

CARSFORSALE = LAYOUTS["carsforsale"]

_WITHHELD = re.compile(
    r"cost|invoice|holdback|bookvalue|blackbook|kbb|kelley|^nada|jdpower|wholesale|^mmr|^acv|floorplan|profit|margin|dealernet"
    r"|tradeinvalue|actualcashvalue|^bookprice|^book$|^pack$"
)


def is_withheld(column: str) -> bool:
    """Whether a column, or the path of a JSON member, shows what a unit cost or may earn. It is never read."""
    return _WITHHELD.search(fold(column)) is not None


def with_columns(layout: Layout, columns: Mapping[str, str]) -> Layout:
    """The layout with further columns, each with the member of the canonical layout that it gives.

    A column that is named here gives nothing else.
    """
    if not columns:
        return layout
    named: dict[str, list[str]] = {}
    for column, member in columns.items():
        named.setdefault(member, []).append(column)
    folded = frozenset(map(fold, columns))
    kept = {
        member: tuple(name for name in names if fold(name) not in folded) for member, names in layout.columns.items()
    }
    return replace(
        layout,
        columns={**kept, **{member: (*names, *kept.get(member, ())) for member, names in named.items()}},
        ignored=layout.ignored - folded,
    )


def canonical_names(names: Sequence[str], columns: Mapping[str, str]) -> list[str]:
    """The names of a file's columns, with the names of the canonical layout for those of `columns`."""
    member_of = {fold(column): member for column, member in columns.items()}
    return [member_of.get(fold(name), name) for name in names]


_MORE = 1.5
"""The generic layout is used if it understands this many times the columns that the best named layout names."""


_OF_A_UNIT: Final = ("vin", "stock")
"""The fields that identify a unit."""
_UNIT_COLUMNS: Final = frozenset(
    name for layout in LAYOUTS.values() for field in _OF_A_UNIT for name in layout.folded.get(field, ())
)


def may_be_header(names: Sequence[str], columns: Mapping[str, str]) -> bool:
    """Whether any layout, with the columns of `with_columns`, can find units below these names.

    `understand` decides. This costs a twentieth of it, and most rows that are tried are not headers.
    """
    own = (fold(column) for column, member in columns.items() if member in _OF_A_UNIT)
    return not _UNIT_COLUMNS.union(own).isdisjoint(map(fold, names))


@dataclass(frozen=True)
class Columns:
    """The columns of a file, as a layout reads them. `fields` has the column numbers of each field, best first."""

    fields: Mapping[str, tuple[int, ...]]
    not_understood: tuple[str, ...]
    withheld: tuple[str, ...]

    @property
    def understood(self) -> int:
        """The number of columns that are read."""
        return len({index for indices in self.fields.values() for index in indices})

    @property
    def names_units(self) -> bool:
        """Whether a column identifies units."""
        return not self.fields.keys().isdisjoint(_OF_A_UNIT)


def _sources(layout: Layout) -> tuple[Layout, ...]:
    # Compared by name: `with_columns` makes other layouts of them.
    if layout.name == CANONICAL.name:
        return (layout,)
    return (layout, CANONICAL if layout.name == GENERIC.name else GENERIC)


def _claims(source: Layout, by_name: Mapping[str, list[int]]) -> Iterator[tuple[str, list[int]]]:
    for field, columns in source.folded.items():
        yield field, [index for name in columns for index in by_name.get(name, ())]
    for pattern, field in source.patterns:
        yield field, sorted(i for name, indexes in by_name.items() if re.fullmatch(pattern, name) for i in indexes)


def understand(names: Sequence[str], layout: Layout) -> Columns:
    """How `layout` reads these columns. Withheld columns are left out first."""
    withheld = dict.fromkeys(index for index, name in enumerate(names) if is_withheld(name))
    by_name: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        folded = fold(name)
        if folded and index not in withheld and folded not in layout.ignored:
            by_name.setdefault(folded, []).append(index)
    fields: dict[str, tuple[int, ...]] = {}
    taken: set[int] = set()
    for source in _sources(layout):
        claimed: set[int] = set()
        for field, indices in _claims(source, by_name):
            free = [index for index in indices if index not in taken]
            # A fallback must not add to a joined text.
            if free and not (field in fields and field in layout.joined and source is not layout):
                fields[field] = tuple(dict.fromkeys((*fields.get(field, ()), *free)))
                claimed.update(free)
        taken |= claimed
    return Columns(
        fields=fields,
        not_understood=tuple(
            dict.fromkeys(name for i, name in enumerate(names) if name.strip() and i not in taken and i not in withheld)
        ),
        withheld=tuple(dict.fromkeys(names[index] for index in withheld)),
    )


_NAMED = tuple(layout for layout in LAYOUTS.values() if layout is not GENERIC)
_NAMES_OF = {layout.name: frozenset(name for names in layout.folded.values() for name in names) for layout in _NAMED}
"""By the name of a layout, the folded names of all columns that it has."""


def _likeness(folded: frozenset[str], layout: Layout, kind: Kind) -> float:
    """How strongly the columns point to a layout.

    A name that n layouts have counts 1/n. Names that fit a pattern count 1 together.
    """
    rivals = [other for other in _NAMED if kind in other.kinds]
    named = sum(1 / sum(name in _NAMES_OF[other.name] for other in rivals) for name in folded & _NAMES_OF[layout.name])
    return named + any(_fits_pattern(name, layout) for name in folded)


def _fits_pattern(name: str, layout: Layout) -> bool:
    return any(re.fullmatch(pattern, name) for pattern, _ in layout.patterns)


def layout_of(names: Sequence[str], kind: Kind, layout: Layout | None, columns: Mapping[str, str]) -> Layout:
    """The given layout, else the one that fits these columns, with the further columns of `with_columns`."""
    return with_columns(layout or recognise(canonical_names(names, columns), kind), columns)


def recognise(names: Sequence[str], kind: Kind) -> Layout:
    """The layout that fits these columns best. The generic layout if no named layout reads enough of them."""
    folded = frozenset(fold(name) for name in names if not is_withheld(name))
    candidates = [layout for layout in _NAMED if kind in layout.kinds]
    best = max(candidates, key=lambda layout: _likeness(folded, layout, kind))
    named = sum(name in _NAMES_OF[best.name] or _fits_pattern(name, best) for name in folded)
    generic = understand(names, GENERIC)
    if generic.names_units and (not understand(names, best).names_units or generic.understood > _MORE * named):
        return GENERIC
    return best


def named_layout(name: str, kind: Kind | None = None) -> Layout:
    """The layout with this name (case-insensitive). Raises FeedError if it is unknown or not for this kind of file."""
    layout = LAYOUTS.get(name.strip().casefold())
    if layout is None:
        raise FeedError(f"There is no layout named {name[:60]!r}. The layouts are: {', '.join(LAYOUTS)}.")
    if kind is not None and kind not in layout.kinds:
        is_now = "JSON" if kind == "json" else "a delimited file"
        fitting = ", ".join(other.name for other in LAYOUTS.values() if kind in other.kinds)
        raise FeedError(
            f"This file is {is_now}, and the layout {layout.name} is not. Layouts for such a file: {fitting}."
        )
    return layout
