"""The result of reading a feed: units, and a report about the file. Pure types."""

from dataclasses import dataclass
from typing import NamedTuple

from dealer_agent.inventory.unit import Unit


class FeedError(Exception):
    """A file that cannot be read. The message says what to do."""


class FeedRow(NamedTuple):
    """A unit, and the first line of its row, or in JSON the number of its record. Both count from 1."""

    line: int
    unit: Unit


class Remark(NamedTuple):
    """A sentence about a row. `identifier` is the row's VIN, else its stock number."""

    line: int
    identifier: str | None
    text: str


class Repeat(NamedTuple):
    """Rows with one VIN, or without a VIN, with one stock number. The last of them is used."""

    identifier: str
    lines: tuple[int, ...]


class Counts(NamedTuple):
    """The number of remarks of each kind."""

    refused: int
    sold: int
    warnings: int
    repeated_vins: int


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed that was read. No two of its units have the same VIN.

    `rows` counts all rows that are not blank: units, refused and sold rows, and rows that a later row with the same VIN
    replaced. `delimiter` is None for JSON. The lists of remarks and columns have at most `MOST_REPORTED` entries.
    `counts` has the full numbers.
    """

    layout: str
    encoding: str
    delimiter: str | None
    rows: int
    counts: Counts
    units: tuple[FeedRow, ...]
    refused: tuple[Remark, ...]
    sold: tuple[Remark, ...]
    warnings: tuple[Remark, ...]
    repeated_vins: tuple[Repeat, ...]
    columns_not_understood: tuple[str, ...]
    columns_withheld: tuple[str, ...]
