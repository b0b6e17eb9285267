"""Connections of strangers cost the service little: a real process, with few file descriptors, serves clients that
pipeline without end, stay silent, or send slowly; and behind a real proxy (docs/protocol.md#connection-limits)."""

import http.client
import json
import shutil
import signal
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.asking import ask, body, lead
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.flood import flood
from tests.acceptance.raw import connect, head
from tests.acceptance.running import COMMAND, Running, eventually, free_port, memory_mib, serving

SEARCH = json.dumps(body("inventory.search")).encode()
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
HALF_A_HEAD = b"POST /message:send HTTP/1.1\r\nHost: x\r\n"


def processor_seconds(running: Running) -> float:
    fields = Path(f"/proc/{running.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def healthy_in_seconds(url: str) -> float:
    host, _, port = url.removeprefix("http://").partition(":")
    begun = time.perf_counter()
    connection = http.client.HTTPConnection(host, int(port), timeout=120)
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()
    return time.perf_counter() - begun


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(stocked_dealer(tmp_path_factory.mktemp("flooded"))) as running:
        yield running


@pytest.mark.requirement("connection-pipelining")
@pytest.mark.parametrize(
    "one",
    [
        b"GET /nosuch HTTP/1.1\r\n\r\n",
        b"GET /nosuch HTTP/1.1\r\nHost:\r\n\r\n",
        b"POST /rpc HTTP/1.1\r\nHost:\r\nContent-Length: 3\r\n\r\nabc",
        b"GET /nosuch HTTP/1.1\r\nHost:\r\nConnection: Upgrade\r\nUpgrade: a\r\n\r\n",
        head(f"Content-Length: {len(json.dumps(body('inventory.search')))}")
        + json.dumps(body("inventory.search")).encode(),
    ],
    ids=["no host", "nothing there", "no json", "an upgrade", "a search"],
)
def test_pipelined_requests_of_a_client_that_never_reads_use_bounded_memory(
    running: Running, record_property: Any, one: bytes
) -> None:
    with connect(running.url) as flood:
        healthy_in_seconds(running.url)
        before, waits = memory_mib(running), []
        flood.setblocking(False)
        unsent = memoryview(one * (20 * 1024 * 1024 // len(one)))
        idle_since = time.monotonic()
        while unsent and time.monotonic() < idle_since + 1:
            try:
                unsent = unsent[flood.send(unsent) :]
                idle_since = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
            except ConnectionError:
                break
            waits.append(healthy_in_seconds(running.url))
        grown = memory_mib(running) - before
        record_property("grown_mib", grown)
        record_property("healthy_in_ms", [statistics.median(waits) * 1000, max(waits) * 1000])
        assert grown < 50


@pytest.mark.requirement("connection-pipelining")
@pytest.mark.parametrize(
    "one",
    [
        pytest.param(b"GET /nosuch HTTP/1.1\r\nHost:\r\n\r\n", marks=pytest.mark.soak, id="nothing there"),
        pytest.param(head(f"Content-Length: {len(SEARCH)}") + SEARCH, id="a search"),
    ],
)
def test_a_crowd_that_pipelines_is_answered_once_each_and_newcomers_at_once(tmp_path: Path, one: bytes) -> None:
    """60 KB on each of 1,000 connections. The first request of each is answered, and the connection is closed."""
    content = tmp_path / "sent"
    content.write_bytes(one * (60 * 1024 // len(one)))
    with serving(stocked_dealer(tmp_path / "store")) as running, flood(running.port, 1000, content) as crowd:
        crowd.wait_for("connected")
        before = memory_mib(running)
        while not crowd.has_sent():
            healthy_in_seconds(running.url)
        crowd.wait_for("sent")
        answer = ask(running.url, "lead.submit", **lead(1))
        assert answer.status_code == 200, answer.text
        assert memory_mib(running) - before < 50
        received = crowd.received()
    assert received["closing"] == 1000
    assert sum(received["responses"].values()) == 1000
    assert not any("," in statuses for statuses in received["responses"]), "one response for each connection"


@contextmanager
def silent(url: str, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        connections = []
        for _ in range(count):
            connections.append(stack.enter_context(connect(url)))
            # A connection for which there was no room may be closed before it has sent a byte.
            with suppress(ConnectionError):
                connections[-1].sendall(sent)
        yield connections


def with_files(most: int) -> tuple[str, ...]:
    return ("sh", "-c", f'ulimit -n {most} && exec "$0" "$@"', COMMAND)


@pytest.mark.requirement("connection-limits")
def test_idle_connections_make_room_for_leads(tmp_path: Path) -> None:
    """Idle are connections that sent nothing, and connections that have their answer."""
    with serving(stocked_dealer(tmp_path), program=with_files(120)) as running:
        for turn, sent in enumerate((b"", HEALTH)):
            with silent(running.url, 250, sent):
                for number in range(20):
                    assert ask(running.url, "lead.submit", **lead(20 * turn + number)).status_code == 200
                assert ask(running.url, "inventory.search").status_code == 200


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with room for 16 connections."""
    folder = stocked_dealer(tmp_path_factory.mktemp("small"), "\n[service]\nmax_connections = 16\n")
    with serving(folder) as running:
        yield running


@pytest.mark.requirement("connection-limits")
def test_a_client_beyond_the_limit_of_connections_gets_429(small: Running) -> None:
    """RATE_LIMITED carries Retry-After. A busy connection is not closed for another client."""
    with silent(small.url, 40, HALF_A_HEAD):
        # Each client sends its whole request before it reads.
        refused = [ask(small.url, "lead.submit", **lead(number)) for number in range(30)]
    assert {answer.status_code for answer in refused} == {429}
    for answer in refused:
        assert answer.json()["error"]["details"][1]["code"] == "RATE_LIMITED"
        assert int(answer.headers["retry-after"]) > 0
        assert answer.headers["connection"] == "close"
    eventually("there is room again", lambda: _taken(small.url))


@pytest.mark.requirement("connection-limits")
def test_a_request_that_waits_in_the_kernel_is_not_idle(small: Running) -> None:
    """Clients that are accepted in one turn of the loop do not displace one another before their requests are read."""
    eventually("there is room", lambda: _taken(small.url))
    small.process.send_signal(signal.SIGSTOP)
    try:
        with silent(small.url, 40, HEALTH) as clients:
            small.process.send_signal(signal.SIGCONT)
            answers = [client.recv(12) for client in clients[:16]]
    finally:
        small.process.send_signal(signal.SIGCONT)
    assert answers == [b"HTTP/1.1 200"] * 16


def _taken(url: str) -> bool:
    return ask(url, "lead.submit", **lead(1)).status_code == 200


def own_address() -> str:
    """An address of this machine that is no loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("GAP: this machine has no address but its loopback address")
        address: str = probe.getsockname()[0]
    return address


@pytest.mark.requirement("connection-limits")
@pytest.mark.parametrize("exempt", [False, True])
def test_an_address_has_a_limit_of_its_own(tmp_path: Path, exempt: bool) -> None:
    """The idle connection of the same address makes room, and no other; a trusted proxy has no such limit."""
    address = own_address()
    proxies = f'trusted_proxies = ["{address}"]\n' if exempt else ""
    folder = stocked_dealer(tmp_path, f"\n[service]\nmax_connections_per_address = 8\n{proxies}")
    with serving(folder, options=("--host", "0.0.0.0")) as running, connect(running.url) as other:
        url = f"http://{address}:{running.port}"
        with silent(url, 7, HALF_A_HEAD), connect(url) as idle:
            assert ask(url, "inventory.search").status_code == 200
            if exempt:
                idle.sendall(HEALTH)
                assert idle.recv(15) == b"HTTP/1.1 200 OK"
            else:
                assert idle.recv(1) == b"", "it was idle longest"
            with connect(url) as eighth:
                eighth.sendall(HALF_A_HEAD)
                assert ask(url, "inventory.search").status_code == (200 if exempt else 429)
            assert ask(running.url, "inventory.search").status_code == 200
        other.sendall(HEALTH)
        assert other.recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.requirement("connection-limits")
def test_the_service_accepts_again_after_file_descriptors_ran_out(tmp_path: Path) -> None:
    """Whatever else uses up the descriptors: the service accepts again once there are some."""
    if shutil.which("prlimit") is None:
        pytest.skip("GAP: prlimit (util-linux) is not installed")
    with serving(stocked_dealer(tmp_path)) as running:
        used = len(list(Path(f"/proc/{running.process.pid}/fd").iterdir()))
        limit = ["prlimit", "--pid", str(running.process.pid)]
        subprocess.run([*limit, f"--nofile={used + 3}:20000"], check=True)
        with silent(running.url, 50, HALF_A_HEAD):
            time.sleep(0.5)
        subprocess.run([*limit, "--nofile=1000:20000"], check=True)

        def answers() -> bool:
            with suppress(OSError, http.client.HTTPException):
                return healthy_in_seconds(running.url) > 0
            return False

        eventually("it accepts again", answers)
        assert ask(running.url, "lead.submit", **lead(1)).status_code == 200
        assert processor_seconds(running) < 60


@contextmanager
def haproxy(folder: Path, to_port: int) -> Iterator[int]:
    """A real HAProxy in front of a port, which adds `X-Forwarded-For`."""
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        pytest.skip("GAP: haproxy is not installed")
    port = free_port()
    config = folder / "haproxy.cfg"
    config.write_text(
        "defaults\n  mode http\n  option forwardfor\n"
        "  timeout connect 60s\n  timeout client 60s\n  timeout server 60s\n"
        f"frontend f\n  bind 127.0.0.1:{port}\n  default_backend b\n"
        f"backend b\n  server s 127.0.0.1:{to_port}\n"
    )
    process = subprocess.Popen(
        [program, "-f", str(config), "-db"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        eventually("the proxy listens", lambda: not _refuses(port))
        yield port
    finally:
        process.terminate()
        process.wait(120)


def _refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.requirement("connection-trailers")
def test_no_trailer_gets_around_the_limits_behind_a_real_proxy(tmp_path: Path) -> None:
    """The proxy's X-Forwarded-For counts, and not the one that a client writes behind its body."""
    rates = 'bad_tokens = "3/minute"\n\n[service]\ntrusted_proxies = ["127.0.0.1"]\n'
    statuses = []
    with serving(stocked_dealer(tmp_path, rates)) as running, haproxy(tmp_path, running.port) as port:
        for number in range(30):
            trailer = f"X-Forwarded-For: 203.0.113.{number}\r\n".encode()
            chunks = b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(SEARCH), SEARCH, trailer)
            with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
                client.sendall(head("Transfer-Encoding: chunked", "Authorization: Bearer dat_x_y") + chunks)
                response = http.client.HTTPResponse(client)
                response.begin()
                statuses.append(response.status)
    # A minute may end within the test.
    assert statuses[:3] == [401] * 3
    assert statuses.count(401) <= 6
    assert set(statuses) == {401, 429}
