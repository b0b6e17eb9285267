"""Feeds in ZIP and gzip archives and in workbooks are read, and archives that would fill the machine are refused."""

import copy
import gzip
import io
import random
import zipfile
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

import openpyxl
import pytest
from tests.feeds.files.reading_costs import cost_of

from dealer_agent.feeds.files import json_records
from dealer_agent.feeds.files.archives import MOST_ENTRIES, MOST_MEMBERS, MOST_RATIO, unpack
from dealer_agent.feeds.files.feed import MOST_COLUMNS, FeedError
from dealer_agent.feeds.files.reader import read_feed

pytestmark = pytest.mark.outside_protocol("feeds")

CSV = b"VIN,Year,Make,Model,Price,Date in Stock\n1HGCY2F57RA000001,2024,Honda,Accord,28040,2026-11-02\n"


def zipped(*files: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return made.getvalue()


def workbook(*rows: tuple[object, ...], more_sheets: int = 0, hidden: bool = False) -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in rows:
        sheet.append(list(row))
    for _ in range(more_sheets):
        other = book.create_sheet()
        other.append(("Notes",))
        other.sheet_state = "hidden" if hidden else "visible"
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


ROWS = (
    ("VIN", "Year", "Make", "Model", "Price", "Date in Stock"),
    ("1HGCY2F57RA000001", 2024, "Honda", "Accord", 28040.0, datetime(2026, 11, 2)),  # noqa: DTZ001 - cells have no zone.
)

PACKED = {
    "plain": CSV,
    "gzip": gzip.compress(CSV),
    "gzip of two members": gzip.compress(CSV[:50]) + gzip.compress(CSV[50:]),
    "zip": zipped(("stock.csv", CSV)),
    "stored zip": zipped(("stock.csv", CSV), method=zipfile.ZIP_STORED),
    "zip of macOS": zipped(
        ("out/", b""), ("out/stock.csv", CSV), ("__MACOSX/out/._stock.csv", b"x"), ("out/.DS_Store", b"")
    ),
    "workbook": workbook(*ROWS),
    "workbook with an empty sheet": workbook(*ROWS, more_sheets=1, hidden=True),
}


@pytest.mark.parametrize("content", PACKED.values(), ids=PACKED.keys())
def test_a_packed_feed_has_the_same_units(content: bytes) -> None:
    (expected,) = read_feed(CSV).units
    with TemporaryFile() as target:
        (row,) = read_feed(unpack(content, target)).units
    assert row.unit == expected.unit


def damaged(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(10) + content[middle + 10 :]


def with_declared_entries(count: int) -> bytes:
    content = bytearray(zipped(("stock.csv", CSV)))
    at = content.rfind(b"PK\x05\x06")
    content[at + 8 : at + 12] = count.to_bytes(2, "little") * 2
    return bytes(content)


def overlapping() -> bytes:
    """Hundreds of entries that are the same bytes, as in archives that unpack to many times their size."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("stock.csv", CSV)
        for number in range(500):
            again = copy.copy(archive.filelist[0])
            again.filename = f".{number}"
            archive.filelist.append(again)
    return made.getvalue()


def with_declared_size(size: int) -> bytes:
    content = bytearray(zipped(("stock.csv", CSV * 100_000)))
    at = content.rfind(b"PK\x01\x02")
    content[at + 24 : at + 28] = size.to_bytes(4, "little")
    return bytes(content)


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "two files": (lambda: zipped(("a.csv", CSV), ("b.csv", CSV)), "has 2 files"),
    "no file": (zipped, "has 0 files"),
    "zip in zip": (lambda: zipped(("a.zip", zipped(("stock.csv", CSV)))), "another archive"),
    "gzip in zip": (lambda: zipped(("a.gz", gzip.compress(CSV))), "another archive"),
    "zip in gzip": (lambda: gzip.compress(zipped(("stock.csv", CSV))), "another archive"),
    "workbook in zip": (lambda: zipped(("a.xlsx", workbook(*ROWS))), "another archive"),
    "bomb in zip": (lambda: zipped(("a.csv", bytes(30 << 20))), f"{MOST_RATIO} times"),
    "bomb in gzip": (lambda: gzip.compress(bytes(30 << 20)), f"{MOST_RATIO} times"),
    "entries that overlap": (overlapping, "damaged"),
    "a size that is too small": (lambda: with_declared_size(100), "damaged"),
    "a size that is too large": (lambda: with_declared_size((1 << 32) - 2), "more than"),
    "many members": (lambda: gzip.compress(b"") * (MOST_MEMBERS + 1), f"{MOST_MEMBERS:,} parts"),
    "many entries": (lambda: with_declared_entries(MOST_ENTRIES + 1), "more than 1,000 files"),
    "cut zip": (lambda: zipped(("a.csv", CSV))[:-30], "damaged"),
    "cut gzip": (lambda: gzip.compress(CSV)[:-12], "damaged"),
    "damaged gzip": (lambda: damaged(gzip.compress(CSV)), "damaged"),
    "bzip2 in zip": (lambda: zipped(("a.csv", CSV), method=zipfile.ZIP_BZIP2), "damaged, or packed in an unusual way"),
    "two sheets": (lambda: workbook(("Prices",), more_sheets=1), "has 2 sheets"),
    "empty workbook": (workbook, "has 0 sheets"),
    "wide sheet": (lambda: workbook(tuple("x" for _ in range(MOST_COLUMNS + 1))), "columns"),
    "no workbook": (lambda: zipped(("xl/workbook.xml", b"<x"), ("[Content_Types].xml", b"<y")), "cannot be read"),
}


@pytest.mark.parametrize(("archive", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_an_archive_that_is_no_single_feed_is_refused_with_a_sentence(
    archive: Callable[[], bytes], words: str, tmp_path: Path
) -> None:
    content = archive()
    with (tmp_path / "unpacked").open("wb+") as target, pytest.raises(FeedError) as refused:
        unpack(content, target)
    assert words in str(refused.value)
    assert (tmp_path / "unpacked").stat().st_size <= 11 << 20


def test_the_largest_size_counts_the_unpacked_file() -> None:
    content = CSV + b"\n" * (2 << 20)
    for packed in (gzip.compress(content), zipped(("a.csv", content))):
        with TemporaryFile() as target:
            unpack(packed, target, len(content))
        with TemporaryFile() as target, pytest.raises(FeedError):
            unpack(packed, target, len(content) - 1)


SMALLER = 16
"""The bounds of the test are smaller than those of the program by this factor, and so are the files."""
HOSTILE_JSON = {
    "numbers": (b'[{"vin":"1","a":[1', b",1e1", b"]}]", 9 << 16, "values"),
    "texts": (b'[{"vin":"1","a":["a"', b',"ab"', b"]}]", 9 << 16, "values"),
    "objects": (b'[{"vin":"1","a":[{}', b',{"a":1}', b"]}]", 5 << 16, "objects"),
    "levels": (b"", b"[", b"", 1 << 16, "nested too deeply"),
    "digits": (b'[{"vin":"1","a":1', b"1", b"}]", 1 << 20, "too long"),
}


@pytest.mark.parametrize(("start", "piece", "end", "count", "words"), HOSTILE_JSON.values(), ids=HOSTILE_JSON)
def test_small_archives_of_hostile_json_take_little_memory(
    start: bytes, piece: bytes, end: bytes, count: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MOST_JSON_VALUES", "MOST_OBJECTS"):
        monkeypatch.setattr(json_records, name, getattr(json_records, name) // SMALLER)
    packed = gzip.compress(start + piece * count + end, compresslevel=1)

    def read() -> object:
        with TemporaryFile() as target:
            return read_feed(unpack(packed, target))

    refusal, taken = cost_of(read)
    assert words in refusal
    # Copies of the text, before anything of it is parsed.
    assert taken < 10 + 4 * (len(piece) * count >> 20)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_archive_is_read_or_refused(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    packed = [content for content in PACKED.values() if content != CSV]
    for number in range(25):
        content = bytearray(chance.choice(packed))
        for _ in range(chance.choice((1, 2, 5))):
            # The end has the folder, whose damage has most kinds of effects.
            at = (
                chance.randrange(len(content))
                if chance.random() < 0.5
                else -chance.randrange(1, min(300, len(content)))
            )
            content[at] = chance.choice((0, 128, 255, chance.randrange(256)))
        # In a file, as feeds are: some errors of a file are not those of bytes in memory.
        file = tmp_path / str(number)
        file.write_bytes(content)
        with TemporaryFile() as target, suppress(FeedError):
            unpack(partial(io.FileIO, file), target)
