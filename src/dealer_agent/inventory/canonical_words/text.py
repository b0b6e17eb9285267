"""Comparison of text without case, accents, spacing and punctuation (docs/protocol.md#filters). Pure functions."""

import re
import unicodedata
from functools import lru_cache

JOINERS = frozenset("-‐'’._")  # noqa: RUF001  (typographic hyphen and apostrophe are what feeds hold)
"""Characters that join two words when one of them is all that separates the words: `F-150`, `J.D`, `Men's`."""

_NOT_FOLDED = re.compile(r"[\W_]+")
_TOKEN = re.compile(r"[^\W_]+")
_GROUP = re.compile(rf"[^\W_]+(?:[{re.escape(''.join(sorted(JOINERS)))}][^\W_]+)*")


def _plain(text: str) -> str:
    return text.lower() if text.isascii() else _without_accents(text)


# Callers fold the same text several times: as a known word, by its parts, and as a whole.
@lru_cache(maxsize=128)
def _without_accents(text: str) -> str:
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    # Only distinct characters, because one character may decompose into eighteen.
    for char in filter(unicodedata.combining, set(plain)):
        plain = plain.replace(char, "")
    return plain


def fold(text: str) -> str:
    """The text without case, accents, spacing and punctuation: `F-150`, `f150` and `F 150` are all `f150`."""
    return _NOT_FOLDED.sub("", _plain(text))


def word_groups(text: str) -> list[list[str]]:
    """The folded words, in order. Words that a joiner connects are in one group.

    `Ford F-150 4x4` is `[["ford"], ["f", "150"], ["4x4"]]`; `Red/Black` is `[["red"], ["black"]]`.
    """
    return [[group] if group.isalnum() else _TOKEN.findall(group) for group in _GROUP.findall(_plain(text))]


def parts(text: str) -> list[str]:
    """The folded words, in order, split at spacing and punctuation: `F-150` is `["f", "150"]`."""
    return _TOKEN.findall(_plain(text))


def words(text: str) -> list[str]:
    """The folded words by which a search finds a text, in order.

    Joined words are included as a whole and in parts: `F-150` gives `f150`, `f`, `150`.
    """
    found: list[str] = []
    for group in word_groups(text):
        if len(group) > 1:
            found.append("".join(group))
        found.extend(group)
    return found
