"""Single values: money, miles, dates, displacement and others (docs/protocol.md#listings; docs/reference/feeds.md)."""

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from vininfo import Vin

from dealer_agent.feeds.files import values
from dealer_agent.feeds.files.feed import ParsedFeed
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.inventory.listing import Unit

pytestmark = pytest.mark.requirement("listing-member-types", "makes-spelled")

VIN = "1HGCM82633A004352"


def feed_of(**cells: str) -> ParsedFeed:
    """A one-row file in the canonical layout, cells by column."""
    row = {"vin": VIN, "stock": "S1", "make": "Ford"} | {name.replace("__", "."): text for name, text in cells.items()}
    quoted = [",".join('"' + text.replace('"', '""') + '"' for text in texts) for texts in (row, row.values())]
    return read_feed("\n".join(quoted).encode(), layout="generic")


def unit_of(**cells: str) -> Unit:
    return feed_of(**cells).units[0].unit


@pytest.mark.parametrize(
    ("text", "dollars"),
    [
        ("28995", 28995),
        ("$28,995", 28995),
        ("18000 USD", 18000),
        ("USD 18000", 18000),
        ("$ 28,995.49", 28995),
        ("28995.50", 28996),
        ("28996.50", 28997),
        ("", UNSET),
        ("0", UNSET),
        ("$0.00", UNSET),
        ("Call", UNSET),
        ("#N/A", UNSET),
        ("-500", UNSET),
        ("18000 CAD", UNSET),
        ("1e5", UNSET),
        ("2,89,95", UNSET),
        ("99999999999999999999999", UNSET),
    ],
)
def test_a_price_is_whole_dollars_or_absent(text: str, dollars: int) -> None:
    assert unit_of(price=text).selling_price == dollars


@pytest.mark.parametrize(
    ("text", "row_problems"), [("", 0), ("0", 0), ("Call for price", 0), ("N/A", 0), ("-500", 1), ("abc", 1)]
)
def test_an_unreadable_price_is_reported_and_call_for_price_is_not(text: str, row_problems: int) -> None:
    assert len(feed_of(price=text).warnings) == row_problems


@pytest.mark.parametrize(
    ("text", "unit", "miles"),
    [
        ("41,200", "", 41200),
        ("41200 mi", "", 41200),
        ("66306", "KM", 41201),
        ("66306 km", "", 41201),
        ("12", "MI", 12),
        ("0", "", 0),
        ("", "", UNSET),
        ("12 parsecs", "", UNSET),
        ("-3", "", UNSET),
    ],
)
def test_mileage_is_whole_miles(text: str, unit: str, miles: int) -> None:
    assert unit_of(mileage=text, **{"Mileage Unit": unit}).mileage == miles


@pytest.mark.parametrize(
    ("text", "year"),
    [("2020", 2020), ("2020.0", 2020), ("1900", 1900), ("2100", 2100), ("20", UNSET), ("2101", UNSET), ("1899", UNSET)],
)
def test_a_year_has_four_digits(text: str, year: int) -> None:
    assert unit_of(year=text).year == year


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("10/31/2020", date(2020, 10, 31)),
        ("11/9/2020 6:38:02 PM", date(2020, 11, 9)),
        ("2024-08-17 23:26:56", date(2024, 8, 17)),
        ("2024-08-17", date(2024, 8, 17)),
        ("2024-08-17T23:30:00-07:00", date(2024, 8, 17)),
        ("Aug 17, 2024", date(2024, 8, 17)),
        ("31/10/2020", UNSET),
        ("01/01/0001", UNSET),
        ("0001-01-01T00:00:00+14:00", UNSET),
        ("yesterday", UNSET),
    ],
)
def test_an_inventory_date_is_read_in_us_order_and_iso(text: str, day: date) -> None:
    assert unit_of(inventory_date=text).inventory_date == day


@pytest.mark.parametrize(
    "text", ["5/4/2026 5:00 PM", "2026-05-04 17:00:00", "2026-05-04T17:00:00Z", "2026-05-04T19:00:00+02:00"]
)
def test_a_time_without_a_zone_is_utc(text: str) -> None:
    assert unit_of(updated_at=text).feed_updated_at == datetime(2026, 5, 4, 17, tzinfo=UTC)


