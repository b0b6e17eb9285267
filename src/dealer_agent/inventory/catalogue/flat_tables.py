"""Tables in the snapshot file that need no decoding: sorted words, identifiers, documents by number. Pure."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from zlib import crc32

import numpy as np

from dealer_agent.inventory.catalogue.columns import Rows
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter

# Words per block. The first word of each block is in memory; the others are read from the file at each search.
_BLOCK = 16
_BETWEEN = b"\n"


class SortedWords:
    """Sorted distinct words, in blocks of _BLOCK words. UTF-8 sorts like text."""

    __slots__ = ("_buffer", "_first_words", "_offset", "_starts")

    def __init__(self, flat: FlatArrays, name: str) -> None:
        self._buffer = flat.buffer
        self._first_words = [word.encode() for word in flat.json(f"{name}.firsts", list[str])]
        self._starts = flat.numbers(f"{name}.starts")
        self._offset, _ = flat.bounds(name)

    @staticmethod
    def write(writer: FlatWriter, name: str, words: Sequence[str]) -> None:
        """Writes sorted distinct words. No word contains a line end."""
        blocks = ["\n".join(words[at : at + _BLOCK]).encode() + _BETWEEN for at in range(0, len(words), _BLOCK)]
        writer.text(name, b"".join(blocks))
        writer.array(f"{name}.starts", np.array([0, *accumulate(map(len, blocks))], np.int64))
        writer.json(f"{name}.firsts", words[::_BLOCK])

    def position(self, text: str) -> tuple[int, bool]:
        """How many words sort before this one, and whether it is among them."""
        # A request may contain half of a surrogate pair. No word does.
        wanted = text.encode(errors="surrogatepass")
        block = bisect_right(self._first_words, wanted) - 1
        if block < 0:
            return 0, False
        start, end = self._offset + self._starts[block], self._offset + self._starts[block + 1] - 1
        words = self._buffer[start:end].split(_BETWEEN)
        at = bisect_left(words, wanted)
        return block * _BLOCK + at, at < len(words) and words[at] == wanted


class Identifiers:
    """Finds rows. The entries of one bucket are adjacent, each with its row and its text, by ascending row."""

    __slots__ = ("_buffer", "_ends", "_entries", "_mask", "_rows", "_texts")

    def __init__(self, flat: FlatArrays, name: str) -> None:
        self._buffer = flat.buffer
        self._entries = flat.numbers(f"{name}.buckets")
        self._rows = flat.numbers(f"{name}.rows")
        self._ends = flat.numbers(f"{name}.ends")
        self._texts, _ = flat.bounds(f"{name}.texts")
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


class DocumentWriter:
    """Writes documents in the order in which they come, and numbers them at the end."""

    def __init__(self, writer: FlatWriter, name: str) -> None:
        """Begins the part `name` of a file."""
        writer.text(name)
        self._writer = writer
        self._name = name
        self._lengths = array("q")

    def add(self, document: bytes) -> None:
        """Writes the next document. Write no other part until the last document is written."""
        self._writer.append(document)
        self._lengths.append(len(document))

    def finish(self, order: Rows | None = None) -> None:
        """Numbers the documents: number n is the document that came as `order[n]`, by default as n."""
        lengths = np.frombuffer(self._lengths, np.int64)
        ends = np.cumsum(lengths)
        starts = ends - lengths
        self._writer.array(f"{self._name}.starts", starts if order is None else starts[order])
        self._writer.array(f"{self._name}.ends", ends if order is None else ends[order])


class Documents:
    """Reads the documents of that name. Up to `most_copied` documents are kept as objects, which is faster."""

    __slots__ = ("_buffer", "_ends", "_loaded", "_offset", "_starts")

    def __init__(self, flat: FlatArrays, name: str, *, most_copied: int = 0) -> None:
        self._buffer = flat.buffer
        self._offset, _ = flat.bounds(name)
        self._starts = flat.numbers(f"{name}.starts")
        self._ends = flat.numbers(f"{name}.ends")
        self._loaded: list[bytes] | None = None
        if len(self) <= most_copied:
            self._loaded = self.having(range(len(self)))

    def __len__(self) -> int:
        return len(self._starts)

    def having(self, numbers: Iterable[int]) -> list[bytes]:
        """The documents with these numbers."""
        if (loaded := self._loaded) is not None:
            return [loaded[number] for number in numbers]
        buffer, offset, starts, ends = self._buffer, self._offset, self._starts, self._ends
        return [buffer[offset + starts[number] : offset + ends[number]] for number in numbers]
