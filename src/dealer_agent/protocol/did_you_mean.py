"""The known word that is nearest to an unknown one. Pure."""

import difflib
import re
from collections.abc import Sequence

_LONGEST = 60
"""No known word is longer. The time to compare two words grows with both lengths."""

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """`; did you mean ...?`, or nothing when no known word is near. `max_price` and `maxPrice` mean `price_max`."""
    if len(word) > _LONGEST:
        return ""
    near = difflib.get_close_matches(word, known, n=1)
    if not near:
        in_order = {_in_order(one): one for one in known}
        near = [in_order[one] for one in difflib.get_close_matches(_in_order(word), in_order, n=1, cutoff=0.8)]
    return f"; did you mean {near[0]}?" if near else ""


def _in_order(word: str) -> str:
    """The parts of a name, sorted."""
    return "_".join(sorted(_CAPITAL.sub("_", word).lower().split("_")))
