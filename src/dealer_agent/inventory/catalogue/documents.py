"""Ready JSON documents in the flat form, by their number. Pure."""

from array import array
from collections.abc import Sequence
from typing import overload

import numpy as np

from dealer_agent.inventory.catalogue.columns import Rows
from dealer_agent.inventory.catalogue.flat import Flat, FlatWriter

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


def documents(flat: Flat, name: str) -> Sequence[bytes]:
    """The documents of that name."""
    cut = _Cut(flat, name)
    return list(cut) if len(cut) <= _AT_HAND else cut


class _Cut(Sequence[bytes]):
    """Each is cut out when it is asked for."""

    __slots__ = ("_buffer", "_ends", "_first", "_starts")

    def __init__(self, flat: Flat, name: str) -> None:
        self._buffer = flat.buffer
        self._first, _ = flat.place(name)
        self._starts = flat.numbers(f"{name}.starts")
        self._ends = flat.numbers(f"{name}.ends")

    @overload
    def __getitem__(self, number: int) -> bytes: ...
    @overload
    def __getitem__(self, number: slice) -> list[bytes]: ...
    def __getitem__(self, number: int | slice) -> bytes | list[bytes]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        return self._buffer[self._first + self._starts[number] : self._first + self._ends[number]]

    def __len__(self) -> int:
        return len(self._starts)
