"""Rows whose cells are plain are read in another way, with the same results."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.feeds.files import values
from dealer_agent.feeds.files.layouts import FEEDS, LAYOUTS, Layout
from dealer_agent.feeds.files.units import PlainRows, read_unit
from dealer_agent.inventory.listing import Unit, document_of

_VIN = "1HGCM82633A004352"
_TEXTS = (
    *("", " ", "-", "N/A", "0", "1", "x", "7", "2021", "1979", "41,200", "41200", "-5", "41200 km", "$28,995.00"),
    *("call", "12 EUR", "2.5 L", "350", "26", "310.5 mi", "yes", "no", "maybe", "new", "used", "certified", "km"),
    *("available", "sold", "in transit", "on the moon", "Toyota", "toyota ", "CR-V", "Gasoline", "V6 Hybrid", "awd"),
    *(_VIN, _VIN.lower(), "1HGCM82633A004353", "1.23E+16", "S12", "&amp;amp;", '="0042"', "a\nb", "motorcycle"),
    *("2026-03-26T04:56:07+00:00", "3/26/2026 4:56 PM", "2026-03-26", "<p>Clean</p>", "One owner,  clean.", "Café"),
    *("https://a.example/1", "https://a.example/1|https://a.example/2|https://a.example/1", "//a.example/x y"),
    *("https://a.example/1,https://a.example/2", "Sunroof|Navigation", "Sunroof;Navigation", "é" * 70, "a.jpg"),
    *("https://schema.org/UsedCondition", "https://schema.org/InStock", "Rooftop 1"),
)
_FIELDS = tuple(dict.fromkeys(name for member, feed in FEEDS.items() for name in (member, *(feed.more_columns or ()))))
_LAYOUTS = [layout for layout in LAYOUTS.values() if "delimited" in layout.kinds]


@st.composite
def _files(draw: st.DrawFn) -> tuple[dict[str, tuple[int, ...]], list[list[str]]]:
    """The columns of each field, and rows."""
    names = draw(st.lists(st.sampled_from(_FIELDS), min_size=1, max_size=6))
    fields: dict[str, tuple[int, ...]] = {"vin": (len(names),)}
    for index, name in enumerate(names):
        fields[name] = (*fields.get(name, ()), index)
    # Of rows without a VIN, few are plain.
    vin = st.just(_VIN) | st.sampled_from(_TEXTS)
    texts = [
        st.sampled_from(("available", "sold", "x")) if name == "status" else st.sampled_from(_TEXTS) for name in names
    ]
    return fields, draw(st.lists(st.tuples(*texts, vin).map(list), max_size=8))


@given(_files(), st.sampled_from(_LAYOUTS), st.sampled_from(({}, {"onthemoon": "pending", "x": "sold"})))
def test_a_plain_row_is_read_like_any_other(
    file: tuple[dict[str, tuple[int, ...]], list[list[str]]], layout: Layout, status_words: dict[str, str]
) -> None:
    fields, rows = file
    known = replace(layout, status_words=status_words)
    plain = PlainRows(fields, known)
    for row in (*rows, *rows):
        read = plain.read(row)
        if read is not None:
            other = read_unit({name: [row[index] for index in indexes] for name, indexes in fields.items()}, known)
            assert replace(read, filled=()) == replace(other, filled=())
            assert sorted(read.filled) == sorted(other.filled)


@given(_files(), st.sampled_from(_LAYOUTS))
def test_the_document_of_a_unit_stays_the_same_when_it_is_read(
    file: tuple[dict[str, tuple[int, ...]], list[list[str]]], layout: Layout
) -> None:
    """The document that reading writes is stored, and compared with those that older versions encoded again."""
    fields, rows = file
    for row in rows:
        unit = read_unit({name: [row[index] for index in indexes] for name, indexes in fields.items()}, layout).unit
        if unit is not None:
            document = document_of(unit)
            assert document_of(msgspec.json.decode(document, type=Unit)) == document


def test_a_row_without_problems_is_plain() -> None:
    plain = PlainRows({"vin": (0,), "year": (1,), "selling_price": (2,), "status": (3,)}, LAYOUTS["generic"])
    assert plain.read([_VIN, "2003", "28,995", ""]) is not None
    assert plain.read([_VIN, "2003", "12 EUR", ""]) is None
    assert plain.read([_VIN, "2003", "28,995", "sold"]) is None
    assert plain.read(["1HGCM82633A004353", "2003", "28,995", ""]) is None
    assert plain.read(["", "2003", "28,995", ""]) is None


def test_a_unit_of_miles_without_a_mileage_is_no_mileage() -> None:
    read = PlainRows({"vin": (0,), "mileage_unit": (1,)}, LAYOUTS["generic"]).read([_VIN, "41200"])
    assert read is not None
    assert read.unit == Unit(vin=_VIN)


def test_a_row_whose_fuel_is_inside_its_engine_is_not_plain() -> None:
    layout = next(layout for layout in _LAYOUTS if layout.fuel_inside_engine)
    plain = PlainRows({"vin": (0,), "engine": (1,), "fuel": (2,)}, layout)
    assert plain.read([_VIN, "V6 Hybrid", ""]) is None
    assert plain.read([_VIN, "V6 Hybrid", "hybrid"]) is not None


def test_texts_of_a_column_that_never_repeat_are_forgotten() -> None:
    plain = PlainRows({"vin": (0,), "trim": (1,)}, LAYOUTS["generic"])
    for number in range(5_000):
        plain.read([_VIN, f"Trim {number}" + " " * 64 * (number % 2)])
    remembered = plain._values[1][1]
    assert 0 < len(remembered) <= 2_048
    assert all(len(text) <= 64 for text in remembered)


_ADDRESSES = st.text('htps:/.a1?&<|,; %"{}\\é\n-', max_size=30).map(lambda rest: f"https://a.example/{rest}")


def _photos(text: str) -> object:
    return values.photos([text])


@pytest.mark.parametrize(
    ("parse", "texts"),
    [
        (values.web_address, _ADDRESSES),
        (_photos, st.lists(_ADDRESSES, max_size=4).map("|".join)),
        (_photos, st.lists(_ADDRESSES, max_size=4).map(",".join)),
        (values.dollars, st.text("0123456789.,$ ٣²", max_size=9)),
        (values.miles, st.text("0123456789.,kmi ٣²", max_size=9)),
    ],
)
def test_a_cell_means_the_same_with_and_without_a_space_behind_it(
    parse: Callable[[str], object], texts: st.SearchStrategy[str]
) -> None:
    """The space keeps the cell from the short ways."""

    @given(texts)
    def check(text: str) -> None:
        assert parse(text) == parse(f"{text} ")

    check()


@given(st.text('ab &<>;="é\t\n', max_size=20), st.integers(7, 30))
def test_prose_of_one_line_is_that_line_below_a_blank_one(text: str, limit: int) -> None:
    if not text.startswith("="):  # An Excel formula begins at the start.
        assert values.prose(text, limit) == values.prose(f"\n{text}", limit)
