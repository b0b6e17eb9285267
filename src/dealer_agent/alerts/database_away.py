"""The alert about a database that does not answer. It cannot be stored there, so each machine sends it by itself.

A file in the service's folder is its memory, with a lock. So one process of the machine sends, also after restarts.
"""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

import msgspec
import structlog

from dealer_agent.alerts.checking import MOST_ATTEMPTS, Watch, pause_after
from dealer_agent.alerts.rules import Observation, check
from dealer_agent.delivery.failures import NotDelivered
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.alerts import AlertState, Receiver, store_alert
from dealer_agent.storage.store import Store

log = structlog.get_logger()

FILE = "database-away.json"
CONDITION = "database_away"


class _Unsent(msgspec.Struct):
    message_id: str
    receiver: Receiver
    document: bytes
    due_at: datetime
    attempts: int = 0


class _Memory(msgspec.Struct):
    """`is_stored`: the database knows the state, too."""

    state: AlertState = AlertState(CONDITION, "")
    unsent: list[_Unsent] = []
    is_stored: bool = True


async def note_database(store: Store, watch: Watch, now: datetime, *, works: bool) -> None:
    """Notes whether the database works at `now`, and sends what is due. Call it about once a minute in each process.

    Messages are about starts and ends only. Others are in the next digest, which the database remembers. Raises
    OSError if the folder cannot be written, and StorageError if the database fails again.
    """
    with _locked(watch.folder / FILE, make=not works) as file:
        if file is None:
            return
        memory = _read(file)
        _decide(memory, watch, now, works=works)
        for unsent in memory.unsent:
            if unsent.due_at <= now:
                unsent.attempts += 1
                unsent.due_at = now + pause_after(unsent.attempts)
                _write(file, memory)
                await _send(unsent, watch, now)
        memory.unsent = [each for each in memory.unsent if each.attempts < MOST_ATTEMPTS]
        if works and not memory.is_stored and not memory.state.is_open:
            await asyncio.to_thread(_store, store, watch, memory.state, now)
            memory.is_stored, memory.state = True, memory.state._replace(unreported=0)
        _write(file, memory)


def _decide(memory: _Memory, watch: Watch, now: datetime, *, works: bool) -> None:
    seen = [] if works else [Observation(since=memory.state.seen_at or now)]
    # There is no digest here.
    result = check(
        [memory.state],
        {CONDITION: seen},
        watch.timing_of,
        now=now,
        digest_at=now,
        changes_today=0,
        off=watch.settings.off,
    )
    for memory.state in result.stored:
        memory.is_stored = False
    for message in result.messages:
        message_id = new_ulid()
        documents = watch.receivers.message(message, now).documents
        memory.unsent += [_Unsent(message_id, receiver, document, now) for receiver, document in documents.items()]


async def _send(unsent: _Unsent, watch: Watch, now: datetime) -> None:
    try:
        await watch.receivers.send(unsent.receiver, unsent.message_id, unsent.document, now)
    except NotDelivered as failure:
        log.error("alert not sent", dealer=watch.owner, to=unsent.receiver, problem=failure.problem)
    else:
        unsent.attempts = MOST_ATTEMPTS


def _store(store: Store, watch: Watch, state: AlertState, now: datetime) -> None:
    with store.write(watch.owner, now) as tx:
        store_alert(tx, state)


@contextmanager
def _locked(path: Path, *, make: bool) -> Iterator[IO[bytes] | None]:
    """The file, locked; None if another process has the lock, or there is no file and none is to be made."""
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0)
    try:
        file = os.fdopen(os.open(path, flags, 0o600), "r+b", 0)
    except FileNotFoundError:
        if make:
            raise
        yield None
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield file


def _read(file: IO[bytes]) -> _Memory:
    try:
        return msgspec.json.decode(file.read(), type=_Memory)
    except msgspec.DecodeError:
        return _Memory()  # It is new, or its writer died.


def _write(file: IO[bytes], memory: _Memory) -> None:
    file.seek(0)
    file.write(msgspec.json.encode(memory))
    file.truncate()
