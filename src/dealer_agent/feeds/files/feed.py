"""The result of reading a feed: units, and a report about the file; and the bounds of a feed. Pure.

docs/reference/feeds.md has each of the bounds.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, overload

import msgspec

from dealer_agent.correctable import CorrectableError
from dealer_agent.feeds.files.plausibility import Implausibility
from dealer_agent.inventory.listing import Unit, document_of

MOST_FILE_MIB = 1_024
MOST_JSON_MIB = 128
"""JSON and HTML are in memory as a whole. A delimited file is read row by row."""
MOST_ROWS = 1_000_000
"""Rows of a delimited file, including blank ones, or records of JSON."""
MOST_COLUMNS = 2_000
MOST_NAME = 200
"""Characters of a column's name. The rest of the name is not read."""
MOST_LINE = 1_000_000
"""Characters of one line of a delimited file."""
MOST_CELL = 131_072
"""Characters of one cell, or of one member of a JSON record."""
MOST_VALUES = 10_000
"""Members of one JSON record, at any depth."""
MOST_OBJECTS = 4_000_000
"""Objects and arrays of one JSON file. An empty one takes thirty times its bytes in memory."""
MOST_JSON_VALUES = 8_000_000
"""Values of one JSON file, counted by their commas, also those in texts. A file with vehicles only has half as many."""
DEEPEST = 8
"""Levels of JSON that are read below a record, and levels that are searched for records above it."""
MOST_CELLS = 40_000_000
"""Cells of a workbook, with those that have only a format."""
MOST_STYLES = 65_490
"""Formats of the cells of a workbook, as in Excel."""
MOST_TEXTS_MIB = 64
"""The shared texts of a workbook, which are in memory as a whole."""
MOST_REPORTED = 1_000
"""Entries of each list of a report. The rest are only counted."""
MOST_ROWS_WITHOUT_UNIT = 1_000
"""A file is refused if none of this many first rows identifies a unit."""
MOST_DOUBTFUL = 100_000
"""A file is refused if more units than this must be held back."""


class FeedError(CorrectableError):
    """A file that cannot be read. The message says what to do."""


class FeedRow(NamedTuple):
    """A unit, and the first line of its row, or in JSON the number of its record. Both count from 1."""

    line: int
    unit: Unit


class RowProblem(NamedTuple):
    """A sentence about a row. `identifier` is the row's VIN, else its stock number."""

    line: int
    identifier: str | None
    text: str


class Repeat(NamedTuple):
    """Rows with the same VIN, or without a VIN and with the same stock number. The last row is used."""

    identifier: str
    lines: tuple[int, ...]


class ColumnUse(NamedTuple):
    """The columns of one member of a unit: their names, and the rows that have a value in them.

    The values of `misread` rows are not understood. `example` is the first of them, on `line`.
    """

    columns: tuple[str, ...]
    filled: int = 0
    misread: int = 0
    line: int = 0
    example: str = ""


class DamageSigns(NamedTuple):
    """Signs that a file was damaged.

    `truncated` is a sentence about its end, empty if nothing is wrong. `line_end`: it ends with a line end or a quote.
    `stray_bytes` are not in the encoding of the file, and the first one is on `stray_line`. `garbled` counts
    characters that were lost or decoded wrongly before the file was written.
    """

    truncated: str = ""
    line_end: bool = True
    stray_bytes: int = 0
    stray_line: int = 0
    garbled: int = 0


class RowCounts(NamedTuple):
    """The number of problems of each kind."""

    refused: int
    sold: int
    warnings: int
    repeated_vins: int


class Units(Sequence[FeedRow]):
    """The units of a feed, in the order of their rows. They are JSON in a file, so that a large feed fits in memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lines = array("q")
        self._ends = array("q", [0])
        self._order: Sequence[int] = range(0)

    def add(self, line: int, unit: Unit) -> int:
        """Writes a unit, and returns its number."""
        self._ends.append(self._ends[-1] + self._file.write(document_of(unit)))
        self._lines.append(line)
        return len(self._lines) - 1

    def keep(self, numbers: Iterable[int]) -> None:
        """Keeps the units with these numbers, in this order."""
        self._order = array("q", numbers)

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> FeedRow: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[FeedRow, ...]: ...
    def __getitem__(self, index: int | slice) -> FeedRow | tuple[FeedRow, ...]:
        if isinstance(index, slice):
            return tuple(map(self._unit, self._order[index]))
        return self._unit(self._order[index])

    def document(self, index: int) -> bytes:
        """The `document_of` a unit."""
        return self._document(self._order[index])

    def line(self, number: int) -> int:
        """The first line of the row of a unit."""
        return self._lines[number]

    def of(self, number: int) -> Unit:
        """The unit with this number. More units can be added afterwards."""
        unit = self._unit(number).unit
        self._file.seek(self._ends[-1])
        return unit

    def _unit(self, number: int) -> FeedRow:
        return FeedRow(self._lines[number], _from_json.decode(self._document(number)))

    def _document(self, number: int) -> bytes:
        start = self._ends[number]
        self._file.seek(start)
        return self._file.read(self._ends[number + 1] - start)


_from_json = msgspec.json.Decoder(Unit)


@dataclass(frozen=True, slots=True)
class ParsedFeed:
    """A feed that was read. No two of its units have the same VIN.

    `rows` counts all rows that are not blank: units, refused and sold rows, and rows that a later row with the same VIN
    replaced. `delimiter` is None for JSON. The lists of problems and columns have at most `MOST_REPORTED` entries.
    `counts` has the full numbers. `columns` are those of each member. `doubts` say why a unit must be held back, by its
    VIN, else its stock number.
    """

    layout: str
    encoding: str
    delimiter: str | None
    rows: int
    counts: RowCounts
    units: Units
    refused: tuple[RowProblem, ...]
    sold: tuple[RowProblem, ...]
    warnings: tuple[RowProblem, ...]
    repeated_vins: tuple[Repeat, ...]
    columns: Mapping[str, ColumnUse]
    columns_not_understood: tuple[str, ...]
    columns_withheld: tuple[str, ...]
    signs: DamageSigns
    doubts: Mapping[str, tuple[Implausibility, ...]]

    @property
    def repeats(self) -> int:
        """The rows that a later row with the same VIN or stock number replaced."""
        return self.rows - len(self.units) - self.counts.refused - self.counts.sold
