"""The process that writes the file of a large snapshot. It reads one job from stdin and reports a failure on stderr."""

import gc
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from dealer_agent.catalogue_loading.child_processes import exit_with_parent
from dealer_agent.catalogue_loading.snapshots import SnapshotInputs, write_stock
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.store import Store

_NICE = 10
_SYNC_SECONDS = 1.0


class SnapshotJob(Struct, frozen=True):
    """Writes a snapshot as `unfinished`, then renames it to `file`."""

    database_url: str
    inputs: SnapshotInputs
    now: datetime
    unfinished: str
    file: str


def run() -> None:
    """Does the job on the first line of stdin. Exits at once if stdin is closed: the parent is gone."""
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=SnapshotJob)
    exit_with_parent(sys.stdin.fileno())
    # The processes that answer requests have priority.
    os.nice(_NICE)
    # The job makes no reference cycles. The collector would take a fifth of the time.
    gc.disable()
    try:
        make(job)
    except StorageError as problem:
        # These messages hold nothing of the stock.
        sys.exit(f"{problem}")
    except Exception as fault:  # noqa: BLE001 - the boundary of the process. The parent logs the message.
        frame = traceback.extract_tb(fault.__traceback__)[-1]
        sys.exit(f"{type(fault).__qualname__} at {Path(frame.filename).name}:{frame.lineno}")


def replaced_by(file: Path) -> Path:
    """The path of a second hard link to the older snapshot that `file` replaced.

    Closing the last mapping of a large file blocks until the kernel frees its pages: a third of a second for a
    gigabyte. The link keeps the older file until no worker has it mapped.
    """
    return file.with_suffix(".old")


def make(job: SnapshotJob) -> None:
    """Writes the file, then renames it. Raises StorageError and OSError."""
    replaced = replaced_by(Path(job.file))
    replaced.unlink(missing_ok=True)
    unfinished = os.open(job.unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with Store.open(job.database_url) as store, os.fdopen(unfinished, "wb") as file:
        with _synced_while_written(file.fileno()):
            write_stock(store, job.inputs, job.now, file)
        file.flush()
        # Before the rename, so that after a power failure the name is never that of half a file.
        os.fsync(file.fileno())
    with suppress(OSError):  # There is no earlier file, or the file system has no hard links.
        os.link(job.file, replaced)
    Path(job.unfinished).replace(job.file)


@contextmanager
def _synced_while_written(file: int) -> Iterator[None]:
    """Syncs the file every second. One sync of a gigabyte at the end would delay the commits of leads."""
    written = threading.Event()

    def sync() -> None:
        # A failing disk fails again at the last sync, which reports it.
        with suppress(OSError):
            while not written.wait(_SYNC_SECONDS):
                os.fdatasync(file)

    syncing = threading.Thread(target=sync)
    syncing.start()
    try:
        yield
    finally:
        written.set()
        syncing.join()
