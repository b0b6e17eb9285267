"""Colours match by their words, and paint names also by basic colour (docs/protocol.md#inventory-search). Pure."""

import re
from functools import lru_cache

from dealer_agent.inventory.vocabulary.tables import PAINTS
from dealer_agent.inventory.vocabulary.text import parts

_BASICS_OF_WORD: dict[str, frozenset[str]] = {
    word: frozenset(basic for basic, names in PAINTS.items() if word in names)
    for names in PAINTS.values()
    for word in names
}
_SPELLED = {**dict.fromkeys(("grey", "grays", "gry"), "gray"), "blk": "black", "wht": "white"}
_SPELLED |= dict.fromkeys(("slv", "sil"), "silver")
_BASIC = frozenset(PAINTS)
_COLOUR_BREAK = re.compile(r"[/(),;|&+]|\b(?:and|with|w/|over|on)\b", re.IGNORECASE)


def wanted_colour_words(text: str) -> frozenset[str]:
    """The folded words of a colour that a buyer asks for. Grey is gray."""
    return frozenset(_SPELLED.get(word, word) for word in parts(text))


@lru_cache(maxsize=16_384)
def colour_words(text: str) -> frozenset[str]:
    """The folded words of a listing's colour, and the basic colours of its paint names.

    `Granite Crystal` is also gray. `Graphite Blue` is not, because its name has a basic colour. Parts separated by
    `/`, brackets, commas or `and` are read on their own: `Black (Charcoal)` is black and gray.
    """
    found = set(wanted_colour_words(text))
    for part in _COLOUR_BREAK.split(text):
        names = wanted_colour_words(part)
        if not names & _BASIC:
            for name in names:
                found |= _BASICS_OF_WORD.get(name, frozenset())
    return frozenset(found)


def colour_matches(wanted: frozenset[str], listed: frozenset[str]) -> bool:
    """Whether the `colour_words` of a listing include all `wanted_colour_words`."""
    return bool(wanted) and wanted <= listed
