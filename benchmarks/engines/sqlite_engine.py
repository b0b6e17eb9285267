"""SQLite: an index for each filter and order, FTS5 for the words, everything in the page cache."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from benchmarks.engines.table import COLUMNS, COUNTED, NUMBERS, RANGES, rows
from benchmarks.questions import PAGE, Question, condition, order, words_of
from dealer_agent.protocol.vehicle import Vehicle

_FILE = "sqlite.db"
_INDEXES = (
    "changed_at DESC, vehicle_id",
    "make, model, year",
    "price, vehicle_id",
    "mileage, vehicle_id",
    "year, vehicle_id",
    "updated_at, vehicle_id",
    "body, driveline, price",
    "fuel, exterior_color, year",
    "condition, price",
    "electric_range_mi",
    "vin",
)


def make(folder: Path, listings: Iterable[tuple[Vehicle, bytes]]) -> None:
    """The table, its indexes and the words."""
    with sqlite3.connect(folder / _FILE) as db:
        db.execute("PRAGMA journal_mode=OFF")
        typed = [f"{name} NUMERIC" if name in NUMBERS else name for name in COLUMNS if name != "words"]
        db.execute(f"CREATE TABLE lot ({', '.join(typed)}, words)")
        db.executemany(
            f"INSERT INTO lot ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})", rows(listings)
        )
        for number, columns in enumerate(_INDEXES):
            db.execute(f"CREATE INDEX i{number} ON lot ({columns})")
        db.execute("CREATE VIRTUAL TABLE spoken USING fts5(words, content='')")
        db.execute("INSERT INTO spoken (rowid, words) SELECT rowid, words FROM lot")
        db.execute("UPDATE lot SET words = NULL")
        db.execute("ANALYZE")
    db.close()


class SqliteEngine:
    """A connection that keeps its pages in memory."""

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(f"file:{folder / _FILE}?mode=ro", uri=True)
        self._db.execute("PRAGMA mmap_size=8000000000")
        self._db.execute("PRAGMA cache_size=-200000")

    def search(self, question: Question) -> tuple[int, list[bytes]]:
        """Two statements: the total, and the page."""
        where, arguments = condition(question.filters)
        (total,) = self._db.execute(f"SELECT count(*) FROM lot WHERE {where}", arguments).fetchone()
        part = f"ORDER BY {order(question.sort)} LIMIT {PAGE} OFFSET {question.skip}"
        page = self._db.execute(f"SELECT listing FROM lot WHERE {where} {part}", arguments)
        return total, [listing for (listing,) in page]

    def text(self, words: str) -> tuple[int, list[bytes]]:
        """A match has every word, or its beginning. FTS5 ranks the matches."""
        wanted = " AND ".join(f'"{word}"*' for word in words_of(words))
        (total,) = self._db.execute("SELECT count(*) FROM spoken WHERE words MATCH ?", (wanted,)).fetchone()
        page = self._db.execute(
            "SELECT listing FROM (SELECT rowid AS hit FROM spoken WHERE words MATCH ? ORDER BY rank LIMIT ?) "
            "JOIN lot ON lot.rowid = hit",
            (wanted, PAGE),
        )
        return total, [listing for (listing,) in page]

    def facets(self, question: Question) -> object:
        """A count for each column and the ranges, in one statement."""
        where, arguments = condition(question.filters)
        counts = " UNION ALL ".join(
            f"SELECT '{name}', {name}, count(*) FROM lot WHERE {where} AND {name} IS NOT NULL GROUP BY {name}"
            for name in COUNTED
        )
        ends = ", ".join(f"min({name}), max({name})" for name in RANGES)
        return (
            self._db.execute(counts, arguments * len(COUNTED)).fetchall(),
            self._db.execute(f"SELECT {ends} FROM lot WHERE {where}", arguments).fetchall(),
        )

    def detail(self, vin: str) -> bytes | None:
        """Uses the index."""
        found = self._db.execute("SELECT listing FROM lot WHERE vin = ?", (vin,)).fetchone()
        return None if found is None else found[0]
