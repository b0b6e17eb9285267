"""The flat form of a snapshot: named arrays, one after the other, read where they lie. Pure.

One process writes it, to memory or to a file; whoever maps the file has the snapshot without reading it, and all who
map it share one copy. Every part starts at a multiple of 64 bytes. Behind the parts stands their directory, and behind
that where it is: what was cut off or is something else is recognised.
"""

import struct
from mmap import mmap
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

_MAGIC = b"flatlot1"
_END = struct.Struct("<QQ8s")
_ALIGNED = 64


class _Part(NamedTuple):
    dtype: str
    start: int
    end: int


_DIRECTORY = msgspec.json.Decoder(dict[str, _Part])


class FlatWriter:
    """Writes parts in any order; `finish` makes them readable."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0
        self._begun: tuple[str, str, int] | None = None
        self._parts: dict[str, _Part] = {}

    def array(self, name: str, values: NDArray[Any]) -> None:
        """A part of numbers."""
        self._begin(name, values.dtype.str)
        self.go_on(np.ascontiguousarray(values).tobytes())

    def json(self, name: str, value: object) -> None:
        """A part that is decoded whole when the snapshot is opened."""
        self.text(name, msgspec.json.encode(value))

    def text(self, name: str, value: bytes = b"") -> None:
        """A part of bytes; `go_on` makes it longer."""
        self._begin(name, "|u1")
        self.go_on(value)

    def go_on(self, more: bytes) -> None:
        """Continues the part that was begun last."""
        self._file.write(more)
        self._at += len(more)

    def finish(self) -> None:
        """Writes the directory."""
        self._end_part()
        start = self._at
        directory = msgspec.json.encode(self._parts)
        self._file.write(directory + _END.pack(start, start + len(directory), _MAGIC))

    def _begin(self, name: str, dtype: str) -> None:
        self._end_part()
        self.go_on(bytes(-self._at % _ALIGNED))
        self._begun = (name, dtype, self._at)

    def _end_part(self) -> None:
        if self._begun is not None:
            name, dtype, start = self._begun
            self._parts[name] = _Part(dtype, start, self._at)


class FlatArrays:
    """A flat form: `buffer` in memory or mapped. Raises ValueError for one that is not whole."""

    __slots__ = ("_parts", "buffer")

    def __init__(self, buffer: bytes | mmap) -> None:
        end = len(buffer) - _END.size
        if end < 0:
            raise ValueError("no snapshot, or not the whole of one")
        first, last, magic = _END.unpack(buffer[end:])
        if magic != _MAGIC or last != end:
            raise ValueError("no snapshot, or not the whole of one")
        self._parts = _DIRECTORY.decode(buffer[first:last])
        self.buffer = buffer

    def array(self, name: str) -> NDArray[Any]:
        """A part of numbers; nothing is copied."""
        dtype, start, end = self._parts[name]
        kind = np.dtype(dtype)
        return np.frombuffer(self.buffer, kind, (end - start) // kind.itemsize, start)

    def numbers(self, name: str) -> memoryview:
        """The same, for whoever reads single numbers, which this gives faster."""
        return memoryview(self.array(name).data)

    def json(self, name: str, kind: type[T]) -> T:
        """What a part of JSON says."""
        start, end = self.place(name)
        return msgspec.json.decode(self.buffer[start:end], type=kind)

    def place(self, name: str) -> tuple[int, int]:
        """Where in `buffer` a part begins and ends."""
        _, start, end = self._parts[name]
        return start, end
