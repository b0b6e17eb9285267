"""Every JSON layout is recognised from its file and read into canonical words (docs/protocol.md#canonical-words)."""

import json

import pytest

from dealer_agent.feeds.files.feed import ParsedFeed
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.inventory.listing import Unit
from dealer_agent.protocol.vehicle import Fee

VIN = "1HGCM82633A004352"
OTHER_VIN = "5YJ3E1EA7KF317000"


def only_unit(feed: ParsedFeed) -> Unit:
    assert not feed.refused
    (row,) = feed.units
    return row.unit


DEALERCOM = {
    "vin": VIN,
    "stockNumber": "DC1",
    "year": 2022,
    "make": "BMW",
    "model": "X3",
    "trim": "xDrive30i",
    "type": "NEW",
    "bodyStyle": "Sport Utility",
    "normalDriveLine": "AWD",
    "normalFuelType": "Gasoline",
    "internetPrice": "49,900",
    "askingPrice": 51000,
    "invoicePrice": 45000,
    "msrp": 52000.0,
    "odometer": 12,
    "exteriorColor": "Alpine White",
    "images": [{"uri": "https://p.example.com/1.jpg"}, {"uri": "https://p.example.com/2.jpg"}],
    "link": "https://example.com/DC1",
}
DEALERCOM_UNIT = Unit(
    vin=VIN,
    stock="DC1",
    year=2022,
    make="BMW",
    model="X3",
    trim="xDrive30i",
    condition="new",
    selling_price=49900,
    list_price=51000,
    msrp=52000,
    mileage=12,
    body="suv",
    driveline="awd",
    fuel="gas",
    exterior_color="Alpine White",
    photos=("https://p.example.com/1.jpg", "https://p.example.com/2.jpg"),
    vdp_url="https://example.com/DC1",
)

SCHEMAORG = {
    "@context": "https://schema.org",
    "@type": "Car",
    "vehicleIdentificationNumber": VIN,
    "sku": "SO1",
    "vehicleModelDate": "2021",
    "brand": {"@type": "Brand", "name": "Kia"},
    "model": "EV6",
    "vehicleConfiguration": "Wind",
    "itemCondition": "https://schema.org/UsedCondition",
    "offers": {
        "@type": "Offer",
        "price": "33900.00",
        "availability": "https://schema.org/InStock",
        "seller": {"@type": "AutoDealer", "name": "Example Kia"},
    },
    "mileageFromOdometer": {"@type": "QuantitativeValue", "value": 20000, "unitCode": "SMI"},
    "bodyType": "Crossover",
    "vehicleTransmission": "1-Speed Automatic",
    "driveWheelConfiguration": "https://schema.org/AllWheelDriveConfiguration",
    "fuelType": "Electric",
    "color": "Glacier",
    "vehicleInteriorColor": "Black",
    "image": ["https://p.example.com/1.jpg", "https://p.example.com/2.jpg"],
    "url": "https://example.com/SO1",
}
SCHEMAORG_UNIT = Unit(
    vin=VIN,
    stock="SO1",
    rooftop_hints=("Example Kia",),
    vehicle_type="car",
    year=2021,
    make="Kia",
    model="EV6",
    trim="Wind",
    condition="used",
    selling_price=33900,
    mileage=20000,
    body="suv",
    transmission="single_speed",
    driveline="awd",
    fuel="bev",
    exterior_color="Glacier",
    interior_color="Black",
    photos=("https://p.example.com/1.jpg", "https://p.example.com/2.jpg"),
    vdp_url="https://example.com/SO1",
)

FILES: list[tuple[str, bytes, Unit]] = [
    ("dealercom", json.dumps([DEALERCOM]).encode(), DEALERCOM_UNIT),
    ("dealercom", json.dumps({"inventory": [DEALERCOM]}).encode(), DEALERCOM_UNIT),
    ("schemaorg", json.dumps(SCHEMAORG).encode(), SCHEMAORG_UNIT),
    ("schemaorg", json.dumps({"@graph": [{"@type": "AutoDealer", "name": "X"}, SCHEMAORG]}).encode(), SCHEMAORG_UNIT),
    (
        "schemaorg",
        json.dumps(
            {"@type": "ItemList", "itemListElement": [{"@type": "ListItem", "position": 1, "item": SCHEMAORG}]}
        ).encode(),
        SCHEMAORG_UNIT,
    ),
    (
        "schemaorg",
        b'<!doctype html><html><script type="application/ld+json">'
        + json.dumps(SCHEMAORG).encode()
        + b"</script></html>",
        SCHEMAORG_UNIT,
    ),
]


@pytest.mark.parametrize(("layout", "data", "unit"), FILES, ids=[f"{row[0]}-{n}" for n, row in enumerate(FILES)])
def test_a_json_layout_is_recognised_from_its_file_and_read(layout: str, data: bytes, unit: Unit) -> None:
    feed = read_feed(data)
    assert feed.layout == layout
    assert only_unit(feed) == unit


@pytest.mark.parametrize(("layout", "data", "unit"), FILES, ids=[f"{row[0]}-{n}" for n, row in enumerate(FILES)])
def test_a_json_layout_can_be_named(layout: str, data: bytes, unit: Unit) -> None:
    feed = read_feed(data, layout=layout)
    assert (feed.layout, only_unit(feed)) == (layout, unit)


JSON_CAR = {
    "vin": OTHER_VIN,
    "make": "Tesla",
    "price": 31000,
    "dc_fast_charge": True,
    "electric_range_mi": 263.0,
    "features": ["Autopilot", "Glass roof, tinted"],
    "photos": ["https://p.example.com/1.jpg"],
    "fees": [{"name": "Documentation", "amount": 499}],
    "other_attributes": {"doors": 4, "dealer_cost": 25000, "heated": True},
    "acme_score": 7.5,
    "acme_note": "two keys",
    "invoice_price": 26000,
    "Dealer Cost": 25000,
    "nested": {"hold_back": 300, "x": 1},
}


@pytest.mark.parametrize(
    "data",
    [
        json.dumps([JSON_CAR]).encode(),
        json.dumps({"vehicles": [JSON_CAR]}).encode(),
        json.dumps(JSON_CAR).encode() + b"\n" + json.dumps({"stock": "Z9"}).encode() + b"\n",
    ],
)
@pytest.mark.requirement("extras-passed-through")
def test_canonical_json_passes_the_dealers_own_members_through(data: bytes) -> None:
    """The dealer's extra members are passed through, except what a unit cost."""
    feed = read_feed(data)
    assert feed.layout == "canonical"
    assert feed.units[0].unit == Unit(
        vin=OTHER_VIN,
        make="Tesla",
        selling_price=31000,
        dc_fast_charge=True,
        electric_range_mi=263.0,
        features=("Autopilot", "Glass roof, tinted"),
        photos=("https://p.example.com/1.jpg",),
        fees=(Fee("Documentation", 499),),
        other_attributes={"doors": 4, "heated": True},
        extras={"acme_score": 7.5, "acme_note": "two keys"},
    )
    assert set(feed.columns_withheld) == {
        "other_attributes.dealer_cost",
        "invoice_price",
        "Dealer Cost",
        "nested.hold_back",
    }
    assert feed.columns_not_understood == ("nested.x",)
