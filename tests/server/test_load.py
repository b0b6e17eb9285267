"""How a process queues and refuses requests in an overload. The real application on a real socket. The clients send
while the event loop is blocked, so that all their requests arrive in one turn."""

import asyncio
import json
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.installation.platform import DEALERS, INSTALLATION_TOML, add, make_installation
from tests.server.dealership import NO_LIMITS, message, set_up
from tests.server.sockets import TARGETS, Client, body_of, connected, on_a_port, request

from dealer_agent.protocol.errors import RateLimited
from dealer_agent.server import admission, refresh
from dealer_agent.server.admission import Admission
from dealer_agent.server.connection import BoundedConnection

SEARCH = message("inventory.search", pagination={"limit": 100})
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


class Watched(BoundedConnection):
    """Exposes the event loop and the queue of the server, and the ports of clients in the order of the responses."""

    loop_of_the_server: asyncio.AbstractEventLoop | None = None
    load_of_the_server: Admission | None = None
    answered: ClassVar[list[int]] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        Watched.loop_of_the_server = self.loop
        super().connection_made(transport)
        Watched.load_of_the_server = self._load

    def on_response_complete(self) -> None:
        if self.client:
            Watched.answered.append(self.client[1])
        super().on_response_complete()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("load")
    set_up(folder, NO_LIMITS, stocked=stocked)
    with on_a_port(folder, Watched) as port:
        yield port


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn answers one request, and a queue of two is too long."""
    monkeypatch.setattr(admission, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(admission, "SHORT_QUEUE", 1)
    for name in ("STANDING_SECONDS", "BURST_SECONDS"):
        monkeypatch.setattr(admission, name, 0.0)


def answers_to(port: int, sent: list[bytes]) -> list[tuple[int, dict[str, str], bytes]]:
    """The responses to requests that arrive in one turn, each on its own connection."""
    with ExitStack() as closing:
        clients = [closing.enter_context(connected(port)) for _ in sent]
        for client in clients:
            client.socket.sendall(HEALTH)
            assert client.answer()[0] == 200
        with blocked_loop():
            for client, each in zip(clients, sent, strict=True):
                client.socket.sendall(each)
        return [client.answer() for client in clients]


def overload(port: int, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Overloads a `busy` process, so that leads may wait for a minute, and all other requests not at all.

    Returns the search of which it sends a first burst: from this, the process knows how fast it answers.
    """
    monkeypatch.setattr(admission, "OVERLOADED_AFTER_SECONDS", -1.0)
    monkeypatch.setattr(admission, "BURST_SECONDS", 60.0)
    search = request("/message:send", body_of("", SEARCH))
    answers_to(port, [search] * 40)
    return search


class blocked_loop:  # noqa: N801 - read as a phrase.
    """Blocks the event loop of the server."""

    def __enter__(self) -> None:
        self._over, is_blocked = threading.Event(), threading.Event()

        def block() -> None:
            is_blocked.set()
            self._over.wait(120)

        assert Watched.loop_of_the_server is not None
        Watched.loop_of_the_server.call_soon_threadsafe(block)
        assert is_blocked.wait(120)

    def __exit__(self, *_: object) -> None:
        self._over.set()


def statuses_until_close(client: Client, most: int) -> Iterator[int]:
    """The statuses of the responses. A connection that pipelines closes after a refusal."""
    for _ in range(most):
        status, headers, _ = client.answer()
        yield status
        if "connection" in headers:
            return


def refusals(answers: list[tuple[int, dict[str, str], bytes]]) -> list[tuple[dict[str, str], Any]]:
    return [(headers, json.loads(content)) for status, headers, content in answers if status == 429]


