"""Rows of comma- or TAB-separated text: the delimiter, the quotes, the header. Pure functions."""

import csv
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, islice
from typing import NamedTuple, TextIO

from dealer_agent.inventory.feeds.columns import Columns, named_layout, recognise, understand
from dealer_agent.inventory.feeds.decoding import open_text
from dealer_agent.inventory.feeds.feed import FeedError
from dealer_agent.inventory.feeds.layouts import CARSFORSALE, Layout
from dealer_agent.inventory.feeds.limits import MOST_CELL, MOST_COLUMNS, MOST_LINE, MOST_NAME, MOST_ROWS

_DELIMITERS = ",\t;|"
_VIN = re.compile(r"[A-HJ-NPR-Z0-9]{17}", re.IGNORECASE)
_RUNAWAY_LINES = 3
"""A cell with more lines than this that look like rows begins with a quotation mark that is not closed."""
_AFTER_THE_END = "end"


class Row(NamedTuple):
    """A row's first line, its cells, and how many lines it takes; `error` says why the row cannot be read."""

    line: int
    cells: list[str]
    lines: int = 1
    error: str | None = None


@dataclass(frozen=True)
class Table:
    """A delimited file with its columns understood; `rows` are those below the header."""

    layout: Layout
    delimiter: str
    columns: Columns
    width: int
    rows: Iterator[Row]


def _unquoted(cell: str) -> str:
    """A cell of a file in which inch marks are literal, without the quotes that enclose it as a whole."""
    if len(cell) > 1 and cell[0] == cell[-1] == '"':
        inner = cell[1:-1].replace('""', "\0")
        if '"' not in inner:
            return inner.replace("\0", '"')
    return cell


class _Lines:
    """The lines of a text, then one extra line, with which `have_ended` is true. It shows whether a cell is still open.

    Raises FeedError for a line that is too long.
    """

    def __init__(self, text: TextIO) -> None:
        self._text = text
        self._number = 0
        self.have_ended = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self._number += 1
        line = self._text.readline(MOST_LINE + 1)
        if len(line) > MOST_LINE:
            raise FeedError(
                f"Line {self._number} has more than {MOST_LINE:,} characters. Export the inventory with one unit a"
                " line."
            )
        if line:
            return line
        if self.have_ended:
            raise StopIteration
        self.have_ended = True
        return _AFTER_THE_END


def _unclosed(line: int) -> FeedError:
    return FeedError(
        f"A quotation mark in the row at line {line} is not closed: the row swallows the rows after it. Close or"
        " remove the quotation mark there, or export the inventory again."
    )


def _rows(text: TextIO, delimiter: str, *, literal: bool) -> Iterator[Row]:
    """The rows that are not blank. Where quotes are `literal` they enclose a cell only when they enclose all of it.

    Raises FeedError for a quotation mark that is not closed, for a line that is too long, and for too many rows.
    """
    lines = _Lines(text)
    reader = csv.reader(
        lines,
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if literal else csv.QUOTE_MINIMAL,
        skipinitialspace=delimiter == ",",
    )
    for number in count():
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except csv.Error:
            if reader.line_num > line:
                raise _unclosed(line) from None
            yield Row(line, [], error=f"A cell has more than {MOST_CELL:,} characters; is a quotation mark missing?")
            continue
        if lines.have_ended:
            if cells == [_AFTER_THE_END]:
                return
            raise _unclosed(line)
        if number > MOST_ROWS:
            raise FeedError(f"A file may have at most {MOST_ROWS:,} rows. Export the units for sale only.")
        if any(cell.strip() for cell in cells):
            yield Row(line, [_unquoted(cell) for cell in cells] if literal else cells, reader.line_num - line + 1)


def _has_literal_quotes(head: str, delimiter: str) -> bool:
    """In TAB files quotes are inch marks, unless the header itself is quoted."""
    return delimiter == "\t" and not head.lstrip().startswith('"')


def _first_rows(head: str, delimiter: str, most: int) -> list[list[str]]:
    """The rows up to the first that cannot be read: `head` may end inside a row, and `delimiter` is a guess."""
    rows = _rows(io.StringIO(head, newline=""), delimiter, literal=_has_literal_quotes(head, delimiter))
    found: list[list[str]] = []
    with suppress(FeedError):
        found.extend(row.cells for row in islice(rows, most))
    return found


