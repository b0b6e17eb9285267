"""Whole files: encodings, delimiters, odd rows, repeated VINs, unreadable files (docs/reference/feeds.md)."""

import csv
import gzip
import io
import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.soak import SOAK

from dealer_agent.feeds.files.feed import FeedError, ParsedFeed
from dealer_agent.feeds.files.layouts import LAYOUT_NAMES
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.inventory.listing import Unit

pytestmark = pytest.mark.outside_protocol("feeds")

VINS = ("1HGCM82633A004352", "5YJ3E1EA7KF317000", "1M8GDM9AXKP042788")
HEADER = "VIN,Stock,Year,Make,Model,Price,Color"
ROW = f"{VINS[0]},S1,2019,Citroën,Fiesta,9000,Blue"


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode(),
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-16-le"),
        lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
        lambda text: text.encode("cp1252"),
    ],
)
def test_the_encoding_is_detected(encode: Callable[[str], bytes]) -> None:
    feed = read_feed(encode(f"{HEADER}\r\n{ROW}\r\n"))
    assert feed.units[0].unit.make == "Citroën"


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_the_delimiter_is_detected(delimiter: str, line_end: str) -> None:
    feed = read_feed(f"{HEADER}\n{ROW}\n".replace(",", delimiter).replace("\n", line_end).encode())
    assert (feed.delimiter, feed.units[0].unit.model) == (delimiter, "Fiesta")


def test_inch_marks_are_literal_in_tab_files() -> None:
    rows = f'VIN\tMake\tOptions\tModel\n{VINS[0]}\tFord\t7" Display|"Big" wheels\tA\n{VINS[1]}\tFord\t"x ""y"""\tB\n'
    first, second = (row.unit for row in read_feed(rows.encode()).units)
    assert first.features == ('7" Display', '"Big" wheels')
    assert (second.features, second.model) == (('x "y"',), "B")


@pytest.mark.parametrize(
    ("cell", "trim"), [('"Sport" package', '"Sport" package'), ('"Sport" and "Tour"', '"Sport" and "Tour"')]
)
def test_a_quoted_word_at_the_start_of_a_tab_files_cell_keeps_its_quotes(cell: str, trim: str) -> None:
    feed = read_feed(f"VIN\tMake\tTrim\n{VINS[0]}\tFord\t{cell}\n".encode())
    assert feed.units[0].unit.trim == trim


def test_doubled_quotes_inside_a_quoted_cell_are_part_of_the_text() -> None:
    feed = read_feed(f'VIN,Make,Trim\n{VINS[0]},Ford,"""Sport"""\n'.encode())
    assert feed.units[0].unit.trim == '"Sport"'


def test_a_row_has_the_number_of_its_first_line() -> None:
    data = f'VIN,Stock,Description\n{VINS[0]},A,"one\ntwo\n\nthree"\n\n,,"no identity"\n{VINS[1]},B,x\n'
    feed = read_feed(data.encode())
    assert [row.line for row in feed.units] == [2, 8]
    assert [row_problem.line for row_problem in feed.refused] == [7]
    assert feed.units[0].unit.description == "one\ntwo\n\nthree"


@pytest.mark.parametrize(("cells", "color"), [(("", "Red"), "Red"), (("Blue", "Red"), "Blue")])
def test_the_first_cell_with_a_value_of_a_repeated_column_is_used(cells: tuple[str, str], color: str) -> None:
    data = f"VIN,Color,Make,Color\n{VINS[0]},{cells[0]},Ford,{cells[1]}\n"
    assert read_feed(data.encode()).units[0].unit.exterior_color == color


@pytest.mark.parametrize("row", [f"{VINS[0]},S1,2019", f"{ROW},more,cells"])
def test_a_ragged_row_is_read_and_reported(row: str) -> None:
    feed = read_feed(f"{HEADER}\n{row}\n".encode())
    assert feed.units[0].unit.year == 2019
    (row_problem,) = feed.warnings
    assert "cells where the header has 7" in row_problem.text
    assert (row_problem.line, row_problem.identifier) == (2, VINS[0])


