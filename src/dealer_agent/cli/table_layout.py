"""How a table fits the width of a terminal. Pure.

A table that is too wide gets columns with several cells, one below the other. If that is not enough, the longest cells
are cut and end with an ellipsis. An id is never cut. A column with sentences is wrapped between words.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len

SENTENCE_LENGTH, SENTENCE_WORDS = 40, 6
"""A column has sentences if a cell has more characters than this, and at least so many words."""
NARROWEST, NARROWEST_LONG = 8, 24
MOST_STACKED = 4
"""The most cells one below the other."""
PADDING, DIVIDER = 2, 1
"""Characters beside a column, and between two."""


class Group(NamedTuple):
    """The cells of the columns with these numbers are one below the other. `wraps`: its text is wrapped, never cut."""

    members: tuple[int, ...]
    width: int
    wraps: bool


def lay_out(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[Group]:
    """The columns of a table that is at most `width` characters wide. With None, every column has its natural width."""
    natural = [max(map(cell_len, (title, *cells))) for title, *cells in zip(titles, *rows, strict=True)]
    ids = [title.endswith("Id") for title in titles]
    long = [any(map(_is_sentence, cells)) for cells in zip(*rows, strict=True)] or [False] * len(titles)
    if width is None:
        return [Group((number,), size, wraps=False) for number, size in enumerate(natural)]
    for stacked in range(1, MOST_STACKED + 1):
        groups = list(_groups(long, stacked))
        sizes = [max(natural[number] for number in members) for members in groups]
        least = [NARROWEST_LONG if long[members[0]] else size for members, size in zip(groups, sizes, strict=True)]
        if table_width(least) <= width:
            break
    else:
        whole = [max((natural[each] for each in members if ids[each]), default=NARROWEST) for members in groups]
        least = [min(size, narrow) for size, narrow in zip(least, whole, strict=True)]
    sizes = _shrunk([min(size, width) for size in sizes], least, width)
    return [Group(members, size, long[members[0]]) for members, size in zip(groups, sizes, strict=True)]


def table_width(sizes: Sequence[int]) -> int:
    """The width of a table with columns of these sizes."""
    return sum(sizes) + len(sizes) * PADDING + (len(sizes) - 1) * DIVIDER


def _is_sentence(text: str) -> bool:
    return len(text) > SENTENCE_LENGTH and len(text.split()) >= SENTENCE_WORDS


def _groups(long: Sequence[bool], stacked: int) -> Iterator[tuple[int, ...]]:
    """The numbers of the columns in groups of up to `stacked`. A long column is alone."""
    group: tuple[int, ...] = ()
    for number, is_long in enumerate(long):
        if group and (is_long or len(group) == stacked):
            yield group
            group = ()
        if is_long:
            yield (number,)
        else:
            group = (*group, number)
    if group:
        yield group


def _shrunk(sizes: list[int], least: Sequence[int], width: int) -> list[int]:
    """The sizes, with the widest columns made narrower until the table fits, but none narrower than `least`."""
    while table_width(sizes) > width:
        widest = max(range(len(sizes)), key=lambda number: (sizes[number] > least[number], sizes[number]))
        if sizes[widest] <= least[widest]:
            break
        sizes[widest] -= 1
    return sizes
