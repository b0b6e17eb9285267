"""DuckDB: a table in its own file with an index on the VIN. Free text searches a column of words."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import duckdb
import polars

from benchmarks.engines.table import COLUMNS, COUNTED, NUMBERS, RANGES, rows
from benchmarks.questions import PAGE, Question, condition, order, words_of
from dealer_agent.protocol.vehicle import Vehicle

_FILE = "duck.db"
_TOGETHER = 100_000
_TYPES = {"changed_at": polars.Int64, "updated_at": polars.Int64, "listing": polars.Binary}
_TYPES |= dict.fromkeys(NUMBERS, polars.Float64) | {"year": polars.Int64, "price": polars.Int64}
SCHEMA = {name: _TYPES.get(name, polars.String) for name in COLUMNS}


def frames(listings: Iterable[tuple[Vehicle, bytes]]) -> Iterable[polars.DataFrame]:
    """The rows, in batches."""
    coming = rows(listings)
    while some := list(islice(coming, _TOGETHER)):
        yield polars.DataFrame(some, schema=SCHEMA, orient="row", strict=False)


def make(folder: Path, listings: Iterable[tuple[Vehicle, bytes]]) -> None:
    """The table in the default order, so that the first page is at its beginning."""
    with duckdb.connect(str(folder / _FILE)) as db:
        for number, frame in enumerate(frames(listings)):
            frame.write_parquet(folder / f"given-{number:03}.parquet")
        given = folder / "given-*.parquet"
        db.execute(f"CREATE TABLE lot AS FROM read_parquet('{given}') ORDER BY changed_at DESC, vehicle_id")
        for part in folder.glob(given.name):
            part.unlink()
        db.execute("CREATE INDEX by_vin ON lot (vin)")


class DuckdbEngine:
    """It chooses its threads: it may use every core."""

    def __init__(self, folder: Path) -> None:
        self._db = duckdb.connect(str(folder / _FILE), read_only=True)

    def search(self, question: Question) -> tuple[int, list[bytes]]:
        """Two statements: the total, and the page."""
        where, arguments = condition(question.filters)
        return self._page(where, arguments, order(question.sort), question.skip)

    def text(self, words: str) -> tuple[int, list[bytes]]:
        """A match has every word, newest first. DuckDB's own index for words is an extension that must be
        downloaded."""
        wanted = words_of(words)
        where = " AND ".join("contains(words, ?)" for _ in wanted)
        return self._page(where, list(wanted), "changed_at DESC, vehicle_id", 0)

    def facets(self, question: Question) -> object:
        """A count for each column and the ranges."""
        where, arguments = condition(question.filters)
        sets = ", ".join(f"({name})" for name in COUNTED)
        ends = ", ".join(f"min({name}), max({name})" for name in RANGES)
        return (
            self._db.execute(
                f"SELECT {', '.join(COUNTED)}, count(*) FROM lot WHERE {where} GROUP BY GROUPING SETS ({sets})",
                arguments,
            ).fetchall(),
            self._db.execute(f"SELECT {ends} FROM lot WHERE {where}", arguments).fetchall(),
        )

    def detail(self, vin: str) -> bytes | None:
        """Uses the index."""
        found = self._db.execute("SELECT listing FROM lot WHERE vin = ?", [vin]).fetchone()
        return None if found is None else bytes(found[0])

    def _page(self, where: str, arguments: list[object], ordered: str, skip: int) -> tuple[int, list[bytes]]:
        found = self._db.execute(f"SELECT count(*) FROM lot WHERE {where}", arguments).fetchone()
        assert found is not None
        page = self._db.execute(
            f"SELECT listing FROM lot WHERE rowid IN "
            f"(SELECT rowid FROM lot WHERE {where} ORDER BY {ordered} LIMIT {PAGE} OFFSET {skip}) ORDER BY {ordered}",
            arguments,
        )
        return int(found[0]), [bytes(listing) for (listing,) in page.fetchall()]
