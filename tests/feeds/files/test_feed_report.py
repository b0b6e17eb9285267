"""What an import reports: progress, problems, columns, refusals that say what to do (docs/reference/feeds.md)."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from msgspec import UNSET
from tests.feeds.files.test_feed_json_layouts import DEALERCOM, SCHEMAORG
from tests.feeds.files.test_feed_layouts import DEALERSOCKET, GOOGLE, HOMENET, META, VAUTO, delimited, only_unit
from tests.feeds.files.test_feed_values import feed_of, unit_of

from dealer_agent.feeds.files.feed import FeedError, RowProblem
from dealer_agent.feeds.files.layouts import LAYOUT_NAMES
from dealer_agent.feeds.files.reader import read_feed

pytestmark = pytest.mark.outside_protocol("feeds")

VIN = "1HGCM82633A004352"
ROWS = 1_700


def _rows(line_end: str) -> bytes:
    return line_end.join(["Stock,Make", *(f"S{n},Ford" for n in range(ROWS))]).encode()


@pytest.mark.parametrize(
    ("data", "total"),
    [
        (_rows("\n"), ROWS + 1),
        (_rows("\r\n"), ROWS + 1),
        (_rows("\r"), ROWS + 1),
        (json.dumps([{"stock": f"S{n}"} for n in range(ROWS)]).encode(), ROWS),
    ],
)
def test_progress_is_reported_in_lines_or_records(data: bytes, total: int) -> None:
    seen: list[tuple[int, int]] = []
    feed = read_feed(data, on_progress=lambda done, out_of: seen.append((done, out_of)))
    assert {out_of for _, out_of in seen} == {total}
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert 3 <= len(seen) <= 20
    # The first report comes when something was done, and shows how much is left.
    assert total // 20 <= seen[0][0] <= total // 2
    again = read_feed(data)
    assert tuple(feed.units) == tuple(again.units)
    assert replace(feed, units=again.units) == again


@pytest.mark.parametrize(
    ("column", "name", "text"),
    [
        ("year", "year", "20"),
        ("city_mpg", "city_mpg", "many"),
        ("Electric Range", "electric_range_mi", "1000000"),
        ("Battery kWh", "battery_kwh", "2000000"),
        ("price", "selling_price", "-500"),
        ("msrp", "msrp", "10000000001"),
        ("mileage", "mileage", "10000001"),
        ("mileage", "mileage", "12 parsecs"),
        ("Engine Displacement", "displacement_cc", "big"),
        ("EngineDisplacementCubicInches", "displacement_cubic_inches", "30 acres"),
        ("condition", "condition", "n/new"),
        ("certified", "certified", "perhaps"),
        ("dc_fast_charge", "dc_fast_charge", "perhaps"),
        ("vehicle_type", "vehicle_type", "submarine"),
        ("inventory_date", "inventory_date", "31/10/2020"),
        ("inventory_date", "inventory_date", "12/31/1949"),
        ("inventory_date", "inventory_date", "1/1/2101"),
        ("Last Modified", "feed_updated_at", "yesterday"),
        ("Last Modified", "feed_updated_at", "1/1/20"),
        # Digits, but not those that dates are written in.
        ("Last Modified", "feed_updated_at", "1/1/\uff12\uff10\uff12\uff10"),
        ("vdp_url", "vdp_url", "ftp://e.example/1"),
    ],
)
def test_an_unreadable_value_is_reported_with_its_member_and_text(column: str, name: str, text: str) -> None:
    """The value is left out and reported, and the row is kept (docs/reference/feeds.md)."""
    feed = feed_of(**{column: text})
    (row_problem,) = feed.warnings
    assert row_problem == RowProblem(2, VIN, f"{name}: {text!r} is not understood; it is left out.")
    assert not hasattr(feed.units[0].unit, name) or getattr(feed.units[0].unit, name) is UNSET


@pytest.mark.parametrize(
    ("column", "member", "text", "value"),
    [
        ("Electric Range", "electric_range_mi", "999999", 999_999.0),
        ("msrp", "msrp", "10000000000", 10_000_000_000),
        ("mileage", "mileage", "10000000", 10_000_000),
        ("mileage", "mileage", "41200 mi.", 41_200),
        ("Engine Displacement", "displacement_cc", "1 cc", 1),
        ("Last Modified", "feed_updated_at", "1/1/2020", datetime(2020, 1, 1, tzinfo=UTC)),
        ("city_mpg", "city_mpg", "0", UNSET),
        ("city_mpg", "city_mpg", "1", 1),
        ("city_mpg", "city_mpg", "26.5", 27),
        ("Engine Displacement", "displacement_cc", "29.9", 29_900),
        ("Engine Displacement", "displacement_cc", "30", 30),
        ("Engine Displacement", "displacement_cc", "2.5 L.", 2_500),
        ("EngineDisplacementCubicInches", "displacement_cc", "121 cu. in.", 1_983),
        ("vehicle_type", "vehicle_type", "Motorcycle", "motorcycle"),
        ("certified", "condition", "Manufacturer Certified", "cpo"),
        ("vdp_url", "vdp_url", "https://e.example/a b", "https://e.example/a%20b"),
        ("inventory_date", "inventory_date", "10/31/2020", date(2020, 10, 31)),
        ("Last Modified", "feed_updated_at", "5/4/2026 5:00 PM", datetime(2026, 5, 4, 17, tzinfo=UTC)),
        ("notes", "notes", "Two keys.", "Two keys."),
        ("model", "model", "Foc\x07us", "Focus"),
        ("model", "model", "A &amp; B", "A & B"),
        # A text that a spreadsheet was told not to take for a number.
        ("trim", "trim", '="007"', "007"),
        ("trim", "trim", '="007" and more', '="007" and more'),
        ("features", "features", "A;B, with C;", ("A", "B, with C")),
        ("features", "features", "A ~ B|C", ("A ~ B", "C")),
        ("features", "features", "me@home|B", ("me@home", "B")),
        ("features", "features", "Audio@CD @ MP3~Safety@ABS", ("CD @ MP3", "ABS")),
        (
            "photos",
            "photos",
            " |https://e.example/1.jpg , |\thttps://e.example/2.jpg;;https://e.example/3.jpg|, ",
            ("https://e.example/1.jpg", "https://e.example/2.jpg", "https://e.example/3.jpg"),
        ),
    ],
)
def test_a_readable_value_is_not_reported(column: str, member: str, text: str, value: object) -> None:
    feed = feed_of(notes="-", **{column: text}) if column != "notes" else feed_of(notes=text)
    assert getattr(feed.units[0].unit, member) == value
    assert feed.warnings == ()


@pytest.mark.parametrize(
    ("column", "name", "most"), [("year", "year", 60), ("vehicle_type", "vehicle_type", 60), ("status", "status", 60)]
)
def test_a_problem_repeats_the_beginning_of_a_long_cell(column: str, name: str, most: int) -> None:
    for length in (most, most + 1):
        (row_problem,) = feed_of(**{column: "x" * length}).warnings
        assert row_problem.text.startswith(f"{name}: {'x' * most!r} is not understood; ")


@pytest.mark.parametrize(("unit", "read"), [(" mi. ", 41_200), ("KM.", 25_600), ("Mile(s)", UNSET)])
def test_the_unit_of_a_mileage_can_have_its_own_column(unit: str, read: object) -> None:
    assert unit_of(mileage="41200", **{"mileage.unit": unit}).mileage == read


@pytest.mark.parametrize("year", [1950, 2100])
def test_dates_from_1950_to_2100_are_read(year: int) -> None:
    found = unit_of(inventory_date=f"6/15/{year}").inventory_date
    assert (found.year if found else None) == year


def test_the_number_of_photos_without_an_address_is_reported() -> None:
    feed = feed_of(photos="ftp://e.example/1.jpg", **{"Photo URL": "x", "Pictures": "https://e.example/2.jpg"})
    (row_problem,) = feed.warnings
    assert row_problem.text == "photos: 2 not an http or https address; left out."
    assert len(feed.units[0].unit.photos or ()) == 1


@pytest.mark.parametrize(
    ("column", "most"),
    [
        ("stock", 64),
        ("vehicle_id", 100),
        ("model", 100),
        ("trim", 150),
        ("engine", 200),
        ("color", 120),
        ("Interior Color", 120),
        ("make", 80),
        ("body", 80),
        ("transmission", 80),
    ],
)
def test_a_long_text_is_cut_without_a_blank_at_the_end(column: str, most: int) -> None:
    member = {"color": "exterior_color", "Interior Color": "interior_color"}.get(column, column)
    assert getattr(unit_of(**{column: "x" * (most + 1)}), member) == "x" * most
    assert getattr(unit_of(**{column: "x" * (most - 1) + " y"}), member) == "x" * (most - 1)
    assert getattr(unit_of(**{column: "x" * most}), member) == "x" * most


def test_the_time_of_a_feed_is_kept_in_utc() -> None:
    """For every offset in the feed and every zone of the machine (docs/reference/feeds.md)."""
    found = unit_of(**{"Last Modified": "2026-05-04T17:00:00-05:00"}).feed_updated_at
    assert found == datetime(2026, 5, 4, 22, tzinfo=UTC)
    assert isinstance(found, datetime)
    assert found.tzinfo is UTC


@pytest.mark.parametrize("column", ["description", "notes"])
def test_long_prose_is_cut_without_a_blank_at_the_end(column: str) -> None:
    """A description has at most 20,000 characters (docs/reference/feeds.md)."""
    assert getattr(unit_of(**{column: "x" * 20_001}), column) == "x" * 20_000
    assert getattr(unit_of(**{column: "word " * 20_000}), column) == ("word " * 4_000).rstrip()


def test_an_address_has_at_most_2048_characters() -> None:
    longest = "https://e.example/".ljust(2_048, "x")
    assert unit_of(vdp_url=longest).vdp_url == longest
    assert unit_of(vdp_url=longest + "x").vdp_url is UNSET


def test_at_most_two_hundred_photos_are_kept() -> None:
    assert len(unit_of(photos="|".join(f"https://e.example/{n}" for n in range(201))).photos or ()) == 200


def test_a_sold_unit_is_reported_with_its_row() -> None:
    feed = read_feed(f"VIN,Status\n{VIN},In Stock\n{VIN},Sold\n".encode())
    assert feed.sold == (RowProblem(3, VIN, "The row says that the unit is sold."),)


@pytest.mark.parametrize(
    ("status", "is_sold"),
    [("https://schema.org/InStock", False), ("https://schema.org/SoldOut", True), ("http://schema.org/SoldOut", True)],
)
def test_the_words_of_schema_org_are_known(status: str, is_sold: bool) -> None:
    record = SCHEMAORG | {"@type": ["Product", "https://schema.org/Motorcycle"], "offers": {"availability": status}}
    feed = read_feed(json.dumps(record).encode())
    assert (len(feed.sold), len(feed.warnings)) == (is_sold, 0)
    assert [row.unit.vehicle_type for row in feed.units] == ([] if is_sold else ["motorcycle"])


CHECK_DIGIT = "The VIN's check digit fails; the VIN is kept as it is."
SHAPELESS = "The VIN '{}' is not 17 letters and digits without I, O and Q; the unit goes by its stock number."


@pytest.mark.parametrize(
    ("year", "vehicle_type", "vin", "kept", "row_problem"),
    [
        ("1980", "", "194677S100123", "194677S100123", None),
        ("1981", "", "194677S100123", UNSET, SHAPELESS.format("194677S100123")),
        ("1980", "", "1HGCM82633A004353", "1HGCM82633A004353", None),
        ("1981", "", "1HGCM82633A004353", "1HGCM82633A004353", CHECK_DIGIT),
        # A trailer or a boat has a hull or serial number.
        ("2015", "other", "ABC123", "ABC123", None),
        ("2015", "car", "ABC123", UNSET, SHAPELESS.format("ABC123")),
        ("2015", "car", "X" * 60, UNSET, SHAPELESS.format("X" * 60)),
        ("2015", "car", "X" * 61, UNSET, SHAPELESS.format("X" * 60)),
    ],
)
def test_vins_since_1981_have_17_characters(
    year: str, vehicle_type: str, vin: str, kept: object, row_problem: str | None
) -> None:
    feed = feed_of(vin=vin, year=year, vehicle_type=vehicle_type)
    assert feed.units[0].unit.vin == kept
    assert [each.text for each in feed.warnings] == ([] if row_problem is None else [row_problem])


@pytest.mark.parametrize("row", [VAUTO, HOMENET, DEALERSOCKET, GOOGLE, META], ids=lambda row: str(len(row)))
def test_no_column_of_a_layout_is_reported_as_unknown(row: dict[str, str]) -> None:
    feed = read_feed(delimited(row | {"Owner's hat": "brown"}))
    strangers = {"condition", "image[0].tag[0]"} if row is META else set()
    assert set(feed.columns_not_understood) == {"Owner's hat"} | strangers


@pytest.mark.parametrize(
    ("changed", "member", "value"),
    [
        # A column that the layout does not name is still read, behind the layout's own.
        ({"ExtColor": "Blue"}, "exterior_color", "Hypnotique Red"),
        ({"ExtColor": "Blue", "Colour": ""}, "exterior_color", "Blue"),
        # Two columns make vAuto's trim; what another layout calls a trim does not lengthen it.
        ({"Trim": "X"}, "trim", "Abarth V4"),
        # The engine says the fuel in DealerSocket's files only.
        ({"Fuel": "", "Engine": "5.3L V8 Flex Fuel"}, "fuel", UNSET),
    ],
)
def test_the_generic_names_come_after_those_of_the_layout(changed: dict[str, str], member: str, value: object) -> None:
    feed = read_feed(delimited(VAUTO | changed))
    assert (feed.layout, getattr(only_unit(feed), member)) == ("vauto", value)


@pytest.mark.parametrize(("fuel", "read"), [("Diesel", "diesel"), ("", "flex")])
def test_the_engine_of_dealersocket_gives_the_fuel_without_a_fuel_column(fuel: str, read: str) -> None:
    assert only_unit(read_feed(delimited(DEALERSOCKET | {"Fuel": fuel}))).fuel == read


@pytest.mark.parametrize(
    ("header", "layout"),
    [
        # Few layouts know these names, many know `Mileage`: the rare ones say more.
        ("VIN,Year,Make,Model,Certified,Series Detail,Disposition,Mileage", "vauto"),
        ("VIN,Make,Model,image[0].url,image[1].url", "meta"),
    ],
)
def test_a_column_counts_more_if_fewer_layouts_have_it(header: str, layout: str) -> None:
    assert read_feed(f"{header}\n".encode()).layout == layout


@pytest.mark.parametrize(
    ("data", "layout", "says"),
    [
        (
            b'[{"stock": "A"}]',
            "vauto",
            "This file is JSON, .* layout vauto .*: canonical, dealercom, schemaorg, generic",
        ),
        (
            b"VIN,Make\n",
            "schemaorg",
            "This file is a delimited file, .* layout schemaorg .*: canonical, vauto, homenet, dealersocket, google,"
            " meta, carsforsale, generic",
        ),
        (b"Stock_No,Make\nA,Ford\n", "canonical", r"stock number in the layout canonical\. Give the file a header"),
    ],
)
def test_a_layout_for_other_files_is_refused_with_those_that_fit(data: bytes, layout: str, says: str) -> None:
    with pytest.raises(FeedError, match=says):
        read_feed(data, layout=layout)


def test_a_layout_that_is_named_wins_over_the_one_that_fits_best() -> None:
    data = json.dumps([{"vin": VIN, "stockNumber": "S", "type": "USED", "internetPrice": 9000}]).encode()
    assert read_feed(data).layout == "dealercom"
    assert read_feed(data, layout="generic").layout == "generic"
    assert read_feed(data, layout=" DealerCom ").layout == "dealercom"


@pytest.mark.parametrize(("name", "repeated"), [("vouto", "vouto"), ("x" * 60, "x" * 60), ("x" * 61, "x" * 60)])
def test_an_unknown_layout_is_refused_before_the_file_is_read(name: str, repeated: str) -> None:
    with pytest.raises(FeedError) as refused:
        read_feed(b"", layout=name)
    assert str(refused.value) == f"There is no layout named {repeated!r}. The layouts are: {', '.join(LAYOUT_NAMES)}."


CAR: dict[str, Any] = {"vin": VIN, "make": "Ford"}


@pytest.mark.parametrize(
    "fees",
    [
        7,
        [7],
        [{"name": "Doc"}],
        [{"amount": 499}],
        [{"name": " ", "amount": 499}],
        [{"name": 1, "amount": 499}],
        [{"name": "Doc", "amount": None}],
        [{"name": "Doc", "amount": True}],
        [{"name": "Doc", "amount": [499]}],
        [{"name": "Doc", "amount": "a lot"}],
        [{"name": "Doc", "amount": 499}, {"name": "Prep"}],
    ],
)
def test_fees_are_read_all_or_none(fees: object) -> None:
    """A price with only some of its fees would be wrong."""
    feed = read_feed(json.dumps([CAR | {"fees": fees}]).encode())
    (row_problem,) = feed.warnings
    assert row_problem.text == "fees: not understood; give a list of {name, amount} in whole dollars."
    assert feed.units[0].unit.fees is UNSET


@pytest.mark.parametrize(
    ("value", "passed"),
    [
        (2**63 - 1, True),
        (2**63, False),
        (-(2**63) + 1, True),
        (-(2**64), False),
        (False, True),
        ("x" * 2_000, True),
    ],
)
def test_an_extra_scalar_is_passed_through_if_json_can_represent_it(value: object, passed: bool) -> None:
    feed = read_feed(json.dumps([CAR | {"acme": value, "other_attributes": {"acme": value}}]).encode())
    unit = feed.units[0].unit
    expected = {"acme": value} if passed else {}
    assert (unit.extras, unit.other_attributes) == (expected, expected or UNSET)


def test_extra_members_are_bounded() -> None:
    many = {f"acme{n}": "x" * 2_001 for n in range(101)}
    unit = read_feed(json.dumps([CAR | many]).encode()).units[0].unit
    assert (len(unit.extras), {len(str(value)) for value in unit.extras.values()}) == (100, {2_000})
    named = read_feed(json.dumps([CAR | {"a" * 65: 1, "fees": [{"name": "f" * 101, "amount": 1}]}]).encode())
    assert list(named.units[0].unit.extras) == ["a" * 64]
    assert [fee.name for fee in named.units[0].unit.fees or ()] == ["f" * 100]


def test_what_a_unit_cost_is_withheld_inside_arrays_too() -> None:
    feed = read_feed(json.dumps([CAR | {"offers": [{"price": 9000, "cost": 1}, [{"invoice": 2}]]}]).encode())
    assert set(feed.columns_withheld) == {"offers.cost", "offers.invoice"}


@pytest.mark.parametrize("says", [True, False])
def test_yes_and_no_of_json_are_yes_and_no(says: bool) -> None:
    assert read_feed(json.dumps([CAR | {"dc_fast_charge": says}]).encode()).units[0].unit.dc_fast_charge is says


def test_each_item_of_an_array_is_one_line() -> None:
    unit = read_feed(json.dumps([CAR | {"features": ["Glass\nroof", "A|B", "C, D"]}]).encode()).units[0].unit
    assert unit.features == ("Glass roof", "A|B", "C, D")


def test_a_record_of_dealercom_is_read_without_problems() -> None:
    feed = read_feed(json.dumps([DEALERCOM]).encode())
    assert (feed.warnings, feed.columns_not_understood, feed.columns_withheld) == ((), (), ("invoicePrice",))
