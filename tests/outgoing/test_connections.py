"""A connection goes to an address that was checked, whatever the name becomes, and TLS verifies the name."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.delivery.certificates import server_certificate
from tests.delivery.receivers import HttpReceiver, always, receiving_http
from tests.patching import replace_in

from dealer_agent.outgoing import connections
from dealer_agent.outgoing.addresses import AddressRefused, AddressRule
from dealer_agent.outgoing.connections import connect, http_client

pytestmark = pytest.mark.outside_protocol("connections to addresses of dealers")

HOST = "crm.example.com"
HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"
RULE = AddressRule((ip_network(HERE),))


class Resolver:
    """Answers for HOST, with the next answer each time. It counts the questions."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0
        self._real = socket.getaddrinfo

    def getaddrinfo(self, host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if host != HOST:
            return self._real(host, port, *rest, **more)
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return [entry for address in answer for entry in self._real(address, port, type=socket.SOCK_STREAM)]


@pytest.fixture
def resolving(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Resolver]:
    def install(*answers: list[str]) -> Resolver:
        resolver = Resolver(*answers)
        replace_in(monkeypatch, connections, "socket", getaddrinfo=resolver.getaddrinfo)
        return resolver

    return install


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with receiving_http(HttpReceiver(always("take"))) as running:
        yield running


def get(url: str, rule: AddressRule = RULE) -> httpx.Response:
    async def run() -> httpx.Response:
        async with http_client(rule, timeout=120) as client:
            return await client.get(url)

    return asyncio.run(run())


def open_socket(host: str, port: int, rule: AddressRule = RULE) -> str:
    """The address that a socket is connected to."""

    async def run() -> str:
        with await connect(host, port, rule) as opened:
            return str(opened.getpeername()[0])

    return asyncio.run(run())


def test_a_name_that_changes_its_address_is_resolved_once_for_each_connection(
    receiver: HttpReceiver, resolving: Callable[..., Resolver]
) -> None:
    resolver = resolving([HERE], [ELSEWHERE])
    assert get(f"http://{HOST}:{receiver.port}/").status_code == 202
    assert resolver.asked == 1
    (taken,) = receiver.taken
    assert taken.headers["host"] == f"{HOST}:{receiver.port}"
    with pytest.raises(AddressRefused, match=HOST):
        get(f"http://{HOST}:{receiver.port}/")
    assert receiver.connections == 1

    resolver = resolving([HERE], [ELSEWHERE])
    assert open_socket(HOST, receiver.port) == HERE
    assert resolver.asked == 1
    with pytest.raises(AddressRefused, match=HOST):
        open_socket(HOST, receiver.port)


def test_one_address_that_is_not_allowed_refuses_the_host(
    receiver: HttpReceiver, resolving: Callable[..., Resolver]
) -> None:
    resolving([HERE, ELSEWHERE])
    with pytest.raises(AddressRefused):
        get(f"http://{HOST}:{receiver.port}/")
    with pytest.raises(AddressRefused):
        open_socket(HOST, receiver.port)
    assert receiver.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "0x7f.1", "2130706433", "0.0.0.0"])
def test_no_way_to_write_this_machine_is_allowed(host: str, receiver: HttpReceiver) -> None:
    for attempt in (
        lambda: get(f"http://{host}:{receiver.port}/", AddressRule()),
        lambda: open_socket(host, receiver.port, AddressRule()),
    ):
        with pytest.raises(AddressRefused):
            attempt()
    assert receiver.connections == 0


def test_a_redirect_is_checked_too(receiver: HttpReceiver) -> None:
    receiver.answer = f"HTTP/1.1 302 Found\r\nLocation: http://{ELSEWHERE}:1/\r\nContent-Length: 0\r\n\r\n".encode()

    async def run() -> None:
        async with http_client(RULE, timeout=120, follow_redirects=True) as client:
            await client.get(receiver.url)

    with pytest.raises(AddressRefused, match=ELSEWHERE):
        asyncio.run(run())


@pytest.mark.parametrize("name", [HOST, "other.example.com"])
def test_tls_verifies_the_name_and_not_the_address(
    name: str, tmp_path: Path, resolving: Callable[..., Resolver], monkeypatch: pytest.MonkeyPatch
) -> None:
    context, trusted = server_certificate(tmp_path, host=name)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    shown: list[str | None] = []
    context.sni_callback = lambda _, sni, __: shown.append(sni)
    resolving([HERE])
    with receiving_http(HttpReceiver(always("take")), context) as receiver:
        url = f"https://{HOST}:{receiver.port}/"
        if name == HOST:
            assert get(url).status_code == 202
        else:
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                get(url)
    assert shown == [HOST]


def test_an_address_that_does_not_answer_is_left_for_the_next_one(
    receiver: HttpReceiver, resolving: Callable[..., Resolver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ADDRESS_SECONDS", 0.2)
    rule = AddressRule((ip_network("127.0.0.0/8"),))
    with ExitStack() as closing:
        # The queue of this socket is full, so it accepts no further connection.
        full = closing.enter_context(socket.create_server((ELSEWHERE, receiver.port), backlog=0))
        for _ in range(4):
            waiting = closing.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        resolving([ELSEWHERE, HERE])
        assert open_socket(HOST, receiver.port, rule) == HERE
        assert get(f"http://{HOST}:{receiver.port}/", rule).status_code == 202


def test_a_host_that_is_unknown_or_closed_is_the_usual_error() -> None:
    for host in ("nobody.invalid", "a" * 64 + ".example.com", HERE):
        with pytest.raises(httpx.ConnectError):
            get(f"http://{host}:9/")
        with pytest.raises(OSError, match=r"."):
            open_socket(host, 9)


def test_names_that_are_not_resolved_hold_no_thread_that_others_need(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def no_answer(*_: Any, **__: Any) -> Any:
        answers.wait(120)
        raise socket.gaierror

    replace_in(monkeypatch, connections, "socket", getaddrinfo=no_answer)

    async def run() -> int:
        waiting = [asyncio.create_task(connect(HOST, 443, RULE)) for _ in range(200)]
        await asyncio.sleep(0)
        done = await asyncio.wait_for(asyncio.to_thread(lambda: sum(each.done() for each in waiting)), 60)
        answers.set()
        await asyncio.gather(*waiting, return_exceptions=True)
        return done

    assert asyncio.run(run()) == 0


def test_no_proxy_of_the_environment_is_asked_for_an_address_that_must_be_checked(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://{HERE}:{receiver.port}")
    with pytest.raises(AddressRefused):
        get("http://10.0.0.1/", AddressRule())
    assert receiver.connections == 0


def test_a_client_that_dealers_share_keeps_no_cookie(receiver: HttpReceiver) -> None:
    receiver.answer = (
        b"HTTP/1.1 202 Accepted\r\nSet-Cookie: session=1; Path=/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )

    async def run() -> None:
        async with http_client(RULE, timeout=120) as client:
            await client.get(receiver.url)
            await client.get(receiver.url)

    asyncio.run(run())
    assert ["cookie" in taken.headers for taken in receiver.taken] == [False, False]
