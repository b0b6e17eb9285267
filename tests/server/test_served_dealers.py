"""Which dealer a request is for: the host and the path decide, and nothing else."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.config.settings import PublishedVersionSettings
from dealer_agent.protocol.errors import RateLimited
from dealer_agent.server import served_dealers
from dealer_agent.server.bindings import HTTP_JSON, JSON_RPC
from dealer_agent.server.served_dealers import Addresses, DealerPath, ServedDealers

SETTINGS = SimpleNamespace(published_versions=PublishedVersionSettings())

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

TWO = Addresses(frozenset(("north", "south")), {"north.example.com": "north", "closed.example.com": "closed"})
PLATFORM = "agents.example.com"


@pytest.mark.parametrize(
    ("host", "path", "place"),
    [
        (PLATFORM, "/d/north/message:send", DealerPath("north", "/message:send")),
        (PLATFORM, "/d/south", DealerPath("south", "/")),
        ("north.example.com", "/message:send", DealerPath("north", "/message:send")),
        ("NORTH.example.com.:8443", "/docs", DealerPath("north", "/docs")),
        # A dealer's host has this dealer only, whatever the path names.
        ("north.example.com", "/d/south/rpc", DealerPath("north", "/d/south/rpc")),
        (PLATFORM, "/", None),
        (PLATFORM, "/message:send", None),
        (PLATFORM, "/d/", None),
        (PLATFORM, "/d/unknown/rpc", None),
        (PLATFORM, "/d/North/rpc", None),
        # A disabled dealer is like an unknown one.
        ("closed.example.com", "/message:send", None),
        (PLATFORM, "/d/closed/message:send", None),
        ("", "/d/north/rpc", DealerPath("north", "/rpc")),
    ],
)
def test_the_dealer_comes_from_the_host_or_the_path(host: str, path: str, place: DealerPath | None) -> None:
    assert TWO.locate(host, path) == place


@given(st.text(), st.text())
def test_no_address_leads_to_a_dealer_that_it_does_not_name(host: str, path: str) -> None:
    place = TWO.locate(host, path)
    assert place is None or f"/d/{place.dealer_id}" in path or "north.example.com" in host.lower()


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/agent/rpc", DealerPath("only", "/rpc")),
        ("/agent", DealerPath("only", "/")),
        ("/rpc", DealerPath("only", "/rpc", is_below_root=False)),
        ("/.well-known/agent-card.json", DealerPath("only", "/.well-known/agent-card.json", is_below_root=False)),
    ],
)
def test_the_only_dealer_answers_at_every_host_below_its_base_path(path: str, place: DealerPath) -> None:
    assert Addresses(frozenset(("only",)), only="only", base_path="/agent").locate("any.example", path) == place


def served(addresses: Addresses = TWO, **more: Any) -> tuple[ServedDealers, list[str]]:
    """The dealers of a process, and the ids of those that were opened."""
    opened: list[str] = []

    async def open_dealer(dealer_id: str) -> Any:
        opened.append(dealer_id)
        await asyncio.sleep(0)
        return SimpleNamespace(id=dealer_id, settings=SETTINGS)

    process: Any = None
    return ServedDealers(process, addresses, open_dealer, **more), opened


def test_a_dealer_is_opened_once_for_many_first_requests() -> None:
    async def run() -> None:
        dealers, opened = served()
        first, *others = await asyncio.gather(*(dealers.open("north") for _ in range(100)))
        assert opened == ["north"]
        assert all(other is first for other in others)

    asyncio.run(run())


def test_connections_find_the_bindings_of_opened_dealers_only() -> None:
    async def run() -> None:
        dealers, _ = served()
        host = PLATFORM.encode()
        assert dealers.find_binding(host, b"/d/north/rpc") is None
        north = await dealers.open("north")
        await dealers.open("south")
        assert dealers.find_binding(host, b"/d/north/rpc") == (north, JSON_RPC)
        assert dealers.find_binding(b"north.example.com", b"/message:send") == (north, HTTP_JSON)
        assert dealers.find_binding(b"north.example.com", b"/d/south/rpc") is None
        assert dealers.find_binding(host, b"/rpc") is None
        dealers.close("north")
        assert dealers.find_binding(host, b"/d/north/rpc") is None
        assert dealers.find_binding(b"north.example.com", b"/message:send") is None
        assert dealers.find_binding(host, b"/d/south/rpc") is not None

    asyncio.run(run())


def test_a_dealer_that_is_disabled_or_moves_is_closed() -> None:
    async def run() -> None:
        dealers, opened = served()
        await dealers.open("north")
        await dealers.open("south")
        dealers.move(Addresses(frozenset(("north",)), TWO.hosts))
        assert list(dealers.opened) == ["north"]
        dealers.move(Addresses(frozenset(("north",)), {"new.example.com": "north"}))
        assert not dealers.opened
        await dealers.open("north")
        assert opened == ["north", "south", "north"]
        assert dealers.find_binding(b"new.example.com", b"/rpc") is not None

    asyncio.run(run())


def test_few_dealers_wait_to_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_dealers, "MOST_WAITING", 2)

    async def run() -> None:
        dealers, _ = served()
        waiting = [asyncio.create_task(dealers.open(name)) for name in ("one", "two", "three")]
        await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(task.exception()) for task in waiting] == [type(None), type(None), RateLimited]
        assert await dealers.open("three")

    asyncio.run(run())


def test_a_dealer_that_cannot_be_opened_is_tried_again() -> None:
    async def run() -> None:
        attempts: list[str] = []

        async def open_dealer(dealer_id: str) -> Any:
            attempts.append(dealer_id)
            if len(attempts) == 1:
                raise OSError("the database is away")
            return SimpleNamespace(settings=SETTINGS)

        process: Any = None
        dealers = ServedDealers(process, TWO, open_dealer)
        with pytest.raises(OSError, match="away"):
            await dealers.open("north")
        assert await dealers.open("north")

    asyncio.run(run())


@pytest.mark.requirement("signed-requests")
def test_a_host_is_that_of_one_dealer_or_of_the_installation() -> None:
    addresses = Addresses(
        frozenset({"a", "b"}), {"a.example": "a", "b.example": "b"}, public_url="https://all.example/x"
    )
    hosts = ["a.example", "b.example", "all.example", "evil.example", ""]
    assert [host for host in hosts if addresses.is_host_of("a", host)] == ["a.example", "all.example"]
    # The public URL of the only dealer is in its settings.
    assert not Addresses(frozenset({"a"}), only="a", public_url="https://all.example").is_host_of("a", "all.example")
