"""Every delimited layout is recognised, and read into canonical words (docs/protocol.md#canonical-words)."""

import csv
import io
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from tests.published_files import VAUTO_EXPORT, needs

from dealer_agent.feeds.files.feed import FeedError, ParsedFeed
from dealer_agent.feeds.files.layouts import LAYOUT_NAMES, LAYOUTS, Layout, layout_of, may_be_header, understand
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.inventory.listing import Unit

pytestmark = pytest.mark.outside_protocol("feeds")

VIN = "1HGCM82633A004352"
OTHER_VIN = "5YJ3E1EA7KF317000"


def delimited(*rows: dict[str, str], delimiter: str = ",", quoting: Any = csv.QUOTE_ALL) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter, quoting=quoting)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def only_unit(feed: ParsedFeed) -> Unit:
    assert not feed.refused
    (row,) = feed.units
    return row.unit


VAUTO = {
    "DealerId": "MP1",
    "Stock #": "A1",
    "VIN": VIN.lower(),
    "New/Used": "U",
    "Year": "2018",
    "Make": "FIAT",
    "Model": "124 Spider",
    "Body": "2D Convertible",
    "Transmission": "6-Speed Aisin Automatic",
    "Series": "Abarth",
    "Series Detail": "V4",
    "Odometer": "4073",
    "Engine Displacement": "1.40",
    "Drivetrain Desc": "RWD",
    "Colour": "Hypnotique Red",
    "Interior Color": "Rosso/Nero",
    "Price": "25672",
    "Other Price": "26000",
    "MSRP": "",
    "Invoice": "21000",
    "Inventory Date": "10/31/2020",
    "Certified": "Yes",
    "Description": "Clean.<BR><BR>Two &amp; only 😀",
    "Features": 'Navigation|7" Display|Navigation',
    "City MPG": "26",
    "Highway MPG": "35",
    "Photos": "http://p.example.com/a,1.jpg|https://p.example.com/2.jpg,https://p.example.com/3.jpg",
    "Dealer Name": "Example Motors",
    "Engine": "1.4L I4",
    "Fuel": "Gasoline",
}
VAUTO_UNIT = Unit(
    vin=VIN,
    stock="A1",
    rooftop_hints=("MP1", "Example Motors"),
    year=2018,
    make="Fiat",
    model="124 Spider",
    trim="Abarth V4",
    condition="cpo",
    selling_price=25672,
    list_price=26000,
    mileage=4073,
    body="convertible",
    transmission="automatic",
    driveline="rwd",
    engine="1.4L I4",
    displacement_cc=1400,
    fuel="gas",
    city_mpg=26,
    highway_mpg=35,
    exterior_color="Hypnotique Red",
    interior_color="Rosso/Nero",
    features=("Navigation", '7" Display'),
    photos=("http://p.example.com/a,1.jpg", "https://p.example.com/2.jpg", "https://p.example.com/3.jpg"),
    description="Clean.\n\nTwo & only 😀",
    inventory_date=date(2020, 10, 31),
)

HOMENET = {
    "VIN": VIN,
    "Stock": "H1",
    "Type": "Used",
    "Certified": "False",
    "Year": "2019",
    "Make": "VW",
    "Model": "Golf",
    "Trim": "",
    "Style_Description": "GTI 4dr",
    "Body": "4D Hatchback",
    "Miles": "41,200",
    "Internet_Price": "",
    "SellingPrice": "$21,995.50",
    "MSRP": "0",
    "BookValue": "18000",
    "ExteriorColor": "",
    "Ext_Color_Generic": "Gray",
    "Transmission": "7-Speed Dual Clutch",
    "Drivetrain": "FWD",
    "Fuel_Type": "Gasoline Fuel",
    "Engine_Description": "2.0L I4",
    "EngineDisplacement": "2.0 L",
    "EngineDisplacementCubicInches": "121",
    "Options": "",
    "Categorized Options": "Audio@CD player~Safety@ABS brakes",
    "ImageList": "https://p.example.com/1.jpg|https://p.example.com/2.jpg",
    "DealerName": "Example VW",
    "DateInStock": "11/9/2020 6:38:02 PM",
    "MarketClass": "Compact Cars",
}
HOMENET_UNIT = Unit(
    vin=VIN,
    stock="H1",
    rooftop_hints=("Example VW",),
    vehicle_type="car",
    year=2019,
    make="Volkswagen",
    model="Golf",
    trim="GTI 4dr",
    condition="used",
    selling_price=21996,
    list_price=21996,
    mileage=41200,
    body="hatchback",
    transmission="dct",
    driveline="fwd",
    engine="2.0L I4",
    displacement_cc=2000,
    fuel="gas",
    exterior_color="Gray",
    features=("CD player", "ABS brakes"),
    photos=("https://p.example.com/1.jpg", "https://p.example.com/2.jpg"),
    inventory_date=date(2020, 11, 9),
)

