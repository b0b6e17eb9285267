"""Polars: a frame in memory in the default order, with its words as categories."""

from collections.abc import Iterable
from pathlib import Path

import polars
from msgspec import UNSET

from benchmarks.engines.duckdb_engine import frames
from benchmarks.engines.table import COUNTED, RANGES, TEXT
from benchmarks.questions import PAGE, Question, condition, words_of
from dealer_agent.protocol.vehicle import Vehicle

_FILE = "polars.arrow"


def make(folder: Path, listings: Iterable[tuple[Vehicle, bytes]]) -> None:
    """One file, which is mapped into memory."""
    frame = polars.concat(list(frames(listings))).sort(["changed_at", "vehicle_id"], descending=[True, False])
    frame.with_columns(polars.col(TEXT).cast(polars.Categorical)).rechunk().write_ipc(folder / _FILE)


class PolarsEngine:
    """It chooses its threads: it may use every core."""

    def __init__(self, folder: Path) -> None:
        self._lot = polars.read_ipc(folder / _FILE)

    def search(self, question: Question) -> tuple[int, list[bytes]]:
        """The matching rows. The first of them are the page, unless the question has an order."""
        found = self._lot.lazy().filter(_matching(question))
        if question.sort is UNSET:
            listings = found.select("listing").collect()["listing"]
            return len(listings), listings.slice(question.skip, PAGE).to_list()
        field, descending = question.sort.field, question.sort.order == "desc"
        numbers = self._lot.lazy().with_row_index("row").filter(_matching(question)).select("row", field, "vehicle_id")
        first = numbers.sort([field, "vehicle_id"], descending=[descending, False], nulls_last=True)
        rows = first.select("row").collect()["row"]
        return len(rows), self._lot["listing"].gather(rows.slice(question.skip, PAGE)).to_list()

    def text(self, words: str) -> tuple[int, list[bytes]]:
        """A match has every word, newest first."""
        holds = [polars.col("words").str.contains(word, literal=True) for word in words_of(words)]
        rows = self._lot.lazy().filter(polars.all_horizontal(holds)).select("listing").collect()
        return len(rows), rows["listing"].head(PAGE).to_list()

    def facets(self, question: Question) -> object:
        """A count for each column and the ranges."""
        found = self._lot.lazy().filter(_matching(question)).select(*COUNTED, "price", "mileage", "electric_range_mi")
        frame = found.collect()
        counts = [frame[name].drop_nulls().value_counts(sort=True).rows() for name in COUNTED]
        return counts, [(frame[name].min(), frame[name].max()) for name in RANGES]

    def detail(self, vin: str) -> bytes | None:
        """Reads every VIN, because a frame has no index."""
        found = self._lot.lazy().filter(polars.col("vin") == vin).select("listing").collect()["listing"]
        return found[0] if len(found) else None


def _matching(question: Question) -> polars.Expr:
    where, arguments = condition(question.filters)
    for value in arguments:
        where = where.replace("?", f"'{value}'" if isinstance(value, str) else repr(value), 1)
    return polars.sql_expr(where)
