"""The format of a snapshot: named arrays, one after the other, which are used without decoding. Pure.

One process writes a snapshot to memory or to a file. Processes that map the file share one copy of it. Each part starts
at a multiple of 64 bytes. After the parts come their directory, and last the directory's position, by which an
incomplete or foreign file is recognised.
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
    """Writes the named arrays of a snapshot file ("parts") in any order. Call `finish` at the end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0
        self._begun: tuple[str, str, int] | None = None
        # By the name of the part.
        self._parts: dict[str, _Part] = {}

    def array(self, name: str, values: NDArray[Any]) -> None:
        """Writes a part of numbers."""
        self._begin(name, values.dtype.str)
        self.append(np.ascontiguousarray(values).tobytes())

    def json(self, name: str, value: object) -> None:
        """Writes a part that is decoded as a whole when the snapshot is opened."""
        self.text(name, msgspec.json.encode(value))

    def text(self, name: str, value: bytes = b"") -> None:
        """Writes a part of bytes. `append` adds to it."""
        self._begin(name, "|u1")
        self.append(value)

    def append(self, more: bytes) -> None:
        """Adds to the last part."""
        self._file.write(more)
        self._at += len(more)

    def finish(self) -> None:
        """Writes the directory of the parts."""
        self._end_part()
        start = self._at
        directory = msgspec.json.encode(self._parts)
        self._file.write(directory + _END.pack(start, start + len(directory), _MAGIC))

    def _begin(self, name: str, dtype: str) -> None:
        self._end_part()
        self.append(bytes(-self._at % _ALIGNED))
        self._begun = (name, dtype, self._at)

    def _end_part(self) -> None:
        if self._begun is not None:
            name, dtype, start = self._begun
            self._parts[name] = _Part(dtype, start, self._at)


class FlatArrays:
    """Reads a snapshot from memory or from a mapped file. Raises ValueError for an incomplete one."""

    __slots__ = ("_bytes", "_parts", "buffer")

    def __init__(self, buffer: bytes | mmap) -> None:
        end = len(buffer) - _END.size
        if end < 0:
            raise ValueError("the file is not a complete snapshot")
        first, last, magic = _END.unpack(buffer[end:])
        if magic != _MAGIC or last != end:
            raise ValueError("the file is not a complete snapshot")
        self._parts = _DIRECTORY.decode(buffer[first:last])
        self._bytes = np.frombuffer(buffer, np.uint8)
        self.buffer = buffer

    def array(self, name: str) -> NDArray[Any]:
        """A part of numbers, without a copy."""
        dtype, start, end = self._parts[name]
        return self._bytes[start:end].view(dtype)

    def numbers(self, name: str) -> memoryview:
        """The same as `array`, in a form from which single numbers are read faster."""
        return memoryview(self.array(name).data)

    def json(self, name: str, kind: type[T]) -> T:
        """The value of a part of JSON."""
        start, end = self.bounds(name)
        return msgspec.json.decode(self.buffer[start:end], type=kind)

    def bounds(self, name: str) -> tuple[int, int]:
        """Start and end of a part in `buffer`."""
        _, start, end = self._parts[name]
        return start, end
