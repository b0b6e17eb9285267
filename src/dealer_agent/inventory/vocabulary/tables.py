"""The shape of a vocabulary table. Pure types and functions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dealer_agent.inventory.vocabulary.text import fold, parts

LONGEST = 120
"""Characters; a longer text is no word of any vocabulary. It bounds what a pattern can cost."""


@dataclass(frozen=True)
class Table:
    """The canonical words of one field, and how the trade writes them.

    `spellings` mean their word wherever they stand, in a feed's column, a filter or a free-text query. `codes` mean it
    only in the field's own column or filter (`G`, `Premium`, `Rear`). `patterns` are searched, in order, in the folded
    words joined by spaces, when no spelling or code is the whole text; a pattern whose word is None keeps the text.
    """

    spellings: Mapping[str, tuple[str, ...]]
    codes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    patterns: tuple[tuple[str, str | None], ...] = ()

    def __post_init__(self) -> None:
        known: dict[str, str] = {}
        for source in (self.spellings, self.codes):
            for canonical, spelled in source.items():
                for text in (canonical, *spelled):
                    if known.setdefault(fold(text), canonical) != canonical:
                        raise ValueError(f"{text!r} is spelled under {known[fold(text)]!r} and {canonical!r}")
        object.__setattr__(self, "_known", known)
        object.__setattr__(self, "_compiled", tuple((re.compile(rf"\b(?:{p})\b"), word) for p, word in self.patterns))

    _known: dict[str, str] = field(init=False, repr=False, compare=False)
    _compiled: tuple[tuple[re.Pattern[str], str | None], ...] = field(init=False, repr=False, compare=False)

    def read(self, text: str) -> str | None:
        """The canonical word for `text`, or None when it is no known word."""
        return self.read_folded(text, fold(text)) if len(text) <= LONGEST else None

    def read_folded(self, text: str, folded: str) -> str | None:
        """The same of a text that is folded already."""
        exact = self._known.get(folded)
        # One character may fold to eighteen.
        if exact is not None or not self._compiled or max(len(text), len(folded)) > LONGEST:
            return exact
        spaced = " ".join(parts(text))
        for pattern, word in self._compiled:
            if pattern.search(spaced):
                return word
        return None
