"""Records the heads of a dealer's chains outside the database: in the log, and in a file that is only appended to.

It also compares the table of withdrawals with the chain of consent events, and writes the table again if they differ.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from dealer_agent.dealers.profile import Profile
from dealer_agent.storage.deliveries.notices import restore_from_chain
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.privacy.consents import verify_chain
from dealer_agent.storage.privacy.event_chain import MOST_CHARACTERS, Head, heads
from dealer_agent.storage.privacy.withdrawals import compare_withdrawals
from dealer_agent.storage.store import Store

log = structlog.get_logger()

HEADS_SECONDS = 86_400.0
"""The heads are recorded once a day."""

ONE_START = timedelta(minutes=1)
"""An equal head is recorded only once within this time, because the workers of a service start together."""

_TAIL_BYTES = 8 * MOST_CHARACTERS


def record_heads(store: Store, dealer_id: str, path: Path, now: datetime) -> list[Head]:
    """Writes the heads to the log and to the file (`append_heads`), and returns them. Raises StorageError."""
    with store.read(dealer_id, now) as tx:
        newest = heads(tx)
    for head in newest:
        log.info("chain head", head=str(head))
    append_heads(path, newest, now)
    return newest


def repair_withdrawals(store: Store, profile: Profile, now: datetime) -> None:
    """Compares the table of withdrawals with the chain of consent events, and writes it again if the chain is whole.

    It logs an error if they differ: somebody changed the table. Raises StorageError and EncryptionError.
    """
    with store.read(profile.id, now) as tx:
        different = compare_withdrawals(tx).words
        broken = None if different is None else verify_chain(tx).problem
    if different is None:
        return
    if broken is not None:
        log.error("withdrawals changed", problem=f"{different}: type dealer-agent consent verify", restored=False)
        return
    _, late = restore_from_chain(store, profile, now)
    log.error("withdrawals changed", problem=different, restored=True, leads=late)


def append_heads(path: Path, heads: Iterable[Head], now: datetime) -> None:
    """Appends the heads to the file. A new file has mode 0600. Raises StorageError."""
    try:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", 0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            tail = os.pread(file.fileno(), _TAIL_BYTES, max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            recent = {head[:-1] for head in _heads_in(tail) if abs(now - head.at) < ONE_START}
            lines = "".join(f"{head}\n" for head in heads if head[:-1] not in recent)
            # A full disk may have cut off the last line.
            begin = "" if not tail or tail.endswith(b"\n") else "\n"
            if lines:
                file.write((begin + lines).encode())
                os.fsync(file)
    except OSError as error:
        raise StorageError(
            f"the heads of the consent record and the access log cannot be written to {path} ({error.strerror}): "
            "choose another file with heads_file under [privacy]"
        ) from None


def _heads_in(tail: bytes) -> Iterator[Head]:
    for line in tail.decode("ascii", "replace").splitlines():
        with suppress(ValueError):
            yield Head.parse(line)


def read_heads(path: Path) -> Iterator[Head]:
    """The heads in a file, oldest first. Raises OSError, and ValueError with the number of an invalid line."""
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MOST_CHARACTERS), b""), 1):
            try:
                if line.strip():
                    yield Head.parse(line.decode("ascii", "replace"))
            except ValueError as problem:
                raise ValueError(f"line {number} of {path} {problem}") from None
