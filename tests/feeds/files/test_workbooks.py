"""Workbooks are read as a stream: cells become the texts of a CSV, and a hostile part costs little memory."""

import io
import zipfile
from collections.abc import Callable
from datetime import datetime, time

import openpyxl
import pytest
from tests.feeds.files.reading_costs import cost_of

from dealer_agent.feeds.files import workbook
from dealer_agent.feeds.files.feed import MOST_COLUMNS, MOST_LINE, MOST_STYLES, MOST_TEXTS_MIB, FeedError
from dealer_agent.feeds.files.workbook import rows_of_workbook

pytestmark = pytest.mark.outside_protocol("feeds")

MOST_MIB = 24
"""Memory that a hostile workbook may take. A part of it has 10 to 80 MiB."""
MAIN = b'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
HEAD = b'<row><c t="inlineStr"><is><t>VIN</t></is></c></row>'
WORKBOOK = b'<sheet name="S" r:id="r1"/>'


def sheet(rows: bytes, before: bytes = b"") -> bytes:
    return before + b"<worksheet " + MAIN + b"><sheetData>" + HEAD + rows + b"</sheetData></worksheet>"


def texts(items: bytes, before: bytes = b"") -> bytes:
    return before + b"<sst " + MAIN + b">" + items + b"</sst>"


def styles(formats: bytes, before: bytes = b"") -> bytes:
    return before + b"<styleSheet " + MAIN + b">" + formats + b"</styleSheet>"


def book(
    rows: bytes | None = None, *, parts: dict[str, bytes] | None = None, sheets: bytes = WORKBOOK, settings: bytes = b""
) -> zipfile.ZipFile:
    """A workbook with the sheet `r1`, the texts `xl/t.xml` and the styles `xl/s.xml`."""
    types = {"r1": ("worksheet", "sheet.xml"), "r2": ("sharedStrings", "t.xml"), "r3": ("styles", "/xl/s.xml")}
    given = {
        "xl/workbook.xml": b"<workbook %s xmlns:r='%s'>%s<sheets>%s</sheets></workbook>"
        % (MAIN, RELATIONS.encode(), settings, sheets),
        "xl/_rels/workbook.xml.rels": "<Relationships>{}</Relationships>".format(
            "".join(
                f'<Relationship Id="{key}" Type="{RELATIONS}/{kind}" Target="{target}"/>'
                for key, (kind, target) in types.items()
            )
        ).encode(),
        "xl/sheet.xml": sheet(rows or b""),
        "xl/t.xml": texts(b""),
        "xl/s.xml": styles(b""),
    } | (parts or {})
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in given.items():
            archive.writestr(name, content)
    return zipfile.ZipFile(made)


def doctype(declaration: bytes) -> bytes:
    return b"<?xml version='1.0'?><!-- a --><!DOCTYPE x [" + declaration + b"]>"


ENTITY = doctype(b'<!ENTITY x "' + b"A" * 100_000 + b'">')
DEFAULTS = doctype(b'<!ATTLIST c x CDATA "' + b"A" * 4_000 + b'">')
DTD = "document type definition"
BROKEN = "cannot be read"
CELL = b'<c t="inlineStr"><is><t>%s</t></is></c>'

