"""Free text: every word except fillers must be found, also by synonyms (docs/protocol.md#query-every-word)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.inventory.canonical_words.finding import is_found

from dealer_agent.inventory.canonical_words.query import SEARCHED, index_words, query_terms
from dealer_agent.inventory.canonical_words.tables import FILLERS

RAV4 = {
    "make": "Toyota",
    "model": "RAV4",
    "trim": "XLE Premium",
    "year": "2021",
    "condition": "used",
    "body": "suv",
    "fuel": "hybrid",
    "driveline": "awd",
    "transmission": "cvt",
    "engine": "2.5L I4",
    "exterior_color": "Magnetic Grey Metallic",
    "features": "Blind-Spot Monitor",
    "description": "One owner. Twin-turbo it is not.",
    "stock": "T-1042A",
    "vin": "2T3P1RFV5MC000001",
}
F150 = {
    "make": "Ford",
    "model": "F-150",
    "trim": "Lariat",
    "condition": "cpo",
    "fuel": "gas",
    "body": "truck",
    "driveline": "4wd",
    "transmission": "automatic",
    "interior_color": "Ebony",
    "description": "SuperCrew with all-wheel drive capability, plug-in accessories.",
}
PRIUS = {"make": "Toyota", "model": "Prius Prime", "fuel": "phev", "driveline": "fwd", "transmission": "cvt"}
GOLF = {"make": "Volkswagen", "model": "Golf GTI", "transmission": "dct", "driveline": "fwd", "body": "hatchback"}
CX5 = {"make": "Mazda", "model": "CX 5"}


def finds(query: str, listing: dict[str, str]) -> bool:
    listed = frozenset().union(*(index_words(field, text) for field, text in listing.items()))
    return all(is_found(term, listed) for term in query_terms(query))


@pytest.mark.parametrize(
    ("query", "listing", "found"),
    [
        ("used awd hybrid suv", RAV4, True),
        ("used all wheel drive hybrid sport utility", RAV4, True),
        ("a used RAV4 with the awd", RAV4, True),
        ("rav", RAV4, True),
        ("rav 4", RAV4, True),
        ("av4", RAV4, False),
        ("2021 toyota", RAV4, True),
        ("gray", RAV4, True),
        ("grey", RAV4, True),
        ("new", RAV4, False),
        ("t1042a", RAV4, True),
        ("T-1042A", RAV4, True),
        ("2t3p1rfv5mc000001", RAV4, True),
        ("2.5l", RAV4, True),
        ("blind spot", RAV4, True),
        ("blind-spot", RAV4, True),
        ("twin turbo", RAV4, True),
        ("one-owner", RAV4, True),
        ("f-owner", RAV4, False),
        ("automatic", RAV4, False),
        ("continuously variable", RAV4, True),
        ("f150", F150, True),
        ("f-150", F150, True),
        ("F 150", F150, True),
        ("150", F150, True),
        ("f250", F150, False),
        ("certified pre-owned pickup", F150, True),
        ("4x4", F150, True),
        ("4 wheel drive", F150, True),
        ("8-speed automatic", F150, True),
        ("gas", F150, True),
        ("black", F150, True),
        ("All-Wheel Drive", F150, True),
        ("awd", F150, False),
        ("plug in hybrid", F150, False),
        ("plug in hybrid", PRIUS, True),
        ("phev", PRIUS, True),
        ("hybrid", PRIUS, False),
        ("2wd", PRIUS, True),
        ("vw", GOLF, True),
        ("automatic", GOLF, False),
        ("dual-clutch hatch", GOLF, True),
        ("cx-5", CX5, True),
        ("cx5", CX5, True),
        ("premium", F150, False),
        ("", F150, True),
        ("with the", F150, True),
        ("--", F150, True),
    ],
)
@pytest.mark.requirement("query-every-word", "query-synonyms")
def test_a_query_finds_listings_with_all_its_words(query: str, listing: dict[str, str], found: bool) -> None:
    assert finds(query, listing) is found


SAID = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            [
                "all wheel drive",
                "Plug-In Hybrid",
                "Land Rover",
                "Crew Cab",
                "with",
                "F-150",
                "twin-turbo",
                "4",
                "8-Speed",
                "Automatic",
            ]
        ),
        max_size=5,
    ).map(" ".join),
)


@given(SAID, st.sampled_from(sorted(SEARCHED)))
def test_a_listing_is_found_by_its_own_text(text: str, field: str) -> None:
    assert finds(text, {field: text})


@pytest.mark.requirement("query-fillers")
@given(st.lists(st.sampled_from(sorted(FILLERS))))
def test_filler_words_in_a_query_do_not_exclude_units(fillers: list[str]) -> None:
    assert all(finds(filler, {"make": "Ford"}) for filler in fillers)
