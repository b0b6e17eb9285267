"""The table of vehicle fields: its rows are complete, and what derives from them covers every row."""

import re
from typing import get_args

import pytest

from dealer_agent.feeds.files.layouts import FEEDS, LAYOUTS
from dealer_agent.feeds.files.units import DESCRIBE, IDENTIFY
from dealer_agent.inventory.canonical_words.tables import TABLES
from dealer_agent.inventory.listing import Unit
from dealer_agent.protocol.requests import FILTERED, Filters, filter_members
from dealer_agent.protocol.responses import COUNT_FACETS, RANGE_FACETS, Facets
from dealer_agent.protocol.vehicle import FIELDS, ListingStatus, SaleCondition, Vehicle, VehicleType
from dealer_agent.protocol.vehicle_field import LAST, CellParser, WordListName

pytestmark = pytest.mark.outside_protocol("the table of vehicle fields: docs/reference/feeds.md")


def test_each_member_of_a_listing_has_a_row_with_a_label() -> None:
    assert set(FIELDS) == set(Vehicle.__struct_fields__)
    assert all(row.field.label for row in FIELDS.values())


def test_each_feed_member_is_read_into_a_member_of_a_unit() -> None:
    read = [member for _, member, _ in (*IDENTIFY, *DESCRIBE)]
    assert sorted(read) == sorted(FEEDS)
    assert set(read) <= set(Unit.__struct_fields__)
    assert {feed.reader for feed in FEEDS.values()} == set(get_args(CellParser))


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_names_only_members_that_are_read(name: str) -> None:
    layout = LAYOUTS[name]
    more = {column for feed in FEEDS.values() for column in feed.more_columns or {}}
    named = {*layout.columns, *layout.joined, *(member for _, member in layout.patterns)}
    assert named <= FEEDS.keys() | more


def test_each_vocabulary_is_used_by_a_field_and_has_words() -> None:
    assert set(get_args(WordListName)) == TABLES.keys() | {"colour"}
    assert {row.field.vocabulary for row in FIELDS.values()} - {None} == set(get_args(WordListName))


def test_the_types_and_descriptions_of_fields_have_the_words_of_their_vocabulary() -> None:
    for name, words in {"condition": SaleCondition, "vehicle_type": VehicleType, "status": ListingStatus}.items():
        assert set(get_args(words)) == TABLES[name].spellings.keys() - {"sold"}
    for name in ("transmission", "driveline", "fuel", "charge_port", "body"):
        described = set(re.findall(r"\w+", FIELDS[name].field.description))
        assert TABLES[name].spellings.keys() <= described


def test_a_word_of_a_vocabulary_is_read_for_the_member_of_the_same_name() -> None:
    words = {name for name, row in FIELDS.items() if row.feed and row.feed.reader == "word"}
    assert all(FIELDS[name].field.vocabulary == name for name in words)


def test_filters_and_facets_have_a_member_for_each_row() -> None:
    filters = [name for row in FILTERED for name in filter_members(row)]
    assert (*filters, "query") == Filters.__struct_fields__
    assert tuple(facet.name for facet in (*COUNT_FACETS, *RANGE_FACETS)) == Facets.__struct_fields__


@pytest.mark.parametrize("part", ["filter", "counts", "minmax", "lead_fact"])
def test_no_two_rows_have_the_same_position(part: str) -> None:
    parts = (getattr(row, part) for row in FIELDS.values())
    positions = [found.position for found in parts if found is not None and found.position != LAST]
    assert len(positions) == len(set(positions))
