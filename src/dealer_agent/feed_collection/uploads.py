"""The files that the vendor of one feed uploads: their names, their bounds, and when a file is complete. No network.

A file is written below a temporary name in the feed's incoming folder. It becomes visible to the collector when it is
complete: at its close, or, if the vendor gave it a temporary name, when it is renamed. Then the vendor's client still
sees it under its name for a while, because clients check size and time after an upload. This view is in memory only,
so no path of a client ever reaches the file system.

Errors for the client are the SFTPError of asyncssh.
"""

import fcntl
import os
import posixpath
import stat
import threading
import time
import unicodedata
from bisect import insort
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from dealer_agent.feed_collection.feed_folder import bytes_left, fair_share
from dealer_agent.feed_collection.source import finish_file, is_temporary, part_file

LONGEST_PATH = 1024
LONGEST_NAME = 150
"""Both in bytes."""
MOST_UNFINISHED = 8
"""Files of an account that are open, or that wait for their final name."""
MOST_GAPS = 256
"""Clients send several parts of a file at once, so parts may arrive out of order."""
MOST_SHOWN = 100
"""Files that a client still sees after they are complete: the newest ones."""
TOO_MANY_BYTES = "Too many bytes wait already: try again later"
_BYTES_BETWEEN_SCANS = 8 << 20

FOLDER_ATTRS = asyncssh.SFTPAttrs(size=0, uid=0, gid=0, permissions=stat.S_IFDIR | 0o700, atime=0, mtime=0)


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


@dataclass(slots=True)
class ShownFile:
    """What a client sees of a file. `modified` is in seconds since 1970."""

    size: int
    modified: int

    def attrs(self) -> asyncssh.SFTPAttrs:
        """The attributes of the file in the protocol."""
        permissions = stat.S_IFREG | 0o600
        return asyncssh.SFTPAttrs(
            size=self.size, uid=0, gid=0, permissions=permissions, atime=self.modified, mtime=self.modified
        )


