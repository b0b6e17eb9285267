"""The known word that a mistyped one is nearest to. Pure."""

import difflib
from collections.abc import Sequence

_LONGEST = 60
"""No known word is longer. Comparing two words takes time that grows with both lengths."""


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """`; did you mean ...?`, or nothing where no known word is near."""
    near = difflib.get_close_matches(word, known, n=1) if len(word) <= _LONGEST else []
    return f"; did you mean {near[0]}?" if near else ""