HOSTILE: dict[str, tuple[Callable[[], dict[str, bytes]], str]] = {
    "entities in a sheet": (lambda: {"xl/sheet.xml": sheet(b"<row><c><v>" + b"&x;" * 5_000, before=ENTITY)}, DTD),
    "attributes by default in a sheet": (
        lambda: {"xl/sheet.xml": sheet(b"<row>" + b"<c/>" * 50_000, before=DEFAULTS)},
        DTD,
    ),
    "a DTD of the texts": (lambda: {"xl/t.xml": texts(b"<si/>", before=ENTITY)}, DTD),
    "a DTD of the styles": (lambda: {"xl/s.xml": styles(b"", before=ENTITY)}, DTD),
    "a DTD of the relations": (lambda: {"xl/_rels/workbook.xml.rels": ENTITY + b"<Relationships/>"}, DTD),
    "a DTD of the workbook": (lambda: {"xl/workbook.xml": ENTITY + b"<workbook/>"}, DTD),
    "a DTD of a part that is not read": (lambda: {"docProps/core.xml": ENTITY + b"<x>&x;</x>"}, DTD),
    "a DTD in UTF-16": (
        lambda: {"docProps/core.xml": ENTITY.replace(b"<?xml version='1.0'?>", b"").decode().encode("utf-16")},
        DTD,
    ),
    "a DTD outside the computer": (lambda: {"docProps/core.xml": b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>'}, DTD),
    "a row of empty cells": (lambda: {"xl/sheet.xml": sheet(b"<row>" + b"<c/>" * 5_000_000 + b"</row>")}, "columns"),
    "empty cells in every row": (
        lambda: {"xl/sheet.xml": sheet((b"<row>" + b"<c/>" * 10_000 + b"</row>") * 10 + b'<row r="9999999"/>')},
        BROKEN,
    ),
    "a cell in the last corner": (
        lambda: {"xl/sheet.xml": sheet(b'<row r="1000000"><c r="XFD1000000"><v>1</v></c></row>')},
        "columns",
    ),
    "a cell in the last row": (
        lambda: {"xl/sheet.xml": sheet(b'<row r="1048576"><c r="A1048576"><v>1</v></c></row>')},
        "rows",
    ),
    "a column that does not exist": (
        lambda: {"xl/sheet.xml": sheet(b'<row><c r="' + b"A" * 9_000 + b'1"><v>1</v></c></row>')},
        BROKEN,
    ),
    "a row with a long number": (lambda: {"xl/sheet.xml": sheet(b'<row r="' + b"9" * 9_000 + b'"/>')}, BROKEN),
    "one long text in many cells": (
        lambda: {
            "xl/t.xml": texts(b"<si><t>" + b"A" * 130_000 + b"</t></si>"),
            "xl/sheet.xml": sheet((b"<row>" + b'<c t="s"><v>0</v></c>' * 1_000 + b"</row>") * 100),
        },
        f"{MOST_LINE:,} characters",
    ),
    "one text without end": (
        lambda: {"xl/sheet.xml": sheet(b"<row>" + CELL % (b"A" * (40 << 20)) + b"</row>" + b"<")},
        BROKEN,
    ),
    "one text in many pieces": (
        lambda: {
            "xl/sheet.xml": sheet(
                b'<row><c t="inlineStr"><is>' + b"<t>%s</t>" % (b"A" * 100) * 200_000 + b"</is></c></row><"
            )
        },
        BROKEN,
    ),
    "shared texts": (lambda: {"xl/t.xml": texts(b"<si>" + b" " * (MOST_TEXTS_MIB << 20))}, f"{MOST_TEXTS_MIB} MiB"),
    "many styles": (
        lambda: {"xl/s.xml": styles(b"<cellXfs>" + b"<xf/>" * 2_000_000 + b"</cellXfs>")},
        f"{MOST_STYLES:,} styles",
    ),
    "many formats": (
        lambda: {"xl/s.xml": styles(b'<numFmt numFmtId="1" formatCode="d"/>' * 100_000)},
        f"{MOST_STYLES:,} styles",
    ),
    "levels without end": (lambda: {"xl/sheet.xml": sheet(b"<a>" * 5_000_000)}, BROKEN),
    "names without end": (lambda: {"xl/sheet.xml": sheet(b"".join(b"<a%x/>" % n for n in range(500_000)))}, BROKEN),
    "attributes without end": (
        lambda: {"xl/sheet.xml": sheet(b"<row " + b" ".join(b'a%x="1"' % n for n in range(500_000)) + b"/>")},
        BROKEN,
    ),
    "an attribute without end": (lambda: {"xl/sheet.xml": sheet(b'<row x="' + b"A" * (40 << 20) + b'"/>')}, BROKEN),
    "a comment without end": (lambda: {"docProps/core.xml": b"<!--" + b"A" * (40 << 20) + b"--><x/>"}, BROKEN),
    "an index of no text": (lambda: {"xl/sheet.xml": sheet(b'<row><c t="s"><v>-1</v></c></row>')}, BROKEN),
    "an encoding that does not exist": (lambda: {"xl/sheet.xml": b"<?xml version='1.0' encoding='x'?><x/>"}, BROKEN),
}


@pytest.mark.parametrize(("parts", "words"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_workbook_is_refused_and_takes_little_memory(
    parts: Callable[[], dict[str, bytes]], words: str
) -> None:
    made = book(parts=parts())
    refusal, taken = cost_of(lambda: list(rows_of_workbook(made)))
    assert words in refusal
    assert taken < MOST_MIB


def test_a_workbook_that_names_one_sheet_many_times_has_one_sheet() -> None:
    again = b'<sheet name="S" r:id="r1"/>' * 500
    assert list(rows_of_workbook(book(sheets=again))) == [["VIN"]]


def test_rows_without_cells_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook, "_MOST_SHEET_ROWS", 3)
    assert list(rows_of_workbook(book(b"<row/><row/>"))) == [["VIN"]]
    with pytest.raises(FeedError, match=BROKEN):
        list(rows_of_workbook(book(b"<row/><row/><row/>")))


def test_the_cells_of_a_workbook_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook, "MOST_CELLS", 3)
    assert len(list(rows_of_workbook(book(b"<row><c/><c/></row>")))) == 1
    with pytest.raises(FeedError, match="at most 3 cells"):
        list(rows_of_workbook(book(b"<row><c/><c/><c/></row>")))


def rows(content: bytes, **given: bytes) -> list[list[str]]:
    parts = {f"xl/{name}.xml": part for name, part in given.items() if name in ("t", "s")}
    return list(rows_of_workbook(book(content, parts=parts, settings=given.get("settings", b""))))[1:]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (b"<c><v>28040</v></c>", ["28040"]),
        (b"<c><v>28040.0</v></c><c><v>2.5</v></c><c><v>1E3</v></c>", ["28040", "2.5", "1000"]),
        (b'<c t="b"><v>1</v></c><c t="b"><v>0</v></c>', ["true", "false"]),
        (b'<c t="str"><f>A1</f><v>x</v></c><c t="e"><v>#N/A</v></c>', ["x", "#N/A"]),
        (
            b'<c t="d"><v>2026-11-02</v></c><c t="d"><v>2026-11-02T10:30:00</v></c>',
            ["2026-11-02", "2026-11-02T10:30:00"],
        ),
        (b'<c t="inlineStr"><is><r><t>a </t></r><r><t>b</t></r></is></c>', ["a b"]),
        (b'<c r="C2"><v>1</v></c><c><v>2</v></c>', ["", "", "1", "2"]),
        (b'<c r="B2"><v>1</v></c><c r="A2"><v>2</v></c>', ["2", "1"]),
        (b"<c/><c><v/></c><c><v>1</v></c><c s='1'/>", ["", "", "1"]),
        (b'<c r="XFD2"/>', None),
    ],
)
def test_each_type_of_cell_becomes_its_text(cells: bytes, expected: list[str] | None) -> None:
    assert rows(b"<row>" + cells + b"</row>") == ([] if expected is None else [expected])


