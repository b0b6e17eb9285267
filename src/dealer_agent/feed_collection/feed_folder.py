"""The folders of a feed on this machine: the files that wait for their import, and those that are kept after it."""

import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from dealer_agent.feed_collection.source import incoming_folder, is_temporary, name_at_source

_LEFT_FOR = timedelta(days=1)
"""A temporary file that did not change for this long was left by a process that was killed."""


class WaitingFile(NamedTuple):
    """A complete file in the incoming folder."""

    path: Path

    @property
    def file_id(self) -> str:
        """Identifies the file within its feed."""
        return file_id_of(self.path)

    @property
    def name(self) -> str:
        """The file's name at its source."""
        return name_at_source(self.path)

    @property
    def received_at(self) -> datetime:
        """When it arrived."""
        return arrival_of(self.path)

    def content_hash(self) -> bytes:
        """The SHA-256 hash of its bytes. Blocks for the disk."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()


def file_id_of(path: Path) -> str:
    """The part of a file's name that identifies it: its arrival and a random number."""
    return "-".join(path.name.split("-", 2)[:2])


def arrival_of(path: Path) -> datetime:
    """The time in the name of a file."""
    return datetime.fromtimestamp(int(path.name.split("-", 1)[0]) / 1e9, UTC)


def waiting_files(directory: Path, feed: str) -> list[WaitingFile]:
    """The complete files of a feed in the order of their arrival."""
    return [WaitingFile(path) for path in sorted(_complete(incoming_folder(directory, feed)))]


def feeds_with_files(directory: Path) -> list[str]:
    """The names of the feeds of a dealer's folder that have files waiting."""
    return [incoming.parent.name for incoming in directory.glob("feeds/*/incoming") if next(_complete(incoming), None)]


def _complete(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not is_temporary(entry.name) and _is_ours(entry.name) and entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)
    except (FileNotFoundError, NotADirectoryError):
        return


def _is_ours(name: str) -> bool:
    return name.count("-") >= 2 and name.split("-", 1)[0].isdecimal()


def kept_folder(directory: Path, feed: str) -> Path:
    """The folder of the files that have a result."""
    return incoming_folder(directory, feed).with_name("kept")


def keep(file: WaitingFile, keep_days: int) -> None:
    """Moves a file that has its result to the kept files. Raises OSError."""
    if keep_days == 0:
        file.path.unlink(missing_ok=True)
        return
    kept = file.path.parent.with_name("kept")
    kept.mkdir(mode=0o700, exist_ok=True)
    file.path.rename(kept / file.path.name)


def delete_old_files(directory: Path, feed: str, before: datetime, now: datetime) -> None:
    """Deletes kept files that arrived before a time, and what killed processes left. Raises OSError."""
    for path in _complete(kept_folder(directory, feed)):
        if arrival_of(path) < before:
            path.unlink(missing_ok=True)
    for path in incoming_folder(directory, feed).glob(".*.part"):
        if path.lstat().st_mtime < (now - _LEFT_FOR).timestamp():
            path.unlink(missing_ok=True)