def test_a_file_with_an_open_quotation_mark_is_refused() -> None:
    rows = "\n".join(f"{VINS[1]},S{n},2019,Ford,Focus,9000,Blue" for n in range(100))
    with pytest.raises(FeedError, match="quotation mark in the row at line 2 is not closed"):
        read_feed(f'{HEADER}\n{VINS[0]},S1,2019,"Ford,Fiesta,9000,Blue\n{rows}\n'.encode())


def test_the_last_row_of_a_vin_is_used_and_all_are_reported() -> None:
    rest = "2019,Ford,Focus"
    data = f"{HEADER}\n{VINS[0]},A,{rest},9000,Blue\n{VINS[1]},B,{rest},9000,Blue\n{VINS[0]},A,{rest},8000,Blue\n"
    feed = read_feed(data.encode())
    assert [(row.line, row.unit.selling_price) for row in feed.units] == [(3, 9000), (4, 8000)]
    assert [(repeat.identifier, repeat.lines) for repeat in feed.repeated_vins] == [(VINS[0], (2, 4))]
    assert feed.rows == 3


def test_a_unit_whose_last_row_says_sold_is_sold() -> None:
    data = f"VIN,Stock,Status\n{VINS[0]},A,In Stock\n{VINS[0]},A,Sold\n"
    feed = read_feed(data.encode())
    assert (tuple(feed.units), [row_problem.identifier for row_problem in feed.sold]) == ((), [VINS[0]])


def test_progress_ends_at_the_last_line() -> None:
    seen: list[tuple[int, int]] = []
    rows = "\n".join(f",S{n},2019,Ford,Focus,9000,Blue" for n in range(2_000))
    read_feed(f"{HEADER}\n{rows}".encode(), on_progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert seen[-1] == (2_001, 2_001)


def test_progress_of_a_json_file_ends_at_the_last_record() -> None:
    seen: list[tuple[int, int]] = []
    records = json.dumps([{"stock": f"S{n}"} for n in range(3)])
    read_feed(records.encode(), on_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3, 3)


EMPTY = "The file is empty. Export the inventory again."
NO_UNITS = (
    "The first line names no column for the VIN or the stock number. Give the file a header with at least VIN, Year,"
    " Make and Model, or name its layout."
)
NO_VEHICLES = (
    "The JSON holds no vehicle with a VIN or a stock number. Give an array of vehicles, or an object with one under"
    ' "vehicles".'
)
TOO_MUCH = "The JSON is nested too deeply, or has a number that is too long. Export an array of vehicles."


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", EMPTY),
        (b" \r\n\t", EMPTY),
        (b"\xef\xbb\xbf\n", EMPTY),
        (b"\xef\xbb\xbf\xef\xbb\xbf \n", EMPTY),
        (b" " * 100 + b"\0\n", EMPTY),
        (b"PK\x03\x04abc", "The file is a ZIP archive or an Excel workbook: unpack it, or save the sheet as CSV."),
        (gzip.compress(b"VIN", mtime=0), "The file is compressed with gzip: unpack it first."),
        (
            b"\x00\x01\x02\x03\xff" * 40,
            "The file is not text. Export the inventory as CSV, TAB-separated text or JSON.",
        ),
        (
            b"\x90\xfe\x90\x81\x8f\x9d\x90\x90\xfe\xfe\x8f\x90\x8f\x9d\x8d\x9d\x8d\x8f\x8d\xfe\x81\x9d\xfe\x8f\x9d\xff\xfe\x9d",
            "The file's encoding cannot be recognised. Export the inventory as UTF-8.",
        ),
        (b"name,colour\nx,y\n", NO_UNITS),
        (b"Year,Make,Model\n2019,Ford,Fiesta\n", NO_UNITS),
        (b"VIN\n1HGCM82633A004352\n", NO_UNITS),
        (b"just a line", NO_UNITS),
        (b"[" * 100_000, TOO_MUCH),
        (b'[{"vin": ' + b"9" * 5_000 + b"}]", TOO_MUCH),
        (b'{"a": 1}', NO_VEHICLES),
        (b"[1, 2]", NO_VEHICLES),
        (
            b"[7]\n[7]\n",
            "The JSON is broken at line 1: neither one document nor one object on each line. Export the file again.",
        ),
        (
            b"<vehicles><vin>1</vin></vehicles>",
            "The file is XML or HTML without schema.org vehicles in it. Export the inventory as CSV, TAB-separated text"
            " or JSON.",
        ),
        (
            b"<!DOCTYPE html>\n<html><body>Log in</body></html>",
            "The file is a web page without schema.org vehicles in it, perhaps a login or an error page. Download the"
            " export itself, as CSV, TAB-separated text or JSON.",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_what_to_do(data: bytes, says: str) -> None:
    with pytest.raises(FeedError) as refused:
        read_feed(data)
    assert str(refused.value) == says


def test_invalid_json_is_refused_with_its_line_and_column() -> None:
    with pytest.raises(FeedError, match=r"^The JSON is broken at line 2, column 10: .+\.$"):
        read_feed(b'[{"vin": "1"},\n {"vin": }]')


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (f'"VIN","Make"\n"{VINS[0]}x","Ford"\n', f"The VIN '{VINS[0]}x' is not a VIN, and there is no stock number."),
        (f"VIN,Make\n{'X' * 41},Ford\n", f"The VIN '{'X' * 40}' is not a VIN, and there is no stock number."),
        ("VIN,Stock,Make\n,,Ford\n", "There is neither a VIN nor a stock number."),
        ('[7, {"stock": "A"}]', "The record is not a JSON object."),
        ('{"stock": "A"}\n7\n', "The line is not a JSON object."),
    ],
)
def test_a_row_without_an_identifier_is_refused_with_the_reason(data: str, says: str) -> None:
    (refused,) = read_feed(data.encode()).refused
    assert (refused.identifier, refused.text) == (None, says)


