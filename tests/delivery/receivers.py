"""Real receivers of leads, in threads of their own: they do as they are told, or fail at random.

What a receiver may do with an attempt:
take     take it and say so
keep     take it, say so, and read the next request on the same connection (HTTP)
refuse   drop the connection at once
hang     say nothing
reject   refuse the document for good (HTTP: 422; SMTP: 550)
fail     be broken, or busy (HTTP: 500; SMTP: 451)
cut      cut the connection in the middle
die      take it, and cut the connection before saying so
leave    the same, and accept no connection from then on (HTTP)
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session

NOBODY = 9
"""A port at which nobody listens, and which no test is given."""

FAILURES = ("refuse", "hang", "reject", "fail", "cut", "die")
Behaviour = Callable[[], str]


def always(what: str) -> Behaviour:
    return lambda: what


def one_after_the_other(*what: str) -> Behaviour:
    """Behaves in these ways, one a request, and from then on in the last one."""
    left = list(what)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def at_random(share_of_failures: float, seed: int) -> Behaviour:
    draw = random.Random(seed)
    return lambda: draw.choice(FAILURES) if draw.random() < share_of_failures else "take"


@dataclass
class Posted:
    """A request as it was received whole."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HttpReceiver:
    """An HTTP server. `answer` is what it says when it takes something."""

    behaviour: Behaviour
    answer: bytes = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    refusal: bytes = b"HTTP/1.1 422 Unprocessable Content\r\nContent-Length: 2\r\n\r\nno"
    breakage: bytes = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
    taken: list[Posted] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    server: asyncio.Server | None = None
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/leads"

    async def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._answer(reader, writer) == "keep":
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        what = self.behaviour()
        self.did[what] += 1
        if what == "refuse":
            writer.transport.abort()
        else:
            posted = await self._read(reader, cut=what == "cut")
            match what:
                case "take" | "keep":
                    self.taken.append(posted)
                    writer.write(self.answer)
                    await writer.drain()
                case "reject":
                    writer.write(self.refusal)
                    await writer.drain()
                case "fail":
                    writer.write(self.breakage)
                    await writer.drain()
                case "hang":
                    await reader.read()
                case "die" | "leave":
                    self.taken.append(posted)
                    if what == "leave":
                        assert self.server is not None
                        self.server.close()
                    writer.transport.abort()
                case "cut":
                    writer.transport.abort()
        return what

    async def _read(self, reader: asyncio.StreamReader, *, cut: bool) -> Posted:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        body = b"" if cut else await reader.readexactly(int(headers.get("content-length", "0")))
        return Posted(method, target, headers, body)


@contextmanager
def receiving_http(receiver: HttpReceiver, ssl_context: Any = None) -> Iterator[HttpReceiver]:
    """The server runs for a block."""

    async def serve(ready: Callable[[asyncio.Event, int], None]) -> None:
        stop = asyncio.Event()
        server = await asyncio.start_server(receiver.receive, "127.0.0.1", receiver.port, ssl=ssl_context)
        receiver.server = server
        ready(stop, server.sockets[0].getsockname()[1])
        await stop.wait()
        server.close()

    with _in_a_thread(serve) as port:
        receiver.port = port
        yield receiver


@contextmanager
def _in_a_thread(serve: Callable[[Callable[[asyncio.Event, int], None]], Awaitable[None]]) -> Iterator[int]:
    started = threading.Event()
    told: list[Any] = []

    def ready(stop: asyncio.Event, port: int) -> None:
        told.extend((asyncio.get_running_loop(), stop, port))
        started.set()

    async def main() -> None:
        await serve(ready)

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert started.wait(120)
    loop, stop, port = told
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(120)


@dataclass
class Mailed:
    """A mail as it was received whole."""

    sender: str
    recipients: list[str]
    raw: bytes
    secure: bool
    user: bytes | None

    @property
    def message(self) -> EmailMessage:
        made = message_from_bytes(self.raw, policy=policy.default)
        assert isinstance(made, EmailMessage)
        return made


@dataclass
class MailReceiver:
    """An SMTP server. `refused` are recipients that it does not take, by the response that they get."""

    behaviour: Behaviour
    refused: dict[str, str] = field(default_factory=dict)
    taken: list[Mailed] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)
    port: int = 0

    async def handle_EHLO(
        self, server: SMTP, session: Session, envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        session.host_name = hostname
        return responses

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        what = self.behaviour()
        self.did[what] += 1
        if what == "hang":
            await asyncio.sleep(3600)
        if what in ("take", "die"):
            assert isinstance(envelope.content, bytes)
            user = getattr(session.auth_data, "login", None)
            assert server.transport is not None
            secure = server.transport.get_extra_info("ssl_object") is not None
            self.taken.append(Mailed(envelope.mail_from or "", list(envelope.rcpt_tos), envelope.content, secure, user))
        if what in ("cut", "die", "refuse"):
            assert isinstance(server.transport, asyncio.WriteTransport)
            server.transport.abort()
        return {"reject": "550 5.7.1 no", "fail": "451 4.3.0 later"}.get(what, "250 OK")


@contextmanager
def receiving_mail(receiver: MailReceiver, ssl_context: Any = None, **options: Any) -> Iterator[MailReceiver]:
    """The server runs for a block; the options are those of aiosmtpd's SMTP."""

    async def serve(ready: Callable[[asyncio.Event, int], None]) -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def protocol() -> SMTP:
            return SMTP(receiver, enable_SMTPUTF8=True, loop=loop, hostname="mail.example.com", **options)

        server = await loop.create_server(protocol, "127.0.0.1", receiver.port, ssl=ssl_context)
        ready(stop, server.sockets[0].getsockname()[1])
        await stop.wait()
        server.close()

    with _in_a_thread(serve) as port:
        receiver.port = port
        yield receiver
