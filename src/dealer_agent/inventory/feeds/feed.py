"""What reading a feed gives: units, and everything that a dealer should know about the file. Pure types."""

from dataclasses import dataclass
from typing import NamedTuple

from dealer_agent.inventory.unit import Unit


class FeedError(Exception):
    """A file that cannot be understood at all; the message says what to do."""


class FeedRow(NamedTuple):
    """A unit and where it stands: the first line of its row, or the number of its record in JSON; both count from 1."""

    line: int
    unit: Unit


class Remark(NamedTuple):
    """Something about a row, in plain words. `identifier` is the row's VIN, else its stock number."""

    line: int
    identifier: str | None
    text: str


class Repeat(NamedTuple):
    """Rows of one VIN (of one stock number, where they have no VIN); the last of them counts."""

    identifier: str
    lines: tuple[int, ...]


class Counts(NamedTuple):
    """How many remarks of each kind a feed has."""

    refused: int
    sold: int
    warnings: int
    repeated_vins: int


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed that was read. No two of its units have the same VIN.

    `rows` counts every row that is not blank: it is the sum of units, refused, sold and the rows which a later row with
    the same VIN replaced. `encoding` and `delimiter` (None for JSON) are what was found in the file. The lists of
    remarks and columns end after `MOST_REPORTED` entries; `counts` has the full numbers of the remarks.
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
