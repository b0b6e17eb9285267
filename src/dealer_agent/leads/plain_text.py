"""Text from outside, made fit for documents that people and their systems read. Pure.

What XML 1.0 cannot hold (control characters, lone surrogates, U+FFFE and the like) becomes U+FFFD, so that it shows
that something stood there. Everything else stays, emoji and right-to-left marks included.
"""

import re
import unicodedata
from textwrap import wrap

WIDTH = 76
"""Columns of a plain mail."""

_UNFIT = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
# Orders about the direction of what follows: one in a name would turn the words around it. Marks and joiners, which
# act on their neighbours only, are no danger.
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    """The text on one line, every stretch of white space a single space; empty when nothing of it can be seen."""
    line = _UNFIT.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))
    return line if any(map(_is_visible, line)) else ""


def lines(text: str) -> list[str]:
    """The lines of a longer text, without white space at their ends and without empty ones around them."""
    told = [_UNFIT.sub("\N{REPLACEMENT CHARACTER}", line).rstrip() for line in text.splitlines()]
    first = next((number for number, line in enumerate(told) if line), len(told))
    last = next((number for number in range(len(told), first, -1) if told[number - 1]), first)
    return told[first:last]


def short(text: str, most: int = 200) -> str:
    """One line for people to read, cut with an ellipsis after `most` characters; it cannot turn the words around it."""
    line = one_line(_DIRECTIONS.sub("", text))
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def quoted(text: str) -> list[str]:
    """Somebody's own words as the lines of a mail, each marked with `> ` and wrapped."""
    return [
        f"> {piece}".rstrip() for line in lines(_DIRECTIONS.sub("", text)) for piece in wrapped(line, WIDTH - 2) or [""]
    ]


def wrapped(text: str, width: int = WIDTH, hanging: str = "") -> list[str]:
    """One paragraph as lines; a word longer than a line stays whole. `hanging` indents every line but the first."""
    return wrap(text, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def _is_visible(character: str) -> bool:
    # Categories C (controls, formats, unassigned) and Z (spaces); a character newer than our tables counts as seen.
    category = unicodedata.category(character)
    return category == "Cn" or category[0] not in "CZ"
