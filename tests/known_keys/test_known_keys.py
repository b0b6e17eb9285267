"""The keys of agents are fetched in the background (docs/protocol.md#signed-requests)."""

import asyncio
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import msgspec
import pytest
from tests.http_signatures.signed import KEY, P256
from tests.known_keys.agents import Agent
from tests.patching import replace_in
from tests.soak import sqlite_first

from dealer_agent.http_signatures.directory import KeySet, directory_document
from dealer_agent.jobs.loop import JobLoop
from dealer_agent.known_keys import fetching, known
from dealer_agent.known_keys.fetching import FetchFailed, KeyResponse
from dealer_agent.known_keys.known import KnownKeys
from dealer_agent.outgoing.addresses import AddressRule
from dealer_agent.storage import key_sets
from dealer_agent.storage.key_sets import MAX_ASKED_A_MINUTE, ask_for_keys, find_source, put_keys
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.requirement("known-keys")
OWNER = "example-motors"
HERE = AddressRule((ip_network("127.0.0.0/8"),))


class Service:
    """The keys of one process, and its jobs. `rule` is for strangers. `later` moves the clock."""

    def __init__(self, store: Store, rule: AddressRule = HERE, settings_rule: AddressRule = HERE) -> None:
        self.later = 0.0
        self.known = KnownKeys(store, OWNER, rule, settings_rule, clock=lambda: time.time() + self.later)
        self.jobs = JobLoop(
            store, [self.known.kind], OWNER, clock=lambda: datetime.now(UTC) + timedelta(seconds=self.later)
        )

    def work(self) -> None:
        async def work() -> None:
            await self.known.refresh()
            await self.jobs.run_due()
            await self.known.refresh()

        asyncio.run(work())

    def find(self, source: str) -> KeySet | None:
        """What is known after the work that finding it has caused."""
        self.known.find(source)
        self.work()
        return self.known.find(source)


def test_the_first_request_finds_nothing_and_the_next_one_finds_the_keys(store: Store, server: Agent) -> None:
    service = Service(store)
    assert service.known.find(server.origin) is None
    assert server.asked == []
    service.work()
    found = service.known.find(server.origin)
    assert found is not None
    assert {*found.keys} == {KEY.thumbprint}
    assert server.asked == ["/.well-known/http-message-signatures-directory"]
    assert service.known.find(server.origin) is found
    service.work()
    assert service.known.find(server.origin) is found


def test_another_process_loads_what_one_has_fetched(store: Store, server: Agent) -> None:
    first, second = Service(store), Service(store)
    assert first.find(server.origin)
    asyncio.run(second.known.refresh())
    assert second.known.find(server.origin)
    assert len(server.asked) == 1


def test_keys_are_fetched_again_before_they_end_and_those_that_left_are_gone(store: Store, server: Agent) -> None:
    service = Service(store)
    assert service.find(server.origin)
    server.publish(P256)
    service.later = 3600 * 0.6
    service.work()
    assert len(server.asked) == 1
    service.later = 3600 * 0.95
    service.work()
    found = service.known.find(server.origin)
    assert found is not None
    assert {*found.keys} == {P256.thumbprint}
    assert len(server.asked) == 2


def test_old_keys_are_used_for_a_day_while_the_directory_does_not_answer(store: Store, server: Agent) -> None:
    service = Service(store)
    assert service.find(server.origin)
    server.status = 503
    for later, is_known in [(3500.0, True), (3600.0 + 23 * 3600, True), (3600.0 + 24 * 3600 + 60, False)]:
        service.later = later
        service.work()
        assert (service.known.find(server.origin) is not None) is is_known
    with store.read(OWNER) as tx:
        assert find_source(tx, server.origin) is None


