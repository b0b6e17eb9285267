"""Takes files from a watched folder."""

import asyncio
import errno
import os
import shutil
import stat
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from dealer_agent.config.feeds import FolderSource
from dealer_agent.feeds.collection.source import (
    Arrivals,
    FeedSourceError,
    FetchResult,
    Seen,
    finish_file,
    is_temporary,
    temporary_file,
)

MOST_FILES = 100
"""The most files that one look takes. The next look takes more."""


class _FoundFile(NamedTuple):
    """A file of the folder. `changed` is the time of the last change of the file or its name, in nanoseconds.

    Unlike the modification time, no program can set it.
    """

    changed: int
    size: int
    path: Path


class WatchedFolder:
    """A folder on this machine. `below` is the folder that it must be in; None means anywhere.

    A file is complete if its size and its time did not change for `settle_seconds`.
    """

    def __init__(self, settings: FolderSource, dealer_folder: Path, below: Path | None) -> None:
        self._folder = dealer_folder / settings.path
        self._pattern = settings.pattern
        self._settle_seconds = settings.settle_seconds
        self._below = below

    async def fetch(self, _seen: Seen, arrivals: Arrivals) -> FetchResult:
        """Moves the complete files into the incoming folder. See FeedSource."""
        listed = await asyncio.to_thread(self._list)
        if not listed:
            return FetchResult()
        await asyncio.sleep(self._settle_seconds)
        again = set(await asyncio.to_thread(self._list))
        taken, size = [], 0
        for file in listed:
            if file not in again:
                continue
            if file.size > arrivals.most_bytes:
                raise FeedSourceError(
                    f"the file {file.path.name} has more than {arrivals.most_bytes >> 20:,} MiB: remove it, or raise "
                    "max_mib"
                )
            arrivals.check(file.size, size)
            taken.append(await asyncio.to_thread(_take, file.path, arrivals.incoming))
            size += file.size
        return FetchResult(tuple(taken))

    def _list(self) -> list[_FoundFile]:
        """The files that nobody writes, the oldest first. Raises FeedSourceError."""
        if self._below is not None and not self._folder.resolve().is_relative_to(self._below.resolve()):
            raise FeedSourceError(
                f"the folder {self._folder.name} is outside the dealer's own folder: set path to a folder inside it"
            )
        files = []
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if is_temporary(entry.name) or not fnmatchcase(entry.name, self._pattern):
                        continue
                    about = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode):
                        files.append(_FoundFile(about.st_ctime_ns, about.st_size, Path(entry.path)))
        except FileNotFoundError:
            raise FeedSourceError(f"there is no folder {self._folder}: make it, or change path") from None
        except OSError as error:
            raise FeedSourceError(
                f"the folder {self._folder} cannot be read: {error.strerror}; give access to it to "
                "the user that runs this program"
            ) from None
        return sorted(files)[:MOST_FILES]


def _take(file: Path, incoming: Path) -> Path:
    """Moves a file into the incoming folder. After a kill, the file is in at least one of the two folders."""
    temporary = temporary_file(incoming)
    try:
        try:
            return finish_file(file, file.name, incoming)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        # The folder is on another file system.
        shutil.copyfile(file, temporary, follow_symlinks=False)
        temporary.chmod(0o600)
        taken = finish_file(temporary, file.name, incoming)
        file.unlink()
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FeedSourceError(
            f"the file {file.name} cannot be moved out of its folder: {error.strerror}; allow the user "
            "that runs this program to write there"
        ) from None
    return taken