def test_a_repeated_byte_order_mark_is_ignored() -> None:
    for text in (f'[{{"vin": "{VINS[0]}"}}]', f"VIN,Make\n{VINS[0]},Ford\n"):
        assert read_feed(b"\xef\xbb\xbf\xef\xbb\xbf" + text.encode()).units[0].unit.vin == VINS[0]


@pytest.mark.parametrize("data", [HEADER.encode(), b"[]", b'{"vehicles": []}'])
def test_a_file_without_rows_has_no_units(data: bytes) -> None:
    feed = read_feed(data)
    assert (feed.rows, len(feed.units)) == (0, 0)


@pytest.mark.parametrize(
    ("last_line", "is_missing"),
    [
        ('{"stock": "B", "photos": ["x"]}', False),
        ('{"stock": "B", "photos": ["x"]}\n', False),
        ("]", False),
        ('{"stock": "B"', True),
        ('{"stock": "B", "price": 1', True),
        ('{"stock": "B", "photos": ["x"]', True),
        ('{"stock": "B", "fee": {"amount": 1}', True),
    ],
)
def test_the_missing_end_of_the_last_json_line_is_noticed(last_line: str, is_missing: bool) -> None:
    feed = read_feed(f'{{"stock": "A"}}\n{last_line}'.encode())
    assert bool(feed.signs.truncated) is is_missing


def test_only_the_invalid_line_of_json_lines_is_refused() -> None:
    feed = read_feed(f'{{"vin": "{VINS[0]}"}}\n{{"vin": \n{{"vin": "{VINS[1]}"}}\n'.encode())
    assert [row.line for row in feed.units] == [1, 3]
    assert [row_problem.line for row_problem in feed.refused] == [2]


def test_only_the_record_that_is_not_an_object_is_refused() -> None:
    feed = read_feed(f'[{{"vin": "{VINS[0]}"}}, 7, null]'.encode())
    assert ([row.line for row in feed.units], [row_problem.line for row_problem in feed.refused]) == ([1], [2, 3])


