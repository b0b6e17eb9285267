"""The connection's assumptions about uvicorn and httptools that their documentation does not cover.

`pyproject.toml` bounds the versions of both. When a new version breaks an assumption, its test fails with the sentence
that says what the connection relies on. The modules are `server/connection.py` and `server/fast_path.py`.
"""

import asyncio
import inspect
import signal
from collections import deque
from typing import Any

import httptools
import pytest
import uvicorn
from uvicorn._subprocess import subprocess_started
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from dealer_agent.cli import supervisor

pytestmark = pytest.mark.outside_protocol("assumptions about uvicorn and httptools")

HEAD = b"POST /a?b=c HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
UPGRADE = HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n"


class Recorder:
    """Records the calls of a parser."""

    def __init__(self, fails_in: str = "") -> None:
        self.calls: list[Any] = []
        self._fails_in = fails_in

    def _record(self, name: str, *values: bytes) -> None:
        self.calls.append((name, *values) if values else name)
        if name == self._fails_in:
            raise KeyError("the callback's own")

    def on_message_begin(self) -> None:
        self._record("begin")

    def on_url(self, url: bytes) -> None:
        self._record("url", url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._record("header", name, value)

    def on_headers_complete(self) -> None:
        self._record("head")

    def on_body(self, body: bytes) -> None:
        self._record("body", body)

    def on_message_complete(self) -> None:
        self._record("complete")


def calls_for(*parts: bytes | memoryview) -> list[Any]:
    protocol = Recorder()
    parser = httptools.HttpRequestParser(protocol)
    for part in parts:
        parser.feed_data(part)
    return protocol.calls


def test_the_parser_calls_in_the_order_of_the_bytes() -> None:
    expected = ["begin", ("url", b"/a?b=c"), ("header", b"Host", b"x"), ("header", b"Content-Length", b"2"), "head"]
    expected += [("body", b"{}"), "complete"]
    request = HEAD + b"Content-Length: 2\r\n\r\n{}"
    assert calls_for(request * 2) == expected * 2, (
        "httptools calls begin, url, header, head, body, complete for each request"
    )
    assert calls_for(b"\r\n") == [], "blank lines between requests begin no request"


def test_the_parser_accepts_a_request_one_byte_at_a_time() -> None:
    whole = memoryview(HEAD + b"\r\n")
    assert calls_for(*(whole[at : at + 1] for at in range(len(whole))))[-3:] == [
        ("header", b"Host", b"x"),
        "head",
        "complete",
    ]


def test_the_parser_reports_trailers_as_header_fields_between_the_head_and_the_end() -> None:
    calls = calls_for(CHUNKED + b"X: y\r\nZ:\r\n\r\n" + HEAD + b"\r\n")
    trailers = calls[calls.index("head") + 1 : calls.index("complete")]
    assert trailers == [("body", b"{}"), ("header", b"X", b"y"), ("header", b"Z", b"")], (
        "no trailer reaches the next request"
    )


def test_an_upgrade_ends_the_request_after_its_head_and_the_exception_has_the_offset() -> None:
    protocol = Recorder()
    parser = httptools.HttpRequestParser(protocol)
    with pytest.raises(httptools.HttpParserUpgrade) as upgrade:
        parser.feed_data(UPGRADE + b"{}")
    assert upgrade.value.args == (len(UPGRADE),), (
        "the exception's argument is the offset of the first byte behind the head"
    )
    assert protocol.calls[-2:] == ["head", "complete"], "the body of a request for an upgrade is not parsed"
    assert parser.should_upgrade()
    assert (parser.get_method(), parser.get_http_version()) == (b"POST", "1.1"), "both are there after the upgrade"
    assert not issubclass(httptools.HttpParserUpgrade, httptools.HttpParserError)


@pytest.mark.parametrize("callback", ["header", "head", "body", "complete"])
def test_an_exception_in_a_callback_ends_parsing_and_is_the_context_of_the_parsers_exception(callback: str) -> None:
    protocol = Recorder(callback)
    with pytest.raises(httptools.HttpParserError) as failed:
        httptools.HttpRequestParser(protocol).feed_data((HEAD + b"Content-Length: 2\r\n\r\n{}") * 2)
    assert isinstance(failed.value.__context__, KeyError)
    assert protocol.calls.count("begin") == 1


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"Transfer-Encoding: identity\r\n\r\n",
        b"Host : x\r\n\r\n",
        b"X: a\r\n b\r\n\r\n",
    ],
)
def test_the_parser_refuses_ambiguous_framing(framing: bytes) -> None:
    with pytest.raises(httptools.HttpParserError):
        calls_for(HEAD + framing)


