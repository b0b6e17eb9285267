"""A hash table from identifiers to rows, which needs no work when a snapshot opens. Pure."""

from collections.abc import Sequence
from itertools import accumulate
from zlib import crc32

import numpy as np

from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter


class Identifiers:
    """Finds rows. The entries of one bucket are adjacent, each with its row and its text, by ascending row."""

    __slots__ = ("_buffer", "_ends", "_entries", "_mask", "_rows", "_texts")

    def __init__(self, flat: FlatArrays, name: str) -> None:
        self._buffer = flat.buffer
        self._entries = flat.numbers(f"{name}.buckets")
        self._rows = flat.numbers(f"{name}.rows")
        self._ends = flat.numbers(f"{name}.ends")
        self._texts, _ = flat.place(f"{name}.texts")
        self._mask = len(self._entries) - 2

    @staticmethod
    def write(writer: FlatWriter, name: str, identifiers: Sequence[str]) -> None:
        """Writes the identifier of each row. An empty text means no identifier."""
        rows = [row for row, text in enumerate(identifiers) if text]
        texts = [_encoded(identifiers[row]) for row in rows]
        buckets = 1 << len(rows).bit_length()
        bucket_of = np.array([crc32(text) for text in texts], np.int64) & (buckets - 1)
        order = np.argsort(bucket_of, kind="stable")
        texts = [texts[entry] for entry in order.tolist()]
        writer.array(f"{name}.buckets", np.searchsorted(bucket_of[order], np.arange(buckets + 1)).astype(np.uint32))
        writer.array(f"{name}.rows", np.array(rows, np.uint32)[order])
        writer.array(f"{name}.ends", np.array([0, *accumulate(map(len, texts))], np.int64))
        writer.text(f"{name}.texts", b"".join(texts))

    def first(self, identifier: str) -> int | None:
        """The first row with the identifier."""
        rows = self.all(identifier)
        return rows[0] if rows else None

    def all(self, identifier: str) -> list[int]:
        """All rows with the identifier, ascending."""
        wanted = _encoded(identifier)
        bucket = crc32(wanted) & self._mask
        begin, end = self._entries[bucket], self._entries[bucket + 1]
        if begin == end:
            return []
        buffer, base, ends = self._buffer, self._texts, self._ends
        return [
            self._rows[entry]
            for entry in range(begin, end)
            if buffer[base + ends[entry] : base + ends[entry + 1]] == wanted
        ]


def _encoded(identifier: str) -> bytes:
    # A request may contain half of a surrogate pair. No identifier in stock does.
    return identifier.encode(errors="surrogatepass")