def test_a_row_that_ends_before_the_header_is_filled_and_blank_rows_keep_their_place() -> None:
    long = sheet(b"").replace(
        HEAD, HEAD.replace(b"</row>", CELL % b"Price" + b"</row>") + b'<row r="3"><c><v>1</v></c></row>'
    )
    made = book(parts={"xl/sheet.xml": long})
    assert list(rows_of_workbook(made)) == [["VIN", "Price"], [], ["1", ""]]


def test_shared_texts_have_runs_and_no_readings() -> None:
    shared = texts(b"<si><t>a</t></si><si><r><t>b</t></r><r><t> c</t></r><rPh><t>reading</t></rPh></si><si/>")
    content = b'<row><c t="s"><v>0</v></c><c t="s"><v>1</v></c><c t="s"><v>2</v></c></row>'
    assert rows(content, t=shared) == [["a", "b c"]]


DAYS = styles(
    b'<numFmts><numFmt numFmtId="164" formatCode="&quot;day &quot;0"/><numFmt numFmtId="165" formatCode="[$-409]d/m"/>'
    b"</numFmts><cellStyleXfs><xf/></cellStyleXfs><cellXfs>"
    b'<xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="165"/></cellXfs>'
)


def test_a_number_is_a_date_if_its_format_shows_one() -> None:
    content = b"<row>" + b"".join(b'<c s="%d"><v>46328</v></c>' % style for style in range(4)) + b"</row>"
    assert rows(content, s=DAYS) == [["46328", "2026-11-02", "46328", "2026-11-02"]]
    times = (
        b'<row><c s="1"><v>46328.4375</v></c><c s="1"><v>0.5</v></c><c s="1"><v>59</v></c><c s="1"><v>1e9</v></c></row>'
    )
    assert rows(times, s=DAYS) == [["2026-11-02T10:30:00", "12:00:00", "1900-02-28", "1e9"]]
    since_1904 = rows(b'<row><c s="1"><v>44866</v></c></row>', s=DAYS, settings=b'<workbookPr date1904="1"/>')
    assert since_1904 == [["2026-11-02"]]


WRITTEN = [
    (datetime(2026, 11, 2), "2026-11-02"),  # noqa: DTZ001 - cells have no zone.
    (datetime(2026, 11, 2, 8, 15, 30), "2026-11-02T08:15:30"),  # noqa: DTZ001
    (time(8, 15), "08:15:00"),
    (28040.0, "28040"),
    (-0.25, "-0.25"),
    (True, "true"),
    ("Crème “x” 車 🚗", "Crème “x” 車 🚗"),
    ("two\nlines, and a comma", "two\nlines, and a comma"),
]


@pytest.mark.parametrize(("value", "expected"), WRITTEN)
def test_another_programs_workbook_is_read(value: object, expected: str) -> None:
    made = openpyxl.Workbook()
    first = made.active
    assert first is not None
    first.append(["VIN", value])
    saved = io.BytesIO()
    made.save(saved)
    assert list(rows_of_workbook(zipfile.ZipFile(saved))) == [["VIN", expected]]


def test_a_workbook_is_read_whose_xml_names_have_a_namespace_prefix() -> None:
    prefixed = (
        sheet(b"<row><c><v>1</v></c></row>")
        .replace(b"<", b"<x:")
        .replace(b"<x:/", b"</x:")
        .replace(MAIN, b"xmlns:x='a'")
    )
    assert list(rows_of_workbook(book(parts={"xl/sheet.xml": prefixed}))) == [["VIN"], ["1"]]


@pytest.mark.parametrize("columns", [MOST_COLUMNS, MOST_COLUMNS + 1])
def test_a_sheet_has_at_most_the_columns_of_a_feed(columns: int) -> None:
    content = b"<row>" + b"<c><v>1</v></c>" * columns + b"</row>"
    if columns == MOST_COLUMNS:
        assert len(rows(content)[0]) == columns
    else:
        with pytest.raises(FeedError, match=f"at most {MOST_COLUMNS:,} columns"):
            rows(content)
