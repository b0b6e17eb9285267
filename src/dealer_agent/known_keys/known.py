"""The keys that a process knows, and the jobs that fetch them.

A source is a text. An https origin stands for the key directory of an agent there. Any other https URL is a JWK set. A
source `PREFIX:...` is fetched by the resolver of its prefix.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec
import structlog

from dealer_agent.http_signatures.directory import (
    DirectoryRefused,
    KeySet,
    directory_url,
    lifetime,
    read_directory,
    read_jwks,
    stored_key_set,
)
from dealer_agent.http_signatures.origin import parse_origin
from dealer_agent.jobs.loop import JobResult, Kind
from dealer_agent.known_keys.fetching import FetchFailed, KeyResponse, fetch
from dealer_agent.outgoing.addresses import AddressRule
from dealer_agent.storage.jobs import Job, hold_job
from dealer_agent.storage.key_sets import (
    ASKED_AGAIN,
    FORGOTTEN_AFTER,
    KEYS_OF_OTHERS,
    StoredKeySet,
    ask_for_keys,
    fetch_early,
    find_source,
    key_set_versions,
    pin_sources,
    put_keys,
    put_problem,
    put_uses,
    read_changed,
    remove_source,
)
from dealer_agent.storage.store import Store

log = structlog.get_logger()

REFRESH_SECONDS = 1.0
"""How often a process stores what it asks for, and loads what has changed."""
IDLE_PAUSES = 5
"""So many times less often while it has asked for nothing in the last EXPECTED_SECONDS."""
EXPECTED_SECONDS = 30.0
KEPT_SECONDS = 24 * 3600.0
"""How long keys are used after their end while they cannot be fetched."""
MAX_WAITING = 100
"""The most sources that a process asks for at once. Others are asked for by the next request."""
RETRIED_AFTER = timedelta(minutes=10)
"""A source of a stranger that has answered before, and does not now, is tried again after this time."""
USE_SECONDS = 600.0
"""How often the use of a source is stored. Strangers name at most 300 others in this time, so it stays."""
PIN_SECONDS = 3600.0
"""How often the end of a pin is stored."""
PINNED_FOR = timedelta(days=2)
FETCHES_AT_ONCE = 8
"""The most fetches of a process at the same time."""
SLOW_FETCH_WAITS = 360
"""Keys of an agent are fetched again after at least so many times the time that their fetch took. So 1,000 origins that
answer slowly, or never, use 3 of the FETCHES_AT_ONCE."""
LONGEST_SOURCE = 1000

Resolver = Callable[[str, AddressRule, AddressRule], Awaitable[KeyResponse]]
"""Fetches the JWK set of a source. The second rule is for addresses that another server names. Raises FetchFailed."""


@dataclass
class KnownKeys:
    """The keys of others in a process. `owner` has their rows: ALL_DEALERS, or the dealer of a folder.

    `rule` says which addresses a stranger may name, and `settings_rule` which the settings of a dealer may. An agent is
    a stranger, also one with a policy: its name may get another address later. `on_asked` is called when there are new
    jobs.
    """

    store: Store
    owner: str
    rule: AddressRule
    settings_rule: AddressRule
    resolvers: Mapping[str, Resolver] = field(default_factory=dict)
    on_asked: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.time
    # All dictionaries have the source of the keys as their key: an origin, or the URL of an issuer.
    _sets: dict[str, KeySet] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)
    _seen: tuple[int, int] | None = None
    # Dictionaries keep the order in which the sources were asked for.
    _asked: dict[str, None] = field(default_factory=dict)
    # When a source was last asked for again, when a use of its keys was last stored, and when its pin was.
    _again: dict[str, float] = field(default_factory=dict)
    _used: dict[str, float] = field(default_factory=dict)
    _in_use: set[str] = field(default_factory=set)
    _pinned: dict[str, float] = field(default_factory=dict)
    # Until when new keys are expected, because something was asked for.
    _expected_until: float = 0.0

    def __contains__(self, source: str) -> bool:
        """Whether a source has keys, was asked for, or did not answer."""
        return source in self._versions or source in self._asked

    def find(self, source: str) -> KeySet | None:
        """The keys of a source. It never waits. None if they are not known: then the call asks for them.

        The set is the same object until it changes.
        """
        found = self._sets.get(source)
        if found is None or found.expires_at + KEPT_SECONDS <= self.clock():
            if source not in self._versions:  # Otherwise it is being fetched, or did not answer.
                self._request_fetch(source)
            return None
        self._in_use.add(source)
        return found

    def refresh_soon(self, source: str) -> None:
        """Asks to fetch a source before its keys end: for a key that the set does not have.

        This happens at most once a minute for a source, and at most 30 times a minute for those of strangers.
        """
        found, now = self._sets.get(source), self.clock()
        if (
            found is not None
            and max(found.fetched_at, self._again.get(source, 0.0)) + ASKED_AGAIN.total_seconds() < now
        ):
            self._again[source] = now
            self._request_fetch(source)

    def _request_fetch(self, source: str) -> None:
        if source in self._pinned or (len(self._asked) < MAX_WAITING and len(source) <= LONGEST_SOURCE):
            self._asked[source] = None

    def pin(self, sources: Iterable[str]) -> None:
        """Keeps sources of settings: they are fetched now, refreshed before they end, and never removed."""
        for source in sources:
            self._pinned.setdefault(source, float("-inf"))

    @property
    def kind(self) -> Kind:
        """The jobs that fetch. A pinned source that does not answer is tried again later and later, up to each hour."""
        return Kind(KEYS_OF_OTHERS, self._fetch_source, at_once=FETCHES_AT_ONCE, of_dealer=FETCHES_AT_ONCE)

    async def refresh(self) -> None:
        """Stores what this process asks for, and loads what has changed. Raises StorageError. Repeat it."""
        if await asyncio.to_thread(self._store_and_load):
            self.on_asked()

    async def pause(self, seconds: float) -> None:
        """Waits before the next `refresh`: so many seconds, or IDLE_PAUSES times as long."""
        for _ in range(IDLE_PAUSES):
            await asyncio.sleep(seconds)
            if self._asked or self.clock() < self._expected_until:
                return

    def _store_and_load(self) -> bool:
        """Returns whether there are new jobs."""
        now = self.clock()
        asked = [*self._asked]
        uses = [source for source in [*self._in_use] if self._used.get(source, 0.0) + USE_SECONDS <= now]
        pins = [source for source, stored in self._pinned.items() if stored + PIN_SECONDS <= now]
        if asked or uses or pins:
            with self.store.write(self.owner, datetime.fromtimestamp(now, UTC)) as tx:
                pin_sources(tx, pins, tx.now + PINNED_FOR)
                put_uses(tx, uses)
                fetch_early(tx, (source for source in asked if source in self._pinned))
                ask_for_keys(tx, (source for source in asked if source not in self._pinned))
            if asked:
                self._expected_until = now + EXPECTED_SECONDS
            for source in asked:
                self._asked.pop(source, None)
            self._used.update(dict.fromkeys(uses, now))
            self._pinned.update(dict.fromkeys(pins, now))
            self._in_use.difference_update(uses)
        with self.store.read(self.owner) as tx:
            seen = key_set_versions(tx)
            if seen == self._seen:
                return bool(asked or pins)
            changed, removed = read_changed(tx, self._versions)
        for source in removed:
            self._sets.pop(source, None)
            self._versions.pop(source, None)
            self._used.pop(source, None)
            self._again.pop(source, None)
        for row in changed:
            self._load(row)
        self._seen = seen
        return bool(asked or pins)

    def _load(self, row: StoredKeySet) -> None:
        """Takes a stored key set into memory, or removes it from memory if nothing is stored."""
        self._versions[row.source] = row.version
        if row.document is None or row.fetched_at is None or row.expires_at is None:
            self._sets.pop(row.source, None)
            return
        times = row.fetched_at.timestamp(), row.expires_at.timestamp()
        if parse_origin(row.source) == row.source:
            self._sets[row.source] = stored_key_set(row.document, *times)
        else:
            self._sets[row.source] = KeySet(row.document, {}, *times)

    async def _fetch_source(self, job: Job) -> JobResult:
        """Fetches one source."""
        source = job.subject
        row = await asyncio.to_thread(self._find, source)
        if row is None:
            return JobResult(None)
        is_pinned = row.pinned_until is not None and row.pinned_until > job.now
        if row.document is None and row.problem is not None and not is_pinned:
            await asyncio.to_thread(self._remove, job)
            return JobResult(None)
        started = time.monotonic()
        try:
            found = await self._fetch(source, pinned=is_pinned)
        except (FetchFailed, DirectoryRefused) as failed:
            if is_pinned:
                log.warning("keys not fetched", source=source, problem=str(failed))
            else:
                # A stranger has named the source.
                log.info("keys not fetched", problem=str(failed))
            await asyncio.to_thread(self._put_problem, job, str(failed))
            if row.document is None and not is_pinned:
                return JobResult(job.now + FORGOTTEN_AFTER)
            if is_ended(row, job.now) and not is_pinned:
                await asyncio.to_thread(self._remove, job)
                return JobResult(None)
            if is_pinned:
                return JobResult(None, failed=True)
            return JobResult(job.now + max(RETRIED_AFTER, _pause_after(started)))
        if not await asyncio.to_thread(self._store_keys, job, found):
            return JobResult(job.now + FORGOTTEN_AFTER)
        # Before the end, and not all at the same time.
        seconds = (found.expires_at - found.fetched_at) * random.uniform(0.7, 0.9)  # noqa: S311 - no secret.
        due_at = datetime.fromtimestamp(found.fetched_at + seconds, UTC)
        is_agent = parse_origin(source) == source
        return JobResult(max(due_at, job.now + _pause_after(started)) if is_agent else due_at)

    async def _fetch(self, source: str, *, pinned: bool) -> KeySet:
        """The keys of a source now. Raises FetchFailed and DirectoryRefused."""
        if parse_origin(source) == source:
            answer = await fetch(directory_url(source), self.rule)
            return read_directory(answer.headers, answer.body, source.removeprefix("https://"), self.clock())
        rule = self.settings_rule if pinned else self.rule
        prefix, _, _ = source.partition(":")
        resolver = self.resolvers.get(prefix)
        answer = await (fetch(source, rule) if resolver is None else resolver(source, rule, self.rule))
        now = self.clock()
        keys = [key for key in read_jwks(answer.body) if isinstance(key, dict)]
        return KeySet(msgspec.json.encode({"keys": keys}), {}, now, now + lifetime(answer.headers))

    def _find(self, source: str) -> StoredKeySet | None:
        with self.store.read(self.owner) as tx:
            return find_source(tx, source)

    def _store_keys(self, job: Job, found: KeySet) -> bool:
        """Stores keys. Returns whether there was room for them."""
        with self.store.write(self.owner, datetime.fromtimestamp(found.fetched_at, UTC)) as tx:
            hold_job(tx, job)
            put_keys(tx, job.subject, found.document, datetime.fromtimestamp(found.expires_at, UTC))
            row = find_source(tx, job.subject)
        return row is not None and row.document is not None

    def _put_problem(self, job: Job, words: str) -> None:
        with self.store.write(self.owner, job.now) as tx:
            hold_job(tx, job)
            put_problem(tx, job.subject, words)

    def _remove(self, job: Job) -> None:
        with self.store.write(self.owner) as tx:
            hold_job(tx, job)
            remove_source(tx, job.subject)


def _pause_after(started: float) -> timedelta:
    """The shortest time until the next fetch of an agent's keys, after one that began at a monotonic time."""
    return timedelta(seconds=(time.monotonic() - started) * SLOW_FETCH_WAITS)


def is_ended(row: StoredKeySet, now: datetime) -> bool:
    """Whether keys are no longer used although they could not be fetched again."""
    return row.expires_at is not None and row.expires_at + timedelta(seconds=KEPT_SECONDS) <= now
