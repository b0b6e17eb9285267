"""The alert about a database that does not answer, or whose disk is full. It cannot be stored there, so each machine
sends it by itself.

A file in the service's folder is its memory, with a lock. So one process of the machine sends, also after restarts.
While the file cannot be written, as on a full disk, the process keeps the memory and the lock.
"""

import asyncio
import fcntl
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO

import msgspec
import structlog

from dealer_agent.alerts.checking import FIRST_PAUSE, LONGEST_PAUSE, MOST_ATTEMPTS, Watch
from dealer_agent.alerts.observing import free_mib
from dealer_agent.alerts.rules import Observation, check
from dealer_agent.delivery.attempt import NotDelivered
from dealer_agent.jobs.loop import pause_after
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.alerts import AlertState, Receiver, store_alert
from dealer_agent.storage.errors import DatabaseFailure, DiskFull
from dealer_agent.storage.store import Store

log = structlog.get_logger()

FILE = "database-away.json"
AWAY = "database_away"
DISK_FULL = "disk_full"
FULL_MIB = 16
"""A disk with less free space is named as the reason why the database fails."""


class _Unsent(msgspec.Struct):
    message_id: str
    receiver: Receiver
    document: bytes
    due_at: datetime
    attempts: int = 0


class _Memory(msgspec.Struct):
    """`is_stored`: the database knows the states, too."""

    states: list[AlertState] = []
    unsent: list[_Unsent] = []
    is_stored: bool = True


@dataclass
class DatabaseAlert:
    """What a process notes about the database of its machine.

    `_memory` and the lock of `_file` stay with the process only while the file cannot be written.
    """

    store: Store
    watch: Watch
    _file: IO[bytes] | None = field(default=None, init=False)
    _memory: _Memory | None = field(default=None, init=False)

    async def note(self, now: datetime, failure: DatabaseFailure | None) -> None:
        """Notes whether the database fails at `now`, and sends what is due. Call it about once a minute.

        Messages are about starts and ends only. Others are in the next digest, which the database remembers. Raises
        StorageError if the database fails again.
        """
        memory = self._locked_memory(make=failure is not None)
        if memory is None:
            return
        try:
            self._decide(memory, now, failure)
            for unsent in memory.unsent:
                if unsent.due_at <= now:
                    unsent.attempts += 1
                    unsent.due_at = now + pause_after(unsent.attempts, FIRST_PAUSE, LONGEST_PAUSE)
                    self._write_memory(memory)
                    await _send_message(unsent, self.watch, now)
            memory.unsent = [each for each in memory.unsent if each.attempts < MOST_ATTEMPTS]
            if failure is None and not memory.is_stored and not any(state.is_open for state in memory.states):
                await asyncio.to_thread(_store, self.store, self.watch, memory.states, now)
                memory.is_stored = True
                memory.states = [state._replace(unreported=0) for state in memory.states]
        finally:
            if self._write_memory(memory) and self._file is not None:
                self._file.close()
                self._file = None

    def _decide(self, memory: _Memory, now: datetime, failure: DatabaseFailure | None) -> None:
        """As `alerts.checking`, with the alerts and messages in memory, because the database does not answer."""
        states = {state.key: state for state in memory.states}
        # A last digest `now` means that none is due: only the database knows when the last one was made.
        result = check(
            memory.states,
            _observe(self.watch.folder, states, now, failure),
            self.watch.timing_of,
            now=now,
            digest_at=now,
            changes_today=0,
            off=self.watch.settings.off,
        )
        if result.stored:
            # States that are only forgotten need no write: the check with the database forgets its rows by itself.
            memory.is_stored = False
        forgotten = {state.key for state in result.forgotten}
        states |= {state.key: state for state in result.stored}
        memory.states = [state for key, state in states.items() if key not in forgotten]
        for message in result.messages:
            message_id = new_ulid()
            documents = self.watch.receivers.message(message, now).documents
            memory.unsent += [_Unsent(message_id, receiver, document, now) for receiver, document in documents.items()]

    def _locked_memory(self, *, make: bool) -> _Memory | None:
        """The memory of this machine. None if another process has the lock, or without a file if `make` is false."""
        if self._file is None:
            try:
                self._file = _locked(self.watch.folder / FILE, make=make)
            except BlockingIOError:
                self._memory = None
                return None
            except OSError:
                # No process can make the file now, so each has a memory of its own.
                return self._memory or (_Memory() if make else None)
            # The memory of the process that could write first counts.
            kept, self._memory = self._memory, None
            return _read(self._file) or kept or _Memory()
        return self._memory

    def _write_memory(self, memory: _Memory) -> bool:
        """Writes the memory to the file, or keeps it. Returns whether it was written."""
        is_written = self._file is not None and _is_replaced(self._file, msgspec.json.encode(memory))
        if not is_written and self._memory is None:
            log.warning("alert about the database not written", file=FILE)
        self._memory = None if is_written else memory
        return is_written


def _observe(
    folder: Path, states: Mapping[tuple[str, str], AlertState], now: datetime, failure: DatabaseFailure | None
) -> Mapping[str, Sequence[Observation]]:
    """Why the database fails: a full disk, or something else."""
    seen: dict[str, list[Observation]] = {AWAY: [], DISK_FULL: []}
    if failure is not None:
        key = (AWAY, "")
        free = free_mib(folder)
        if free is not None and free < FULL_MIB:
            key = (DISK_FULL, str(folder))
        elif isinstance(failure, DiskFull):
            key = (DISK_FULL, "the database")
        earlier = states.get(key)
        seen[key[0]].append(Observation(key[1], since=(earlier and earlier.seen_at) or now))
    return seen


async def _send_message(unsent: _Unsent, watch: Watch, now: datetime) -> None:
    """Sends one message. A failure is logged, and `note` tries again, at most MOST_ATTEMPTS times in all."""
    try:
        await watch.receivers.send(unsent.receiver, unsent.message_id, unsent.document, now)
    except NotDelivered as failure:
        log.error("alert not sent", dealer=watch.owner, to=unsent.receiver, problem=failure.problem)
    else:
        # As many as `note` allows, so it removes the message.
        unsent.attempts = MOST_ATTEMPTS


def _store(store: Store, watch: Watch, states: Sequence[AlertState], now: datetime) -> None:
    with store.write(watch.owner, now) as tx:
        for state in states:
            store_alert(tx, state)


def _locked(path: Path, *, make: bool) -> IO[bytes]:
    """The file, locked. Raises BlockingIOError if another process has the lock, and OSError if there is no file."""
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0)
    file = os.fdopen(os.open(path, flags, 0o600), "r+b", 0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file


def _read(file: IO[bytes]) -> _Memory | None:
    try:
        return msgspec.json.decode(file.read(), type=_Memory)
    except msgspec.DecodeError:
        return None  # It is new, or its writer died.


def _is_replaced(file: IO[bytes], document: bytes) -> bool:
    """Replaces the content of an unbuffered file. Returns whether there was room."""
    try:
        file.seek(0)
        written = file.write(document)
        file.truncate()
    except OSError:
        return False
    return written == len(document)
