"""Encoded JSON documents in the snapshot file, by number. Pure."""

from array import array
from collections.abc import Iterable

import numpy as np

from dealer_agent.inventory.catalogue.columns import Rows
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter

# Up to this many documents are loaded as objects at the start, which makes pages fastest.
_LOADED = 20_000


class DocumentWriter:
    """Writes documents in the order in which they come, and numbers them at the end."""

    def __init__(self, writer: FlatWriter, name: str) -> None:
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
    """Reads the documents of that name."""

    __slots__ = ("_buffer", "_ends", "_first", "_loaded", "_starts")

    def __init__(self, flat: FlatArrays, name: str) -> None:
        self._buffer = flat.buffer
        self._first, _ = flat.place(name)
        self._starts = flat.numbers(f"{name}.starts")
        self._ends = flat.numbers(f"{name}.ends")
        self._loaded: list[bytes] | None = None
        if len(self) <= _LOADED:
            self._loaded = self.having(range(len(self)))

    def __len__(self) -> int:
        return len(self._starts)

    def having(self, numbers: Iterable[int]) -> list[bytes]:
        """The documents with these numbers."""
        if (loaded := self._loaded) is not None:
            return [loaded[number] for number in numbers]
        buffer, first, starts, ends = self._buffer, self._first, self._starts, self._ends
        return [buffer[first + starts[number] : first + ends[number]] for number in numbers]
