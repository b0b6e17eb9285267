"""Rate limits that several machines share, with a real Valkey server (docs/how-to/production.md)."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import valkey
from tests.logs import captured_logs
from tests.servers.valkey import Valkey

from dealer_agent.server import shared_limits
from dealer_agent.server.limits import RateLimits
from dealer_agent.server.shared_limits import KEY_PREFIX, LimitStore, SharedLimits

pytestmark = [pytest.mark.outside_protocol("rate limits that machines share"), pytest.mark.anyio]

KEY = bytes(range(32))
BUYER, OTHER = "192.0.2.1", "token:tok_1"
AWAY, BACK = "rate limits hold for this machine only, the shared store does not answer", "rate limits are shared again"

Machine = Callable[..., SharedLimits]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def machines(url: str, folder: Path) -> AsyncIterator[Machine]:
    """Makes machines that share the limits of a store. The arguments are the rules. Each machine has its own table."""
    store, numbers, tables = LimitStore(url), itertools.count(), []

    def machine(dealer_id: str = "test-motors", /, **rules: str) -> SharedLimits:
        tables.append(RateLimits(folder / f"{next(numbers)}.bin", rules))
        return SharedLimits(store, tables[-1], dealer_id, rules, KEY)

    yield machine
    await store.close()
    for table in tables:
        table.close()


async def allowed(limits: SharedLimits, times: int, client: str = BUYER) -> int:
    """How many of so many requests at once are allowed."""
    waits = await asyncio.gather(*(limits.acquire("search", client) for _ in range(times)))
    assert all(wait is None or 1 <= wait <= 3600 for wait in waits)
    return waits.count(None)


async def test_machines_together_allow_the_limit(valkey_server: Valkey, tmp_path: Path) -> None:
    async with machines(valkey_server.patient_url, tmp_path) as machine:
        three = [machine(search="50/hour") for _ in range(3)]
        counts = await asyncio.gather(*(allowed(each, 40) for each in three))
        assert sum(counts) == 50
        assert await allowed(three[0], 9, client=OTHER) == 9


async def test_a_refused_request_does_not_count(valkey_server: Valkey, tmp_path: Path) -> None:
    async with machines(valkey_server.patient_url, tmp_path) as machine:
        here, there = machine(search="10/minute; 12/hour"), machine(search="10/minute; 12/hour")
        waits = [await here.acquire("search", BUYER, cost) for cost in (4, 7, 6)]
        assert [wait is None for wait in waits] == [True, False, True]
        assert 50 <= (waits[1] or 0) <= 60
        assert 50 <= (await there.acquire("search", BUYER) or 0) <= 60
        # Nothing was counted against the limit of an hour when that of a minute refused.
        assert await there.acquire("search", BUYER, -4) is None
        assert await allowed(there, 9) == 4
        # A cost above the limit is allowed when nothing else is counted.
        assert await here.acquire("search", OTHER, 50) is None


async def test_taking_back_what_is_gone_allows_no_more_than_the_limit(valkey_server: Valkey, tmp_path: Path) -> None:
    async with machines(valkey_server.patient_url, tmp_path) as machine:
        limits = machine(search="3/hour")
        assert await limits.acquire("search", BUYER, -1) is None
        assert await allowed(limits, 9) == 3


async def test_the_limits_of_dealers_are_separate(valkey_server: Valkey, tmp_path: Path) -> None:
    async with machines(valkey_server.patient_url, tmp_path) as machine:
        first, second = machine("first-motors", search="3/hour"), machine("second-motors", search="3/hour")
        assert [await allowed(first, 9), await allowed(second, 9)] == [3, 3]


async def test_a_blank_rule_needs_no_store(valkey_server: Valkey, tmp_path: Path) -> None:
    async with machines(valkey_server.patient_url, tmp_path) as machine:
        limits = machine(search="")
        valkey_server.kill()
        assert await allowed(limits, 99) == 99


async def test_the_store_contains_no_address_and_no_token(valkey_server: Valkey, tmp_path: Path) -> None:
    async with machines(valkey_server.patient_url, tmp_path) as machine:
        limits = machine(search="3/hour")
        await allowed(limits, 1)
        await allowed(limits, 1, client=OTHER)
    with valkey.Valkey.from_url(valkey_server.url) as client:
        keys = sorted(key.decode() for key in client.scan_iter())
        assert len(keys) == 2
        assert all(key.startswith(f"{KEY_PREFIX}:limits/test-motors/search/") for key in keys)
        assert not any(secret in key for key in keys for secret in (BUYER, "tok_1"))
        assert all(0 < client.ttl(key) <= 3600 for key in keys)


async def test_a_known_refusal_needs_no_store(valkey_server: Valkey, tmp_path: Path) -> None:
    async with machines(valkey_server.patient_url, tmp_path) as machine:
        limits = machine(search="3/hour")
        assert await allowed(limits, 4) == 3
        valkey_server.freeze()
        assert await allowed(limits, 100) == 0


@pytest.mark.parametrize("fail", [Valkey.kill, Valkey.freeze])
async def test_the_machine_counts_while_the_store_is_away(
    valkey_server: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Callable[[Valkey], None]
) -> None:
    monkeypatch.setattr(shared_limits, "RETRY_SECONDS", 0.05)
    back: Mapping[object, Callable[[Valkey], None]] = {Valkey.kill: Valkey.start, Valkey.freeze: Valkey.resume}
    async with machines(valkey_server.patient_url, tmp_path) as machine:
        here, there = machine(search="5/hour"), machine(search="5/hour")
        with captured_logs() as lines:
            assert await allowed(here, 2) == 2
            fail(valkey_server)
            here._store._timeout = 1
            assert [await allowed(here, 9), await allowed(there, 9)] == [5, 5]
            assert [line["event"] for line in lines] == [AWAY]
            back[fail](valkey_server)
            here._store._timeout = 120
            # Clients that have no count yet, so that each request is counted in the store when it is back.
            for number in itertools.count():
                await here.acquire("search", f"client-{number}")
                if lines[-1]["event"] == BACK:
                    break
                assert number < 2400
                await asyncio.sleep(0.05)
            assert [line["event"] for line in lines] == [AWAY, BACK]
            assert sum([await allowed(here, 9, OTHER), await allowed(there, 9, OTHER)]) == 5


async def test_very_many_addresses_fill_the_store_and_the_limits_hold(valkey_server: Valkey, tmp_path: Path) -> None:
    async with machines(valkey_server.patient_url, tmp_path) as machine:
        limits = machine(search="5/hour")
        assert await allowed(limits, 2) == 2
        with valkey.Valkey.from_url(valkey_server.url) as client:
            room = 200_000
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", client.info("memory")["used_memory"] + room)
            with captured_logs() as lines:
                for first in range(0, 4000, 500):
                    addresses = (f"2001:db8:0:{number:x}::/64" for number in range(first, first + 500))
                    waits = await asyncio.gather(*(limits.acquire("search", address) for address in addresses))
                    assert set(waits) == {None}
            assert client.dbsize() < room // 100
        assert [line["event"] for line in lines][:1] == [AWAY]
        assert await allowed(limits, 9, OTHER) == 5
