"""Records replies of the reading skills: a request adds a row to a list, and a thread writes the lists in batches.

A process that is killed loses the replies of its last `SAVE_SECONDS`. Replies beyond a bound are dropped and counted.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from hashlib import sha256
from threading import Lock
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct, structs
from xxhash import xxh64_digest

import dealer_agent
from dealer_agent.callers import Caller
from dealer_agent.config import Settings
from dealer_agent.config.settings import SearchSettings
from dealer_agent.dealers.profile import Deliver, PrivacySettings, Profile
from dealer_agent.protocol.vocabulary import Vocabularies, proto, vocabularies_of
from dealer_agent.server.bindings import Binding
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.storage.installation.registration import hold_registration
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.stock.recorded_replies import ReplyRow, add_replies
from dealer_agent.storage.store import Store

SAVE_SECONDS: Final = 10.0
HELD_BYTES: Final = 16 * 1024 * 1024
"""How many bytes of rows wait in a process at most. More are dropped."""
ROW_BYTES: Final = 400
"""What a row takes besides the request, about."""


class ReplySettings(Struct, frozen=True):
    """The settings that decide replies, and the version of the program. It has no secrets.

    The profile has no receivers of leads: a reply does not depend on them.
    """

    version: str
    profile: Profile
    search: SearchSettings
    vocabulary: str
    error_domain: str
    extensions: tuple[str, str]
    lenient: bool

    @classmethod
    def of(cls, settings: Settings) -> "ReplySettings":
        """The settings of a dealer that decide its replies."""
        # `settings.dealer` may be a whole file of settings: only the profile is taken.
        profile = {name: getattr(settings.dealer, name) for name in Profile.__struct_fields__}
        profile["rooftops"] = tuple(structs.replace(each, deliver=Deliver()) for each in profile["rooftops"])
        service = settings.service
        return cls(
            dealer_agent.__version__,
            # How long data is stored does not decide a reply.
            Profile(**(profile | {"privacy": PrivacySettings()})),
            settings.search,
            service.vocabulary,
            service.error_domain,
            (service.extension_uri_1_0_0, service.extension_uri_0_1_0),
            service.lenient_configuration,
        )

    @property
    def vocabularies(self) -> Vocabularies:
        """The vocabularies of the service."""
        return vocabularies_of(self.vocabulary, proto(self.error_domain, *self.extensions))


class ReplyBatch(NamedTuple):
    """The rows of a dealer that wait, by revision, and what is written with them."""

    dealer_id: str
    settings_id: str
    settings: bytes
    most_a_day: int
    rows: dict[int, list[ReplyRow]]


@dataclass
class ReplyRecord:
    """The replies of all dealers of a process that wait. `full` has the dealers whose day has no room."""

    kept: int = 0
    dropped: int = 0
    held: int = 0
    full: frozenset[str] = frozenset()
    active: "list[DealerReplies]" = field(default_factory=list)

    def of_dealer(self, settings: Settings) -> "DealerReplies":
        """What records the replies of a dealer, for its service."""
        return DealerReplies(self, settings)

    def take(self) -> list[ReplyBatch]:
        """Returns what waits, and begins again. Call it on the event loop."""
        taken = [replies.take() for replies in self.active]
        self.active.clear()
        self.held = 0
        return taken


class DealerReplies:
    """The replies of one dealer that wait. Use it on the event loop only."""

    __slots__ = ("_anonymous", "_dealer_id", "_most", "_record", "_rows", "_settings", "_settings_id")

    def __init__(self, record: ReplyRecord, settings: Settings) -> None:
        self._record = record
        self._dealer_id = settings.dealer.id
        self._anonymous = settings.record.anonymous
        self._most = settings.record.replies_a_day
        self._settings = msgspec.json.encode(ReplySettings.of(settings), order="deterministic")
        self._settings_id = sha256(self._settings).hexdigest()
        # By the revision of the stock.
        self._rows: dict[int, list[ReplyRow]] = {}

    def add(
        self,
        reply_id: str,
        caller: Caller,
        binding: Binding,
        skill: str,
        revision: int,
        body: bytes,
        pieces: Sequence[bytes],
        held_until: str = "",
    ) -> None:
        """Adds a reply to those that wait. `pieces` are its bytes."""
        record = self._record
        if record.held >= HELD_BYTES or self._dealer_id in record.full:
            record.dropped += 1
            return
        record.held += len(body) + ROW_BYTES
        row = ReplyRow(
            reply_id,
            caller.kind,
            "" if self._anonymous else caller.identity,
            binding.name,
            "" if binding.version is None else binding.version.name,
            skill,
            held_until,
            body,
            xxh64_digest(b"".join(pieces)),
        )
        rows = self._rows.get(revision)
        if rows is None:
            if not self._rows:
                record.active.append(self)
            self._rows[revision] = [row]
        else:
            rows.append(row)

    def take(self) -> ReplyBatch:
        """Returns what waits, and begins again."""
        taken = ReplyBatch(self._dealer_id, self._settings_id, self._settings, self._most, self._rows)
        self._rows = {}
        return taken


@dataclass
class ReplySaving:
    """Writes the replies of a process that wait."""

    store: Store
    record: ReplyRecord
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _day: date = date.min
    _unsaved: list[ReplyBatch] = field(default_factory=list)
    _saved: list[tuple[str, int, int]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    async def run(self, steps: RepeatedSteps) -> None:
        """Repeats the step until it is cancelled."""
        await steps.repeat("replies", self.save, SAVE_SECONDS)

    async def close(self) -> None:
        """Writes what is left. Raises StorageError."""
        await self.save()

    async def save(self) -> None:
        """Writes what waits. Raises StorageError; then the next call tries again, if not too many wait by then."""
        record = self.record
        now = self.now()
        if now.date() != self._day:
            self._day, record.full = now.date(), frozenset()
        taken = record.take()
        if not taken and not self._unsaved:
            return
        try:
            await asyncio.to_thread(self._save, taken, now)
        finally:
            # What could not be written stays in memory.
            record.held += sum(len(row.body) + ROW_BYTES for batch in self._unsaved for row in _rows_of(batch))
            while self._saved:
                dealer_id, number, kept = self._saved.pop()
                record.kept += kept
                record.dropped += number - kept
                if kept < number:
                    record.full |= {dealer_id}

    def _save(self, taken: list[ReplyBatch], now: datetime) -> None:
        """Writes the batches, those that failed before too. One that fails stays, and is written next time."""
        with self._lock:
            # Processes write dealers in one order, so that two of them never wait for each other.
            self._unsaved = sorted((*self._unsaved, *taken), key=lambda each: (each.dealer_id, each.settings_id))
            while self._unsaved:
                batch = self._unsaved[0]
                kept = self._write(batch, now)
                self._saved.append((batch.dealer_id, len(_rows_of(batch)), kept))
                self._unsaved.pop(0)

    def _write(self, batch: ReplyBatch, now: datetime) -> int:
        """Writes the rows of a dealer in one transaction. Returns how many there was room for."""
        with self.store.write(ALL_DEALERS, now) as everything:
            tx = replace(everything, dealer_id=batch.dealer_id)
            # The replies of a removed dealer are discarded.
            if not hold_registration(tx):
                return 0
            return sum(
                add_replies(tx, rows, revision, batch.settings_id, batch.settings, batch.most_a_day)
                for revision, rows in sorted(batch.rows.items())
            )


def _rows_of(batch: ReplyBatch) -> list[ReplyRow]:
    return [row for rows in batch.rows.values() for row in rows]