@pytest.fixture
def machine_in_chicago(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "America/Chicago")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("machine_in_chicago")
@pytest.mark.parametrize("text", ["5/4/2026 5:00 PM", "2026-05-04 17:00:00"])
def test_the_time_zone_of_the_machine_does_not_change_a_feeds_times(text: str) -> None:
    assert unit_of(updated_at=text).feed_updated_at == datetime(2026, 5, 4, 17, tzinfo=UTC)


@pytest.mark.parametrize(
    ("column", "text", "is_reported"),
    [
        ("mileage", "41,200 mi", False),
        ("mileage", "12 parsecs", True),
        ("status", "In Stock", False),
        ("status", "gone fishing", True),
        ("photos", "https://e.example/1.jpg", False),
        ("photos", "N/A|https://e.example/1.jpg", False),
        ("photos", "ftp://e.example/1.jpg", True),
        ("certified", "Yes", False),
        ("certified", "perhaps", True),
        ("dc_fast_charge", "no", False),
        ("dc_fast_charge", "perhaps", True),
    ],
)
def test_only_unreadable_values_are_reported(column: str, text: str, is_reported: bool) -> None:
    row_problems = [row_problem.text for row_problem in feed_of(**{column: text}).warnings]
    assert len(row_problems) == is_reported
    assert all(column in row_problem for row_problem in row_problems)


@pytest.mark.parametrize(("text", "says"), [("yes", True), ("0", False), ("perhaps", UNSET), ("", UNSET)])
def test_a_flag_is_yes_no_or_unknown(text: str, says: bool) -> None:
    assert unit_of(dc_fast_charge=text).dc_fast_charge is says


@pytest.mark.parametrize(
    ("column", "text", "cc"),
    [
        ("Engine Displacement", "1.40", 1400),
        ("Engine Displacement", "2.5 L", 2500),
        ("Engine Displacement", "6", 6000),
        ("Engine Displacement", "1998 cc", 1998),
        ("Engine Displacement", "350 cid", 5735),
        ("displacement_cc", "883", 883),
        ("EngineDisplacementCubicInches", "121", 1983),
        ("Engine Displacement", "0", UNSET),
        ("Engine Displacement", "big", UNSET),
        # More than any engine has: a number in the wrong unit.
        ("Engine Displacement", "30000 cc", 30_000),
        ("Engine Displacement", "30001 cc", UNSET),
    ],
)
def test_displacement_is_cubic_centimetres(column: str, text: str, cc: int) -> None:
    assert unit_of(**{column: text}).displacement_cc == cc


@pytest.mark.parametrize(
    ("condition", "certified", "word"),
    [
        ("N", "", "new"),
        ("n/new", "", UNSET),
        ("u", "No", "used"),
        ("U", "Yes", "cpo"),
        ("Used", "1", "cpo"),
        ("USED", "True", "cpo"),
        ("used", "0", "used"),
        ("CPO", "", "cpo"),
        ("", "Y", "cpo"),
        ("", "N", UNSET),
        ("", "", UNSET),
        # A new unit is not pre-owned, whatever the certified column says.
        ("New", "Yes", "new"),
    ],
)
def test_condition_comes_from_two_columns(condition: str, certified: str, word: str) -> None:
    assert unit_of(condition=condition, certified=certified).condition == word


@pytest.mark.parametrize(
    ("column", "text", "word"),
    [("IsUsed", "true", "used"), ("IsUsed", "0", "new"), ("IsNew", "Y", "new"), ("IsNew", "N", "used")],
)
def test_the_condition_can_come_from_a_column_with_a_flag(column: str, text: str, word: str) -> None:
    assert unit_of(**{column: text}).condition == word


@pytest.mark.parametrize(
    ("text", "status", "is_sold"),
    [
        ("", "available", False),
        ("In Stock", "available", False),
        ("In Transit", "intransit", False),
        ("Sale Pending", "pending", False),
        ("gone fishing", "available", False),
        ("Sold", None, True),
        ("sold out", None, True),
    ],
)
def test_a_row_of_a_sold_unit_is_not_for_sale(text: str, status: str | None, is_sold: bool) -> None:
    feed = feed_of(status=text)
    assert len(feed.sold) == is_sold
    assert [row.unit.status for row in feed.units] == ([status] if status else [])


