"""Hostile and broken files: every bound of docs/reference/feeds.md, and processor time linear in the size."""

import bz2
import gzip
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from tests.soak import SOAK, soak_count

from dealer_agent.feeds.files import delimited, json_records
from dealer_agent.feeds.files import feed as limits
from dealer_agent.feeds.files.feed import FeedError
from dealer_agent.feeds.files.reader import read_feed

pytestmark = pytest.mark.outside_protocol("feeds")

DOCUMENT = (Path(__file__).parents[3] / "docs" / "reference" / "feeds.md").read_text("utf-8")
HEADER = b"vin,stock,condition,year,make,model,price,mileage\n"
VIN = b"1HGCY2F57RA000001"
MIB = 1 << 20
LARGE = MIB // 2 if SOAK else MIB // 4
SMALL = LARGE // 8
LEAST_SECONDS = 0.05 if SOAK else 0.025
"""Below this many processor seconds, a measurement does not show growth."""


def rows(size: int, mark: bytes = b",") -> bytes:
    made = b"".join(
        mark.join((b"1HGCY2F57RA%06d" % n, b"H%d" % n, b"used", b"2024", b"Honda", b"Accord", b"28040", b"14210"))
        + b"\n"
        for n in range(size // 59)
    )
    return made[: made.rfind(b"\n") + 1]


def noise(size: int) -> bytes:
    """Random bytes, the same in every run."""
    return Random(size).randbytes(size)


def filled(start: bytes, piece: bytes, end: bytes = b"") -> Callable[[int], bytes]:
    """A file that begins with `start` and repeats `piece`."""
    return lambda size: start + piece * ((size - len(start)) // len(piece)) + end


def cells(field: bytes, piece: bytes, start: bytes = b"") -> Callable[[int], bytes]:
    """A file with rows whose cell of `field` has the most characters."""
    row = VIN + b',"' + start + piece * (130_000 // len(piece)) + b'"\n'
    return lambda size: b"vin," + field + b"\n" + row * (size // len(row) + 1)


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "ordinary rows": lambda size: HEADER + rows(size),
    "rows ended by CR": lambda size: (HEADER + rows(size)).replace(b"\n", b"\r"),
    "UTF-16 without a mark": lambda size: (HEADER + rows(size // 2)).decode().encode("utf-16-le"),
    "two encodings": lambda size: HEADER + rows(size) + b"\x81\xe9,\n" + "é,\n".encode() * 100,
    "a quotation mark not closed": lambda size: HEADER + rows(size // 2) + b'"1HG' + rows(size // 2),
    "quotation marks alone": filled(HEADER, b'""'),
    "rows of quotation marks": filled(HEADER, b'","\n'),
    "rows that name no unit": filled(HEADER, b"x\n"),
    "blank lines": filled(HEADER, b"\n"),
    "one line": filled(b"", b"a"),
    "one line of commas": filled(b"vin,", b"a,"),
    "NUL bytes": filled(HEADER, b"\0"),
    "columns that are withheld": lambda size: b"vin," + b",".join(b"cost%d" % n for n in range(size // 11)) + b"\n",
    "columns of one name": filled(b"vin,", b"price,"),
    "texts that are not dates": filled(b"vin,inventory_date,updated_at\n", VIN + b",10/31/20ab 10,10/31/20ac 10\n"),
    "dates of a wrong month": filled(b"vin,inventory_date\n", VIN + b",99/31/2020 10:00:00 PM\n"),
    "one VIN": filled(HEADER, VIN + b",A,used,2024,Honda,Accord,28040,14210\n"),
    "comments not closed": cells(b"description", b"<!--"),
    "scripts not closed": cells(b"description", b"<script>"),
    "styles closed by something else": cells(b"description", b"<style></script "),
    "paragraphs not closed": cells(b"description", b"<p "),
    "references": cells(b"description", b"9", start=b"&#"),
    "separators between photos": cells(b"photos", b"|", start=b"http://a.example/"),
    "blanks in a price": cells(b"price", b" ", start=b"USD"),
    "blanks in a mileage": cells(b"mileage", b"a ", start=b"1"),
    "blanks in a displacement": cells(b"displacement_cc", b" ", start=b"1 a"),
    "features of one letter": cells(b"features", b"a|"),
    "a web page": filled(b"<!DOCTYPE html>", b"<div class='x'>x</div>\n"),
    "scripts of a page": filled(b"<html>", b"<script type=x "),
    "JSON-LD that is not closed": filled(b"<html>", b'<script type="application/ld+json">{"vin":1}\n'),
    "JSON-LD of no vehicle": filled(b"<html>", b'<script type="application/ld+json">{"a":1}</script>'),
    "XML": filled(b"<?xml version='1.0'?>", b"<vehicle><vin/></vehicle>"),
    "JSON arrays, deep": filled(b"", b"["),
    "JSON objects, deep": filled(b"", b'{"a":'),
    "JSON arrays, empty": filled(b"[[]", b",[]", b"]"),
    "one text of JSON": filled(b'[{"vin":"', b"a", b'"}]'),
    "JSON that breaks off": filled(b"[", b'{"vin":"1"},'),
    "lines of JSON": filled(b"", b'{"vin":"1HGCY2F57RA000001","stock":"1"}\n'),
    "lines that are not JSON": filled(b'{"vin":"1"}\n', b"x\n"),
    "members of one object": lambda size: json.dumps([{f"k{n}": 1 for n in range(size // 10)} | {"vin": "1"}]).encode(),
    "members of every object": lambda size: json.dumps(
        [{"vin": f"1HGCY2F57RA{n:06}", f"k{n}": 1} for n in range(size // 50)]
    ).encode(),
    "gzip": lambda size: gzip.compress(noise(size)),
    "bzip2": lambda size: bz2.compress(noise(size)),
    "an Excel workbook": lambda size: b"PK\x03\x04" + noise(size),
    "an image": lambda size: b"\x89PNG\r\n\x1a\n" + noise(size),
    "random bytes": noise,
}


def seconds(data: bytes) -> float:
    """The processor time of reading or refusing a file."""
    start = time.process_time()
    refusal = ""
    try:
        read_feed(data)
    except FeedError as error:
        refusal = str(error)
    taken = time.process_time() - start
    assert len(refusal) < 400
    return taken


def assert_linear(make: Callable[[int], bytes]) -> None:
    small = max(seconds(make(SMALL)), LEAST_SECONDS)
    large = seconds(make(LARGE))
    if large >= 24 * small:
        # Another process that shares the core makes processor time longer, too.
        large = min(large, seconds(make(LARGE)), seconds(make(LARGE)))
    # Linear is 8 times and quadratic is 64 times. The bound is far from both: a busy machine adds to both times.
    assert large < 24 * small, f"{large:.2f} s for {LARGE} bytes, {small:.2f} s for {SMALL}"
    assert large < 12 * LARGE / MIB, "seconds of the processor"


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_the_processor_time_of_a_file_is_linear_in_its_size(make: Callable[[int], bytes]) -> None:
    assert_linear(make)


_FIELDS = ("stock", "description", "features", "photos", "price", "mileage", "year", "status", "inventory_date", "trim")
_PIECES = st.sampled_from(
    ("<", ">", "<!--", "-->", "<script", "</script>", "<p", "&#", "&amp", "9", "a", "é", " ", "|", ";", '""', "@", "~",
     "http://", "1,", "USD", "10/", ".", "-", "\0", '="', "\u2028", "application/ld+json", "{", "[", "\n")
)  # fmt: skip


@settings(max_examples=soak_count("SOAK_CASES", 300) // 10)
@given(st.sampled_from(_FIELDS), st.lists(_PIECES, min_size=1, max_size=3), st.lists(_PIECES, max_size=2))
def test_no_repeated_text_in_a_cell_takes_more_than_linear_time(field: str, pieces: list[str], end: list[str]) -> None:
    piece, last = "".join(pieces), "".join(end)

    def make(size: int) -> bytes:
        length = min(size // 4, 120_000)
        return f'vin,{field}\n{VIN.decode()},"{piece * (length // len(piece))}{last}"\n'.encode()

    assert seconds(make(LARGE)) < 1.5


@pytest.mark.parametrize(
    ("start", "line"),
    [(b'"unclosed,', 2), (b'1HGCY2F57RA999999,"unclosed,', 2), (rows(59) * 500 + b'"unclosed,', None)],
)
def test_an_open_quotation_mark_is_reported_with_its_line_before_any_row_is_read(
    start: bytes, line: int | None
) -> None:
    """The check of a whole file takes less than the reading of its rows would."""
    below = rows(MIB // 4)
    whole = HEADER + start + below
    begun = time.process_time()
    found = line or (HEADER + start).count(b"\n") + 1
    with pytest.raises(FeedError, match=f"line {found} is not closed"):
        read_feed(whole)
    refused = time.process_time() - begun
    begun = time.process_time()
    read_feed(HEADER + below)
    assert refused < (time.process_time() - begun) / 2


@pytest.mark.parametrize("lines", [1, 2, 3, 1_000])
def test_a_quotation_mark_that_is_open_at_the_end_is_always_reported(lines: int) -> None:
    with pytest.raises(FeedError, match="line 2 is not closed"):
        read_feed(HEADER + b'1HGCY2F57RA000001,"A\n' + rows(59 * lines))


def test_an_open_quotation_mark_in_the_header_is_reported() -> None:
    with pytest.raises(FeedError, match="line 1 is not closed"):
        read_feed(b'"' + HEADER + rows(600))


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n\r\n"])
@pytest.mark.parametrize("last", [b"H1,end", b'H1,"end"', b"H1,Legend", b"end"])
def test_a_file_can_end_anywhere_except_inside_a_quoted_cell(last: bytes, end: bytes) -> None:
    feed = read_feed(b"stock,model\n" + last + end)
    assert [row.unit.stock for row in feed.units] == [last.split(b",")[0].decode()]


def too_many(count: int, what: str) -> str:
    return re.escape(f"{count:,} {what}")


ROWS = 10_000
"""Stands for MOST_ROWS: to read a million rows takes seconds."""
OVER: dict[str, tuple[Callable[[], bytes], str]] = {
    "MOST_ROWS": (lambda: HEADER + b"\n" * (ROWS + 1), too_many(ROWS, "rows")),
    "MOST_ROWS of JSON lines": (
        lambda: b'{"stock":"1"}\n' * 2 + b"1\n" * ROWS,
        too_many(ROWS, "records"),
    ),
    "MOST_COLUMNS": (
        lambda: HEADER.strip() + b",x" * limits.MOST_COLUMNS + b"\n",
        too_many(limits.MOST_COLUMNS, "columns"),
    ),
    "MOST_LINE": (
        lambda: HEADER + b"x," * (limits.MOST_LINE // 2) + b"x\n",
        "Line 2 .*" + too_many(limits.MOST_LINE, "characters"),
    ),
    "MOST_OBJECTS": (lambda: b"[" + b"[]," * limits.MOST_OBJECTS + b"[]]", too_many(limits.MOST_OBJECTS, "objects")),
    "MOST_JSON_VALUES": (
        lambda: b"[1" + b",1" * (limits.MOST_JSON_VALUES + 1) + b"]",
        too_many(limits.MOST_JSON_VALUES, "values"),
    ),
    "MOST_JSON_MIB": (lambda: b"[" + b" " * (limits.MOST_JSON_MIB << 20), too_many(limits.MOST_JSON_MIB, "MiB")),
    "MOST_ROWS_WITHOUT_UNIT": (
        lambda: HEADER + b"x\n" * limits.MOST_ROWS_WITHOUT_UNIT,
        "None of the first 1,000 rows names a unit. Line 2: ",
    ),
}


@pytest.mark.parametrize(("make", "says"), OVER.values(), ids=OVER)
def test_a_file_over_a_bound_is_refused_with_the_bound(
    make: Callable[[], bytes], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (delimited, json_records):
        assert module.MOST_ROWS == limits.MOST_ROWS
        monkeypatch.setattr(module, "MOST_ROWS", ROWS)
    with pytest.raises(FeedError, match=says):
        read_feed(make())


def test_a_file_at_the_bounds_is_read() -> None:
    assert read_feed(HEADER.strip() + b",x" * (limits.MOST_COLUMNS - 8) + b"\n" + rows(59)).rows == 1
    text = b"x" * limits.MOST_CELL
    assert read_feed(b"vin,notes\n" + VIN + b"," + text + b"\n").counts.refused == 0
    assert read_feed(b"vin,notes\n" + VIN + b"," + text + b"x\n").counts.refused == 1


def test_only_the_record_with_a_text_that_is_too_long_is_refused() -> None:
    long = "x" * (limits.MOST_CELL + 1)
    feed = read_feed(json.dumps([{"stock": "A", "description": long}, {"stock": "B"}]).encode())
    assert [row.unit.stock for row in feed.units] == ["B"]
    assert feed.refused[0].text == "description has more than 131,072 characters."


def test_only_the_first_members_of_a_record_are_read() -> None:
    others = {f"k{n}": 1 for n in range(limits.MOST_VALUES - 3)}
    for further, model in (({}, "Focus"), ({"one": 1}, UNSET)):
        record = {"stock": "A", "make": "Ford", **others, **further, "model": "Focus"}
        unit = read_feed(json.dumps([record]).encode(), layout="generic").units[0].unit
        assert (unit.make, unit.model) == ("Ford", model)


def test_only_the_first_entries_of_an_array_are_read() -> None:
    entries = list(range(limits.MOST_VALUES + 1))
    assert json_records.flattened({"a": entries}, {}) == {"a": ["".join(f"{entry}\n" for entry in entries[:-1])]}


def test_the_objects_of_all_blocks_of_a_page_count(monkeypatch: pytest.MonkeyPatch) -> None:
    block = b'<script type="application/ld+json">[{"vin":"1HGCY2F57RA000001"}]</script>'
    monkeypatch.setattr(json_records, "MOST_OBJECTS", 4)
    assert read_feed(b"<html>" + 2 * block).rows == 2
    with pytest.raises(FeedError, match="at most 4 objects"):
        read_feed(b"<html>" + 3 * block)


def test_a_report_lists_the_first_problems_and_counts_all() -> None:
    count = 2 * limits.MOST_REPORTED
    bad = b"".join(b"1HGCY2F57RA%06d,H%d,odd\n" % (n, n) for n in range(count))
    sold = b"".join(b",S%d,sold\n" % n for n in range(count)) * 2
    feed = read_feed(b"vin,stock,status\n" + bad + sold + b",,\nx,,\n" + b"x,,\n" * count)
    listed = (len(feed.refused), len(feed.sold), len(feed.warnings), len(feed.repeated_vins))
    assert listed == (limits.MOST_REPORTED,) * 4
    assert min(feed.counts) > limits.MOST_REPORTED
    assert feed.rows == len(feed.units) + feed.counts.refused + feed.counts.sold + count


def test_every_bound_is_published() -> None:
    bounds = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert len(bounds) >= 11
    section = DOCUMENT.partition("## Bounds")[2].partition("\n## ")[0]
    assert {name for name, value in bounds.items() if f"| {value:,} " not in section} == set()