def test_a_new_key_is_fetched_before_the_old_set_ends_and_at_most_once_a_minute(store: Store, server: Agent) -> None:
    service = Service(store)
    assert service.find(server.origin)
    server.publish(KEY, P256)
    service.known.refresh_soon(server.origin)
    service.work()
    assert len(server.asked) == 1
    service.later = 90
    for _ in range(3):
        service.known.refresh_soon(server.origin)
        service.work()
    assert len(server.asked) == 2
    found = service.known.find(server.origin)
    assert found is not None
    assert P256.thumbprint in found.keys


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"status": 404}, "status 404"),
        ({"status": 302, "headers": {"location": "https://127.0.0.1/"}}, "status 302"),
        ({"headers": {"content-type": "text/html"}}, "media type"),
        ({"body": b"{}"}, "list `keys`"),
        ({"body": b" " * (64 * 1024 + 1)}, "65536 bytes"),
        ({"headers": {"content-encoding": "gzip"}}, "content encoding"),
    ],
)
@sqlite_first()
def test_what_is_no_directory_is_not_known_and_forgotten(
    store: Store, server: Agent, changes: dict[str, object], problem: str
) -> None:
    for name, value in changes.items():
        setattr(server, name, value)
    service = Service(store)
    assert service.find(server.origin) is None
    with store.read(OWNER) as tx:
        row = find_source(tx, server.origin)
    assert row is not None
    assert problem in str(row.problem)
    service.find(server.origin)
    assert len(server.asked) == 1
    service.later = 301
    service.work()
    with store.read(OWNER) as tx:
        assert find_source(tx, server.origin) is None
    server.publish(KEY)
    assert service.find(server.origin)


@sqlite_first()
def test_a_directory_that_never_answers_ends_a_fetch(
    store: Store, server: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "SECONDS", 0.3)
    server.delay = 600
    assert Service(store).find(server.origin) is None


@pytest.mark.parametrize(
    "source",
    [
        "https://127.0.0.1:9",
        "https://localhost:9",
        "https://[::1]:9",
        "https://10.0.0.1",
        "https://169.254.169.254",
        "https://[::ffff:127.0.0.1]",
    ],
)
@sqlite_first()
def test_a_stranger_cannot_name_a_private_address(source: str, store: Store) -> None:
    service = Service(store, AddressRule())
    # `find` also runs the fetch that is due.
    assert service.find(source) is None
    with store.read(OWNER) as tx:
        row = find_source(tx, source)
    assert row is not None
    assert "not public" in str(row.problem)


@pytest.mark.parametrize("url", ["http://agent.example/", "file:///etc/passwd", "ftp://agent.example", ""])
def test_only_https_is_fetched(url: str) -> None:
    with pytest.raises(FetchFailed, match="not https"):
        asyncio.run(fetching.fetch(url, HERE))


def test_strangers_name_few_new_sources_a_minute(store: Store) -> None:
    now = datetime.now(UTC)
    with store.write(OWNER, now) as tx:
        assert ask_for_keys(tx, [f"https://{n}.example" for n in range(100)]) == MAX_ASKED_A_MINUTE
    with store.write(OWNER, now + timedelta(seconds=59)) as tx:
        assert ask_for_keys(tx, ["https://new.example"]) == 0
    with store.write(OWNER, now + timedelta(seconds=61)) as tx:
        assert ask_for_keys(tx, ["https://new.example"]) == 1


@pytest.mark.parametrize(("count", "size"), [(3, 10**9), (1000, 500)])
def test_the_keys_of_the_least_recently_used_sources_of_strangers_leave_first(
    count: int, size: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_sets, "MAX_SOURCES", count)
    monkeypatch.setattr(key_sets, "MAX_BYTES", size)
    now = datetime.now(UTC)
    with store.write(OWNER, now) as tx:
        key_sets.pin_sources(tx, ["https://pinned.example"], now + timedelta(days=1))
    for n in range(5):
        with store.write(OWNER, now + timedelta(seconds=n)) as tx:
            ask_for_keys(tx, [f"https://{n}.example"])
            put_keys(tx, f"https://{n}.example", b"x" * 150, now + timedelta(days=1))
    with store.write(OWNER, now + timedelta(seconds=9)) as tx:
        key_sets.put_uses(tx, ["https://2.example"])
        ask_for_keys(tx, ["https://9.example"])
        put_keys(tx, "https://9.example", b"x" * 150, now + timedelta(days=1))
        left = {row.source for row in key_sets.read_changed(tx, {})[0] if row.document or row.pinned_until}
    assert left == {"https://pinned.example", "https://2.example", "https://9.example", "https://4.example"}