DEALERSOCKET = {
    "DealerId": "77",
    "FeedId": "F9",
    "VIN": VIN,
    "Stock": "D1",
    "Condition": "NEW",
    "Certified": "0",
    "Year": "2024",
    "Make": "chevy",
    "Model": "Silverado 1500",
    "Trim": "LT",
    "CabType": "Crew Cab",
    "Body": "4D Crew Cab",
    "Engine": "5.3L V8 Flex Fuel",
    "Drivetrain": "4X4",
    "Transmission": "10-Speed Automatic",
    "Mileage": "",
    "Price": "54000",
    "RetailPrice": "56000",
    "MPGCity": "15",
    "MPGHighway": "20",
    "ExtColor": "Black",
    "GenericIntColor": "Gray",
    "ImageURLs": "https://p.example.com/1.jpg;https://p.example.com/2.jpg",
    "Options": "Tow Package, Bed Liner",
    "Comments": "Ask us.",
    "InDate": "2024-08-17 23:26:56",
}
DEALERSOCKET_UNIT = Unit(
    vin=VIN,
    stock="D1",
    rooftop_hints=("77", "F9"),
    vehicle_type="car",
    year=2024,
    make="Chevrolet",
    model="Silverado 1500",
    trim="LT",
    condition="new",
    selling_price=54000,
    list_price=56000,
    body="truck",
    transmission="automatic",
    driveline="4wd",
    engine="5.3L V8 Flex Fuel",
    fuel="flex",
    city_mpg=15,
    highway_mpg=20,
    exterior_color="Black",
    interior_color="Gray",
    features=("Tow Package", "Bed Liner"),
    photos=("https://p.example.com/1.jpg", "https://p.example.com/2.jpg"),
    description="Ask us.",
    inventory_date=date(2024, 8, 17),
)

GOOGLE = {
    "id": "G1",
    "store_code": "S7",
    "vin": VIN,
    "condition": "used",
    "certified_pre_owned": "true",
    "year": "2021",
    "brand": "Mercedes",
    "model": "C 300",
    "trim": "4MATIC",
    "price": "18000 USD",
    "vehicle_msrp": "42000.00 USD",
    "mileage": "12000 miles",
    "body_style": "sedan",
    "engine": "gasoline",
    "color": "Polar White",
    "image_link": "https://p.example.com/1.jpg",
    "additional_image_link": "https://p.example.com/2.jpg,https://p.example.com/3.jpg",
    "link": "https://example.com/vdp/G1",
    "availability": "in_stock",
    "date_in_stock": "2024-08-17T10:00:00-07:00",
}
GOOGLE_UNIT = Unit(
    vin=VIN,
    stock="G1",
    vehicle_id="G1",
    rooftop_hints=("S7",),
    year=2021,
    make="Mercedes-Benz",
    model="C 300",
    trim="4MATIC",
    condition="cpo",
    selling_price=18000,
    msrp=42000,
    mileage=12000,
    body="sedan",
    fuel="gas",
    exterior_color="Polar White",
    photos=("https://p.example.com/1.jpg", "https://p.example.com/2.jpg", "https://p.example.com/3.jpg"),
    vdp_url="https://example.com/vdp/G1",
    inventory_date=date(2024, 8, 17),
)

META = {
    "vehicle_id": "M1",
    "vin": VIN,
    "stock_number": "M-1",
    "year": "2020",
    "make": "Toyota",
    "model": "RAV4",
    "state_of_vehicle": "CPO",
    "condition": "EXCELLENT",
    "vehicle_type": "car_truck",
    "availability": "available",
    "price": "30000 USD",
    "sale_price": "28995 USD",
    "mileage.value": "66306",
    "mileage.unit": "KM",
    "body_style": "SUV",
    "drivetrain": "AWD",
    "fuel_type": "hybrid",
    "exterior_color": "Blue",
    "image[0].url": "https://p.example.com/0.jpg",
    "image[1].url": "https://p.example.com/1.jpg",
    "image[0].tag[0]": "exterior",
    "url": "https://example.com/M1",
    "dealer_id": "D5",
    "date_first_on_lot": "2024-08-17",
}
META_UNIT = Unit(
    vin=VIN,
    stock="M-1",
    vehicle_id="M1",
    rooftop_hints=("D5",),
    vehicle_type="car",
    year=2020,
    make="Toyota",
    model="RAV4",
    condition="cpo",
    selling_price=28995,
    list_price=30000,
    mileage=41201,
    body="suv",
    driveline="awd",
    fuel="hybrid",
    exterior_color="Blue",
    photos=("https://p.example.com/0.jpg", "https://p.example.com/1.jpg"),
    vdp_url="https://example.com/M1",
    inventory_date=date(2024, 8, 17),
)

