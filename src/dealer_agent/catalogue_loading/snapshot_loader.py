"""Loads the current snapshot of a dealer's stock.

The worker itself makes a small snapshot, in less time than a process needs to start. A snapshot of a million units
takes a minute and much memory. So one separate process writes it to a file, and every worker maps this file. A worker
that has the replaced file mapped keeps it until it loads the new one.

The only dealer of a folder keeps a small snapshot in memory. In an installation, a small snapshot is a file too, so
that the processes of a machine share its memory, and a process that restarts finds it.
"""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from io import BytesIO
from mmap import ACCESS_READ, mmap
from pathlib import Path

import msgspec

from dealer_agent.catalogue_loading.child_processes import ChildJob
from dealer_agent.catalogue_loading.listings import listing_policy
from dealer_agent.catalogue_loading.snapshot_folder import SnapshotFolder, boot_id
from dealer_agent.catalogue_loading.snapshot_process import SnapshotJob, replaced_by
from dealer_agent.catalogue_loading.snapshots import LoadedSnapshot, SnapshotInputs, label_of, write_stock
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays
from dealer_agent.storage.stock.reading import has_more_live_units, read_mark
from dealer_agent.storage.store import Store

FILE = "catalogue-snapshot.bin"
SMALL = 2000
"""The most units for sale of a snapshot that the worker makes itself."""
SMALL_SHARED = 5000
"""The same in an installation, where buyers wait for a dealer to be opened. A process takes longer to start."""
REST_SECONDS = 10.0
"""The wait after a failed attempt, which rarely succeeds at once."""

_LOCK_POLL_SECONDS = 0.05
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
# An older file is not used again, because sold units are forgotten by age.
_MOST_AGE = timedelta(days=1)


class SnapshotError(Exception):
    """No large snapshot could be made. The message has no data of the stock or of a customer."""


class SnapshotLoader:
    """Loads snapshots of a dealer's stock from `file`, or makes them. Not thread-safe.

    With a `folder`, that is the folder of `file`, and small snapshots are files too.
    """

    def __init__(
        self, store: Store, database_url: str, profile: Profile, file: Path, folder: SnapshotFolder | None = None
    ) -> None:
        self._store = store
        self._database_url = database_url
        self._inputs = SnapshotInputs(listing_policy(profile), profile.policies.remember_sold_days)
        self._file = file
        self._folder = folder
        # A file that is written now, and the time before which no further attempt begins after a failed one.
        self._unfinished = self._file.with_suffix(".part")
        self._rests_until = 0.0
        self._closed = threading.Event()
        self._job = ChildJob()

    def load(self, now: datetime) -> LoadedSnapshot:
        """The current stock. Blocks until it is loaded. Raises StorageError and SnapshotError."""
        if self._folder is None:
            if self._is_large():
                return LoadedSnapshot.of(self._find_or_make_file(now, is_large=True))
            self._delete_files()
            return LoadedSnapshot.of(FlatArrays(self._make_in_memory(now)))
        found = self._current_file(now)
        if found is None:
            found = self._shared_or_private(self._folder, now)
        return LoadedSnapshot.of(found, copies_listings=False)

    def _shared_or_private(self, folder: SnapshotFolder, now: datetime) -> FlatArrays:
        """A current snapshot. If it cannot become a file, a small one is in the memory of this process."""
        is_large = self._is_large()
        try:
            folder.prepare()
            found = self._find_or_make_file(now, is_large=is_large)
        except OSError as failure:
            folder.note_failure(failure)
            if is_large:
                raise SnapshotError(
                    "the snapshot of the stock cannot be written: check the disk and the rights of its folder"
                ) from failure
            return FlatArrays(self._make_in_memory(now))
        folder.note_failure(None)
        return found

    def _is_large(self) -> bool:
        with self._store.read(self._inputs.policy.dealer_id) as tx:
            return has_more_live_units(tx, SMALL if self._folder is None else SMALL_SHARED)

    def _find_or_make_file(self, now: datetime, *, is_large: bool) -> FlatArrays:
        """The mapped file, made by this process or by another one. Raises OSError."""
        with self._locked() as lock:
            self._unfinished.unlink(missing_ok=True)
            found = self._current_file(now)
            if found is None:
                if is_large:
                    self._make_in_process(now, lock)
                else:
                    self._make_small(now)
                found = _mapped(self._file)
        return found

    def _make_in_memory(self, now: datetime, boot: str = "") -> bytes:
        content = BytesIO()
        with self._folder.building() if self._folder else nullcontext():
            write_stock(self._store, self._inputs, now, content, boot)
        return content.getvalue()

    def _make_small(self, now: datetime) -> None:
        """Makes the snapshot of a small stock in this process, which is faster than starting another one."""
        # Waiting for the disk would take longer than making the snapshot. So it is not used after the next boot.
        boot = boot_id()
        content = self._make_in_memory(now, boot)
        with os.fdopen(os.open(self._unfinished, _NEW_FILE, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            if not boot:
                os.fsync(file.fileno())
        self._unfinished.replace(self._file)
        replaced_by(self._file).unlink(missing_ok=True)

    def _delete_files(self) -> None:
        for large in (self._file, replaced_by(self._file)):
            large.unlink(missing_ok=True)

    def close(self) -> None:
        """Ends the current load, which then raises SnapshotError. Can be called from any thread."""
        self._closed.set()
        self._job.end()

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Lets one process at a time make the file. The process that writes it inherits the lock."""
        lock = os.open(self._file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not self._closed.is_set():
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                self._closed.wait(_LOCK_POLL_SECONDS)
            else:
                raise SnapshotError("the service is about to stop")
            yield lock
        finally:
            os.close(lock)

    def _current_file(self, now: datetime) -> FlatArrays | None:
        """The file if it is of the current stock."""
        try:
            found = _mapped(self._file)
            label = label_of(found)
        except (OSError, ValueError, KeyError, msgspec.MsgspecError):  # Absent, or not written by this code.
            return None
        if label.inputs != self._inputs.digest or label.boot not in ("", boot_id()) or now - label.made_at >= _MOST_AGE:
            return None
        with self._store.read(self._inputs.policy.dealer_id) as tx:
            return found if label.stock == read_mark(tx) else None

    def _make_in_process(self, now: datetime, lock: int) -> None:
        """Makes the snapshot of a large stock in a process of its own, so that its memory is freed afterwards."""
        if time.monotonic() < self._rests_until:
            raise SnapshotError("the last attempt failed a moment ago")
        job = SnapshotJob(self._database_url, self._inputs, now, str(self._unfinished), str(self._file))
        code, message = self._job.run("dealer_agent.catalogue_loading.snapshot_process", job, pass_fds=(lock,))
        if code:
            self._rests_until = time.monotonic() + REST_SECONDS
            self._unfinished.unlink(missing_ok=True)
            if code < 0:
                message = f"its process was ended by signal {-code}"
            raise SnapshotError(f"the snapshot of the stock was not made: {message}")


def _mapped(path: Path) -> FlatArrays:
    with path.open("rb") as file:
        return FlatArrays(mmap(file.fileno(), 0, access=ACCESS_READ))
