"""The words of a listing and the terms of a query (docs/protocol.md#inventory-search)."""

import pytest
from tests.inventory.canonical_words.finding import is_found

from dealer_agent.inventory.canonical_words.query import index_words, query_terms
from dealer_agent.inventory.canonical_words.tables import find_canonical, value_key, wanted_keys

pytestmark = pytest.mark.requirement("query-every-word", "query-synonyms")


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        # What a hyphen joins is one word, unless all its parts have three characters or more.
        ("zx-350", [{"zx350"}]),
        ("f-150", [{"f150"}]),
        ("twin-turbo", [{"twin"}, {"turbo"}]),
        ("zor-ab-vex", [{"zorabvex"}]),
        ("zorvex quillan brambolt tazzle", [{"zorvex"}, {"quillan"}, {"brambolt"}, {"tazzle"}]),
        ("gray zorvex", [{"gray", "grey"}, {"zorvex"}]),
        ("grey", [{"gray", "grey"}]),
        ("8-speed automatic", [{"8speedautomatic", "transmission=automatic"}]),
        ("8 spd automatic", [{"8spdautomatic", "transmission=automatic"}]),
        ("6-speed manual", [{"6speedmanual", "transmission=manual"}]),
        ("2wd", [{"2wd", "driveline=2wd", "driveline=fwd", "driveline=rwd"}]),
        ("front wheel drive", [{"frontwheeldrive", "driveline=fwd"}]),
        ("direct drive", [{"directdrive", "transmission=singlespeed"}]),
        ("x-drive", [{"xdrive", "driveline=awd"}]),
        ("plug-in hybrid", [{"pluginhybrid", "fuel=phev"}]),
    ],
)
def test_a_query_is_split_into_terms(query: str, terms: list[set[str]]) -> None:
    assert query_terms(query) == [frozenset(term) for term in terms]


@pytest.mark.parametrize(
    ("field", "text", "found"),
    [
        ("year", "2019", {"2019"}),
        ("stock", "A-12/3 B", {"a123b", "a12", "a", "12", "3", "b"}),
        ("vin", "1HGCM82633A004352", {"1hgcm82633a004352"}),
        ("make", "Chevy", {"chevy", "chevrolet", "make=chevrolet"}),
        ("make", "Mercedes", {"mercedes", "benz", "mercedesbenz"}),
        ("model", "F 150", {"f", "150", "f150"}),
        ("model", "F-150 XL", {"f", "150", "f150", "xl", "f150xl"}),
        ("trim", "All Wheel Drive", {"all", "allwheel", "wheeldrive", "allwheeldrive"}),
        ("stock", "--", set()),
        ("model", "CX5", {"cx5", "cx", "5"}),
        ("exterior_color", "Glacier White", {"glacier", "white"}),
        ("exterior_color", "Zorvex Grey", {"zorvex", "grey", "gray"}),
        ("description", "Has all wheel drive, and more", {"has", "all", "wheel", "drive", "allwheeldrive", "more"}),
        ("description", "Twin-turbo", {"twin", "turbo", "twinturbo"}),
        ("driveline", "4x4", {"4x4", "4wd", "driveline=4wd"}),
    ],
)
def test_the_words_of_a_value_find_a_listing(field: str, text: str, found: set[str]) -> None:
    assert found <= index_words(field, text)
    assert "" not in index_words(field, text)


def test_only_names_are_joined_with_their_neighbours() -> None:
    assert "ab12" in index_words("trim", "AB 12")
    assert "ab12" not in index_words("engine", "AB 12")
    assert "f150" not in index_words("description", "F 150")


@pytest.mark.parametrize(
    ("term", "word", "found"),
    [
        ("zorvex", "zorvex", True),
        ("zor", "zorvex", True),
        ("vex", "zorvex", False),
        ("zorvexia", "zorvex", False),
        ("fuel=gas", "fuel=gas", True),
        # A marker is no word: nothing is its beginning.
        ("fuel", "fuel=gas", False),
        ("fuel=g", "fuel=gas", False),
    ],
)
def test_a_term_finds_a_word_or_its_prefix(term: str, word: str, found: bool) -> None:
    assert is_found(frozenset({term}), frozenset({word})) is found


def test_only_a_driveline_of_2wd_finds_either_axle() -> None:
    assert wanted_keys("driveline", "2WD") == {"2wd", "fwd", "rwd"}
    assert wanted_keys("driveline", "FWD") == {"fwd"}
    assert wanted_keys("model", "2WD") == {"2wd"}


@pytest.mark.parametrize("length", [120, 121, 5_000])
def test_a_text_of_more_than_120_characters_is_never_a_canonical_word(length: int) -> None:
    text = "Gasoline " + "x" * (length - 9)
    assert value_key("trim", text) == "gasoline" + "x" * (length - 9)
    assert find_canonical("fuel", text) == ("gas" if length <= 120 else None)
