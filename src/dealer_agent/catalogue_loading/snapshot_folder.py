"""The folder of a machine with the snapshots of all dealers of an installation. Every process maps these files."""

import gc
import os
import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import structlog

log = structlog.get_logger()

_SUFFIXES = (".bin", ".old", ".part", ".lock")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SnapshotFolder:
    """A folder with one file for each dealer. Threads may share the object."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._builds = threading.Lock()
        self._has_failed = False

    def file_of(self, dealer_id: str) -> Path:
        """The file of a dealer's snapshot."""
        return self._path / f"{dealer_id}.bin"

    def prepare(self) -> None:
        """Creates the folder if it does not exist. Raises OSError."""
        self._path.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def building(self) -> Iterator[None]:
        """For the thread that builds a snapshot. Two at once would take as long as one after the other.

        A build makes no reference cycles. The garbage collector would scan its objects and delay requests by 5 ms.
        """
        with self._builds:
            gc.disable()
            try:
                yield
            finally:
                gc.enable()

    def note_failure(self, failure: OSError | None) -> None:
        """Logs the first failure to write a file, and the first success after it."""
        if failure is not None and not self._has_failed:
            problem = os.strerror(failure.errno or 0)
            log.error("snapshots are kept in the memory of each process", folder=str(self._path), problem=problem)
        elif failure is None and self._has_failed:
            log.info("snapshots are files again", folder=str(self._path))
        self._has_failed = failure is not None

    def delete_except(self, dealers: Container[str]) -> None:
        """Deletes the files of all other dealers. Raises OSError."""
        if not self._path.is_dir():
            return
        for entry in os.scandir(self._path):
            dealer_id, _, kind = entry.name.rpartition(".")
            if f".{kind}" in _SUFFIXES and dealer_id not in dealers:
                Path(entry.path).unlink(missing_ok=True)


@cache
def boot_id() -> str:
    """An id that changes when the machine starts. Empty if the system has none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
