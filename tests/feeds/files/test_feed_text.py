"""From bytes to rows: encodings, quotes, odd rows, files without a header, JSON (docs/reference/feeds.md)."""

import json

import pytest
from msgspec import UNSET

from dealer_agent.feeds.files.feed import FeedError
from dealer_agent.feeds.files.reader import read_feed

pytestmark = pytest.mark.outside_protocol("feeds")

VIN = "1HGCM82633A004352"
OTHER_VIN = "5YJ3E1EA7KF317000"
TABLE = f"VIN,Make,Model\r\n{VIN},Citroën,C3"
RECORDS = json.dumps([{"vin": VIN, "make": "Citroën"}], ensure_ascii=False)


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (TABLE.encode(), "utf-8"),
        (TABLE.encode("utf-8-sig"), "utf-8"),
        (TABLE.encode("utf-16"), "utf-16"),
        (TABLE.encode("utf-32"), "utf-32"),
        (TABLE.encode("utf-16-le"), "utf-16-le"),
        (TABLE.encode("utf-16-be"), "utf-16-be"),
        (TABLE.encode("cp1252"), "cp1252"),
        # The accent is the file's last byte: UTF-8 would want more of it.
        (f"VIN,Make,Model\n{VIN},Citroen,Cité".encode("cp1252"), "cp1252"),
        (RECORDS.encode("utf-16"), "utf-16"),
        (RECORDS.encode("utf-16-be"), "utf-16-be"),
        (RECORDS.encode("cp1252"), "cp1252"),
    ],
)
def test_the_encoding_is_detected_and_accents_are_decoded(data: bytes, encoding: str) -> None:
    feed = read_feed(data)
    assert feed.encoding == encoding
    unit = feed.units[0].unit
    assert unit.vin == VIN
    assert unit.make == "Citroën" or unit.model == "Cité"


def test_a_file_can_start_with_an_accent() -> None:
    feed = read_feed(f"Época,VIN,Make\n1,{VIN},Ford\n".encode())
    assert (feed.encoding, feed.columns_not_understood) == ("utf-8", ("Época",))


def test_a_file_in_an_unusual_encoding_is_read() -> None:
    rows = "\n".join(f",S{n},日産自動車の新しい車です,表示" for n in range(40))
    feed = read_feed(f"VIN,Stock,Make,Model\n{rows}\n".encode("shift_jis"))
    assert [row.unit.make for row in feed.units] == ["日産自動車の新しい車です"] * 40


def test_utf16_that_ends_inside_a_character_is_read_up_to_it() -> None:
    feed = read_feed(f"VIN,Make,Model\n{VIN},Ford,Focus\n{OTHER_VIN},Tesla,Model 3".encode("utf-16")[:-1])
    assert [row.unit.make for row in feed.units] == ["Ford", "Tesla"]


def test_a_single_zero_byte_does_not_make_a_file_binary() -> None:
    rows = "\n".join(f",S{n},Ford,Focus" for n in range(20))
    feed = read_feed(f"VIN,Stock,Make,Model\n{VIN},S,Fo\0rd,Focus\n{rows}".encode())
    assert (len(feed.units), feed.units[0].unit.make) == (21, "Ford")


def test_zeros_after_the_end_do_not_make_a_file_binary() -> None:
    """A file from a block device, or an incomplete copy, can end with zeros."""
    rows = "".join(f",S{n},Ford,Focus\n" for n in range(6_000))
    feed = read_feed(f"VIN,Stock,Make,Model\n{VIN},S,Fo\0rd,Focus\n{rows}".encode() + b"\0" * 3_000)
    assert (len(feed.units), [refused.line for refused in feed.refused]) == (6_001, [6_003])


def test_bytes_that_are_mostly_zeros_are_refused() -> None:
    with pytest.raises(FeedError, match="CSV, TAB-separated text or JSON"):
        read_feed(b"\x00\x00\xff\xfe" * 100)


@pytest.mark.parametrize(
    ("rows", "trims"),
    [
        (f'VIN\tTrim\n{VIN}\t"Sport"\n', ["Sport"]),
        (f'VIN\tTrim\tMake\n{VIN}\t""\tFord\n', [UNSET]),
        (f'VIN\tTrim\tMake\n{VIN}\t"\tFord\n', ['"']),
        # A quoted header: here a quoted cell may hold a TAB and a line end.
        (f'"VIN"\t"Trim"\n"{VIN}"\t"Sport\tTour"\n"{OTHER_VIN}"\t"Sport\nTour"\n', ["Sport Tour", "Sport Tour"]),
        (f' \n"VIN"\t"Trim"\n"{VIN}"\t"Sport\tTour"\n', ["Sport Tour"]),
        # A blank before a quoted cell of a comma file does not belong to the cell.
        (f'VIN, Trim\n{VIN}, "Sport, Tour"\n', ["Sport, Tour"]),
        (f'VIN; Trim\n{VIN};6" lift\n', ['6" lift']),
    ],
)
def test_quotes_enclose_cells_or_mean_inches(rows: str, trims: list[object]) -> None:
    assert [row.unit.trim for row in read_feed(rows.encode()).units] == trims


