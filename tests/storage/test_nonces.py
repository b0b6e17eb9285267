"""Nonces of signed requests: one of many transactions gets each, also at the same time (docs/protocol.md)."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from dealer_agent.server.nonces import StoredNonces
from dealer_agent.storage.nonces import add_nonces, delete_expired_nonces
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.requirement("replayed-signatures")
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=6)


def test_a_nonce_is_new_once(store: Store) -> None:
    with store.write("*") as tx:
        assert add_nonces(tx, {b"one": LATER, b"two": LATER}) == {b"one", b"two"}
    with store.write("*") as tx:
        assert add_nonces(tx, {b"two": LATER, b"three": LATER}) == {b"three"}


def test_of_transactions_at_the_same_time_one_gets_a_nonce(store: Store) -> None:
    def add(_: int) -> int:
        with store.write("*") as tx:
            return len(add_nonces(tx, {bytes([number]): LATER for number in range(20)}))

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(add, range(12))) == 20


def test_a_nonce_is_forgotten_when_no_signature_with_it_is_accepted(store: Store) -> None:
    for now, is_new in ((NOW, True), (LATER, False), (LATER + timedelta(seconds=1), True)):
        with store.write("*", now) as tx:
            delete_expired_nonces(tx)
            assert add_nonces(tx, {b"one": LATER}) == ({b"one"} if is_new else set())


def test_requests_that_wait_together_share_a_transaction_and_one_of_them_gets_a_nonce(store: Store) -> None:
    nonces = StoredNonces(store, "*")

    async def remember() -> list[bool]:
        keys = [bytes([number % 10]) for number in range(100)]
        return await asyncio.gather(*(nonces.remember(key, LATER.timestamp()) for key in keys))

    assert sum(asyncio.run(remember())) == 10
    assert sum(asyncio.run(remember())) == 0


def test_a_machine_whose_clock_is_ahead_deletes_no_nonce_that_another_one_needs(store: Store) -> None:
    nonces = StoredNonces(store, "*")
    assert asyncio.run(nonces.remember(b"one", LATER.timestamp()))
    with store.write("*", LATER + timedelta(minutes=2)) as tx:
        delete_expired_nonces(tx)
    assert not asyncio.run(nonces.remember(b"one", LATER.timestamp()))