def _is_carsforsale(rows: list[list[str]]) -> bool:
    """Whether these are rows of CarsForSale's file, which has no header: VIN and year stand where it puts them."""
    return bool(rows) and all(
        len(CARSFORSALE.header) - 2 <= len(row) <= len(CARSFORSALE.header) + 2
        and (_VIN.fullmatch(row[2].strip()) or row[3].strip())
        and re.fullmatch(r"(?:19|20)\d\d", row[6].strip()) is not None
        and row[1].strip().casefold() in {"n", "u", "new", "used", "cpo", "c", ""}
        for row in rows
    )


def _header_fits(names: list[str], layout: Layout | None) -> int:
    columns = understand(names, layout or recognise(names, "delimited"))
    return columns.understood if columns.names_units and columns.understood > 1 else 0


def read_table(data: bytes, encoding: str, head: str, layout_name: str | None) -> Table:
    """The file's delimiter, layout and rows; `head` is how its text begins.

    The whole file is checked first, which takes a second for 50 MiB: a file with a quotation mark that is not closed is
    refused before any row is imported. Raises FeedError for such a file, and when no column identifies a unit.
    """
    layout = named_layout(layout_name, "delimited") if layout_name else None
    headers = {mark: [name[:MOST_NAME] for name in next(iter(_first_rows(head, mark, 1)), [])] for mark in _DELIMITERS}
    fits = {mark: _header_fits(names, layout) for mark, names in headers.items()}
    delimiter = max(_DELIMITERS, key=lambda mark: fits[mark])
    if fits[delimiter]:
        header = headers[delimiter]
        layout = layout or recognise(header, "delimited")
    elif layout in (None, CARSFORSALE) and (found := _headerless_delimiter(head)):
        header = list(CARSFORSALE.header)
        layout, delimiter = CARSFORSALE, found
    else:
        next(_rows(open_text(data, encoding), ",", literal=False), None)  # A line without an end has its own message.
        raise FeedError(
            "The first line names no column for the VIN or the stock number"
            + (f" in the layout {layout.name}" if layout else "")
            + ". Give the file a header with at least VIN, Year, Make and Model, or name its layout."
        )
    if len(header) > MOST_COLUMNS:
        raise FeedError(f"A file may have at most {MOST_COLUMNS:,} columns, and this one has {len(header):,}.")
    literal = _has_literal_quotes(head, delimiter)
    _check_quotes(_rows(open_text(data, encoding), delimiter, literal=literal), delimiter, len(header))
    rows = _rows(open_text(data, encoding), delimiter, literal=literal)
    below = islice(rows, 1 if fits[delimiter] else 0, None)
    return Table(layout, delimiter, understand(header, layout), len(header), below)


def _headerless_delimiter(head: str) -> str | None:
    return next((mark for mark in _DELIMITERS if _is_carsforsale(_first_rows(head, mark, 5))), None)


def _check_quotes(rows: Iterator[Row], delimiter: str, width: int) -> None:
    """Reads all rows. Raises FeedError for a cell that holds rows."""
    for row in rows:
        if row.lines > _RUNAWAY_LINES and any(_is_runaway(cell, delimiter, width) for cell in row.cells):
            raise _unclosed(row.line)


def _is_runaway(cell: str, delimiter: str, width: int) -> bool:
    if width < 5 or cell.count("\n") <= _RUNAWAY_LINES or cell.count(delimiter) < width:
        return False
    inside = cell.split("\n")[1:-1]
    return sum(line.count(delimiter) >= width - 1 for line in inside) > len(inside) / 2


def cells_of(row: Row, table: Table) -> tuple[dict[str, list[str]], str | None]:
    """The row's cells by field, and what is odd about its length."""
    if row.error is not None:
        return {}, None
    short, extra = table.width - len(row.cells), row.cells[table.width :]
    odd = None
    if short > 0:
        odd = f"The row has {len(row.cells)} cells where the header has {table.width}; the rest is absent."
    elif any(cell.strip() for cell in extra):
        odd = f"The row has {len(row.cells)} cells where the header has {table.width}; the last are not read."
    present = len(row.cells)
    return (
        {
            field: [row.cells[index] for index in indices if index < present]
            for field, indices in table.columns.fields.items()
        },
        odd,
    )
