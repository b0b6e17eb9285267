"""Files that only their owner can access: checks of their mode, and new files that survive a power failure."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def is_open_to_others(mode: int) -> bool:
    """Whether a mode gives any access to the group or to everybody."""
    return bool(mode & _OTHERS)


def open_to_others(paths: Iterable[Path]) -> list[Path]:
    """The existing paths to which other users have access. Raises OSError for one that cannot be read."""
    return [path for path in paths if path.exists() and is_open_to_others(path.stat().st_mode)]


def advice(mode: str, paths: Iterable[Path]) -> str:
    """The problem and the command that solves it."""
    return f"may be read by other users of this machine; type: chmod {mode} {' '.join(map(str, paths))}"


@contextmanager
def new_private_file(path: Path) -> Iterator[BinaryIO]:
    """A new file with mode 0600, to write in a `with` block. At the block's end, its bytes are on the disk.

    Raises FileExistsError and OSError.
    """
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replaced_file(path: Path) -> Iterator[BinaryIO]:
    """A new file with mode 0600, to write in a `with` block. At the block's end it replaces an older file at once.

    A reader finds the older file or the whole new one. If the block fails, the older file stays. Raises OSError.
    """
    temporary = path.with_name(f".{path.name}.{token_hex(8)}")
    try:
        with new_private_file(temporary) as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Makes the names of the files in a folder durable. Blocks for the disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
