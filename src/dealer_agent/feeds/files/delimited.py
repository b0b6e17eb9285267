"""Reads delimited text: the delimiter, the quotes, the header, the rows. Pure functions."""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, islice
from typing import NamedTuple, TextIO

from dealer_agent.feeds.files.decoding import Opener, open_text
from dealer_agent.feeds.files.feed import MOST_CELL, MOST_COLUMNS, MOST_LINE, MOST_NAME, MOST_ROWS, FeedError
from dealer_agent.feeds.files.layouts import (
    CARSFORSALE,
    Columns,
    Layout,
    layout_of,
    may_be_header,
    named_layout,
    understand,
)
from dealer_agent.feeds.files.values import VIN_SHAPE

_DELIMITERS = ",\t;|"
_RUNAWAY_LINES = 3
"""If more lines than this in one cell look like rows, the quotation mark of the cell is not closed."""
_TITLE_ROWS = 10
_AFTER_THE_END = "end"


class DelimitedRow(NamedTuple):
    """A row: its first line, its cells, and its number of lines. `error` is the reason why it cannot be read."""

    line: int
    cells: list[str]
    lines: int = 1
    error: str | None = None


@dataclass(frozen=True)
class DelimitedTable:
    """A delimited file. `header` are the names of the columns, and `rows` opens the rows below the header."""

    layout: Layout
    delimiter: str
    columns: Columns
    header: list[str]
    rows: Callable[[], Iterator[DelimitedRow]]

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.header)


def _unquoted(cell: str) -> str:
    """A cell without the quotes around it, in a file where other quotation marks are inch marks."""
    if len(cell) > 1 and cell[0] == cell[-1] == '"':
        inner = cell[1:-1].replace('""', "\0")
        if '"' not in inner:
            return inner.replace("\0", '"')
    return cell


def _unclosed(line: int) -> FeedError:
    return FeedError(
        f"A quotation mark in the row at line {line} is not closed, so the row contains the rows after it. Close or"
        " remove the quotation mark there, or export the inventory again."
    )


def _rows(text: TextIO, delimiter: str, *, literal: bool) -> Iterator[DelimitedRow]:
    """The rows that are not blank. With `literal`, quotes count only if they enclose a whole cell.

    Raises FeedError for a quotation mark that is not closed, for a line that is too long, and for too many rows.
    """
    have_ended = False

    def lines() -> Iterator[str]:
        """The lines, then the line _AFTER_THE_END.

        The reader accepts a file that ends inside quotes. But then the last cell contains the extra line, which is
        otherwise a row of its own.
        """
        nonlocal have_ended
        number = 1
        while line := text.readline(MOST_LINE + 1):
            if len(line) > MOST_LINE:
                raise FeedError(
                    f"Line {number} has more than {MOST_LINE:,} characters. Export the inventory with one unit a line."
                )
            yield line
            number += 1
        have_ended = True
        yield _AFTER_THE_END

    reader = csv.reader(
        lines(),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if literal else csv.QUOTE_MINIMAL,
        skipinitialspace=delimiter == ",",
    )
    for number in count():
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except csv.Error:
            # A cell is longer than MOST_CELL. If it has several lines, its quotation mark is not closed.
            if reader.line_num > line:
                raise _unclosed(line) from None
            error = (
                f"A cell has more than {MOST_CELL:,} characters. Perhaps a quotation mark is missing: correct the row."
            )
            yield DelimitedRow(line, [], error=error)
            continue
        if have_ended:
            if cells == [_AFTER_THE_END]:
                return
            raise _unclosed(line)
        if number > MOST_ROWS:
            raise FeedError(f"A file may have at most {MOST_ROWS:,} rows. Export the units for sale only.")
        if any(map(str.strip, cells)):
            yield DelimitedRow(
                line, [_unquoted(cell) for cell in cells] if literal else cells, reader.line_num - line + 1
            )


def _has_literal_quotes(start: str, delimiter: str) -> bool:
    """Whether quotes are inch marks: in TAB files, unless the header is quoted."""
    return delimiter == "\t" and not start.lstrip().startswith('"')


def _first_rows(start: str, delimiter: str, most: int) -> list[list[str]]:
    """The first rows, up to one that cannot be read: `start` may end inside a row, and `delimiter` is a guess."""
    rows = _rows(io.StringIO(start, newline=""), delimiter, literal=_has_literal_quotes(start, delimiter))
    cells: list[list[str]] = []
    with suppress(FeedError):
        cells.extend(row.cells for row in islice(rows, most))
    return cells


def _is_carsforsale(rows: list[list[str]]) -> bool:
    """Whether rows without a header are those of the layout of Carsforsale."""
    return bool(rows) and all(
        len(CARSFORSALE.header) - 2 <= len(row) <= len(CARSFORSALE.header) + 2
        and (VIN_SHAPE.fullmatch(row[2].strip().upper()) or row[3].strip())
        and re.fullmatch(r"(?:19|20)\d\d", row[6].strip()) is not None
        and row[1].strip().casefold() in {"n", "u", "new", "used", "cpo", "c", ""}
        for row in rows
    )