CANONICAL = {
    "vin": OTHER_VIN,
    "stock": "C1",
    "rooftop": "Example North",
    "vehicle_type": "car",
    "status": "in transit",
    "year": "2019",
    "make": "Tesla",
    "model": "Model 3",
    "condition": "used",
    "price": "31000",
    "mileage": "0",
    "transmission": "single_speed",
    "fuel": "bev",
    "driveline": "rwd",
    "electric_range_mi": "263.5",
    "battery_kwh": "54",
    "motor_power_hp": "283",
    "dc_fast_charge": "true",
    "charge_port": "Tesla",
    "displacement_cc": "",
    "features": "Autopilot|Glass roof",
    "updated_at": "2026-05-04T12:00:00Z",
    "colour of the owner's hat": "brown",
}
CANONICAL_UNIT = Unit(
    vin=OTHER_VIN,
    stock="C1",
    rooftop_hints=("Example North",),
    vehicle_type="car",
    status="intransit",
    year=2019,
    make="Tesla",
    model="Model 3",
    condition="used",
    selling_price=31000,
    mileage=0,
    transmission="single_speed",
    fuel="bev",
    driveline="rwd",
    electric_range_mi=263.5,
    battery_kwh=54.0,
    motor_power_hp=283.0,
    dc_fast_charge=True,
    charge_port="nacs",
    features=("Autopilot", "Glass roof"),
    feed_updated_at=datetime(2026, 5, 4, 12, tzinfo=UTC),
)

WILD = {
    "VIN_No": VIN,
    "Stock_No": "W1",
    "NEW-USED": "u",
    "IsCpo": "1",
    "ModelYear": "2015",
    "Make": "Harley Davidson",
    "Model": "Sportster",
    "Preferred_Price": "9,500",
    "Tranmission": "6-Speed Manual",
    "OEMColorNameExterior": "Vivid Black",
    "VehicleComments": "Loud.",
    "DATE-IN-STOCK": "2024/08/17",
    "Website VDP URL": "https://example.com/W1",
    "Photo_URLs": "https://p.example.com/1.jpg",
    "BodyStyle": "Cruiser",
    "Vehicle_Type": "Motorcycle",
}
WILD_UNIT = Unit(
    vin=VIN,
    stock="W1",
    vehicle_type="motorcycle",
    year=2015,
    make="Harley-Davidson",
    model="Sportster",
    condition="cpo",
    selling_price=9500,
    body="cruiser",
    transmission="manual",
    exterior_color="Vivid Black",
    photos=("https://p.example.com/1.jpg",),
    vdp_url="https://example.com/W1",
    description="Loud.",
    inventory_date=date(2024, 8, 17),
)

CARSFORSALE_ROW = (
    *("555", "U", VIN, "K1", "Ford", "F-150", "2013", "XLT", "SuperCrew", "75033", "5.0L V8", "8", "E85 Flex Fuel"),
    *(
        "6-Speed Automatic",
        "15995",
        "Ingot Silver",
        "Gray",
        "Tow hitch|Bed liner",
        "Runs, strong",
        "https://p.example.com/1.jpg",
    ),
)
CARSFORSALE_UNIT = Unit(
    vin=VIN,
    stock="K1",
    rooftop_hints=("555",),
    year=2013,
    make="Ford",
    model="F-150",
    trim="XLT",
    condition="used",
    selling_price=15995,
    mileage=75033,
    body="truck",
    transmission="automatic",
    engine="5.0L V8",
    fuel="flex",
    exterior_color="Ingot Silver",
    interior_color="Gray",
    features=("Tow hitch", "Bed liner"),
    photos=("https://p.example.com/1.jpg",),
    description="Runs, strong",
)
CARSFORSALE = ",".join(f'"{cell}"' for cell in CARSFORSALE_ROW).encode() + b"\r\n"

FILES: list[tuple[str, bytes, Unit]] = [
    ("vauto", delimited(VAUTO), VAUTO_UNIT),
    ("vauto", delimited(VAUTO, delimiter="\t"), VAUTO_UNIT),
    ("vauto", "\n".join("\t".join(row) for row in (VAUTO, VAUTO.values())).encode(), VAUTO_UNIT),
    ("homenet", delimited(HOMENET), HOMENET_UNIT),
    ("dealersocket", delimited(DEALERSOCKET), DEALERSOCKET_UNIT),
    ("google", delimited(GOOGLE), GOOGLE_UNIT),
    ("google", delimited(GOOGLE, delimiter="\t", quoting=csv.QUOTE_MINIMAL), GOOGLE_UNIT),
    ("meta", delimited(META), META_UNIT),
    ("carsforsale", CARSFORSALE, CARSFORSALE_UNIT),
    ("canonical", delimited(CANONICAL), CANONICAL_UNIT),
    ("generic", delimited(WILD), WILD_UNIT),
    ("generic", delimited(WILD, delimiter=";"), WILD_UNIT),
]


