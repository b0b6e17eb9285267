"""The stock on show: a small one is made where it is asked for, a large one by a process, in a file that all map.

To make a snapshot of a few hundred units takes less than to start a process. One of a million takes a minute, in which
nobody in the same process would be answered in time, and its memory, were it each worker's own, would be too much. So
there a process of its own writes the file, and puts it into its place whole; who has the older one mapped keeps that
as long as it is looked at, also when its name is gone.
"""

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from io import BytesIO
from mmap import ACCESS_READ, mmap
from pathlib import Path

import msgspec

from dealer_agent.catalogue_loading.listing_policy import listing_policy
from dealer_agent.catalogue_loading.snapshot_process import SnapshotJob, replaced_by
from dealer_agent.catalogue_loading.snapshots import LoadedSnapshot, SnapshotInputs, label_of, shown, write_stock
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays
from dealer_agent.storage.stock import has_more_live_units, read_mark
from dealer_agent.storage.store import Store

FILE = "catalogue-snapshot.bin"
SMALL = 2000
"""Units for sale up to which the process that shows them makes the snapshot itself."""
REST_SECONDS = 10.0
"""After a failure, before the next attempt: what makes a large snapshot fail is rarely over in a moment."""

_TURN_SECONDS = 0.05
# A file that is older is not taken up again: sold units are forgotten as time goes by.
_MOST_AGE = timedelta(days=1)


class SnapshotError(Exception):
    """No snapshot of a large stock could be made. The message holds nothing of the stock or of a customer."""


class SnapshotLoader:
    """Brings a dealer's stock on show; `folder` takes the file of a large one. Threads may not share it."""

    def __init__(
        self,
        store: Store,
        database_url: str,
        profile: Profile,
        folder: Path,
        *,
        small: int = SMALL,
        rest_seconds: float = REST_SECONDS,
    ) -> None:
        self._store = store
        self._database_url = database_url
        self._recipe = SnapshotInputs(listing_policy(profile), profile.policies.remember_sold_days)
        self._file = folder / FILE
        self._unfinished = self._file.with_suffix(".part")
        self._small = small
        self._rest_seconds = rest_seconds
        self._rests_until = 0.0
        self._closed = threading.Event()
        self._maker: subprocess.Popen[bytes] | None = None

    def load(self, now: datetime) -> LoadedSnapshot:
        """The stock as it stands; waits for it. Raises StorageError and SnapshotError."""
        with self._store.read(self._recipe.policy.dealer_id) as tx:
            is_large = has_more_live_units(tx, self._small)
        if is_large:
            return shown(self._large(now))
        for large in (self._file, replaced_by(self._file)):
            large.unlink(missing_ok=True)
        made = BytesIO()
        write_stock(self._store, self._recipe, now, made)
        return shown(FlatArrays(made.getvalue()))

    def close(self) -> None:
        """From any thread: ends the load that is under way, which then raises SnapshotError."""
        self._closed.set()
        if self._maker is not None:
            self._maker.terminate()

    def _large(self, now: datetime) -> FlatArrays:
        with self._turn() as turn:
            found = self._found(now)
            if found is None:
                self._make(now, turn)
                found = _mapped(self._file)
        return found

    @contextmanager
    def _turn(self) -> Iterator[int]:
        """One process of all makes the file; the lock is the kernel's, and is held by who makes it as well."""
        lock = os.open(self._file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not self._closed.is_set():
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                self._closed.wait(_TURN_SECONDS)
            else:
                raise SnapshotError("the service is about to stop")
            yield lock
        finally:
            os.close(lock)

    def _found(self, now: datetime) -> FlatArrays | None:
        """The file that is there, when it is of the stock as it stands. What was left unfinished goes."""
        self._unfinished.unlink(missing_ok=True)
        try:
            found = _mapped(self._file)
            label = label_of(found)
        except (FileNotFoundError, ValueError, KeyError, msgspec.MsgspecError):  # None, or not one of this code's.
            return None
        with self._store.read(self._recipe.policy.dealer_id) as tx:
            stock = read_mark(tx)
        same = label.recipe == self._recipe.digest and label.stock == stock
        return found if same and now - label.made_at < _MOST_AGE else None

    def _make(self, now: datetime, turn: int) -> None:
        if time.monotonic() < self._rests_until:
            raise SnapshotError("the last attempt failed a moment ago")
        job = SnapshotJob(self._database_url, self._recipe, now, str(self._unfinished), str(self._file))
        # Not of the terminal's group, whose Ctrl-C is for the service; nor of its import path, which may be anybody's.
        command = [sys.executable, "-P", "-m", "dealer_agent.catalogue_loading"]
        with subprocess.Popen(  # noqa: S603 - our own command.
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(turn,), start_new_session=True
        ) as maker:
            self._maker = maker
            if self._closed.is_set():
                maker.terminate()
            assert maker.stdin is not None
            assert maker.stderr is not None
            with suppress(BrokenPipeError):
                maker.stdin.write(msgspec.json.encode(job) + b"\n")
                maker.stdin.flush()
            said = maker.stderr.read().decode(errors="replace").strip()
        self._maker = None
        if maker.returncode:
            self._rests_until = time.monotonic() + self._rest_seconds
            self._unfinished.unlink(missing_ok=True)
            if maker.returncode < 0:
                said = f"its process was ended by signal {-maker.returncode}"
            raise SnapshotError(f"the stock on show was not made: {said.rpartition(chr(10))[2]}")


def _mapped(path: Path) -> FlatArrays:
    """Raises FileNotFoundError, and ValueError for a file that is not a whole snapshot."""
    with path.open("rb") as file:
        return FlatArrays(mmap(file.fileno(), 0, access=ACCESS_READ))
