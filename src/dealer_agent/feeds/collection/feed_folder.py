"""The folders of a feed on this machine: the files that wait for their import, and those that are kept after it.

Files wait in `incoming`, and those that a vendor uploaded before that in `uploads`.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from dealer_agent.feeds.collection.source import incoming_folder, is_temporary, name_at_source
from dealer_agent.storage.stock.feeds import FileState

MOST_KEPT = 500
"""The most files of a feed that have a result."""
_UNNAMED_FOR = timedelta(hours=1)
"""A complete upload with a temporary name waits this long for its final name."""
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


def waiting_files(dealer_folder: Path, feed: str) -> list[WaitingFile]:
    """The complete files of a feed in the order of their arrival."""
    return [WaitingFile(path) for path in sorted(_complete(incoming_folder(dealer_folder, feed)))]


def find_refused(dealer_folder: Path, feed: str, file_id: str) -> WaitingFile | None:
    """The file of a feed that was refused, with this id. None if this machine does not have it, or not any more."""
    folder = incoming_folder(dealer_folder, feed).with_name("refused")
    return next((WaitingFile(path) for path in _complete(folder) if file_id_of(path) == file_id), None)


def feeds_with_files(dealer_folder: Path) -> list[str]:
    """The names of the feeds of a dealer's folder that have files waiting."""
    return [
        feed.name
        for feed in _feed_folders(dealer_folder)
        if next(_complete(feed / "incoming"), None)
        or any(not is_temporary(upload.name) for upload in _entries(uploads_folder(feed)))
    ]


def uploads_folder(feed: Path) -> Path:
    """The folder of a feed in which our SFTP server puts the files of its vendor. `feed` is the folder of the feed."""
    return feed / "uploads"


def _complete(folder: Path) -> Iterator[Path]:
    for entry in _entries(folder):
        if not is_temporary(entry.name) and _is_ours(entry.name) and entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def _is_ours(name: str) -> bool:
    return name.count("-") >= 2 and name.split("-", 1)[0].isdecimal()


def keep(file: WaitingFile, state: FileState, keep_days: int) -> None:
    """Moves a file that has its result to the kept files, or to the refused ones. Raises OSError."""
    if keep_days == 0:
        file.path.unlink(missing_ok=True)
        return
    folder = file.path.parent.with_name("refused" if state in ("refused", "failed") else "kept")
    folder.mkdir(mode=0o700, exist_ok=True)
    file.path.rename(folder / file.path.name)


def delete_old_files(
    dealer_folder: Path, keep_for: Mapping[str, timedelta], refused_for: timedelta, now: datetime
) -> None:
    """Deletes the files of a dealer that are too old, and what killed processes left. Raises OSError.

    `keep_for` has the time of each feed of the settings. All files of a feed that is not in the settings any more are
    kept for `refused_for`, as files that were refused.
    """
    for folder in _feed_folders(dealer_folder):
        kept_for = keep_for.get(folder.name, refused_for)
        ages = {"kept": kept_for, "refused": min(kept_for, refused_for)}
        if folder.name not in keep_for:
            ages["incoming"] = refused_for
        for name, age in ages.items():
            for path in _complete(folder / name):
                if arrival_of(path) < now - age:
                    path.unlink(missing_ok=True)
        _delete_unchanged((folder / "incoming").glob(".*.part"), now - _LEFT_FOR)
        delete_unnamed_uploads(folder)
        if folder.name not in keep_for:
            _delete_unchanged(uploads_folder(folder).glob("*"), now - refused_for)


def delete_unnamed_uploads(feed: Path) -> None:
    """Deletes complete uploads that have waited too long for their final name. Raises OSError."""
    unnamed = [each for each in uploads_folder(feed).glob("*") if is_temporary(each.name)]
    _delete_unchanged(unnamed, datetime.now(UTC) - _UNNAMED_FOR)


def _delete_unchanged(files: Iterable[Path], since: datetime) -> None:
    for path in files:
        with suppress(FileNotFoundError):  # Somebody else has just deleted or taken it.
            if path.lstat().st_ctime < since.timestamp():
                path.unlink()


