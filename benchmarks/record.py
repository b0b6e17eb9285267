"""What the record of replies costs: a request with it and without, in turn in one process, and the writing of batches.

The history of the stock is not measured with requests: they neither read nor write it.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, structs
from sqlalchemy import text

from benchmarks.buyers import post
from benchmarks.in_process import Compared, InProcess, compared, in_process, stocked_dealer
from dealer_agent.server.reply_record import ReplySaving

LOADS = ("inventory.search", "inventory.vehicle")
REQUESTS = 400
MOST_A_DAY = 1_000_000


class RecordFigure(Struct, frozen=True):
    """One load: the request itself, microseconds of processor time to write a reply, and its bytes in the database."""

    request: Compared
    writing: float
    bytes: float

    @property
    def share(self) -> float:
        """What all of it costs, as a share of a request without it."""
        return (self.request.more + self.writing) / self.request.off


def record_figures(rounds: int, progress: Callable[[str], None]) -> list[RecordFigure]:
    """Measures searches and single vehicles."""
    with stocked_dealer(LOADS, progress) as (folder, bodies):
        requests = {load: [post(body) for body in of][:REQUESTS] for load, of in bodies.items()}
        return asyncio.run(_measured(folder, requests, rounds, progress))


async def _measured(
    folder: Path, requests: dict[str, list[bytes]], rounds: int, progress: Callable[[str], None]
) -> list[RecordFigure]:
    async with in_process(folder) as running:
        service = running.service
        unbounded = structs.replace(service.settings.record, replies_a_day=MOST_A_DAY)
        recorder = service.process.replies.of_dealer(structs.replace(service.settings, record=unbounded))
        saving = ReplySaving(service.snapshots._store, service.process.replies)

        def switch(on: bool) -> None:
            service.replies = recorder if on else None

        return [await _figure(running, saving, load, sent, rounds, switch, progress) for load, sent in requests.items()]


async def _figure(
    running: InProcess,
    saving: ReplySaving,
    load: str,
    sent: list[bytes],
    rounds: int,
    switch: Callable[[bool], None],
    progress: Callable[[str], None],
) -> RecordFigure:
    record, measured = saving.record, []
    for number in range(rounds):
        progress(f"{load}, round {number + 1}")
        measured.append(await running.round(sent, sent, switch))
    # A worker under load writes more replies together: those of ten seconds.
    stored, kept, before = _stored(saving), record.kept, time.process_time()
    await saving.save()
    spent = time.process_time() - before
    number, size = (after - earlier for after, earlier in zip(_stored(saving), stored, strict=True))
    return RecordFigure(compared(load, measured), spent / (record.kept - kept) * 1e6, size / number)


def _stored(saving: ReplySaving) -> tuple[int, int]:
    """How many replies the database has, and their bytes."""
    with saving.store.read("x") as tx:
        found = tx.connection.execute(
            text("SELECT coalesce(sum(number), 0), coalesce(sum(length(replies)), 0) FROM recorded_replies")
        ).one()
    return int(found[0]), int(found[1])