def round_trips(unit: Unit) -> bool:
    return msgspec.json.decode(msgspec.json.encode(unit), type=Unit) == unit


def check(data: bytes, layout: str | None) -> ParsedFeed | None:
    """The feed of a file after checks of its report. None for a refused file."""
    try:
        feed = read_feed(data, layout=layout)
    except FeedError:
        return None
    assert all(round_trips(row.unit) for row in feed.units)
    assert all(row.unit.vin or row.unit.stock for row in feed.units)
    repeated = sum(len(repeat.lines) - 1 for repeat in feed.repeated_vins)
    assert feed.rows == len(feed.units) + len(feed.refused) + len(feed.sold) + repeated
    return feed


def csv_bytes() -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    columns = (
        *(
            "vin",
            "stock",
            "year",
            "make",
            "model",
            "condition",
            "certified",
            "price",
            "mileage",
            "mileage unit",
            "photos",
        ),
        *(
            "features",
            "description",
            "inventory_date",
            "updated_at",
            "engine displacement",
            "status",
            "vdpurl",
            "city_mpg",
        ),
    )
    writer.writerow(columns)
    writer.writerow(
        (
            *(
                VINS[0],
                "S1",
                "2019",
                "Ford",
                "Fiesta",
                "U",
                "Yes",
                "$9,000",
                "12,000",
                "KM",
                "https://e.example/1.jpg|http://x",
            ),
            *(
                "A|B",
                "<b>x</b>&amp;",
                "10/31/2020",
                "2024-08-17T10:00:00+02:00",
                "1.4 L",
                "In Stock",
                "https://e.example",
                "30",
            ),
        )
    )
    return out.getvalue().encode()


VALID = (
    csv_bytes(),
    csv_bytes().replace(b'","', b"\t").replace(b'"', b""),
    json.dumps(
        [
            {
                "vin": VINS[0],
                "price": 1.5,
                "fees": [{"name": "Doc", "amount": 499}],
                "other_attributes": {"a": 1},
                "x": "\ud800",
                "updated_at": "2024-08-17",
                "photos": ["https://e.example/1.jpg"],
                "nested": {"cost": {"a": [1, {"b": 2}]}},
            }
        ]
    ).encode(),
    b'{"@type":"Car","vehicleIdentificationNumber":"'
    + VINS[0].encode()
    + b'","offers":[{"price":"1e9"}],"image":{"url":1}}',
)
quick = settings(max_examples=150 if SOAK else 15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(st.binary(max_size=300), st.sampled_from([None, *LAYOUT_NAMES]))
def test_random_bytes_raise_nothing_but_feed_error(data: bytes, layout: str | None) -> None:
    check(data, layout)


@quick
@given(st.sampled_from(VALID), st.data())
def test_a_damaged_file_raises_nothing_but_feed_error(valid: bytes, data: st.DataObject) -> None:
    damaged = bytearray(valid)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged)))
        damaged[at : at + data.draw(st.integers(0, 8))] = data.draw(
            st.binary(max_size=4)
            | st.sampled_from([b'"', b",", b"\n", b"\\ud800", b"1e999", b"NaN", b"null", b"[", b"{"])
        )
    check(bytes(damaged), None)


@quick
@given(st.dictionaries(st.sampled_from(csv_bytes().decode().split("\r\n")[0].replace('"', "").split(",")), st.text()))
def test_no_text_in_a_cell_raises(cells: dict[str, str]) -> None:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerows([["stock", "make", *cells], ["S1", "Ford", *cells.values()]])
    check(out.getvalue().encode("utf-8", "surrogatepass"), "generic")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@quick
@given(st.dictionaries(st.sampled_from([*Unit.__struct_fields__, "price", "updated_at", "type", "x"]), JSON_VALUES))
def test_no_member_of_a_record_raises(members: dict[str, object]) -> None:
    check(json.dumps([{"stock": "S1"} | members]).encode(), None)
