"""Ready JSON documents in the flat form, by their number. Pure."""

from array import array
from collections.abc import Iterable

import numpy as np

from dealer_agent.inventory.catalogue.columns import Rows
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter

# Up to here each document is an object from the beginning: a page of those costs least.
_AT_HAND = 20_000


class DocumentWriter:
    """Takes documents as they come, in a part of that name, and gives them their numbers in the end."""

    def __init__(self, writer: FlatWriter, name: str) -> None:
        writer.text(name)
        self._writer = writer
        self._name = name
        self._lengths = array("q")

    def add(self, document: bytes) -> None:
        """The next one; no other part is written before the last."""
        self._writer.go_on(document)
        self._lengths.append(len(document))

    def finish(self, order: Rows | None = None) -> None:
        """Number n is the document that came as number `order[n]`, or n."""
        lengths = np.frombuffer(self._lengths, np.int64)
        ends = np.cumsum(lengths)
        starts = ends - lengths
        self._writer.array(f"{self._name}.starts", starts if order is None else starts[order])
        self._writer.array(f"{self._name}.ends", ends if order is None else ends[order])


class Documents:
    """The documents of that name."""

    __slots__ = ("_at_hand", "_buffer", "_ends", "_first", "_starts")

    def __init__(self, flat: FlatArrays, name: str) -> None:
        self._buffer = flat.buffer
        self._first, _ = flat.place(name)
        self._starts = flat.numbers(f"{name}.starts")
        self._ends = flat.numbers(f"{name}.ends")
        self._at_hand: list[bytes] | None = None
        if len(self) <= _AT_HAND:
            self._at_hand = self.having(range(len(self)))

    def __len__(self) -> int:
        return len(self._starts)

    def having(self, numbers: Iterable[int]) -> list[bytes]:
        """The documents with these numbers."""
        if self._at_hand is not None:
            at_hand = self._at_hand
            return [at_hand[number] for number in numbers]
        buffer, first, starts, ends = self._buffer, self._first, self._starts, self._ends
        return [buffer[first + starts[number] : first + ends[number]] for number in numbers]
