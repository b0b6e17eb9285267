"""Tables: a result of a command for people and as JSON, and how a table fits the width of a terminal.

A table that is too wide gets columns with several cells, one below the other. If that is not enough, the longest cells
are cut and end with an ellipsis. An id is never cut. A column with sentences is wrapped between words.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple, Self

from rich import table as rich_table
from rich.cells import cell_len
from rich.text import Text

from dealer_agent.cli.terminal import Cell, cell_text, minute, out, pasted, plain, terminal_width

SENTENCE_LENGTH, SENTENCE_WORDS = 40, 6
"""A column has sentences if a cell has more characters than this, and at least so many words."""
NARROWEST, NARROWEST_LONG = 8, 24
MOST_STACKED = 4
"""The most cells one below the other."""
PADDING, DIVIDER = 2, 1
"""Characters beside a column, and between two."""


Columns = Mapping[str, str | Callable[[Any], Any]]
"""The columns of a table of records: an attribute of a record, or a function of it, by title."""


@dataclass(frozen=True)
class Table:
    """A table: one row is one line, unless a terminal is too narrow. `empty` replaces a table without rows.

    A time is shown in its own zone, as `time` formats it, with the zone's abbreviation. `notes` are lines below the
    table. The JSON document is an array of objects with a member for each column; those of `only_json` have no column
    for people, and are the last cells of a row.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    empty: str = ""
    time: Callable[[datetime], str] = minute
    notes: Sequence[str] = ()
    only_json: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        title: str,
        columns: Columns,
        records: Iterable[Any],
        local: Callable[[datetime], datetime | None] = lambda at: at,
        **more: Any,
    ) -> Self:
        """A table of records, with times in the zone that `local` chooses."""
        readers = [attrgetter(column) if isinstance(column, str) else column for column in columns.values()]
        read = [[reader(record) for reader in readers] for record in records]
        rows = [[local(cell) if isinstance(cell, datetime) else cell for cell in row] for row in read]
        return cls(title, tuple(columns), rows, **more)

    @property
    def facts(self) -> dict[str, Any]:
        """The first row, by the names of the columns."""
        return dict(zip(self.columns, self.rows[0], strict=True))

    @property
    def document(self) -> list[dict[str, Any]]:
        """The rows as JSON objects."""
        names = [column.replace(" ", "_").lower() for column in (*self.columns, *self.only_json)]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def show(self) -> None:
        """Prints the table. On a terminal, it fits its width. Cells are not markup."""
        if self.rows or not self.empty:
            self._show_rows()
        else:
            out.print(pasted(self.empty))
        for note in self.notes:
            out.print(plain(pasted(note)))

    def _show_rows(self) -> None:
        """Prints the rows on a terminal. Columns that do not fit are stacked in one column."""
        rows: list[Sequence[Cell]] = [row[: len(self.columns)] for row in self.rows]
        texts = [[" ".join(plain(cell_text(cell, self.time)).splitlines()) for cell in row] for row in rows]
        groups = lay_out(self.columns, texts, terminal_width())
        stacked = any(len(group.members) > 1 for group in groups)
        shown = rich_table.Table(header_style="bold", show_edge=False, show_lines=stacked)
        for group in groups:
            is_number = not stacked and rows and isinstance(rows[0][group.members[0]], int)
            shown.add_column(
                "\n".join(self.columns[number] for number in group.members),
                justify="right" if is_number else "left",
                width=group.width,
                no_wrap=not group.wraps,
                overflow="fold" if group.wraps else "ellipsis",
            )
        for row in texts:
            shown.add_row(*(Text("\n".join(row[number] for number in group.members)) for group in groups))
        out.print(Text(self.title, style="bold"))
        out.print(shown, width=table_width([group.width for group in groups]), soft_wrap=False)


class ColumnGroup(NamedTuple):
    """The cells of the columns with these numbers are one below the other. `wraps`: its text is wrapped, never cut."""

    members: tuple[int, ...]
    width: int
    wraps: bool


def lay_out(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[ColumnGroup]:
    """The columns of a table that is at most `width` characters wide. With None, every column has its natural width."""
    natural = [max(map(cell_len, (title, *cells))) for title, *cells in zip(titles, *rows, strict=True)]
    ids = [title.endswith("Id") for title in titles]
    long = [any(map(_is_sentence, cells)) for cells in zip(*rows, strict=True)] or [False] * len(titles)
    if width is None:
        return [ColumnGroup((number,), size, wraps=False) for number, size in enumerate(natural)]
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
    return [ColumnGroup(members, size, long[members[0]]) for members, size in zip(groups, sizes, strict=True)]


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
