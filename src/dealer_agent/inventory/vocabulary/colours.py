"""Colours: matched by the words of their name, paint names also by their basic colour (contract, part 7). Pure."""

import re
from functools import lru_cache

from dealer_agent.inventory.vocabulary.text import parts

PAINTS: dict[str, str] = {
    "black": (
        "ebony jet onyx obsidian nero noir schwarz negro raven tuxedo phantom beluga caviar pitch "
        "brilliantblack obsidianblack"
    ),
    "white": (
        "bianco blanco blanc weiss snow snowflake snowfall polar glacier alpine blizzard starfire "
        "alabaster ivory frost chalk ceramic porcelain eminent summit oxford avalanche moonlit eggshell"
    ),
    "gray": (
        "granite graphite charcoal gun gunmetal anthracite slate pewter ash magnetic carbonized cement "
        "smoke steel titanium iridium grigio gris grau gunmetallic destroyer nardo lunar asphalt "
        "meteorite flint greystone graystone machine thunder"
    ),
    "silver": (
        "argento argent billet ingot quicksilver platinum plata silber sterling aluminum aluminium chrome celestial"
    ),
    "red": (
        "rosso ruby crimson scarlet burgundy maroon garnet cherry torred cardinal rouge rojo rot redline "
        "flame firecracker bordeaux vermillion vermilion carmine octane barcelona siren cayenne wine "
        "merlot"
    ),
    "blue": (
        "azure navy cobalt sapphire indigo blu bleu blau azul lapis marine ultramarine cyan denim "
        "atlantic pacific aegean velocity laguna nautical hydro"
    ),
    "green": ("verde emerald olive jade forest sage hunter army moss mojito gruen vert lime evergreen sarge cypress"),
    "brown": (
        "mocha espresso chestnut walnut mahogany cocoa chocolate cognac coffee saddle bronze auburn java "
        "marron umber tobacco"
    ),
    "beige": (
        "sand sandstone almond cashmere parchment oatmeal linen wheat cream ecru champagne ivory khaki "
        "mojave dune macadamia"
    ),
    "tan": "camel saddle khaki sand caramel sahara",
    "gold": "champagne oro golden",
    "yellow": "giallo amarillo jaune gelb lemon canary hellayella hellayellow sunflower",
    "orange": "arancio arancione naranja tangerine copper punkn nacho mango pumpkin",
    "purple": "violet plum amethyst aubergine eggplant viola lavender orchid purpura",
    "pink": "fuchsia magenta tuscadero rosa",
    "turquoise": "teal aqua",
}
"""Basic colour to the words of paint names that count as it, where no basic colour stands beside them."""

_BASICS_OF_WORD: dict[str, frozenset[str]] = {
    word: frozenset(basic for basic, names in PAINTS.items() if word in names.split())
    for names in PAINTS.values()
    for word in names.split()
}
_SPELLED = {
    "grey": "gray",
    "grays": "gray",
    "blk": "black",
    "wht": "white",
    "gry": "gray",
    "slv": "silver",
    "sil": "silver",
}
_BASIC = frozenset(PAINTS)
_COLOUR_BREAK = re.compile(r"[/(),;|&+]|\b(?:and|with|w/|over|on)\b", re.IGNORECASE)


def wanted_colour_words(text: str) -> frozenset[str]:
    """The folded words of a colour that a buyer asks for; grey is gray. No basic colours are added."""
    return frozenset(_SPELLED.get(word, word) for word in parts(text))


@lru_cache(maxsize=16_384)
def colour_words(text: str) -> frozenset[str]:
    """The folded words of a listing's colour, and the basic colours that its paint names count as.

    `Granite Crystal` is also gray, `Graphite Blue` is not: a basic colour in the name says what it is. The parts of a
    colour that `/`, brackets, commas or `and` divide are read each for itself: `Black (Charcoal)` is black and gray.
    """
    found = set(wanted_colour_words(text))
    for part in _COLOUR_BREAK.split(text):
        names = wanted_colour_words(part)
        if not names & _BASIC:
            for name in names:
                found |= _BASICS_OF_WORD.get(name, frozenset())
    return frozenset(found)


def colour_matches(wanted: frozenset[str], listed: frozenset[str]) -> bool:
    """Whether all words of a wanted colour (`wanted_colour_words`) stand in a listing's (`colour_words`)."""
    return bool(wanted) and wanted <= listed
