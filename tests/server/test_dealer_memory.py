"""Which dealers stay opened when their memory is over the budget."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.config.settings import PublishedVersionSettings
from dealer_agent.server import dealer_memory
from dealer_agent.server.dealer_memory import (
    OPENED_BYTES,
    DealerMemory,
    OpenedDealer,
    least_recently_used,
    read_uses,
    write_uses,
)
from dealer_agent.server.served_dealers import Addresses, ServedDealers

SETTINGS = SimpleNamespace(published_versions=PublishedVersionSettings())

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

SOME = st.lists(
    st.builds(OpenedDealer, st.text("abcdefgh", min_size=3), st.floats(-9, 9), st.integers(1, 1000)),
    max_size=30,
    unique_by=(lambda dealer: dealer.dealer_id, lambda dealer: dealer.used_at),
)


@given(SOME, st.integers(-10, 20_000))
def test_the_least_recently_used_dealers_are_closed(opened: list[OpenedDealer], excess: int) -> None:
    by_use = sorted(opened, key=lambda dealer: dealer.used_at)
    closed = least_recently_used(opened, excess)
    assert closed == [dealer.dealer_id for dealer in by_use[: len(closed)]]
    freed = sum(dealer.size for dealer in by_use[: len(closed)])
    # Enough, or all but the most recently used one.
    assert freed >= excess or len(closed) >= len(opened) - 1
    # Not more than necessary.
    assert not closed or freed - by_use[len(closed) - 1].size < excess


def opened_dealers(count: int, budget: int, file: Path) -> tuple[ServedDealers, DealerMemory]:
    """A process with dealers of 1,000,000 bytes each, besides the memory of a service."""

    async def open_dealer(dealer_id: str) -> Any:
        return SimpleNamespace(id=dealer_id, settings=SETTINGS, stock_bytes=1_000_000, document_bytes=0, used_at=0.0)

    memory = DealerMemory(budget, file)
    names = frozenset(f"d{number:03}" for number in range(count))
    process: Any = None
    return ServedDealers(process, Addresses(names), open_dealer, memory.close_idle), memory


def test_opened_dealers_stay_within_the_budget(tmp_path: Path) -> None:
    async def run() -> None:
        dealers, _ = opened_dealers(100, 20 * (1_000_000 + OPENED_BYTES), tmp_path / "uses")
        favourite = await dealers.open("d000")
        for number in range(1, 100):
            newest = await dealers.open(f"d{number:03}")
            favourite.used_at = newest.used_at
            assert len(dealers.opened) <= 20
            # A crawler that requests every dealer does not close those in use.
            assert {"d000", f"d{number:03}"} <= set(dealers.opened)
        assert len(dealers.opened) > 15

    asyncio.run(run())


def test_documents_that_were_made_since_close_dealers(tmp_path: Path) -> None:
    async def run() -> None:
        dealers, memory = opened_dealers(20, 20 * (1_000_000 + OPENED_BYTES), tmp_path / "uses")
        for number in range(20):
            (await dealers.open(f"d{number:03}")).document_bytes = 1_000_000
        memory.close_idle(dealers)
        assert 8 <= len(dealers.opened) <= 11

    asyncio.run(run())


def test_a_dealer_larger_than_the_budget_is_served(tmp_path: Path) -> None:
    async def run() -> None:
        dealers, _ = opened_dealers(2, 10, tmp_path / "uses")
        for name in ("d000", "d001", "d000"):
            await dealers.open(name)
            assert list(dealers.opened) == [name]

    asyncio.run(run())


def test_use_is_counted_by_time_and_forgotten_slowly(tmp_path: Path) -> None:
    async def run() -> None:
        dealers, memory = opened_dealers(3, 10**9, tmp_path / "uses")
        often, once = await dealers.open("d000"), await dealers.open("d001")
        await dealers.open("d002")
        for moment in range(1, 6):
            often.used_at = moment * 1e9
            if moment == 3:
                once.used_at = moment * 1e9
            memory.note_uses(dealers)
        write_uses(tmp_path / "uses", memory._uses)

    asyncio.run(run())
    uses = read_uses(tmp_path / "uses")
    # Each of the three was used when it was opened.
    assert sorted(uses, key=uses.__getitem__) == ["d002", "d001", "d000"]
    assert 0.99 < uses["d002"] < 1 < uses["d001"] < 2 < 4 < uses["d000"] <= 5


def test_only_the_busiest_dealers_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealer_memory, "MOST_REMEMBERED", 3)
    file = tmp_path / "new" / "uses"
    write_uses(file, {f"d{number}": float(number) for number in range(9)})
    found = list(read_uses(file).items())
    assert found == [("d8", 8.0), ("d7", 7.0), ("d6", 6.0)]


@pytest.mark.parametrize("content", [None, b"", b"[1]", b'{"d": "x"}', b"\xff"])
def test_a_damaged_record_of_use_is_no_problem(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "uses").write_bytes(content)
    assert read_uses(tmp_path / "uses") == {}