@dataclass(slots=True, eq=False)
class Upload:
    """A file that is not complete. `parts` are the ranges of bytes that were written: sorted, with gaps between them.

    A file is damaged when a part of it was refused: a client may close it all the same. The process holds a lock on the
    open file, so that another process can see that it is not abandoned.
    """

    name: str
    part: Path
    file: int
    shown: ShownFile
    parts: list[tuple[int, int]] = field(default_factory=list)
    is_damaged: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether every byte from the first to the last was written."""
        return self.parts == [(0, self.shown.size)] and not self.is_damaged

    def add(self, start: int, end: int) -> None:
        """Notes that these bytes were written."""
        touching = [each for each in self.parts if each[0] <= end and start <= each[1]]
        for each in touching:
            self.parts.remove(each)
            start, end = min(start, each[0]), max(end, each[1])
        insort(self.parts, (start, end))


def file_name(path: bytes) -> str:
    """The name of the file at a path of a client. Empty for the folder itself. Raises SFTPError."""
    if len(path) > LONGEST_PATH:
        raise asyncssh.SFTPFailure("The path is too long")
    try:
        text = path.decode()
    except UnicodeDecodeError:
        raise asyncssh.SFTPNoSuchFile("The path is no UTF-8") from None
    name = posixpath.normpath(posixpath.join("/", text)).lstrip("/")
    if "/" in name:
        raise asyncssh.SFTPNoSuchFile("There are no folders: upload the file to /")
    if any(unicodedata.category(char)[0] == "C" for char in name):
        raise asyncssh.SFTPNoSuchFile("The name has control characters: choose another")
    if len(name.encode()) > LONGEST_NAME:
        raise asyncssh.SFTPFailure(f"The name is too long: at most {LONGEST_NAME} bytes")
    return name


class UploadFolder:
    """The files of one account. The sessions of the account share the object, from any thread. All methods block.

    `on_complete` gets the size of each complete file.
    """

    def __init__(self, incoming: Path, limits: UploadLimits, on_complete: Callable[[int], None]) -> None:
        self._incoming = incoming
        self._limits = limits
        self._on_complete = on_complete
        self._lock = threading.Lock()
        self._open: set[Upload] = set()
        # Complete files that wait for their final name, and complete files that are in the collector's hands.
        self._held: dict[str, Upload] = {}
        self._taken: dict[str, ShownFile] = {}
        self._used_bytes = self._most_bytes = 0
        self._unscanned = 0

    @property
    def has_unfinished(self) -> bool:
        """Whether a file is open or waits for its final name."""
        return bool(self._open or self._held)

    def begin(self, name: str) -> Upload:
        """A new file with this name. Raises SFTPError at a bound, and OSError."""
        if not name:
            raise asyncssh.SFTPFailure("This is the folder: name a file")
        with self._lock:
            if name in self._held:
                self._discard(self._held.pop(name))
            if len(self._open) + len(self._held) >= MOST_UNFINISHED:
                raise asyncssh.SFTPQuotaExceeded(f"{MOST_UNFINISHED} files are not finished: close or rename them")
            if self._scan() >= self._limits.files:
                raise asyncssh.SFTPQuotaExceeded(f"{self._limits.files} files wait already: try again later")
            if self._used_bytes >= self._most_bytes:
                raise asyncssh.SFTPQuotaExceeded(TOO_MANY_BYTES)
            part = part_file(self._incoming)
            file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            upload = Upload(name, part, file, ShownFile(0, int(time.time())))
            self._open.add(upload)
            return upload

    def write(self, upload: Upload, offset: int, data: bytes) -> None:
        """Writes bytes of a file, also out of order. Raises SFTPError at a bound, and OSError."""
        with self._lock:
            self._must_be_open(upload)
            try:
                self._write(upload, offset, data)
            except (asyncssh.SFTPError, OSError):
                upload.is_damaged = True
                raise

    def truncate(self, upload: Upload, size: int) -> None:
        """Cuts a file. Clients that replace a file in place do so at its end. Raises SFTPError and OSError."""
        with self._lock:
            self._must_be_open(upload)
            if size > upload.shown.size:
                raise asyncssh.SFTPOpUnsupported("A file grows only when its bytes are sent")
            os.ftruncate(upload.file, size)
            upload.parts = [(start, min(end, size)) for start, end in upload.parts if start < size]
            upload.shown.size = size

    def close(self, upload: Upload) -> None:
        """The client has sent the whole file. Raises SFTPError if it is not whole; then it is deleted. Raises OSError.

        After the return, a complete file survives a power failure.
        """
        with self._lock:
            self._must_be_open(upload)
            self._open.remove(upload)
            if not upload.shown.size and not upload.is_damaged:
                self._discard(upload)
                raise asyncssh.SFTPFailure("The file is empty and is not taken")
            if not upload.is_whole:
                self._discard(upload)
                raise asyncssh.SFTPFailure("Bytes are missing, so the file is not taken: send the whole file again")
            self._place(upload)

    def drop(self, upload: Upload) -> None:
        """Deletes a file whose upload was interrupted."""
        with self._lock:
            if upload in self._open:
                self._open.remove(upload)
                self._discard(upload)

    def rename(self, old: str, new: str) -> None:
        """Gives a file its final name, also that of an older file. Raises SFTPError and OSError.

        A complete file that the collector has already is only shown under the new name.
        """
        if not new:
            raise asyncssh.SFTPFailure("This is the folder: name a file")
        with self._lock:
            if (held := self._held.pop(old, None)) is not None:
                held.name = new
                self._place(held)
            elif old in self._taken:
                self._taken[new] = self._taken.pop(old)
            else:
                self._find_open(old).name = new

    def remove(self, name: str) -> None:
        """Deletes a file that waits for its final name. The collector keeps a complete file. Raises SFTPError."""
        with self._lock:
            if (held := self._held.pop(name, None)) is not None:
                self._discard(held)
            elif self._taken.pop(name, None) is None:
                self._find_open(name)
                raise asyncssh.SFTPFailure("The file is open: close it first")

    def files(self) -> dict[str, ShownFile]:
        """What a client sees."""
        with self._lock:
            unfinished = {each.name: each.shown for each in (*self._held.values(), *self._open)}
            return self._taken | unfinished

    def find(self, name: str) -> ShownFile:
        """What a client sees of a file. Raises SFTPError."""
        found = self.files().get(name)
        if found is None:
            raise asyncssh.SFTPNoSuchFile("No such file")
        return found

    def end(self) -> None:
        """Deletes all files that are not complete."""
        with self._lock:
            for upload in (*self._open, *self._held.values()):
                self._discard(upload)
            self._open.clear()
            self._held.clear()

    def _write(self, upload: Upload, offset: int, data: bytes) -> None:
        end = offset + len(data)
        if end > self._limits.file_bytes:
            raise asyncssh.SFTPQuotaExceeded(f"The file is too large: at most {self._limits.file_bytes} bytes")
        if len(upload.parts) > MOST_GAPS:
            raise asyncssh.SFTPFailure("The file has too many gaps: send it from its beginning to its end")
        self._make_room(max(0, end - upload.shown.size))
        rest = memoryview(data)
        while rest:
            rest = rest[os.pwrite(upload.file, rest, end - len(rest)) :]
        upload.add(offset, end)
        upload.shown.size = max(upload.shown.size, end)

    def _place(self, upload: Upload) -> None:
        """A complete file waits for its final name, or gets into the hands of the collector."""
        if is_temporary(upload.name):
            if upload.name in self._held:
                self._discard(self._held[upload.name])
            self._held[upload.name] = upload
            return
        try:
            finish_file(upload.part, upload.name)
        except OSError:
            self._discard(upload)
            raise
        os.close(upload.file)
        self._taken.pop(upload.name, None)
        self._taken[upload.name] = upload.shown
        if len(self._taken) > MOST_SHOWN:
            del self._taken[next(iter(self._taken))]
        self._on_complete(upload.shown.size)

    def _find_open(self, name: str) -> Upload:
        for upload in self._open:
            if upload.name == name:
                return upload
        raise asyncssh.SFTPNoSuchFile("No such file")

    def _must_be_open(self, upload: Upload) -> None:
        if upload not in self._open:
            raise asyncssh.SFTPFailure("The file is not open any more: send it again")

    def _discard(self, upload: Upload) -> None:
        try:
            upload.part.unlink(missing_ok=True)
        finally:
            os.close(upload.file)

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
        """Counts the files that wait, and their bytes, and finds how many bytes may wait.

        Deletes parts that a killed process left. Raises SFTPError.
        """
        files = self._used_bytes = self._unscanned = 0
        self._incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = {upload.part.name for upload in (*self._open, *self._held.values())}
        with os.scandir(self._incoming) as entries:
            for entry in entries:
                if entry.name.endswith(".part") and entry.name not in own and _delete_abandoned(Path(entry)):
                    continue
                with suppress(FileNotFoundError):  # The collector has just taken it.
                    self._used_bytes += entry.stat(follow_symlinks=False).st_size
                    files += 1
        left = bytes_left(self._incoming.parents[2], self._limits.dealer_bytes, self._limits.least_free)
        if left.on_disk < 0:
            raise asyncssh.SFTPNoSpaceOnFilesystem("The disk of the receiver is nearly full: try again later")
        self._most_bytes = min(self._limits.all_bytes, fair_share(self._used_bytes, left.of_dealer))
        return files


def _delete_abandoned(part: Path) -> bool:
    """Deletes a part that no process holds open. A killed process holds nothing."""
    try:
        file = os.open(part, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True