class Socket(asyncio.Transport):
    """A transport that takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = True
        self.written = b""

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


async def _app(_scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


async def _three_requests() -> tuple[HttpToolsProtocol, Socket, list[RequestResponseCycle]]:
    config = uvicorn.Config(_app, http=HttpToolsProtocol, lifespan="off", ws="none", log_level="critical")
    connection, transport = HttpToolsProtocol(config, ServerState(), {}, asyncio.get_running_loop()), Socket()
    connection.connection_made(transport)
    connection.data_received((HEAD + b"\r\n") * 3)
    return connection, transport, [connection.pipeline[-1][0], connection.pipeline[0][0]]


def test_uvicorn_keeps_pipelined_requests_newest_first_and_pauses_reading() -> None:
    async def see() -> None:
        connection, transport, (second, third) = await _three_requests()
        assert isinstance(connection.pipeline, deque)
        assert connection.cycle is third, "`cycle` is the newest request's"
        assert not transport.reads, "reading pauses while a request waits"
        assert connection.flow.read_paused
        for _ in range(5):
            await asyncio.sleep(0)
        assert second.response_complete, "the pipeline is taken from its right end"
        assert third.response_complete
        assert transport.written.count(b"HTTP/1.1 200 OK") == 3

    asyncio.run(see())


def test_a_cycle_uses_the_transport_of_the_connection_and_writes_nothing_when_disconnected() -> None:
    async def see() -> None:
        _, transport, (second, third) = await _three_requests()
        assert second.transport is transport
        assert not third.response_started
        third.disconnected = True
        third.message_event.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert transport.written.count(b"HTTP/1.1 200 OK") == 2, "a disconnected cycle writes nothing"

    asyncio.run(see())


def test_uvicorn_has_the_names_that_the_connection_uses() -> None:
    async def see() -> set[str]:
        connection, _, _ = await _three_requests()
        return set(vars(connection))

    used = {"parser", "flow", "pipeline", "cycle", "headers", "url", "expect_100_continue", "server_state", "app_state"}
    used |= {"transport", "client", "loop", "timeout_keep_alive"}
    assert used <= asyncio.run(see()), "attributes of a connection"
    assert {"total_requests", "default_headers"} <= set(vars(ServerState())), "attributes of the server's state"
    assert STATUS_LINE[429] == b"HTTP/1.1 429 Too Many Requests\r\n", "a status line for each status"
    assert list(inspect.signature(HttpToolsProtocol._start_asgi_task).parameters) == ["self", "cycle", "app"]
    assert "self.flow = FlowControl(transport)" in inspect.getsource(HttpToolsProtocol.connection_made)
    assert {"pause_reading", "resume_reading", "pause_writing", "resume_writing"} <= set(vars(FlowControl))
    assert HIGH_WATER_LIMIT == 65_536, "a cycle's body pauses reading beyond this"


def test_the_server_keeps_the_date_current_and_ends_at_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "DATE_SECONDS", 0.01)

    async def run() -> None:
        server = supervisor.WaitingServer(uvicorn.Config("unused:app"))
        serving = asyncio.create_task(server.main_loop())
        dates: list[list[tuple[bytes, bytes]]] = []
        while len(dates) < 2:
            await asyncio.sleep(0.01)
            if (now := server.server_state.default_headers) and now not in dates:
                dates.append(now)
        monkeypatch.setattr(supervisor, "DATE_SECONDS", 3600)
        await asyncio.sleep(0.1)
        server.handle_exit(signal.SIGTERM, None)
        await serving

    asyncio.run(run())


def test_uvicorn_supervises_the_processes_that_our_supervisor_makes() -> None:
    for method in (Multiprocess.init_processes, Multiprocess.keep_subprocess_alive, Multiprocess.restart_all):
        assert "= Process(self.config, self.sockets)" in inspect.getsource(method), "the name that is replaced"
    assert "self.process = get_subprocess(config, self.target, sockets)" in inspect.getsource(Process.__init__)
    assert list(inspect.signature(subprocess_started).parameters) == ["config", "target", "sockets", "stdin_fileno"]
