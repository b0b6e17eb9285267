"""The files that the vendor of one feed uploads: their bounds, and when a file is complete. No network.

A file is written under a temporary name in the feed's incoming folder. It gets its name in the folder `uploads` of the
feed when the client closes it. From there the folder source takes it (`folder_source`), unless its name is a temporary
one: then the client has to rename it first.

Errors for the client are the SFTPError of asyncssh.
"""

import fcntl
import os
import threading
from bisect import insort
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import asyncssh

from dealer_agent.encryption.private_files import sync_folder
from dealer_agent.feeds.collection.feed_folder import (
    bytes_left,
    delete_unnamed_uploads,
    fair_share,
    uploads_folder,
    waiting_entries,
)
from dealer_agent.feeds.collection.source import finish_file, is_temporary, temporary_file

MOST_UNFINISHED = 8
"""Files of an account that are open, or that wait for their final name."""
MOST_GAPS = 256
"""The most gaps in a file. Clients send several ranges of bytes at once, which may arrive out of order."""
TOO_MANY_BYTES = "Too many bytes already wait to be imported: try again later"
_BYTES_BETWEEN_SCANS = 8 << 20


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """The bounds of an account. `files` and `all_bytes` count the files that wait, complete or not.

    `dealer_bytes` is for all accounts of the dealer, and `least_free` bytes of the disk are left free. A dealer never
    uses more of the disk than it leaves, and an account never more of its dealer's bytes than it leaves.
    """

    file_bytes: int
    files: int
    all_bytes: int
    dealer_bytes: int
    least_free: int