@pytest.mark.usefixtures("busy")
@pytest.mark.requirement("overload")
@pytest.mark.requirement("retry-after")
@pytest.mark.requirement("retryable")
@pytest.mark.parametrize("target", ["/message:send", "/rpc"])
def test_a_request_that_would_wait_too_long_is_refused_in_the_format_of_its_binding(port: int, target: str) -> None:
    sent = [request(target, body_of(target, SEARCH))] * 40
    answers_to(port, sent)
    answers = answers_to(port, sent)
    assert {status for status, _, _ in answers} == {200, 429}
    for headers, content in refusals(answers):
        error = content["error"]
        assert headers["retry-after"] == "1"
        assert headers["content-type"] == "application/json"
        if target == "/rpc":
            assert (content["jsonrpc"], content["id"], error["code"]) == ("2.0", "call-1", -32000)
            info, payload = error["data"]
        else:
            assert error["code"] == 429
            info, payload = error["details"]
        assert info["reason"] == payload["code"] == "RATE_LIMITED"
        assert payload["retryable"] is True
        assert payload["details"] == {"retry_after_seconds": 1}
        assert payload["error_id"] == info["metadata"]["error_id"] == f"err_{headers['x-request-id']}"
        assert payload["message"] == "The service is busy. Try again in 1 s."
        assert error["message"] == f"RATE_LIMITED: {payload['message']}"
    ids = [headers["x-request-id"] for headers, _ in refusals(answers)]
    assert len(set(ids)) == len(ids)


@pytest.mark.usefixtures("busy")
@pytest.mark.requirement("overload")
def test_a_refused_client_may_use_its_connection_again(port: int) -> None:
    one = request("/message:send", body_of("", SEARCH))
    with ExitStack() as closing:
        clients = [closing.enter_context(connected(port)) for _ in range(300)]
        seen: Counter[int] = Counter()
        for _ in range(3):
            with blocked_loop():
                for client in clients:
                    client.socket.sendall(one)
            seen.update(client.answer()[0] for client in clients)
        for client in clients:
            client.socket.sendall(HEALTH)
            assert client.answer()[0] == 200
    assert seen[200] > 0
    assert seen[429] > 2 * admission.REFUSED_PER_TURN


