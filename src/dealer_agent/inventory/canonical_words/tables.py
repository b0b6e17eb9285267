"""Canonical words, and how values are compared (docs/protocol.md#canonical-words). Pure.

The words and their spellings are data: `vocabularies.toml`, and the well-known models of each make: `models.toml`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

import msgspec

from dealer_agent.inventory.canonical_words.text import fold, parts

LONGEST = 120
"""Characters. A longer text is not a word of any vocabulary. This bounds the cost of the patterns."""

_COUNTED = re.compile(r"\{(\d+)\.\.(\d+)\}")


@dataclass(frozen=True)
class WordTable:
    """The canonical words of one vocabulary. `vocabularies.toml` explains the members."""

    spellings: Mapping[str, Iterable[str]]
    codes: Mapping[str, Iterable[str]] = field(default_factory=dict)
    patterns: Iterable[tuple[str, str]] = ()
    includes: Mapping[str, Iterable[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Prepares the spellings. Raises ValueError if one belongs to two words."""
        known: dict[str, str] = {}
        for source in (self.spellings, self.codes):
            for word, spelled in source.items():
                for text in (word, *expanded(spelled)):
                    if known.setdefault(fold(text), word) != word:
                        raise ValueError(f"{text!r} is a spelling of both {known[fold(text)]!r} and {word!r}")
        object.__setattr__(self, "_known", known)
        object.__setattr__(self, "_compiled", [(re.compile(rf"\b(?:{p})\b"), word) for p, word in self.patterns])

    # By the folded spelling, the canonical word.
    _known: dict[str, str] = field(init=False, repr=False, compare=False)
    _compiled: list[tuple[re.Pattern[str], str]] = field(init=False, repr=False, compare=False)

    def read(self, text: str) -> str | None:
        """The canonical word for `text`. None for a text that the vocabulary does not know."""
        return self.read_folded(text, fold(text)) if len(text) <= LONGEST else None

    def read_folded(self, text: str, folded: str) -> str | None:
        """`read` for a text whose folded form is known already."""
        exact = self._known.get(folded)
        # Folding can make a text longer: one character may become eighteen.
        if exact is not None or not self._compiled or max(len(text), len(folded)) > LONGEST:
            return exact
        spaced = " ".join(parts(text))
        return next((word or None for pattern, word in self._compiled if pattern.search(spaced)), None)


def expanded(spellings: Iterable[str]) -> Iterator[str]:
    """The spellings, with one for each number of a `{2..12}`."""
    for text in spellings:
        counted = _COUNTED.search(text)
        if counted is None:
            yield text
        else:
            for number in range(int(counted[1]), int(counted[2]) + 1):
                yield text.replace(counted[0], str(number))


def _data(name: str) -> dict[str, dict[str, Any]]:
    text = files("dealer_agent.inventory.canonical_words").joinpath(name).read_text("utf-8")
    return msgspec.toml.decode(text, type=dict[str, dict[str, Any]])


_DATA = _data("vocabularies.toml")

PAINTS: Mapping[str, list[str]] = _DATA.pop("paints")
"""The words of paint names that mean a basic colour, by this colour. They apply if the name has no basic colour."""

FILLERS = frozenset(_DATA.pop("query")["fillers"])
"""Words of a query that do not constrain it."""

TABLES: Mapping[str, WordTable] = {name: WordTable(**table) for name, table in _DATA.items()}
"""Vocabularies by name. Colours are compared by their words instead: see `colour_words`."""


@lru_cache(maxsize=32_768)
def _find_canonical(vocabulary: str, text: str) -> str | None:
    return TABLES[vocabulary].read(text)


def find_canonical(vocabulary: str, text: str) -> str | None:
    """The canonical word for `text`. None for a text that the vocabulary does not know."""
    # A long text is never a word, and must not fill the cache.
    return _find_canonical(vocabulary, text) if len(text) <= LONGEST else None


def canonical(vocabulary: str, text: str) -> str:
    """The canonical word for `text`. A text that the vocabulary does not know is returned stripped."""
    return find_canonical(vocabulary, text) or text.strip()


@lru_cache(maxsize=32_768)
def _short_value_key(vocabulary: str | None, text: str) -> str:
    table, folded = TABLES.get(vocabulary or ""), fold(text)
    word = None if table is None else table.read_folded(text, folded)
    return folded if word is None else fold(word)


def value_key(vocabulary: str | None, text: str) -> str:
    """The key by which a listing's value is compared: the folded canonical word, else the folded text.

    The key of a value of punctuation alone is that value: Kia sells a Soul with the trim `!`.
    """
    key = _short_value_key(vocabulary, text) if len(text) <= LONGEST else fold(text)
    return key or text.strip().casefold()


_INCLUDED = {
    (name, word): frozenset(included) for name, table in TABLES.items() for word, included in table.includes.items()
}


@lru_cache(maxsize=8_192)
def _short_wanted_keys(vocabulary: str | None, text: str) -> frozenset[str]:
    key = value_key(vocabulary, text)
    return _INCLUDED.get((vocabulary or "", key)) or frozenset((key,))


def wanted_keys(vocabulary: str | None, text: str) -> frozenset[str]:
    """The `value_key`s that a filter's value finds: one, but `2wd` also finds fwd and rwd."""
    return _short_wanted_keys(vocabulary, text) if len(text) <= LONGEST else frozenset((value_key(None, text),))


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


MODELS = {
    (make, fold(model)): model
    for make, models in _data("models.toml")["models"].items()
    for model in models.split(" | ")
}
"""The usual spelling of the well-known models, by make and folded model."""


def usual_model(make: str, text: str) -> str | None:
    """The usual spelling of a well-known model of a make."""
    return MODELS.get((make, fold(text))) if len(text) <= LONGEST else None