MAX_AGE = 600
"""How long the issuers below allow to keep their keys, in seconds."""


def asked_issuers(service: Service) -> list[str]:
    """The issuers that the service asks from now on. Each answers at once, with a key that is good for MAX_AGE."""

    async def resolve(source: str, rule: AddressRule, named_rule: AddressRule) -> KeyResponse:
        asked.append(source)
        return KeyResponse([(b"cache-control", b"max-age=%d" % MAX_AGE)], b'{"keys":[{"kid":"1"}]}')

    asked: list[str] = []
    service.known.resolvers = {"issuer": resolve}
    return asked


def test_sources_of_settings_are_fetched_before_anybody_asks_for_their_keys(store: Store, server: Agent) -> None:
    service = Service(store)
    asked = asked_issuers(service)
    server.body = b'{"keys":[{"kid":"2"}]}'
    service.known.pin(["issuer:https://login.example", f"{server.origin}/jwks.json"])
    service.work()
    assert asked == ["issuer:https://login.example"]
    assert server.asked == ["/jwks.json"]
    for source, kid in [("issuer:https://login.example", "1"), (f"{server.origin}/jwks.json", "2")]:
        found = service.known.find(source)
        assert found is not None
        assert msgspec.json.decode(found.document) == {"keys": [{"kid": kid}]}


def test_keys_of_sources_of_settings_are_fetched_again_before_they_end_although_nobody_asks(store: Store) -> None:
    service = Service(store)
    asked = asked_issuers(service)
    service.known.pin(["issuer:https://login.example"])
    service.work()
    service.later = 0.5 * MAX_AGE
    service.work()
    assert len(asked) == 1
    service.later = 0.95 * MAX_AGE
    service.work()
    assert len(asked) == 2


@sqlite_first()
def test_a_thousand_origins_take_less_than_ten_megabytes(store: Store) -> None:
    now = datetime.now(UTC)
    document = directory_document([KEY, P256])
    with store.write(OWNER, now) as tx:
        key_sets.pin_sources(tx, [f"https://{n}.example" for n in range(1000)], now + timedelta(days=1))
        for n in range(1000):
            tx.execute(
                key_sets.PUT_KEYS,
                {
                    "sought": f"https://{n}.example",
                    "new_document": document,
                    "at": now,
                    "until": now + timedelta(hours=1),
                },
            )
    service = Service(store)
    tracemalloc.start()
    asyncio.run(service.known.refresh())
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert service.known.find("https://999.example")
    assert size < 10_000_000


def test_the_store_is_read_less_often_while_nothing_is_asked_for(
    store: Store, server: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, pauses = Service(store), []

    async def count(seconds: float) -> None:
        pauses.append(seconds)

    replace_in(monkeypatch, known, "asyncio", sleep=count)
    asyncio.run(service.known.pause(1))
    assert pauses == [1] * known.IDLE_PAUSES
    service.known.find(server.origin)
    asyncio.run(service.known.pause(1))
    asyncio.run(service.known.refresh())
    asyncio.run(service.known.pause(1))
    assert pauses == [1] * (known.IDLE_PAUSES + 2), "keys are expected"
    service.later = known.EXPECTED_SECONDS + 1
    asyncio.run(service.known.pause(1))
    assert len(pauses) == 2 * known.IDLE_PAUSES + 2
