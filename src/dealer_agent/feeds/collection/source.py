"""Where the files of a feed come from, and how a file arrives in the feed's incoming folder.

A source fetches files (`FeedSource`). It writes a file under a temporary name (`temporary_file`), and then gives it its
final name (`finish_file`). From then on it is complete, and the collector takes it, also after a kill. The collector
never reads a file with a temporary name.
"""

import asyncio
import os
import secrets
import time
import unicodedata
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dealer_agent.encryption.private_files import sync_folder

Seen = Mapping[str, str]
"""What a source remembers of earlier fetches, such as the ETag of a URL, or size and time of each file of a server.

The collector stores it without reading it. A source keeps it short: its text may come from a server.
"""

TEMPORARY_SUFFIXES = (".part", ".tmp", ".filepart", ".crdownload")
"""The ends of the names of files that somebody still writes. Names that begin with a dot are temporary too."""

_LONGEST_NAME = 150
"""Bytes. File systems take names of up to 255 bytes."""


NO_ROOM = (
    "too many bytes of this dealer's feeds wait for their import, or the disk has too little room: try again later"
)
DISK_NEARLY_FULL = "the disk of the service is nearly full, and the rest is for leads: free space on it"


class FeedSourceError(Exception):
    """A source has no file now. The message is a sentence for the dealer: what happened, then what to do.

    It has no secret and no address of a person. The next fetch tries again.
    """


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The result of a fetch. Without `files`, nothing has changed.

    `files` are complete files in the incoming folder, the oldest first. `seen` is for the next fetch. The collector
    stores it after it has recorded the files, so a fetch that was killed is repeated.
    """

    files: tuple[Path, ...] = ()
    seen: Seen = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The incoming folder of a fetch, and its bounds: `most_bytes` for a file, `room` for all files of the fetch.

    `least_free` bytes of the disk are left free.
    """

    incoming: Path
    most_bytes: int
    room: int
    least_free: int

    def check(self, size: int, before: int = 0) -> None:
        """Raises FeedSourceError if no file of this size is taken. `before` has the bytes of the files before it."""
        if size > self.most_bytes:
            raise FeedSourceError(f"the file has more than {self.most_bytes >> 20:,} MiB: raise max_mib")
        disk = os.statvfs(self.incoming)
        if disk.f_bavail * disk.f_frsize < self.least_free:
            raise FeedSourceError(DISK_NEARLY_FULL)
        if before + size > self.room:
            raise FeedSourceError(NO_ROOM)


class FeedSource(Protocol):
    """A place that the collector fetches files from. It is made from the settings of one feed, with its secrets."""

    async def fetch(self, seen: Seen, arrivals: Arrivals, /) -> FetchResult:
        """Fetches the new complete files into the incoming folder, each with `store` or `finish_file`.

        `seen` is the result of the last fetch that ended well; at first it is empty. The source calls `arrivals.check`
        while it reads, and stops at a bound. Raises FeedSourceError. Files that arrived before the error stay. The task
        may be cancelled. It then deletes its temporary file.
        """
        ...


@asynccontextmanager
async def time_limit(seconds: int) -> AsyncIterator[None]:
    """Ends a fetch after this time. Raises FeedSourceError."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise FeedSourceError(
            f"the server did not send the file within {seconds:,} seconds: raise timeout_seconds, or ask the server's "
            "owner"
        ) from None


async def store(pieces: AsyncGenerator[bytes, None], name: str, arrivals: Arrivals) -> Path:
    """Stores the pieces of a file in the incoming folder, and returns its path. Raises FeedSourceError at a bound.

    Errors of `pieces` pass through. They leave nothing in the folder.
    """
    temporary = await asyncio.to_thread(temporary_file, arrivals.incoming)
    size = 0
    try:
        with temporary.open("xb") as file:
            async with aclosing(pieces):
                async for piece in pieces:
                    size += len(piece)
                    arrivals.check(size)
                    await asyncio.to_thread(file.write, piece)
        return await asyncio.to_thread(finish_file, temporary, name, arrivals.incoming)
    except OSError as error:
        raise FeedSourceError(
            f"the file cannot be stored: {error.strerror}; look at the disk of this machine"
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def incoming_folder(dealer_folder: Path, feed: str) -> Path:
    """The folder of a feed's files that wait for their import. `dealer_folder` is `Settings.folder` of the dealer."""
    return dealer_folder / "feeds" / feed / "incoming"


def temporary_file(incoming: Path) -> Path:
    """A new temporary path in the incoming folder, which is made if needed. Write the file there."""
    incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
    return incoming / f".{secrets.token_hex(8)}.part"


def finish_file(file: Path, name: str, incoming: Path) -> Path:
    """Moves a file into the incoming folder durably, under its final name. Returns the path.

    `name` is its name at the source. The final name begins with the time, so that files sort by their arrival and none
    replaces another. Blocks for the disk. Raises OSError, also if the file is on another file system.
    """
    with file.open("rb") as written:
        os.fsync(written.fileno())
    final = incoming / f"{time.time_ns():020}-{secrets.token_hex(2)}-{safe_name(name)}"
    file.rename(final)
    sync_folder(incoming)
    return final


def name_at_source(file: Path) -> str:
    """The name that `finish_file` was given, as far as it is safe."""
    return file.name.split("-", 2)[-1]


def safe_name(name: str) -> str:
    """The last part of a path, without control characters and the like, and not too long for a file system."""
    last = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(char for char in last if unicodedata.category(char)[0] != "C").strip().lstrip(".")
    return kept.encode()[-_LONGEST_NAME:].decode(errors="ignore") or "feed"


def is_temporary(name: str) -> bool:
    """Whether somebody still writes a file with this name."""
    return name.startswith(".") or name.lower().endswith(TEMPORARY_SUFFIXES)
