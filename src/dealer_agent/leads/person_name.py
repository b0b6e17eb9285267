"""Decides whether a text looks like a first name. A mail to a customer repeats only such a text. Pure.

Anybody can send a lead with any e-mail address, and could put a message to that address into the first name. So a text
that is not clearly a name is left out. If a real name is left out, the mail greets without a name.
"""

import re
import unicodedata

LONGEST = 30
"""Characters."""
MOST_WORDS = 2
MOST_PARTS = 3
"""Parts between spaces, hyphens and apostrophes."""
MOST_WIDE = 8
"""Wide letters (Chinese, Japanese, Korean). A few of them can be a sentence, because they need no spaces."""
MOST_MARKS = 3
"""Combining marks in a row."""
ABBREVIATION = 3
"""The longest part that may end with a period: `J.`, `St.`"""

_JOINERS = re.compile("[-\N{HYPHEN}'\N{RIGHT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}]")
_INVISIBLE = frozenset(
    map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)))
) | frozenset(map(chr, range(0xE0100, 0xE01F0)))
"""Letters and marks that are invisible."""


def likely_name(text: str) -> str:
    """The text in Unicode's composed form (NFC). Empty if it does not look like a name."""
    name = unicodedata.normalize("NFC", text.strip(" "))
    # Names have no compatibility characters (full width, mathematical, ligatures).
    if not 0 < len(name) <= LONGEST or unicodedata.normalize("NFKC", name) != name:
        return ""
    words = name.split(" ")
    if len(words) > MOST_WORDS or sum(unicodedata.east_asian_width(letter) == "W" for letter in name) > MOST_WIDE:
        return ""
    parts = [part for word in words for part in _JOINERS.split(word)]
    # A word of a name does not start with a small letter. Most words of a sentence do.
    starts_large = not any(word[0].islower() for word in words if word)
    return name if len(parts) <= MOST_PARTS and all(map(_is_part, parts)) and starts_large else ""


def _is_part(part: str) -> bool:
    letters = part.removesuffix(".")
    if letters != part and len(letters) > ABBREVIATION:
        return False
    kinds = [unicodedata.category(letter) for letter in letters]
    if not kinds or kinds[0][0] != "L" or not all(kind[0] == "L" or kind in ("Mn", "Mc") for kind in kinds):
        return False
    return not _INVISIBLE.intersection(letters) and "M" * (MOST_MARKS + 1) not in "".join(kind[0] for kind in kinds)
