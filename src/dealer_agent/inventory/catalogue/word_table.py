"""The sorted words of the free-text index, found by bisection in the snapshot file. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter

# Words per block. The first word of each block is in memory; the others are read from the file at each search.
_BLOCK = 16
_BETWEEN = b"\n"


class SortedWords:
    """Sorted distinct words. UTF-8 sorts like text."""

    __slots__ = ("_buffer", "_first", "_firsts", "_starts")

    def __init__(self, flat: FlatArrays, name: str) -> None:
        self._buffer = flat.buffer
        self._firsts = [word.encode() for word in flat.json(f"{name}.firsts", list[str])]
        self._starts = flat.numbers(f"{name}.starts")
        self._first, _ = flat.place(name)

    @staticmethod
    def write(writer: FlatWriter, name: str, words: Sequence[str]) -> None:
        """Writes sorted distinct words. No word contains a line end."""
        blocks = ["\n".join(words[at : at + _BLOCK]).encode() + _BETWEEN for at in range(0, len(words), _BLOCK)]
        writer.text(name, b"".join(blocks))
        writer.array(f"{name}.starts", np.array([0, *accumulate(map(len, blocks))], np.int64))
        writer.json(f"{name}.firsts", words[::_BLOCK])

    def place(self, text: str) -> tuple[int, bool]:
        """How many words sort before this one, and whether it is among them."""
        # A request may contain half of a surrogate pair. No word does.
        wanted = text.encode(errors="surrogatepass")
        block = bisect_right(self._firsts, wanted) - 1
        if block < 0:
            return 0, False
        start, end = self._first + self._starts[block], self._first + self._starts[block + 1] - 1
        words = self._buffer[start:end].split(_BETWEEN)
        at = bisect_left(words, wanted)
        return block * _BLOCK + at, at < len(words) and words[at] == wanted