@pytest.mark.parametrize(
    ("text", "photos"),
    [
        ("https://e.example/1.jpg|http://e.example/2.jpg", 2),
        ("https://e.example/1.jpg,https://e.example/2.jpg;https://e.example/3.jpg", 3),
        ("https://e.example/a,b.jpg | https://e.example/c|d.jpg", 1),
        ("https://e.example/1.jpg|https://e.example/1.jpg|", 1),
        ("ftp://e.example/1.jpg", 0),
        ("javascript:alert(1)", 0),
        ("https://user:secret@e.example/1.jpg", 0),
        ("https://", 0),
        ("http://[::1", 0),
    ],
)
def test_photos_are_split_where_a_separator_stands_before_http(text: str, photos: int) -> None:
    assert len(unit_of(photos=text).photos or ()) == photos


@pytest.mark.parametrize(
    ("text", "features"),
    [
        ("A, with B|C", ("A, with B", "C")),
        ("A,B , a", ("A", "B", "a")),
        ("Audio@CD~Safety@ABS~Loose", ("CD", "ABS", "Loose")),
        ("<ul><li>One</li><li>Two</li></ul>", ("One", "Two")),
        ('7" Display|#N/A||', ('7" Display',)),
    ],
)
def test_features_are_split(text: str, features: tuple[str, ...]) -> None:
    assert unit_of(features=text).features == features


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("One<BR><BR>two", "One\n\ntwo"),
        ("<p>One</p><p>two <b>three</b></p>", "One\n\ntwo three"),
        ("A&nbsp;B &amp; C", "A B & C"),
        ("Under < 3 and > 2", "Under < 3 and > 2"),
        ("<script>alert(1)</script>Fine", "Fine"),
        # Without regard to case, the long s is an s.
        ("<\N{LATIN SMALL LETTER LONG S}cript>alert(1)", "alert(1)"),
        ("line\r\nend\x00\x07\ufffe", "line\nend"),
        ("\u202e11502 ecirP\u202c", "11502 ecirP"),
        ("😀 é", "😀 é"),
        ("#N/A", UNSET),
    ],
)
def test_a_description_is_plain_text(text: str, plain: str) -> None:
    assert unit_of(description=text).description == plain


def test_a_description_keeps_twenty_thousand_characters() -> None:
    assert len(unit_of(description="word " * 20_000).description or "") in (19_999, 20_000)


@pytest.mark.parametrize("text", ["#N/A", "n/a", "null", "  ", "-", "None"])
def test_cells_without_a_value_are_absent(text: str) -> None:
    feed = feed_of(model=text, price=text, year=text, body=text, photos=text)
    assert feed.units[0].unit == Unit(vin=VIN, stock="S1", make="Ford")
    assert feed.warnings == ()


@pytest.mark.parametrize(
    ("vin", "stock", "year", "kept", "says"),
    [
        ("1hgcm82633a004352 ", "S1", "2003", VIN, None),
        ("1HGCM82633A004353", "S1", "2003", "1HGCM82633A004353", "check digit"),
        ("1HGCM82633A00435", "S1", "2003", UNSET, "17 letters"),
        ("IHGCM82633A004352", "S1", "2003", UNSET, "17 letters"),
        ("194677S100123", "S1", "1967", "194677S100123", None),
        ("194677S100123", "S1", "1990", UNSET, "17 letters"),
    ],
)
def test_a_vin_is_checked_and_its_check_digit_only_reported(
    vin: str, stock: str, year: str, kept: str, says: str | None
) -> None:
    """A failing check digit is reported, not refused, because real units have them."""
    feed = feed_of(vin=vin, stock=stock, year=year)
    assert feed.units[0].unit.vin == kept
    assert (
        [says in row_problem.text for row_problem in feed.warnings] == ([True] if says else [])
        if says
        else not feed.warnings
    )


@given(st.text("0123456789ABCDEFGHJKLMNPRSTUVWXYZ", min_size=17, max_size=17), st.sampled_from("0123456789X"))
def test_a_check_digit_is_that_of_the_regulation(vin: str, digit: str) -> None:
    vin = vin[:8] + digit + vin[9:]
    assert values.has_check_digit(vin) == Vin(vin).verify_checksum()


@pytest.mark.parametrize(("vin", "says"), [("", "neither a VIN nor a stock number"), ("123", "'123' is not a VIN")])
def test_a_row_with_neither_vin_nor_stock_number_is_refused(vin: str, says: str) -> None:
    feed = feed_of(vin=vin, stock="")
    (refused,) = feed.refused
    assert (len(feed.units), refused.line) == (0, 2)
    assert says in refused.text