class Upload(FileIO):
    """An open file that is not complete, and the name that its client gave it. A new temporary file is made for it.

    `ranges` are the bytes that were written, as (start, end): sorted, with gaps between them. A file is damaged when a
    write was refused: a client may close it all the same. The process holds a lock on the file, so that another
    process can see that it is not abandoned.
    """

    def __init__(self, temporary: Path, client_name: str) -> None:
        """Creates and locks the file `temporary`, which gets the bytes."""
        super().__init__(temporary, "xb", opener=lambda path, flags: os.open(path, flags, 0o600))
        fcntl.flock(self, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.temporary = temporary
        self.client_name = client_name
        self.ranges: list[tuple[int, int]] = []
        self.is_damaged = False

    @property
    def size(self) -> int:
        """The end of the last byte that was written."""
        return os.fstat(self.fileno()).st_size

    @property
    def is_whole(self) -> bool:
        """Whether every byte from the first to the last was written."""
        return self.ranges == [(0, self.size)] and not self.is_damaged

    def add(self, start: int, end: int) -> None:
        """Notes that these bytes were written."""
        touching = [each for each in self.ranges if each[0] <= end and start <= each[1]]
        for each in touching:
            self.ranges.remove(each)
            start, end = min(start, each[0]), max(end, each[1])
        insort(self.ranges, (start, end))

    def discard(self) -> None:
        """Deletes the file."""
        self.temporary.unlink(missing_ok=True)
        self.close()


class UploadFolder:
    """The files of one account. The sessions of the account share the object, from any thread. All methods block.

    `path` is the folder that a client sees. `on_complete` gets the size of each complete file.
    """

    def __init__(self, incoming: Path, limits: UploadLimits, on_complete: Callable[[int], None]) -> None:
        self.path = uploads_folder(incoming.parent)
        self._incoming = incoming
        self._limits = limits
        self._on_complete = on_complete
        self._lock = threading.Lock()
        self._open: set[Upload] = set()
        self._used_bytes = self._most_bytes = 0
        self._unscanned = 0

    def begin(self, name: str) -> Upload:
        """A new file with this name. Raises SFTPError at a bound, and OSError."""
        with self._lock:
            if is_temporary(name):
                (self.path / name).unlink(missing_ok=True)
            files = self._scan()
            if len(self._open) + sum(is_temporary(each.name) for each in self.path.iterdir()) >= MOST_UNFINISHED:
                raise asyncssh.SFTPQuotaExceeded(f"{MOST_UNFINISHED} files are not finished: close or rename them")
            if files >= self._limits.files:
                raise asyncssh.SFTPQuotaExceeded(
                    f"{self._limits.files} files already wait to be imported: try again later"
                )
            if self._used_bytes >= self._most_bytes:
                raise asyncssh.SFTPQuotaExceeded(TOO_MANY_BYTES)
            upload = Upload(temporary_file(self._incoming), name)
            self._open.add(upload)
            return upload

    def write(self, upload: Upload, offset: int, data: bytes) -> None:
        """Writes bytes of a file, also out of order. Raises SFTPError at a bound, and OSError."""
        with self._lock:
            try:
                self._write(upload, offset, data)
            except (asyncssh.SFTPError, OSError):
                upload.is_damaged = True
                raise

    def truncate(self, upload: Upload, size: int) -> None:
        """Cuts a file. Clients that replace a file in place do so at its end. Raises SFTPError and OSError."""
        with self._lock:
            if size > upload.size:
                raise asyncssh.SFTPOpUnsupported("The size of an open file cannot be set: send its bytes instead")
            upload.truncate(size)
            upload.ranges = [(start, min(end, size)) for start, end in upload.ranges if start < size]

    def close(self, upload: Upload) -> None:
        """The client has sent the whole file. Raises SFTPError if it is not whole; then it is deleted. Raises OSError.

        After the return, a complete file survives a power failure.
        """
        with self._lock:
            self._open.discard(upload)
            try:
                if not upload.size and not upload.is_damaged:
                    raise asyncssh.SFTPFailure("The file is empty and is not imported: send it again with its content")
                if not upload.is_whole:
                    raise asyncssh.SFTPFailure(
                        "Bytes are missing, so the file is not imported: send the whole file again"
                    )
                os.fsync(upload.fileno())
                self._rename(upload.temporary, upload.client_name, was_complete=False)
            finally:
                upload.discard()

    def drop(self, upload: Upload) -> None:
        """Deletes a file whose upload was interrupted."""
        with self._lock:
            self._open.discard(upload)
            upload.discard()

    def rename(self, old: str, new: str) -> None:
        """Gives a file its final name, also that of an older file. Raises OSError if there is no such file."""
        with self._lock:
            file = self.path / old
            upload = next((each for each in self._open if each.client_name == old), None)
            if upload is not None and not file.exists():
                upload.client_name = new
            elif new != old:
                self._rename(file, new, was_complete=not is_temporary(old))

    def remove(self, name: str) -> None:
        """Removes a file for the client. Raises OSError.

        A file that waits for its final name is deleted. A complete one is imported all the same: it is moved to the
        collector.
        """
        with self._lock:
            if is_temporary(name):
                (self.path / name).unlink()
            else:
                finish_file(self.path / name, name, self._incoming)

    def end(self) -> None:
        """Deletes all files that are open."""
        for upload in list(self._open):
            self.drop(upload)

    def _write(self, upload: Upload, offset: int, data: bytes) -> None:
        """Writes bytes at an offset, because a client may send several pieces at once and out of order."""
        end = offset + len(data)
        if end > self._limits.file_bytes:
            raise asyncssh.SFTPQuotaExceeded(
                f"The file has more than {self._limits.file_bytes} bytes: send the units for sale only"
            )
        if len(upload.ranges) > MOST_GAPS:
            raise asyncssh.SFTPFailure("The file has too many gaps: send it from its beginning to its end")
        self._make_room(max(0, end - upload.size))
        rest = memoryview(data)
        while rest:
            rest = rest[os.pwrite(upload.fileno(), rest, end - len(rest)) :]
        upload.add(offset, end)

    def _rename(self, file: Path, name: str, *, was_complete: bool) -> None:
        """Gives a file with all its bytes a name. A complete file that has the name already waits for its import."""
        final = self.path / name
        size = file.stat().st_size
        if not is_temporary(name):
            with suppress(FileNotFoundError):  # There is none, or the collector has just taken it.
                finish_file(final, name, self._incoming)
        file.replace(final)
        sync_folder(self.path)
        if not is_temporary(name) and not was_complete:
            self._on_complete(size)

    def _make_room(self, growth: int) -> None:
        """Counts bytes. Raises SFTPError if they exceed the bound of the account, or if the disk is nearly full."""
        self._used_bytes += growth
        self._unscanned += growth
        if self._used_bytes > self._most_bytes or self._unscanned > _BYTES_BETWEEN_SCANS:
            self._scan()
            self._used_bytes += growth
        if self._used_bytes > self._most_bytes:
            self._used_bytes -= growth
            raise asyncssh.SFTPQuotaExceeded(TOO_MANY_BYTES)

    def _scan(self) -> int:
        """Counts the files that wait, and their bytes, and finds how many bytes may wait. Returns the number of files.

        Deletes the incomplete files of a process that was killed. Deletes complete files with a temporary name if
        their client has not renamed them for a long time. Raises SFTPError.
        """
        files = self._used_bytes = self._unscanned = 0
        for folder in (self._incoming, self.path):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        delete_unnamed_uploads(self._incoming.parent)
        own = {upload.temporary.name for upload in self._open}
        for entry in waiting_entries(self._incoming.parent):
            is_upload = Path(entry).parent == self._incoming and entry.name.endswith(".part")
            if is_upload and entry.name not in own and _delete_abandoned(Path(entry)):
                continue
            with suppress(FileNotFoundError):  # The collector has just taken it.
                self._used_bytes += entry.stat(follow_symlinks=False).st_size
                files += 1
        left = bytes_left(self._incoming.parents[2], self._limits.dealer_bytes, self._limits.least_free)
        if left.on_disk < 0:
            raise asyncssh.SFTPNoSpaceOnFilesystem("The disk of the receiver is nearly full: try again later")
        self._most_bytes = min(self._limits.all_bytes, fair_share(self._used_bytes, left.of_dealer))
        return files


def _delete_abandoned(temporary: Path) -> bool:
    """Deletes a temporary file that no process has locked. A killed process has no locks."""
    try:
        with FileIO(temporary, "r", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW)) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.unlink(missing_ok=True)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True