@pytest.mark.parametrize(("layout", "data", "unit"), FILES, ids=[f"{row[0]}-{n}" for n, row in enumerate(FILES)])
def test_a_layout_is_recognised_from_its_file_and_read(layout: str, data: bytes, unit: Unit) -> None:
    feed = read_feed(data)
    assert feed.layout == layout
    assert only_unit(feed) == unit


@pytest.mark.parametrize(("layout", "data", "unit"), FILES, ids=[f"{row[0]}-{n}" for n, row in enumerate(FILES)])
def test_a_layout_can_be_named(layout: str, data: bytes, unit: Unit) -> None:
    feed = read_feed(data, layout=layout)
    assert (feed.layout, only_unit(feed)) == (layout, unit)


@pytest.mark.parametrize("grade", ["NEW", "USED", "EXCELLENT"])
def test_the_condition_of_meta_is_a_grade_and_not_the_sale_condition(grade: str) -> None:
    feed = read_feed(delimited(META | {"state_of_vehicle": "", "condition": grade}))
    assert only_unit(feed).condition is UNSET
    assert "condition" in feed.columns_not_understood


def test_an_unknown_layout_is_refused_with_the_known_names() -> None:
    with pytest.raises(FeedError) as refusal:
        read_feed(delimited(VAUTO), layout="vauton")
    assert ", ".join(LAYOUT_NAMES) in str(refusal.value)


def test_a_layout_for_another_kind_of_file_is_refused() -> None:
    with pytest.raises(FeedError, match="delimited"):
        read_feed(delimited(VAUTO), layout="dealercom")


def test_canonical_csv_reports_columns_that_it_does_not_understand() -> None:
    feed = read_feed(delimited(CANONICAL))
    assert feed.columns_not_understood == ("colour of the owner's hat",)
    assert only_unit(feed).extras == {}


@pytest.mark.parametrize(
    "column",
    [
        "Cost",
        "Dealer Cost",
        "UnitCost",
        "Invoice",
        "INVOICE_PRICE",
        "Holdback",
        "Book Value",
        "BookValue",
        "KBB Retail",
    ],
)
@pytest.mark.parametrize("row", [VAUTO, HOMENET, DEALERSOCKET, GOOGLE, META, CANONICAL, WILD])
def test_what_a_unit_cost_is_never_read(row: dict[str, str], column: str) -> None:
    """The service never shows them (docs/reference/feeds.md)."""
    feed = read_feed(delimited(row | {column: "98765"}))
    assert column in feed.columns_withheld
    assert column not in feed.columns_not_understood
    assert "98765" not in repr(tuple(feed.units))


@needs(VAUTO_EXPORT)
def test_a_real_vauto_export_is_read_whole() -> None:
    feed = read_feed(VAUTO_EXPORT.read_bytes())
    raw = list(csv.DictReader(io.StringIO(VAUTO_EXPORT.read_text("utf-8-sig"))))
    units = [row.unit for row in feed.units]
    assert (feed.layout, feed.delimiter, feed.rows, len(units), feed.refused) == ("vauto", ",", 45, 45, ())
    assert [unit.vin for unit in units] == [row["VIN"] for row in raw]
    assert [unit.selling_price for unit in units] == [int(row["Price"]) for row in raw]
    assert [len(unit.photos or ()) for unit in units] == [int(row["Photo Count"]) for row in raw]
    assert [unit.condition for unit in units].count("new") == 37
    assert [unit.condition for unit in units].count("cpo") == 4
    assert {unit.body for unit in units} == {"suv", "truck", "sedan", "convertible", "coupe", "van"}
    assert {unit.fuel for unit in units} == {"gas", "diesel", UNSET}
    assert {unit.driveline for unit in units} == {"4wd", "fwd", "rwd"}
    assert {unit.transmission for unit in units} == {"automatic"}
    assert all(unit.features and "|" not in "".join(unit.features) for unit in units)
    assert all("<" not in (unit.description or "") for unit in units)


NAMES = sorted({name for layout in LAYOUTS.values() for names in layout.columns.values() for name in names})
ROWS = st.lists(st.sampled_from(["Our number", "Year", "2018", ""]) | st.sampled_from(NAMES), max_size=6)
OWN = st.dictionaries(st.sampled_from(["Our number", "Year"]), st.sampled_from(["vin", "stock", "make"]), max_size=2)


@given(names=ROWS, columns=OWN, layout=st.sampled_from([None, *LAYOUTS.values()]))
def test_a_row_that_is_passed_over_names_units_in_no_layout(
    names: list[str], columns: dict[str, str], layout: Layout | None
) -> None:
    if not may_be_header(names, columns):
        assert not understand(names, layout_of(names, "delimited", layout, columns)).names_units
