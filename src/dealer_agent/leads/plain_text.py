"""Makes text from outside safe for documents. Pure.

A character that XML 1.0 cannot hold (a control character, a lone surrogate, U+FFFE) becomes U+FFFD, so that the reader
sees that a character is missing. All other characters stay, emoji and right-to-left marks included.
"""

import re
import unicodedata
from textwrap import wrap

WIDTH = 76
"""Columns of a plain-text mail."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_INVALID = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
# Bidirectional overrides and isolates: in a name they would reverse the words around it.
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    """The text on one line, with single spaces. Empty if no character is visible."""
    line = _INVALID.sub(REPLACEMENT, " ".join(text.split()))
    return line if any(map(_is_visible, line)) else ""


def lines(text: str) -> list[str]:
    """The lines of a text, without trailing white space and without empty lines at the start and the end."""
    cleaned = "\n".join(_INVALID.sub(REPLACEMENT, line).rstrip() for line in text.splitlines()).strip("\n")
    return cleaned.split("\n") if cleaned else []


def short(text: str, most: int = 200) -> str:
    """One line of at most `most` characters, cut with an ellipsis, without characters that change the direction."""
    line = one_line(_DIRECTIONS.sub("", text))
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def quoted(text: str) -> list[str]:
    """The sender's text as wrapped lines of a mail. Each line starts with `> `."""
    return [
        f"> {piece}".rstrip() for line in lines(_DIRECTIONS.sub("", text)) for piece in wrapped(line, WIDTH - 2) or [""]
    ]


def wrapped(text: str, width: int = WIDTH, hanging: str = "") -> list[str]:
    """One paragraph as lines. A longer word is not split. `hanging` indents all lines but the first."""
    return wrap(text, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def _is_visible(character: str) -> bool:
    # Categories C (control, format, unassigned) and Z (space) are invisible. A character that is newer than this
    # Unicode database is unassigned here (Cn) and counts as visible.
    category = unicodedata.category(character)
    return category == "Cn" or category[0] not in "CZ"
