"""Colours match by their words, and paint names by their basic colour (docs/protocol.md#inventory-search)."""

import pytest

from dealer_agent.inventory.canonical_words.tables import colour_words, wanted_colour_words


@pytest.mark.requirement("colour-words")
@pytest.mark.parametrize(
    ("wanted", "listed", "found"),
    [
        ("white", "Glacier White", True),
        ("Glacier White", "Glacier White Metallic", True),
        ("gray", "Gun Metallic", True),
        ("gray", "Grey", True),
        ("grey", "Gray", True),
        ("gray", "Granite Crystal Metallic Clearcoat", True),
        ("black", "Ebony Twilight Metallic", True),
        ("black", "Jet", True),
        ("black", "Onyx", True),
        ("black", "Obsidian", True),
        ("gray", "Graphite", True),
        ("gray", "Black (Charcoal)", True),
        ("black", "Black (Charcoal)", True),
        ("red", "Rosso/Nero", True),
        ("black", "Rosso/Nero", True),
        ("Onyx", "Onyx Blue", True),
        # The name says itself what it is.
        ("gray", "Graphite Blue", False),
        ("black", "Jet Gray", False),
        ("white", "Off-Black", False),
        ("red", "Redwood", False),
        ("blue white", "Blue", False),
        ("", "Black", False),
        ("!!", "Black", False),
    ],
)
def test_a_colour_matches_if_the_listing_has_all_its_words(wanted: str, listed: str, found: bool) -> None:
    words = wanted_colour_words(wanted)
    assert (bool(words) and words <= colour_words(listed)) is found
