"""Whether a text looks like a person's name. A mail to a customer repeats a first name only if it does. Pure.

Anybody can send a lead with any e-mail address, and could use the first name for a message to that address. So a text
that is not clearly a name is left out. If a real name is left out, the mail only greets without a name.
"""

import unicodedata

LONGEST = 30
"""Characters."""
MOST_WORDS = 2
MOST_PARTS = 3
"""Pieces between spaces, hyphens and apostrophes."""
MOST_WIDE = 8
"""Wide letters (Chinese, Japanese, Korean). They need no spaces, so a few of them can be a sentence."""
MOST_MARKS = 3
"""Combining marks in a row."""
ABBREVIATION = 3
"""The longest piece that may end with a period: `J.`, `St.`"""

_JOINERS = "-\N{HYPHEN}'\N{RIGHT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}"
# Letters and marks that are invisible.
_UNSEEN = frozenset(
    map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)))
) | frozenset(map(chr, range(0xE0100, 0xE01F0)))


def likely_name(text: str) -> str:
    """The text as a name, in Unicode's composed form (NFC); empty when it does not look like a name."""
    name = unicodedata.normalize("NFC", text.strip(" "))
    # Compatibility characters (full width, mathematical, ligatures) are not in names.
    if not 0 < len(name) <= LONGEST or unicodedata.normalize("NFKC", name) != name:
        return ""
    words = name.split(" ")
    if len(words) > MOST_WORDS or sum(unicodedata.east_asian_width(letter) == "W" for letter in name) > MOST_WIDE:
        return ""
    pieces = [piece for word in words for piece in _pieces(word)]
    return name if len(pieces) <= MOST_PARTS and all(map(_is_piece, pieces)) and all(map(_begins, words)) else ""


def _pieces(word: str) -> list[str]:
    for joiner in _JOINERS[1:]:
        word = word.replace(joiner, "-")
    return word.split("-")


def _begins(word: str) -> bool:
    """Whether a word does not begin with a small letter, as most words of a sentence do."""
    return not word[0].islower()


def _is_piece(piece: str) -> bool:
    letters = piece.removesuffix(".")
    if letters != piece and len(letters) > ABBREVIATION:
        return False
    kinds = [unicodedata.category(letter) for letter in letters]
    if not kinds or kinds[0][0] != "L" or not all(kind[0] == "L" or kind in ("Mn", "Mc") for kind in kinds):
        return False
    return not _UNSEEN.intersection(letters) and "M" * (MOST_MARKS + 1) not in "".join(kind[0] for kind in kinds)
