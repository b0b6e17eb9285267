"""The process that makes the file of a large stock: one job on its input, nothing on its output but why it failed."""

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

from dealer_agent.catalogue_loading.snapshots import SnapshotInputs, write_stock
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.store import Store

_NICE = 10
_SYNC_SECONDS = 1.0


class SnapshotJob(Struct, frozen=True):
    """What to make: `file` out of the database, written as `unfinished` before it stands there."""

    database_url: str
    recipe: SnapshotInputs
    now: datetime
    unfinished: str
    file: str


def run() -> None:
    """Does the job on the first line of the input; ends at once when whoever gave it closes the input."""
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=SnapshotJob)
    threading.Thread(target=_end_without_parent, daemon=True).start()
    # Whoever answers requests goes first where there are not cores enough for all.
    os.nice(_NICE)
    # Nothing that is made here points back to what holds it: to look for that takes a fifth of the time.
    gc.disable()
    try:
        make(job)
    except StorageError as problem:
        # These messages are our own, and hold nothing of the stock.
        sys.exit(f"{problem}")
    except Exception as fault:  # noqa: BLE001 - the boundary: told to whoever started the process, and logged there.
        frame = traceback.extract_tb(fault.__traceback__)[-1]
        sys.exit(f"{type(fault).__qualname__} at {Path(frame.filename).name}:{frame.lineno}")


def replaced_by(file: Path) -> Path:
    """The name of the snapshot before the one that has this name.

    Who looks at a file last gives its pages and blocks back to the system, and for a gigabyte that takes a third of a
    second in which nobody is answered. So it keeps a name, until nobody looks at it any more.
    """
    return file.with_suffix(".old")


def make(job: SnapshotJob) -> None:
    """Writes the file and puts it into its place whole. Raises StorageError and OSError."""
    file_before = replaced_by(Path(job.file))
    file_before.unlink(missing_ok=True)
    unfinished = os.open(job.unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with Store.open(job.database_url) as store, os.fdopen(unfinished, "wb") as file:
        with _synced_all_along(file.fileno()):
            write_stock(store, job.recipe, job.now, file)
        file.flush()
        # Before it has its name: after a power cut a name must not stand for half a file.
        os.fsync(file.fileno())
    with suppress(OSError):  # There is none; or the file system gives a file one name only.
        os.link(job.file, file_before)
    Path(job.unfinished).replace(job.file)


@contextmanager
def _synced_all_along(file: int) -> Iterator[None]:
    """A gigabyte that goes to the disk in one go at the end holds up everybody else's commits, and so leads."""
    written = threading.Event()

    def sync() -> None:
        # A disk that fails says so at the end once more.
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


def _end_without_parent() -> None:
    # Not through `sys.stdin`, whose lock a process that ends in good order could not take.
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)
