"""Suggests the known words that are nearest to an unknown one. Pure."""

import difflib
import re
from collections.abc import Iterable, Sequence

_LONGEST = 60
"""The most characters of a word that is compared. No known word is longer, and time grows with the length."""

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """`; did you mean ...?`, or an empty text if no known word is near. `maxPrice` suggests `price_max`."""
    if len(word) > _LONGEST:
        return ""
    near = difflib.get_close_matches(word, known, n=1)
    if not near:
        in_order = {_in_order(one): one for one in known}
        near = [in_order[one] for one in difflib.get_close_matches(_in_order(word), in_order, n=1, cutoff=0.8)]
    return f"; did you mean {near[0]}?" if near else ""


def nearest(word: str, known: Sequence[str]) -> str:
    """At most three known words that contain the word or are near it, in quotes. Case does not matter."""
    wanted, by_folded = word[:_LONGEST].casefold(), {one.casefold(): one for one in known}
    containing = [one for one in by_folded if wanted in one]
    near = containing[:3] or difflib.get_close_matches(wanted, by_folded, n=3)
    return quoted([by_folded[one] for one in near])


def quoted(words: Iterable[str]) -> str:
    """The words in quotes, separated by commas."""
    return ", ".join(f'"{word}"' for word in words)


def _in_order(word: str) -> str:
    return "_".join(sorted(_CAPITAL.sub("_", word).lower().split("_")))