def test_a_cell_that_is_too_long_is_refused_and_the_rows_after_it_are_read() -> None:
    rows = f"VIN,Stock,Make\n,A,Ford\n,B,{'x' * 200_000}\n,C,Ford\n,D,Ford\n"
    feed = read_feed(rows.encode())
    assert [row.unit.stock for row in feed.units] == ["A", "C", "D"]
    (refused,) = feed.refused
    assert refused.line == 3
    assert "131,072 characters" in refused.text
    assert "quotation mark" in refused.text


@pytest.mark.parametrize("missing", [1, 2])
def test_a_row_that_is_short_by_any_number_of_cells_is_reported(missing: int) -> None:
    cells = [VIN, "S1", "Ford", "Focus"][: 4 - missing]
    (row_problem,) = read_feed(f"VIN,Stock,Make,Model\n{','.join(cells)}\n".encode()).warnings
    assert f"{4 - missing} cells where the header has 4" in row_problem.text


PROSE = "one, two, three, four, five, six, seven"


@pytest.mark.parametrize(
    ("header", "lines"),
    [
        ("VIN,Stock,Year,Make,Model,Price,Description", 4),
        ("VIN,Description", 12),
        ("VIN,Stock,Make,Description", 12),
    ],
)
def test_prose_with_many_lines_and_commas_is_not_an_open_quotation_mark(header: str, lines: int) -> None:
    blanks = "," * (header.count(",") - 1)
    text = "\n".join([PROSE] * lines)
    feed = read_feed(f'{header}\n{VIN}{blanks},"{text}"\n{OTHER_VIN}{blanks},short\n'.encode())
    assert feed.refused == ()
    assert [row.unit.description for row in feed.units] == [text, "short"]


def test_prose_with_some_lines_like_rows_is_not_an_open_quotation_mark() -> None:
    text = "\n".join(["Options:", "a, b, c, d, e, f, g", "and", "nothing", "else", "a, b, c, d, e, f, g", "Call us"])
    feed = read_feed(f'VIN,Stock,Year,Make,Model,Price,Description\n{VIN},,,,,,"{text}"\n'.encode())
    assert feed.units[0].unit.description == text


def test_prose_with_too_few_commas_for_rows_is_not_an_open_quotation_mark() -> None:
    text = "\n".join(["a, b, c, d, e, f"] * 6)
    feed = read_feed(f'VIN,Stock,Year,Make,Model,Price,Description\n{VIN},,,,,,"{text}"\n'.encode())
    assert feed.units[0].unit.description == text


CARSFORSALE = (
    *("555", "U", VIN, "K1", "Ford", "F-150", "2013", "XLT", "SuperCrew", "75033", "5.0L V8", "8", "Gas"),
    *("Automatic", "15995", "Silver", "Gray", "Tow hitch|Bed liner", "Runs", "https://p.example.com/1.jpg"),
)


@pytest.mark.parametrize("said", ["N", "U", "New", "Used", "CPO", "C", "", "new", "USED"])
def test_a_file_without_a_header_is_recognised_by_its_condition_column(said: str) -> None:
    """CarsForSale's 20 columns have fixed places (docs/reference/feeds.md)."""
    feed = read_feed("|".join([CARSFORSALE[0], said, *CARSFORSALE[2:17], "Tow hitch", *CARSFORSALE[18:]]).encode())
    assert (feed.layout, feed.units[0].unit.model) == ("carsforsale", "F-150")


@pytest.mark.parametrize(
    ("row", "is_recognised"),
    [
        (CARSFORSALE[:18], True),
        (CARSFORSALE[:17], False),
        ((*CARSFORSALE, "", "x"), True),
        ((*CARSFORSALE, "", "", "x"), False),
        ((*CARSFORSALE[:2], "", *CARSFORSALE[3:]), True),
        ((*CARSFORSALE[:3], "", *CARSFORSALE[4:]), True),
        ((*CARSFORSALE[:2], "", "", *CARSFORSALE[4:]), False),
        ((CARSFORSALE[0], "maybe", *CARSFORSALE[2:]), False),
        ((*CARSFORSALE[:6], "13", *CARSFORSALE[7:]), False),
    ],
)
def test_a_file_without_a_header_has_columns_in_fixed_places(row: tuple[str, ...], is_recognised: bool) -> None:
    data = ",".join(row).encode()
    if is_recognised:
        assert read_feed(data).layout == "carsforsale"
    else:
        with pytest.raises(FeedError, match=r"stock number\. Give the file a header"):
            read_feed(data)