def delete_surplus(dealer_folder: Path, kept_bytes: int, dealer_bytes: int, least_free: int) -> None:
    """Deletes files with a result until the others are within their bounds: refused ones first, then the oldest.

    `kept_bytes` is for each feed, which also has at most MOST_KEPT of them. `dealer_bytes` is for all files of the
    dealer. Its files with a result never take more than is then free on the disk beyond `least_free`. Raises OSError.
    """
    kept = []
    for folder in _feed_folders(dealer_folder):
        files = sorted(each for name in ("refused", "kept") for each in _finished_files(folder / name))
        kept += _delete_beyond_bounds(files, kept_bytes, MOST_KEPT)
    if kept:
        total, on_disk = sum(each.size for each in kept), _left_on_disk(dealer_folder, least_free)
        # What is deleted is free.
        share = total if on_disk >= total else fair_share(total, on_disk)
        _delete_beyond_bounds(sorted(kept), min(share, dealer_bytes - _waiting_of_dealer(dealer_folder)), len(kept))


class BytesLeft(NamedTuple):
    """How many more bytes may wait: of the dealer, and on the disk beyond what is left free. May be negative."""

    of_dealer: int
    on_disk: int


def bytes_left(dealer_folder: Path, dealer_bytes: int, least_free: int) -> BytesLeft:
    """What the waiting files of a dealer leave of `dealer_bytes`, and of its share of the disk. Raises OSError."""
    waiting, on_disk = _waiting_of_dealer(dealer_folder), _left_on_disk(dealer_folder, least_free)
    return BytesLeft(min(dealer_bytes, fair_share(waiting, on_disk)) - waiting, on_disk)


def _waiting_of_dealer(dealer_folder: Path) -> int:
    return sum(waiting_bytes(folder) for folder in _feed_folders(dealer_folder))


def _left_on_disk(dealer_folder: Path, least_free: int) -> int:
    disk = os.statvfs(dealer_folder)
    return disk.f_bavail * disk.f_frsize - least_free


def waiting_entries(feed: Path) -> list[os.DirEntry[str]]:
    """All files of a feed's folder that wait, also those that are not complete."""
    return [*_entries(feed / "incoming"), *_entries(uploads_folder(feed))]


def waiting_bytes(feed: Path) -> int:
    """The bytes of all files of a feed's folder that wait, also of those that are not complete."""
    size = 0
    for each in waiting_entries(feed):
        with suppress(FileNotFoundError):  # The collector has just taken it.
            size += each.stat(follow_symlinks=False).st_size
    return size


def fair_share(used: int, left: int) -> int:
    """The most bytes that one may use who uses some now: as many as it then leaves for the others."""
    return (used + left) // 2


class _FinishedFile(NamedTuple):
    """A file that has its result. Those that are deleted first are lower."""

    was_accepted: bool
    name: str
    size: int
    path: Path


def _finished_files(folder: Path) -> Iterator[_FinishedFile]:
    """The files in the folder "kept" or "refused". One that is deleted meanwhile is left out."""
    for path in _complete(folder):
        with suppress(FileNotFoundError):
            yield _FinishedFile(folder.name == "kept", path.name, path.lstat().st_size, path)


def _delete_beyond_bounds(files: list[_FinishedFile], most_bytes: int, most_files: int) -> list[_FinishedFile]:
    """Deletes the first files until the rest is within bounds. Returns the rest."""
    total = sum(file.size for file in files)
    for position, file in enumerate(files):
        if total <= most_bytes and len(files) - position <= most_files:
            return files[position:]
        file.path.unlink(missing_ok=True)
        total -= file.size
    return []


def _feed_folders(dealer_folder: Path) -> list[Path]:
    """The folders of a dealer's feeds, also of those that are not in its settings any more."""
    return [Path(each) for each in _entries(dealer_folder / "feeds") if each.is_dir(follow_symlinks=False)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
