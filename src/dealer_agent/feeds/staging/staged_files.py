"""The folder of staged files of a dealer on this machine. A staged file waits for a person who decides about it.

For each file there are its content, its facts, and the reports about it. A file is deleted after STAGED_FOR, also if
its import has not ended. Other machines do not have it.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path, PurePath
from typing import IO, NamedTuple

import msgspec
from msgspec import Struct

from dealer_agent.correctable import CorrectableError
from dealer_agent.encryption.private_files import new_private_file
from dealer_agent.feeds.import_report import ImportReport
from dealer_agent.protocol.ids import new_ulid

FOLDER = "staged-feeds"
"""The name of the folder in the folder of a dealer."""
STAGED_FOR = timedelta(hours=1)
MOST_STAGED = 5
"""The most staged files of a dealer. A new one takes the place of the oldest."""
MOST_BYTES = 1 << 30
"""The most bytes of all of them together."""
LEAST_FREE = 512 << 20
"""The bytes that a staged file leaves free on the disk."""
LONGEST_NAME = 100

_CHUNK = 1 << 20
_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069/\\]+")


class StagingFailed(CorrectableError):  # noqa: N818 - says what happened.
    """The file cannot be kept for its import. The message says why and what to do."""


class StagedFacts(Struct, frozen=True, kw_only=True):
    """What is known of a staged file: its name, who gave it and when, and how it is read."""

    name: str
    by: str
    at: datetime
    feed: str | None = None
    layout: str | None = None
    rooftops: tuple[str, ...] = ()


class Claim:
    """The right to work on a staged file, which one process at a time has. It ends with `release` or the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Ends it."""
        os.close(self._descriptor)


class StagedFile(NamedTuple):
    """A staged file. `folder` is that of all staged files of the dealer."""

    folder: Path
    file_id: str
    facts: StagedFacts

    @property
    def content(self) -> Path:
        """The file itself."""
        return self.folder / f"{self.file_id}.feed"

    def report_path(self, *, dry_run: bool) -> Path:
        """Where the report of the dry run or of the import is."""
        return self.folder / f"{self.file_id}.{'dry-run' if dry_run else 'import'}"

    def report(self, *, dry_run: bool) -> ImportReport | None:
        """The report of the dry run or of the import. None if it has not ended."""
        with suppress(FileNotFoundError):
            return msgspec.json.decode(self.report_path(dry_run=dry_run).read_bytes(), type=ImportReport)
        return None

    def write_report(self, report: ImportReport, *, dry_run: bool) -> None:
        """Writes a report. Readers see all of it or nothing. Raises OSError."""
        path = self.report_path(dry_run=dry_run)
        part = path.with_name(f"{self.file_id}.{new_ulid()}.part")
        with new_private_file(part) as file:
            file.write(msgspec.json.encode(report))
        part.rename(path)

    def claim(self) -> Claim | None:
        """The right to work on the file; None if a process works on it now. Raises OSError."""
        descriptor = os.open(self.folder / f"{self.file_id}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return Claim(descriptor)

    @property
    def is_busy(self) -> bool:
        """Whether a process works on the file now."""
        claim = self.claim()
        if claim is not None:
            claim.release()
        return claim is None

    def delete(self) -> None:
        """Deletes the file and all that is known of it."""
        for path in self.folder.glob(f"{self.file_id}.*"):
            path.unlink(missing_ok=True)


def stage(dealer_folder: Path, content: IO[bytes], facts: StagedFacts) -> StagedFile:
    """Keeps a copy of a file. Blocks for the disk. Raises StagingFailed and OSError."""
    folder = dealer_folder / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    content.seek(0, os.SEEK_END)
    size = content.tell()
    content.seek(0)
    if not size:
        raise StagingFailed("The file is empty. Export the inventory again")
    _make_room(folder, size, facts.at)
    name = _NOT_IN_NAMES.sub(" ", PurePath(facts.name).name).strip()[:LONGEST_NAME] or "file"
    staged = StagedFile(folder, new_ulid(), msgspec.structs.replace(facts, name=name))
    try:
        with new_private_file(staged.content) as file:
            while chunk := content.read(_CHUNK):
                file.write(chunk)
        with new_private_file(folder / f"{staged.file_id}.facts") as file:
            file.write(msgspec.json.encode(staged.facts))
    except OSError:
        staged.delete()
        raise
    return staged


def find_staged(dealer_folder: Path, file_id: str, now: datetime) -> StagedFile | None:
    """A staged file; None if this machine does not have it, or not any more."""
    folder = dealer_folder / FOLDER
    delete_old_staged(dealer_folder, now)
    if not _ID.fullmatch(file_id):
        return None
    with suppress(FileNotFoundError):
        facts = msgspec.json.decode((folder / f"{file_id}.facts").read_bytes(), type=StagedFacts)
        return StagedFile(folder, file_id, facts)
    return None


def delete_old_staged(dealer_folder: Path, now: datetime) -> None:
    """Deletes what is older than STAGED_FOR, also what a killed process left. Raises OSError."""
    oldest = (now - STAGED_FOR).timestamp()
    for path in _entries(dealer_folder / FOLDER):
        with suppress(FileNotFoundError):
            if path.lstat().st_mtime < oldest:
                path.unlink()


def _make_room(folder: Path, size: int, now: datetime) -> None:
    """Deletes the oldest files until there is room for a new one. Raises StagingFailed."""
    delete_old_staged(folder.parent, now)
    staged = sorted(path for path in _entries(folder) if path.suffix == ".feed")
    sizes = [path.lstat().st_size for path in staged]
    for number, path in enumerate(staged):
        if len(staged) - number < MOST_STAGED and sum(sizes[number:]) + size <= MOST_BYTES:
            break
        for each in folder.glob(f"{path.stem}.*"):
            each.unlink(missing_ok=True)
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize - size < LEAST_FREE:
        raise StagingFailed("The disk of the service is almost full, so the file was not kept. Tell the operator")


def _entries(folder: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            yield Path(entry.path)
