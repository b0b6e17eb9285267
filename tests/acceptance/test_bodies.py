"""Large, slow and absent bodies, by the byte (docs/protocol.md#body-limits)."""

import resource
from contextlib import suppress
from pathlib import Path

import pytest
from tests.acceptance.asking import asked
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.flood import flood
from tests.acceptance.raw import connect, head, read_to_the_end, search_body
from tests.acceptance.running import COMMAND, Running, eventually, memory_mib, serving, start

LIMIT = 32 * 1024
LEAD_LIMIT = 256 * 1024
DISCARDED = 16 * 1024 * 1024
"""So much is read, and discarded, behind a refusal."""
IDLE = 600


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


@pytest.mark.requirement("http-413")
def test_a_body_without_a_length_is_refused_while_it_is_read(service: Running) -> None:
    with connect(service.url) as connection:
        connection.sendall(head("Transfer-Encoding: chunked"))
        for _ in range(16):
            connection.sendall(chunk(b" " * (LEAD_LIMIT // 16)))
        # One byte more than the limit; the end of the body never comes.
        connection.sendall(chunk(b" "))
        status, headers, told = read_to_the_end(connection)
    assert status == 413
    assert headers["connection"] == "close"
    assert told["error"]["details"][1]["code"] == "SCHEMA_VALIDATION_FAILED"


@pytest.mark.requirement("http-413")
def test_a_body_that_says_that_it_is_too_large_is_refused_before_it_is_sent(service: Running) -> None:
    with connect(service.url) as connection:
        connection.sendall(head(f"Content-Length: {LEAD_LIMIT + 1}"))
        status, headers, told = read_to_the_end(connection)
    assert (status, told["error"]["code"]) == (413, 413)
    assert headers["connection"] == "close"


def test_a_body_of_exactly_the_limit_is_read(service: Running) -> None:
    content = search_body()
    content += b" " * (LIMIT - len(content))
    with connect(service.url) as connection:
        connection.sendall(head(f"Content-Length: {LIMIT}", "Connection: close") + content)
        status, _, _ = read_to_the_end(connection)
    assert status == 200


@pytest.mark.requirement("request-memory")
def test_the_memory_of_many_slow_bodies_is_bounded_and_returned(tmp_path: Path) -> None:
    content = tmp_path / "sent"
    lead = b'{"message": {"parts": [{"data": {"type": "lead.submit.request", "customer": "'
    content.write_bytes(head(f"Content-Length: {LEAD_LIMIT}") + lead + b"a" * (LEAD_LIMIT - 1000))
    settings = "\n[service]\nrequest_memory_mib = 32\n"
    with serving(stocked_dealer(tmp_path / "store", settings)) as running:
        assert asked(running.url, "inventory.search")["total"] == 3
        before = memory_mib(running)
        with flood(running.port, 600, content) as slow:
            slow.wait_for("connected")
            slow.wait_for("sent")
            # Without the budget, these are 150 MiB.
            assert memory_mib(running) - before < 80
            assert asked(running.url, "inventory.search")["total"] == 3
            received = slow.received()["responses"]
            assert received["429"] > 300
            assert set(received) <= {"", "429"}
        eventually("memory is returned", lambda: memory_mib(running) - before < 24)


def test_a_body_that_does_not_come_is_given_up(tmp_path: Path) -> None:
    """By a service of its own, which has no patience: the other tests' bodies may take their time."""
    impatient = stocked_dealer(tmp_path / "store", "\n[service]\nrequest_timeout_seconds = 1\n")
    with serving(impatient) as running, connect(running.url) as connection:
        connection.sendall(head("Content-Length: 1000") + b'{"message"')
        status, headers, told = read_to_the_end(connection)
    assert status == 408
    assert headers["connection"] == "close"
    assert told["error"]["details"][1]["code"] == "SCHEMA_VALIDATION_FAILED"


def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_no_fault(service: Running) -> None:
    for _ in range(20):
        with connect(service.url) as connection:
            connection.sendall(head("Content-Length: 1000") + b'{"message"')
    assert asked(service.url, "inventory.search")["total"] == 3
    assert '"event":"fault"' not in service.stderr()


def test_idle_and_half_sent_connections_block_nobody(tmp_path: Path) -> None:
    """More of them than the files that a process may have open until it asks for more."""
    ours = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (IDLE // 2, ours[1]))
    try:
        running = start(stocked_dealer(tmp_path / "store"), program=(COMMAND,))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, ours)
    held = []
    try:
        for number in range(IDLE):
            connection = connect(running.url)
            held.append(connection)
            if number % 3 == 1:
                connection.sendall(b"POST /message:send HTTP/1.1\r\nHost: deal")
            elif number % 3 == 2:
                connection.sendall(head("Content-Length: 1000") + b"{")
        assert asked(running.url, "inventory.search")["total"] == 3
    finally:
        for connection in held:
            connection.close()
        running.kill_all()


def test_a_head_without_end_is_refused(service: Running) -> None:
    with connect(service.url) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-Long: ")
        sent = 0
        with suppress(ConnectionError):
            while sent < 50_000_000:
                connection.sendall(b"a" * 65536)
                sent += 65536
        assert sent < 2 * DISCARDED
    assert asked(service.url, "inventory.search")["total"] == 3


def test_trailers_without_end_are_refused(service: Running) -> None:
    with connect(service.url) as connection:
        connection.sendall(head("Transfer-Encoding: chunked") + chunk(search_body()) + b"0\r\nX-Long: ")
        sent = 0
        with suppress(ConnectionError):
            while sent < 50_000_000:
                connection.sendall(b"a" * 65536)
                sent += 65536
        assert sent < 2 * DISCARDED


def test_requests_in_a_row_on_one_connection_are_all_answered(service: Running) -> None:
    """Also when they come in one piece that is larger than a head may be. Their clients send a few at a time."""
    content = search_body() + b" " * 16 * 1024
    request = head(f"Content-Length: {len(content)}") + content
    count = 2 * 64 * 1024 // len(request) + 1
    last = head(f"Content-Length: {len(content)}", "Connection: close") + content
    received = b""
    with connect(service.url) as connection:
        connection.sendall(request * count + last)
        while part := connection.recv(65536):
            received += part
    assert received.count(b"HTTP/1.1 200") == count + 1
