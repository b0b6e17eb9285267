"""An HTTP server that does what a test says: it refuses, breaks connections, lies about sizes, or never ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import msgspec


@dataclass
class Asked:
    """A request that arrived, and the connection for the response."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter

    async def answer(self, content: object, status: int = 200, **headers: str) -> None:
        """Sends a whole response. Content that is not bytes is sent as JSON."""
        body = content if isinstance(content, bytes) else msgspec.json.encode(content)
        self.start(status, content_length=str(len(body)), **headers)
        self.writer.write(body)
        await self.writer.drain()

    def start(self, status: int = 200, **headers: str) -> None:
        """Sends the head of a response. Write `_` for `-` in the name of a header."""
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([f"HTTP/1.1 {status} Whatever", *lines, "", ""]).encode())

    def hang_up(self) -> None:
        """Closes the connection without a word."""
        self.writer.transport.abort()


Behaviour = Callable[[Asked], Awaitable[None]]


@asynccontextmanager
async def misbehaving(behaviour: Behaviour, port: int = 0) -> AsyncIterator[str]:
    """The URL of a server that calls `behaviour` for each request. Port 0 is any free port."""
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while not writer.is_closing():
                    await behaviour(await _read(reader, writer))
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    fields = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in fields}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body, writer)
