"""Which column of a file tells which field, and which layout a file has. Pure functions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dealer_agent.inventory.feeds.feed import FeedError
from dealer_agent.inventory.feeds.layouts import CANONICAL, GENERIC, LAYOUTS, Kind, Layout, is_withheld
from dealer_agent.inventory.vocabulary import fold

_MORE = 1.5
"""A named layout stands unless the generic one understands this many times the columns that it names itself."""


@dataclass(frozen=True)
class Columns:
    """The columns of a file as a layout reads them: field to column indices, best first."""

    fields: Mapping[str, tuple[int, ...]]
    not_understood: tuple[str, ...]
    withheld: tuple[str, ...]

    @property
    def understood(self) -> int:
        """How many columns are read."""
        return len({index for indices in self.fields.values() for index in indices})

    @property
    def names_units(self) -> bool:
        """Whether a unit can be told from another."""
        return "vin" in self.fields or "stock" in self.fields


def _sources(layout: Layout) -> tuple[Layout, ...]:
    """The layout and what it falls back on; the canonical one is exact."""
    if layout is CANONICAL:
        return (CANONICAL,)
    return (GENERIC, CANONICAL) if layout is GENERIC else (layout, GENERIC)


def _claims(source: Layout, by_name: Mapping[str, list[int]]) -> Iterator[tuple[str, list[int]]]:
    """The columns that a layout reads for each field, best first, by name and then by pattern."""
    for field, columns in source.folded.items():
        yield field, [index for name in columns for index in by_name.get(name, ())]
    for pattern, field in source.patterns:
        yield field, sorted(i for name, found in by_name.items() if re.fullmatch(pattern, name) for i in found)


def understand(names: Sequence[str], layout: Layout) -> Columns:
    """Which of these columns `layout` reads. Withheld columns are set aside before anything else looks at them."""
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
            # What the layout joins, a fallback must not lengthen.
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


def _own_names(layout: Layout) -> frozenset[str]:
    return frozenset(name for columns in layout.folded.values() for name in columns)


_NAMED = tuple(layout for layout in LAYOUTS.values() if layout is not GENERIC)
_OWN = {layout.name: _own_names(layout) for layout in _NAMED}


def _likeness(folded: frozenset[str], layout: Layout, kind: Kind) -> float:
    """How much the columns speak for a layout: each counts the more, the fewer layouts know its name."""
    rivals = [other for other in _NAMED if kind in other.kinds]
    named = sum(1 / sum(name in _OWN[other.name] for other in rivals) for name in folded & _OWN[layout.name])
    return named + any(_fits_pattern(name, layout) for name in folded)


def _fits_pattern(name: str, layout: Layout) -> bool:
    return any(re.fullmatch(pattern, name) for pattern, _ in layout.patterns)


def recognise(names: Sequence[str], kind: Kind) -> Layout:
    """The layout that these columns speak for most; the generic one where no named layout reads enough of them."""
    folded = frozenset(fold(name) for name in names if not is_withheld(name))
    candidates = [layout for layout in _NAMED if kind in layout.kinds]
    best = max(candidates, key=lambda layout: _likeness(folded, layout, kind))
    named = sum(name in _OWN[best.name] or _fits_pattern(name, best) for name in folded)
    generic = understand(names, GENERIC)
    if generic.names_units and (not understand(names, best).names_units or generic.understood > _MORE * named):
        return GENERIC
    return best


def layout_of_name(name: str) -> Layout:
    """The layout of that name, in any case; FeedError names the choices."""
    layout = LAYOUTS.get(name.strip().casefold())
    if layout is None:
        raise FeedError(f"There is no layout named {name[:60]!r}. The layouts are: {', '.join(LAYOUTS)}.")
    return layout


def named_layout(name: str, kind: Kind) -> Layout:
    """The layout of that name, for a file of this kind; FeedError names the choices."""
    layout = layout_of_name(name)
    if kind not in layout.kinds:
        is_now = "JSON" if kind == "json" else "a delimited file"
        fitting = ", ".join(other.name for other in LAYOUTS.values() if kind in other.kinds)
        raise FeedError(f"This file is {is_now}, and the layout {layout.name} is not. For such a file: {fitting}.")
    return layout
