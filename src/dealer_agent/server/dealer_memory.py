"""Decides which dealers of a process stay opened: if they need too much memory, the least recently used are closed.

After a restart, the dealers that were used most are opened in the background.
"""

import asyncio
import gc
import os
import resource
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from pathlib import Path
from typing import NamedTuple

import msgspec

from dealer_agent.catalogue_loading.snapshot_folder import SnapshotFolder
from dealer_agent.open_installation import OpenInstallation, delete_files_of_removed
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.server.served_dealers import ServedDealers

OPENED_BYTES = 128 * 1024
"""The memory of an opened dealer besides its snapshot and its documents. Measured with 290 units."""
NOTE_SECONDS = 10.0
WRITE_SECONDS = 60.0
FILES_SECONDS = 60.0
HALF_LIFE_SECONDS = 86_400.0
"""After this time, the use of a dealer counts half."""
MOST_REMEMBERED = 10_000
_DECAY: float = 0.5 ** (NOTE_SECONDS / HALF_LIFE_SECONDS)
_FULL = 15 / 16
"""The share of the budget that is used after dealers were closed. The rest makes closing rare."""
_PRELOAD_PAUSE_SECONDS = 0.02


class OpenedDealer(NamedTuple):
    """An opened dealer: when it was last used, and its memory in bytes."""

    dealer_id: str
    used_at: float
    size: int


def least_recently_used(opened: Iterable[OpenedDealer], excess: int) -> list[str]:
    """The dealers to close so that at least `excess` bytes become free. The most recently used dealer stays."""
    chosen: list[str] = []
    for dealer in sorted(opened, key=lambda dealer: dealer.used_at)[:-1]:
        if excess <= 0:
            break
        chosen.append(dealer.dealer_id)
        excess -= dealer.size
    return chosen


@dataclass
class DealerMemory:
    """The memory of the opened dealers of a process, at most `budget` bytes.

    `file` remembers the use of dealers after a restart. The processes of a machine share it.
    """

    budget: int
    file: Path
    # By dealer id, how much it was used. Older uses count less.
    _uses: dict[str, float] = field(default_factory=dict)
    # The dealers to open after a restart. The busiest one is the last.
    _waiting: list[str] = field(default_factory=list)
    _noted_at: float = 0.0
    _frozen_loads: int = 0

    def close_idle(self, dealers: ServedDealers) -> None:
        """Closes the least recently used dealers if the budget is exceeded, until _FULL of it is used.

        Then the next dealers have room. A request in progress keeps its dealer.
        """
        opened = _opened(dealers)
        if sum(dealer.size for dealer in opened) <= self.budget:
            return
        excess = sum(dealer.size for dealer in opened) - int(self.budget * _FULL)
        closed = [dealers.close(dealer_id) for dealer_id in least_recently_used(opened, excess)]
        # Freeing the pages of a large snapshot takes long.
        asyncio.get_running_loop().run_in_executor(None, closed.clear)

    async def run(self, dealers: ServedDealers, steps: RepeatedSteps) -> None:
        """Repeats all steps until it is cancelled."""
        self._uses = await asyncio.to_thread(read_uses, self.file)
        self._waiting = sorted(self._uses, key=self._uses.__getitem__)

        async def note() -> None:
            self.close_idle(dealers)
            self.note_uses(dealers)
            self._freeze(dealers)

        async def write() -> None:
            await asyncio.to_thread(write_uses, self.file, dict(self._uses))

        await asyncio.gather(
            steps.repeat("preload", lambda: self._preload(dealers), NOTE_SECONDS, first=0),
            steps.repeat("use of dealers", note, NOTE_SECONDS),
            steps.repeat("record of used dealers", write, WRITE_SECONDS),
        )

    def note_uses(self, dealers: ServedDealers) -> None:
        """Notes which dealers were used since the last call. The number of their requests does not matter."""
        newest = self._noted_at
        uses = {dealer_id: value * _DECAY for dealer_id, value in self._uses.items()}
        for dealer in _opened(dealers):
            if dealer.used_at > self._noted_at:
                uses[dealer.dealer_id] = uses.get(dealer.dealer_id, 0.0) + 1
                newest = max(newest, dealer.used_at)
        self._uses, self._noted_at = uses, newest

    async def _preload(self, dealers: ServedDealers) -> None:
        """Opens the busiest dealers, one after the other, while the budget lasts and no request waits for a dealer."""
        while self._waiting:
            if sum(dealer.size for dealer in _opened(dealers)) > self.budget * _FULL:
                self._waiting.clear()
                break
            await asyncio.sleep(_PRELOAD_PAUSE_SECONDS)
            if dealers.is_opening:
                continue
            dealer_id = self._waiting.pop()
            if dealer_id in dealers.addresses.dealers and dealer_id not in dealers.opened:
                service = await dealers.open(dealer_id)
                # Nobody has asked for this dealer yet. If memory is short, less busy dealers are closed first: they are
                # opened later, and so get an older time.
                service.used_at = float(len(self._waiting) - MOST_REMEMBERED)

    def _freeze(self, dealers: ServedDealers) -> None:
        """Excludes opened dealers from garbage collection. Scanning thousands of them would delay requests.

        A closed dealer is freed without the garbage collector: it is in no reference cycle.
        """
        if dealers.loads != self._frozen_loads:
            self._frozen_loads = dealers.loads
            gc.collect()
            gc.freeze()


async def delete_removed_files(opened: OpenInstallation, snapshots: SnapshotFolder, steps: RepeatedSteps) -> None:
    """Deletes the files of removed and disabled dealers on this machine, again and again, until it is cancelled."""

    def delete() -> None:
        snapshots.delete_except(opened.enabled)
        delete_files_of_removed(opened.store, opened.installation.folder, opened.enabled)

    await steps.repeat(
        "files of removed dealers", partial(asyncio.to_thread, delete), FILES_SECONDS, first=NOTE_SECONDS
    )


def memory_budget(mebibytes: int) -> int:
    """The budget in bytes. Each snapshot is an open file, so the limit of open files is raised if possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    most = mebibytes * 1024 * 1024
    return most if soft == resource.RLIM_INFINITY else min(most, soft // 2 * OPENED_BYTES)


def read_uses(file: Path) -> dict[str, float]:
    """The use of dealers that `write_uses` wrote. Empty if there is no such file."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, float])
    except (OSError, msgspec.DecodeError):
        return {}


def write_uses(file: Path, uses: dict[str, float]) -> None:
    """Writes the use of the dealers that are used most. Raises OSError."""
    file.parent.mkdir(mode=0o700, exist_ok=True)
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    unfinished.write_bytes(msgspec.json.encode(dict(nlargest(MOST_REMEMBERED, uses.items(), key=lambda use: use[1]))))
    unfinished.replace(file)


def _opened(dealers: ServedDealers) -> list[OpenedDealer]:
    return [
        OpenedDealer(dealer_id, service.used_at, service.stock_bytes + service.document_bytes + OPENED_BYTES)
        for dealer_id, service in dealers.opened.items()
    ]