@pytest.mark.usefixtures("busy")
@pytest.mark.requirement("overload")
def test_health_checks_and_leads_are_answered_where_searches_are_refused(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = overload(port, monkeypatch)
    kinds = {"lead": request("/rpc", body_of("/rpc", message("lead.submit"))), "health": HEALTH, "search": search}
    order = ["search"] * 30 + ["lead", "health"] * 5
    answers = answers_to(port, [kinds[kind] for kind in order])
    seen = Counter((kind, status) for kind, (status, _, _) in zip(order, answers, strict=True))
    assert seen["health", 200] == 5
    assert seen["lead", 429] == 0
    assert seen["search", 429] > 0


@pytest.mark.usefixtures("busy")
@pytest.mark.requirement("overload")
def test_routes_over_asgi_are_refused_as_well(port: int) -> None:
    card = b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: x\r\n\r\n"
    search = request("/message:send", body_of("", SEARCH))
    answers_to(port, [search] * 40)
    answers = answers_to(port, [card, search] * 20)
    assert Counter(status for status, _, _ in answers[::2])[429] > 0
    assert refusals(answers[::2])[0][1]["error"]["details"][1]["code"] == "RATE_LIMITED"


@pytest.mark.requirement("overload")
def test_a_burst_is_answered_in_the_order_of_its_arrival(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst alone causes no refusals. A client that pipelines has no advantage."""
    monkeypatch.setattr(admission, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(admission, "BURST_SECONDS", 600.0)
    monkeypatch.setattr(admission, "OVERLOADED_AFTER_SECONDS", 600.0)
    monkeypatch.setattr(admission, "STANDING_SECONDS", 600.0)
    one = request("/message:send", body_of("", SEARCH))
    with connected(port) as greedy, ExitStack() as closing:
        others = [closing.enter_context(connected(port)) for _ in range(20)]
        for client in (greedy, *others):
            client.socket.sendall(HEALTH)
            client.answer()
        answered_before = len(Watched.answered)
        with blocked_loop():
            greedy.socket.sendall(one * 8)
            for client in others:
                client.socket.sendall(one)
        assert {client.answer()[0] for client in others} == {200}
        assert {greedy.answer()[0] for _ in range(8)} == {200}
        ports = Watched.answered[answered_before:]
        assert len(ports) == 28
        own = greedy.socket.getsockname()[1]
        before_the_last = ports[: 1 + max(place for place, port in enumerate(ports) if port != own)]
        assert before_the_last.count(own) < 5, ports


@pytest.mark.requirement("overload")
def test_a_client_that_disconnects_in_the_queue_does_not_affect_others(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "TURN_SECONDS", 0.0)
    one = request("/message:send", body_of("", SEARCH))
    with connected(port) as stays:
        with ExitStack() as closing:
            gone = [closing.enter_context(connected(port)) for _ in range(10)]
            with blocked_loop():
                for client in (*gone, stays):
                    client.socket.sendall(one)
        assert stays.answer()[0] == 200


@pytest.mark.usefixtures("busy")
@pytest.mark.requirement("overload")
def test_clients_that_pipeline_refused_requests_are_stopped_once_each(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0

    class Counting(deque[object]):
        def append(self, each: object) -> None:
            nonlocal most
            super().append(each)
            most = max(most, len(self))

    search, tiny = request("/message:send", body_of("", SEARCH)), request("/rpc", b"{")
    with ExitStack() as closing:
        greedy = [closing.enter_context(connected(port)) for _ in range(10)]
        others = [closing.enter_context(connected(port)) for _ in range(30)]
        for client in (*greedy, *others):
            client.socket.sendall(HEALTH)
            assert client.answer()[0] == 200
        assert Watched.load_of_the_server is not None
        monkeypatch.setattr(admission, "REFUSED_PER_TURN", 4)
        monkeypatch.setattr(Watched.load_of_the_server, "_stopped", Counting())
        with blocked_loop():
            for client in others:
                client.socket.sendall(search)
            for client in greedy:
                client.socket.sendall(tiny * 8)
        for client in others:
            assert client.answer()[0] in (200, 429)
        seen = Counter(status for client in greedy for status in statuses_until_close(client, 8))
    assert seen[429] > 0
    assert 0 < most <= len(greedy) + len(others)


@pytest.mark.requirement("overload")
def test_clients_that_do_not_read_do_not_block_the_published_documents(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "MOST_IN_PROGRESS", 2)
    large = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    answered_before = len(Watched.answered)
    with ExitStack() as closing:
        for _ in range(3):
            silent = closing.enter_context(socket.socket())
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            silent.connect(("127.0.0.1", port))
            silent.sendall(large * 80)
        # Continue until no more is answered twice in a row: then all of them wait for their clients.
        quiet = 0
        while quiet < 2:
            time.sleep(0.5)
            answered, answered_before = len(Watched.answered) - answered_before, len(Watched.answered)
            quiet = 0 if answered else quiet + 1
        with connected(port) as client:
            client.socket.sendall(b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.answer()[0] == 200


@pytest.mark.usefixtures("busy")
@pytest.mark.requirement("overload")
def test_a_request_that_only_mentions_a_lead_gets_no_priority(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    search = overload(port, monkeypatch)
    # The padding makes a search as long as a lead, so that the size does not give it away.
    mentioning = SEARCH | {"metadata": {"note": "lead.submit.request" + " " * 5000}}
    disguised = [request(target, body_of(target, mentioning)) for target in TARGETS] * 20
    leads = [request(target, body_of(target, message("lead.submit"))) for target in TARGETS] * 20

    def statuses(sent: list[bytes]) -> Counter[int]:
        """Of the requests that arrive behind 30 searches."""
        return Counter(status for status, _, _ in answers_to(port, [search] * 30 + sent)[30:])

    assert statuses(disguised)[429] > len(disguised) / 2
    assert statuses(leads) == {200: len(leads)}


@pytest.mark.usefixtures("busy")
@pytest.mark.requirement("overload")
def test_a_crawler_of_one_dealer_does_not_use_up_the_place_of_others(tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "installation", INSTALLATION_TOML + NO_LIMITS)
    north, south = (request(f"/d/{dealer_id}/message:send", body_of("", SEARCH)) for dealer_id in DEALERS)
    for dealer_id in DEALERS:
        add(installation, dealer_id)
    with on_a_port(installation.folder, Watched) as port:
        for opens in (north, south):
            answers_to(port, [opens])
        seen = [[status for status, _, _ in answers_to(port, [*[north] * 40, south])] for _ in range(5)]
    assert {statuses[-1] for statuses in seen} == {200}
    assert sum(statuses.count(429) for statuses in seen) > 100


@pytest.mark.requirement("fair-share")
def test_requests_that_wait_are_answered_in_turn_between_the_dealers() -> None:
    """Also requests that arrive behind a flood of another dealer."""
    answered: list[str] = []

    async def arrive() -> None:
        load = Admission()
        load.has_time()
        for dealer_id in ["flood"] * 50 + ["a", "b", "a"]:
            load.enqueue(dealer_id, partial(answered.append, dealer_id))
        while len(answered) < 53:
            await asyncio.sleep(0)

    asyncio.run(arrive())
    assert answered[:7] == ["flood", "a", "b", "flood", "a", "flood", "flood"]


@pytest.mark.usefixtures("busy")
@pytest.mark.requirement("fair-share")
def test_a_request_is_refused_for_the_requests_before_it_and_not_for_the_length_of_the_queue() -> None:
    async def arrive() -> None:
        load = Admission()
        load.has_time()
        load._pace_seconds = load._pace_requests = 1.0
        for _ in range(200):
            load.enqueue("flood", lambda: None)
        assert load.is_full("flood")
        assert not load.is_full("other")
        for _ in range(3):
            load.enqueue("other", lambda: None)
        assert load.is_full("other")

    asyncio.run(arrive())


@pytest.mark.requirement("connection-pipelining")
def test_connections_that_pipeline_do_not_fill_the_queue_and_all_get_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each turn can parse 25 of them and answers one request, over ASGI. A lead always finds a short queue."""
    monkeypatch.setattr(admission, "perf_counter", partial(next, count(1.0, admission.TURN_SECONDS / 25)))
    monkeypatch.setattr(Admission, "is_full", lambda *_, **__: False)
    answered, longest = 0, 0

    async def request(load: Admission) -> None:
        nonlocal answered, longest
        await load.wait_for_turn("dealer")
        answered += 1
        longest = max(longest, load._queue.size)

    async def arrive() -> None:
        load = Admission()
        tasks: list[asyncio.Task[None]] = []
        for _ in range(1000):
            load.parse_later(lambda: tasks.append(asyncio.create_task(request(load))))
        while answered < 1000:
            await asyncio.sleep(0)

    asyncio.run(arrive())
    assert longest < admission.SHORT_QUEUE_FOR_LEADS


def test_the_number_of_requests_that_wait_for_the_database_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MOST_IN_PROGRESS", 2)
    monkeypatch.setattr(Admission, "refuse", lambda _: 0.0)
    busy = Admission()
    with busy, busy, pytest.raises(RateLimited), busy:
        pass
    with busy, busy:
        pass


def test_refusals_are_counted_in_one_line_of_the_log(
    tmp_path: Path, stocked: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TURN_SECONDS", "STANDING_SECONDS", "BURST_SECONDS"):
        monkeypatch.setattr(admission, name, 0.0)
    monkeypatch.setattr(admission, "SHORT_QUEUE", 1)
    monkeypatch.setattr(refresh, "INTERVAL_SECONDS", 0.5)
    set_up(tmp_path, NO_LIMITS, stocked=stocked)
    sent = [request("/message:send", body_of("", SEARCH))] * 40
    written = b""
    with on_a_port(tmp_path, Watched) as port:
        answers_to(port, sent)
        refused = Counter(status for status, _, _ in answers_to(port, sent))[429]
        ends = time.monotonic() + 120
        while b"requests refused" not in written:
            assert time.monotonic() < ends
            time.sleep(0.05)
            written += capfdbinary.readouterr().err
    lines = [json.loads(line) for line in (written + capfdbinary.readouterr().err).splitlines()]
    assert sum(line["requests"] for line in lines if line["event"].startswith("requests refused")) >= refused > 0
    assert Counter(line.get("status") for line in lines)[429] == 0
