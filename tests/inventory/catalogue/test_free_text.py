"""Free-text search (docs/protocol.md#inventory-search)."""

from typing import Any

import pytest
from msgspec import UNSET
from tests.inventory.catalogue.conftest import MakeLot, made

from dealer_agent.inventory.catalogue import Catalogue, Listing
from dealer_agent.protocol.requests import Filters, Sort

LOT: dict[str, dict[str, Any]] = {
    "a": {
        "make": "Honda",
        "model": "CR-V",
        "trim": "EX-L",
        "year": 2019,
        "condition": "used",
        "body": "suv",
        "fuel": "hybrid",
        "driveline": "awd",
        "transmission": "cvt",
        "engine": "2.0L I4",
        "exterior_color": "Glacier White",
        "interior_color": "Saddle",
        "features": ("Heated Seats", "Moonroof"),
        "description": "One owner. Rear-seat entertainment!",
        "stock": "HN-4711",
        "vin": "1HGCM82633A004352",
        "notes": "zebra",
        "vdp_url": "https://example.com/zebra",
    },
    "b": {
        "make": "Ford",
        "model": "F-150",
        "condition": "new",
        "year": 2026,
        "body": "truck",
        "fuel": "gas",
        "driveline": "4wd",
        "transmission": "automatic",
        "description": "Tougher than a Honda",
    },
    "c": {"make": "Chevrolet", "model": "Silverado 1500", "condition": "cpo", "fuel": "diesel", "driveline": "rwd"},
    "d": {"make": "Citroën", "model": "C4", "fuel": "phev", "interior_color": "Gun Metallic"},
}


@pytest.mark.requirement(
    "filter-query",
    "query-every-word",
    "query-members",
    "query-fillers",
    "query-synonyms",
)
@pytest.mark.parametrize(
    ("query", "found"),
    [
        # Every word must be found, wherever it stands.
        ("honda", "a b"),
        ("honda suv", "a"),
        ("honda truck", "b"),
        ("honda diesel", ""),
        ("used awd hybrid suv", "a"),
        ("2019 ex-l white saddle moonroof", "a"),
        ("cvt 2.0l heated owner", "a"),
        ("HN-4711", "a"),
        ("hn4711", "a"),
        ("1hgcm82633a004352", "a"),
        # As a word or the start of one, never inside one.
        ("hon", "a b"),
        ("onda", ""),
        ("moon", "a"),
        ("roof", ""),
        ("1HGCM", "a"),
        ("201", "a"),
        # Punctuation, accents, case.
        ("F150", "b"),
        ("f-150", "b"),
        ("crv", "a"),
        ("CITROEN", "d"),
        ("!!!", "a b c d"),
        # Fillers apart.
        ("a honda with the moonroof", "a"),
        # Synonyms as for filters.
        ("chevy", "c"),
        ("certified", "c"),
        ("all wheel drive", "a"),
        ("4x4", "b"),
        ("wd", ""),
        ("2wd", "c"),
        ("plug-in hybrid", "d"),
        ("sport utility", "a"),
        ("gray", "d"),
        ("white", "a"),
        # What is not searched: notes, links, and the names of the members themselves.
        ("zebra", ""),
        ("fuel", ""),
        ("make", ""),
        ("driveline", ""),
        ("condition=used", ""),
    ],
)
def test_a_query_finds_exactly_the_units_that_have_all_its_words(lot: MakeLot, query: str, found: str) -> None:
    assert lot(**LOT).finds(query=query) == found


@pytest.mark.requirement("query-best-first")
@pytest.mark.parametrize(
    ("query", "better", "worse"),
    [
        ("ford", {"make": "Ford"}, {"description": "Ford"}),
        ("raptor", {"model": "Raptor"}, {"features": ("Raptor",)}),
        ("limited", {"trim": "Limited"}, {"description": "limited limited limited"}),
        ("leather", {"interior_color": "Leather"}, {"features": ("Leather",)}),
        ("pacific", {"model": "Pacifica"}, {"exterior_color": "Pacific"}),
        ("escape", {"model": "Escape"}, {"model": "Escapement"}),
        ("ford escape", {"make": "Ford", "model": "Escape"}, {"make": "Ford", "description": "no escape"}),
        ("used ford", {"make": "Ford", "condition": "used"}, {"make": "Ford", "description": "used"}),
    ],
)
def test_the_best_match_comes_first(lot: MakeLot, query: str, better: dict[str, Any], worse: dict[str, Any]) -> None:
    """Make, model and trim score more than prose. A better match comes first even if it is older."""
    stock = lot(z={**better, "changed": 0}, a={**worse, "changed": 9})
    assert stock.page(query=query) == ["z", "a"]
    assert stock.page(skip=1, limit=1, query=query) == ["a"]


def test_equal_matches_are_in_the_default_order_then_by_id(lot: MakeLot) -> None:
    stock = lot(
        c={"make": "Ford", "changed": 1},
        b={"make": "Ford", "changed": 2},
        a={"make": "Ford", "changed": 1},
        d={"make": "Kia"},
    )
    assert stock.page(query="ford") == ["b", "a", "c"]


def test_a_repeated_word_of_a_query_counts_once(lot: MakeLot) -> None:
    stock = lot(
        a={"make": "Ford", "description": "escape", "changed": 1},
        b={"model": "Escape", "description": "ford", "changed": 2},
    )
    assert stock.page(query="ford escape") == stock.page(query="ford FORD ford escape") == ["b", "a"]


def test_a_sort_overrides_the_best_match(lot: MakeLot) -> None:
    stock = lot(a={"make": "Ford", "price": 2}, b={"description": "ford", "price": 1}, c={"make": "Ford"})
    assert stock.page(query="ford") == ["a", "c", "b"]
    assert stock.page(query="ford", sort=Sort("price", "asc")) == ["b", "a", "c"]


def test_a_listing_must_match_the_query_and_the_filters(lot: MakeLot) -> None:
    stock = lot(**LOT)
    assert stock.finds(query="honda", condition=["new"]) == "b"
    assert stock.finds(query="honda", condition=["cpo"]) == ""


def test_the_best_match_comes_first_in_a_large_stock_too() -> None:
    """A search of many rows sorts only those with a score that the page can show. The order is the same.

    Every 50th listing is of each kind in turn. The others have the word in the description.
    """
    count = 60_000
    kinds: list[dict[str, Any]] = [
        {"description": "ford"},
        {"make": "Ford"},
        {"engine": "ford"},
        {"description": "kia"},
    ]

    def kind_of(n: int) -> int:
        return 0 if n % 50 else n // 50 % 4

    catalogue = Catalogue.build(Listing.of(made(f"v{n:05}", changed=n % 7, **kinds[kind_of(n)])) for n in range(count))
    # By kind, the rank of its score; None does not match.
    worth = [2, 0, 1, None]
    plain = [(worth[kind_of(n)], -(n % 7), n) for n in range(count)]
    expected = [f"v{n:05}".encode() for rank, _, n in sorted((w, d, n) for w, d, n in plain if w is not None)]
    for skip, limit in ((0, 20), (290, 20), (310, 20), (590, 40), (620, 40), (len(expected) - 5, 20)):
        page = catalogue.search(Filters(query="ford"), skip, limit, UNSET)
        assert page.total == len(expected)
        assert [listing.split(b'"vehicle_id":"')[1][:6] for listing in page.listings] == expected[skip : skip + limit]
