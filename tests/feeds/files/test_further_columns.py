"""Columns that no layout knows give the members that the dealer names."""

import json

import pytest

from dealer_agent.feeds.files.layouts import LAYOUT_NAMES, named_layout
from dealer_agent.feeds.files.reader import read_feed

pytestmark = pytest.mark.outside_protocol("feeds")

COLUMNS = {"Fahrgestell Nr": "vin", "Baujahr": "year", "Hersteller": "make", "Typ": "model", "Preis": "selling_price"}
HEADER = "fahrgestell_nr,BAUJAHR,Hersteller,Typ,Preis,Anderes"
ROW = "1HGCY2F57RA000001,2024,Honda,Accord,28040,x"


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("layout", [None, *(name for name in LAYOUT_NAMES if "delimited" in named_layout(name).kinds)])
def test_a_named_column_gives_its_member_in_every_layout(layout: str | None, delimiter: str) -> None:
    content = f"{HEADER}\n{ROW}\n".replace(",", delimiter).encode()
    feed = read_feed(content, layout=layout, columns=COLUMNS)
    ((_, unit),) = feed.units
    assert (unit.vin, unit.year, unit.make, unit.model) == ("1HGCY2F57RA000001", 2024, "Honda", "Accord")
    assert unit.selling_price == 28040
    assert feed.columns_not_understood == ("Anderes",)


def test_a_named_column_is_used_before_those_of_the_layout() -> None:
    content = b"VIN,Year,Make,Model,Price,Web Price\n1HGCY2F57RA000001,2024,Honda,Accord,30000,28040\n"
    (plain,) = read_feed(content).units
    (named,) = read_feed(content, columns={"web price": "selling_price"}).units
    assert (plain.unit.selling_price, named.unit.selling_price) == (30000, 28040)


def test_a_named_column_gives_nothing_else() -> None:
    content = b"VIN,Year,Make,Model,Price,Stock\n1HGCY2F57RA000001,2024,Honda,Accord,30000,A1\n"
    (row,) = read_feed(content, columns={"Price": "msrp"}).units
    assert (row.unit.msrp, bool(row.unit.selling_price)) == (30000, False)


def test_a_named_path_gives_its_member_in_json() -> None:
    record = {"vin": "1HGCY2F57RA000001", "year": 2024, "make": "Honda", "model": "Accord", "tacho": {"stand": 5}}
    (row,) = read_feed(json.dumps([record]).encode(), columns={"tacho.stand": "mileage"}).units
    assert row.unit.mileage == 5
