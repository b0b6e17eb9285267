"""Strangers name the sources of keys. They cannot keep those of others away (docs/explanation/attacks.md)."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.http_signatures.signed import KEY
from tests.known_keys.agents import Agent
from tests.known_keys.test_known_keys import OWNER, Service
from tests.soak import sqlite_first

from dealer_agent.http_signatures.directory import MAX_BYTES as LARGEST
from dealer_agent.http_signatures.directory import directory_document
from dealer_agent.known_keys import fetching, known
from dealer_agent.outgoing.addresses import ANY_ADDRESS, AddressRule
from dealer_agent.storage.jobs import find_due_jobs
from dealer_agent.storage.key_sets import (
    ADD_SOURCE,
    KEYS_OF_OTHERS,
    MAX_ASKED_A_MINUTE,
    MAX_SOURCES,
    ask_for_keys,
    find_source,
    put_keys,
    remove_least_used,
)
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.requirement("known-keys")
NOW = datetime.now(UTC)


def has_keys(store: Store, source: str) -> bool:
    with store.read(OWNER) as tx:
        row = find_source(tx, source)
    return row is not None and row.document is not None


def fill(store: Store, count: int, size: int) -> None:
    """Sources of strangers that have answered with documents of this size, as many a minute as they may name."""
    for first in range(0, count, MAX_ASKED_A_MINUTE):
        at = NOW + timedelta(minutes=2 + first / MAX_ASKED_A_MINUTE)
        names = [f"https://stranger{n}.example" for n in range(first, min(count, first + MAX_ASKED_A_MINUTE))]
        with store.write(OWNER, at) as tx:
            assert ask_for_keys(tx, names) == len(names)
            for name in names:
                put_keys(tx, name, b"x" * size, at + timedelta(days=1))


def test_few_large_directories_do_not_remove_the_others(store: Store) -> None:
    with store.write(OWNER, NOW) as tx:
        ask_for_keys(tx, ["https://honest.example"])
        put_keys(tx, "https://honest.example", directory_document([KEY]), NOW + timedelta(days=1))
    fill(store, 2 * MAX_ASKED_A_MINUTE, LARGEST)
    assert has_keys(store, "https://honest.example")
    with store.write(OWNER, NOW + timedelta(minutes=3, seconds=30)) as tx:
        # Sources for whose keys there was no room still count for the rate of new sources.
        assert ask_for_keys(tx, ["https://new.example"]) == 0
    with store.read(OWNER) as tx:
        soon = NOW + timedelta(minutes=9)
        due = find_due_jobs(tx, soon, KEYS_OF_OTHERS, timedelta(days=8), 1000, 1000)
    without_keys = {
        f"https://stranger{n}.example" for n in range(60) if not has_keys(store, f"https://stranger{n}.example")
    }
    assert without_keys <= {job.subject for job in due}


def test_an_agent_in_use_stays_while_strangers_fill_the_table(store: Store, server: Agent) -> None:
    service = Service(store)
    assert service.find(server.origin)
    count = 0
    while count <= MAX_SOURCES:
        # Ten minutes of strangers, and one request of the agent.
        service.later += 601
        with store.write(OWNER, NOW + timedelta(seconds=service.later)) as tx:
            for n in range(count, count + 10 * MAX_ASKED_A_MINUTE):
                name = f"https://stranger{n}.example"
                tx.execute(ADD_SOURCE, {"source": name, "version": 1, "asked_at": tx.now, "used_at": tx.now})
            remove_least_used(tx)
        count += 10 * MAX_ASKED_A_MINUTE
        assert service.known.find(server.origin)
        asyncio.run(service.known.refresh())
    assert has_keys(store, server.origin)


def test_strangers_do_not_delay_the_new_key_of_an_issuer(store: Store, server: Agent) -> None:
    source = f"{server.origin}/jwks.json"
    server.body = b'{"keys":[{"kid":"1"}]}'
    service = Service(store)
    service.known.pin([source])
    service.work()
    service.later = 90
    with store.write(OWNER, datetime.now(UTC) + timedelta(seconds=90)) as tx:
        assert ask_for_keys(tx, [f"https://stranger{n}.example" for n in range(100)]) == MAX_ASKED_A_MINUTE
    for n in range(known.MAX_WAITING):
        service.known.find(f"https://other{n}.example")
    service.known.refresh_soon(source)
    asyncio.run(service.known.refresh())
    with store.read(OWNER) as tx:
        due = find_due_jobs(
            tx, datetime.now(UTC) + timedelta(seconds=91), KEYS_OF_OTHERS, timedelta(days=8), 1000, 1000
        )
    assert source in {job.subject for job in due}


@pytest.mark.parametrize("status", [200, 503])
@sqlite_first()
def test_a_directory_that_answers_slowly_is_fetched_less_often(
    store: Store, server: Agent, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth of a second counts as much as a second else does."""
    monkeypatch.setattr(known, "SLOW_FETCH_WAITS", 10 * known.SLOW_FETCH_WAITS)
    server.publish(KEY, seconds=300)
    service = Service(store)
    assert service.find(server.origin)
    server.status, server.delay, service.later = status, 0.1, 300
    service.work()
    assert len(server.asked) == 2
    for later, fetches in [(300 + 350, 2), (300 + 3500, 3)]:
        service.later = later
        service.work()
        assert len(server.asked) == fetches


@sqlite_first()
def test_the_pinned_source_that_fails_is_tried_again_soon(store: Store, server: Agent) -> None:
    server.status = 503
    service = Service(store)
    service.known.pin([server.origin])
    service.work()
    service.later = 31
    service.work()
    assert len(server.asked) == 2


@sqlite_first()
def test_an_agent_with_a_policy_cannot_let_its_name_point_to_a_private_address(store: Store, server: Agent) -> None:
    """Its keys are pinned. The settings of a folder may name any address, and an agent may not."""
    service = Service(store, AddressRule(), ANY_ADDRESS)
    service.known.pin([server.origin])
    assert service.find(server.origin) is None
    with store.read(OWNER) as tx:
        row = find_source(tx, server.origin)
    assert row is not None
    assert "not public" in str(row.problem)
    assert server.asked == []


@pytest.mark.parametrize("host", ["xn--a", "xn--99999999.example", "xn--ls8h.example", "a" * 63 + ".example"])
@sqlite_first()
def test_an_odd_name_of_a_host_is_a_failed_fetch(host: str, store: Store) -> None:
    source = f"https://{host}"
    service = Service(store, AddressRule())
    assert service.find(source) is None
    with store.read(OWNER) as tx:
        row = find_source(tx, source)
    assert row is not None
    assert row.problem
    service.later = 301
    service.work()
    with store.read(OWNER) as tx:
        assert find_source(tx, source) is None


@sqlite_first()
def test_a_number_in_a_key_that_is_too_large_is_a_failed_fetch(store: Store, server: Agent) -> None:
    server.body = directory_document([KEY]).replace(b'"use"', b'"nbf":1' + b"0" * 400 + b',"use"')
    service = Service(store)
    service.find(server.origin)
    with store.read(OWNER) as tx:
        row = find_source(tx, server.origin)
    assert row is not None
    assert "too large" in str(row.problem)


@sqlite_first()
def test_a_fetch_ends_although_each_byte_is_on_time(
    store: Store, server: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "SECONDS", 0.5)
    server.slowly = 0.1
    assert Service(store).find(server.origin) is None