def test_a_file_without_a_header_can_contain_inch_marks() -> None:
    """In TAB files quotes are inch marks (docs/reference/feeds.md)."""
    marked = (*CARSFORSALE[:7], '"Sport', *CARSFORSALE[8:])
    plain = (*CARSFORSALE[:2], OTHER_VIN, *CARSFORSALE[3:])
    feed = read_feed("\n".join("\t".join(row) for row in (marked, plain)).encode())
    assert (feed.layout, [row.unit.trim for row in feed.units]) == ("carsforsale", ['"Sport', "XLT"])


@pytest.mark.parametrize("data", [b",,,,\n,,,,\n", b"\t\t\t;;;\n", b"||||"])
def test_a_file_of_separators_alone_is_refused(data: bytes) -> None:
    with pytest.raises(FeedError, match="header"):
        read_feed(data)


def test_a_file_with_only_two_columns_is_read_as_a_table() -> None:
    assert read_feed(f"VIN,Price\n{VIN},9000\n".encode()).units[0].unit.selling_price == 9000


@pytest.mark.parametrize("before", ["", "\n", " \r\n\t"])
@pytest.mark.parametrize(
    "text",
    [
        f'[{{"vin": "{VIN}"}}]',
        f'{{"vin": "{VIN}"}}',
        f'<html><script type="application/ld+json">{{"vehicleIdentificationNumber": "{VIN}"}}</script></html>',
    ],
)
def test_blanks_before_json_or_html_are_ignored(before: str, text: str) -> None:
    assert read_feed((before + text).encode()).units[0].unit.vin == VIN


def test_an_invalid_script_of_a_page_does_not_hide_the_next_one() -> None:
    script = '<script type="application/ld+json">{}</script>'
    page = script.format("{broken") + script.format(json.dumps({"vehicleIdentificationNumber": VIN}))
    assert read_feed(f"<html>{page}</html>".encode()).units[0].unit.vin == VIN


def test_blank_lines_between_the_objects_of_json_lines_are_skipped_and_counted() -> None:
    feed = read_feed(b'{"stock": "A"}\n\n  \n{"stock": "B"}\n')
    assert [(row.line, row.unit.stock) for row in feed.units] == [(1, "A"), (4, "B")]


@pytest.mark.parametrize("data", [b'{"stock": "A"}\n7\n', b'{"stock": "A"}\n{"stock": \n', b'[{"stock": "A"}, 7]'])
def test_a_record_that_is_not_an_object_is_refused_with_that_reason(data: bytes) -> None:
    (refused,) = read_feed(data).refused
    assert (refused.line, refused.identifier) == (2, None)
    assert "is not a JSON object" in refused.text


def test_json_can_contain_line_ends_in_texts_and_nan() -> None:
    feed = read_feed(b'[{"stock": "A", "description": "one\ntwo\tthree", "price": NaN, "score": NaN, "depth": 1e999}]')
    unit = feed.units[0].unit
    assert (unit.description, unit.selling_price, unit.extras) == ("one\ntwo three", UNSET, {})


def test_the_vehicles_of_a_document_are_the_list_with_a_known_name() -> None:
    document = {"sold_last_week": [{"stock": "OLD", "make": "Ford"}], "vehicles": [{"stock": "A", "make": "Ford"}]}
    assert [row.unit.stock for row in read_feed(json.dumps(document).encode()).units] == ["A"]


@pytest.mark.parametrize("wrap", ["data", "anything", None])
@pytest.mark.parametrize(("levels", "is_found"), [(7, True), (8, True), (9, False), (40, False)])
def test_vehicles_are_searched_eight_levels_deep(wrap: str | None, levels: int, is_found: bool) -> None:
    document: object = [{"stock": "A"}]
    for _ in range(levels):
        document = [document] if wrap is None else {wrap: document}
    data = json.dumps(document).encode()
    if is_found:
        assert read_feed(data).units[0].unit.stock == "A"
    else:
        with pytest.raises(FeedError, match="no vehicle"):
            read_feed(data)


@pytest.mark.parametrize("in_lists", [False, True])
@pytest.mark.parametrize(("levels", "is_seen"), [(7, True), (8, True), (9, False), (40, False)])
def test_members_of_a_record_are_read_eight_levels_deep(in_lists: bool, levels: int, is_seen: bool) -> None:
    node: object = 1
    for _ in range(levels):
        node = [node] if in_lists else {"a": node}
    name = "x" if in_lists else "x" + ".a" * levels
    feed = read_feed(json.dumps([{"stock": "A", "x": node}]).encode(), layout="generic")
    assert feed.columns_not_understood == ((name,) if is_seen else ())
