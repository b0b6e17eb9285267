"""The process that writes the file of a large snapshot."""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from dealer_agent.catalogue_loading.child_processes import run_job
from dealer_agent.catalogue_loading.snapshots import SnapshotInputs, write_stock
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.store import Store

_SYNC_SECONDS = 1.0


class SnapshotJob(Struct, frozen=True):
    """Writes a snapshot as `unfinished`, then renames it to `file`."""

    database_url: str
    inputs: SnapshotInputs
    now: datetime
    unfinished: str
    file: str


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


if __name__ == "__main__":
    # The job makes no reference cycles. The collector would take a fifth of the time.
    gc.disable()
    # The messages of StorageError hold nothing of the stock.
    run_job(SnapshotJob, make, StorageError)