def _header_fits(names: list[str], layout: Layout | None, more: Mapping[str, str]) -> int:
    columns = understand(names, layout_of(names, "delimited", layout, more))
    return columns.understood if columns.names_units and columns.understood > 1 else 0


class _Header(NamedTuple):
    """The names of the columns, how many of them are read, and the number of title rows above them."""

    above: int
    fits: int
    names: list[str]


def _find_header(start: str, delimiter: str, layout: Layout | None, columns: Mapping[str, str]) -> _Header:
    """The first of the first rows that names units: a title, or `sep=;`, may be above it."""
    for above, row in enumerate(_first_rows(start, delimiter, _TITLE_ROWS + 1)):
        names = [name[:MOST_NAME] for name in row]
        if may_be_header(names, columns) and (fits := _header_fits(names, layout, columns)):
            return _Header(above, fits, names)
    return _Header(0, 0, [])


def _below_title(start: str, rows: int) -> str:
    """The text without blank lines and without its first `rows` lines: the title above the header.

    No cell of these rows may have a line end.
    """
    lines = [line for line in start.splitlines(keepends=True) if line.strip(" ,;|\t\r\n")]
    return "".join(lines[rows:])


def read_table(
    feed: Opener, encoding: str, start: str, layout_name: str | None, columns: Mapping[str, str]
) -> DelimitedTable:
    """The delimiter, the layout and the rows of a file. `start` is the start of its text.

    `columns` are the dealer's own columns: the name in the file, and the member that it gives.

    Raises FeedError if no column identifies a unit. The rows raise it for a quotation mark that is not closed.
    """
    layout = named_layout(layout_name, "delimited") if layout_name else None
    found_headers = {mark: _find_header(start, mark, layout, columns) for mark in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda mark: found_headers[mark].fits)
    above, fits, header = found_headers[delimiter]
    if fits:
        start = _below_title(start, above)
        layout = layout_of(header, "delimited", layout, columns)
    elif layout in (None, CARSFORSALE) and (
        separator := next((mark for mark in _DELIMITERS if _is_carsforsale(_first_rows(start, mark, 5))), None)
    ):
        header = list(CARSFORSALE.header)
        layout, delimiter = CARSFORSALE, separator
    else:
        next(_rows(open_text(feed, encoding), ",", literal=False), None)  # Raises FeedError for a line without an end.
        raise FeedError(
            "The first line names no column for the VIN or the stock number"
            + (f" in the layout {layout.name}" if layout else "")
            + ". Give the file a header with at least VIN, Year, Make and Model, or name its layout."
        )
    if len(header) > MOST_COLUMNS:
        raise FeedError(
            f"A file may have at most {MOST_COLUMNS:,} columns, and this one has {len(header):,}. Export fewer."
        )
    literal = _has_literal_quotes(start, delimiter)

    def rows() -> Iterator[DelimitedRow]:
        all_rows = _rows(open_text(feed, encoding), delimiter, literal=literal)
        return islice(_closed(all_rows, delimiter, len(header)), above + 1 if fits else 0, None)

    return DelimitedTable(layout, delimiter, understand(header, layout), header, rows)


def _closed(rows: Iterator[DelimitedRow], delimiter: str, width: int) -> Iterator[DelimitedRow]:
    """The rows. Raises FeedError for a cell that contains rows: its quotation mark is not closed."""
    for row in rows:
        if row.lines > _RUNAWAY_LINES and any(_is_runaway(cell, delimiter, width) for cell in row.cells):
            raise _unclosed(row.line)
        yield row


def _is_runaway(cell: str, delimiter: str, width: int) -> bool:
    """Whether a cell contains whole rows, so its quotation mark is not closed. Fewer than 5 columns prove nothing."""
    if width < 5 or cell.count("\n") <= _RUNAWAY_LINES or cell.count(delimiter) < width:
        return False
    inside = cell.split("\n")[1:-1]
    return sum(line.count(delimiter) >= width - 1 for line in inside) > len(inside) / 2


def cells_of(row: DelimitedRow, table: DelimitedTable) -> tuple[dict[str, list[str]], str | None]:
    """The cells of a readable row by field, and a problem if the row is longer or shorter than the header."""
    present = len(row.cells)
    row_problem = None
    if present < table.width:
        row_problem = f"The row has {present} cells where the header has {table.width}; the rest is absent."
    elif any(cell.strip() for cell in row.cells[table.width :]):
        row_problem = f"The row has {present} cells where the header has {table.width}; the last are not read."
    fields = table.columns.fields.items()
    return {field: [row.cells[index] for index in indices if index < present] for field, indices in fields}, row_problem
