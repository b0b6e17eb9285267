"""Many connections that each send the same bytes once, and read nothing until they are told to.

It runs in a process of its own: `python -m tests.acceptance.flood PORT CONNECTIONS FILE`. It prints a line when all
connections are open, and one when every connection has sent its bytes or cannot send more. After a line on its
input, it prints as JSON what each connection has received.
"""

import json
import selectors
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

SILENCE_SECONDS = 0.3
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: dealer.example\r\nConnection: close\r\n\r\n"


def _next_ready(selector: selectors.BaseSelector, port: int) -> list[tuple[selectors.SelectorKey, int]]:
    """The connections that can go on. There are none if the service has answered three newcomers meanwhile.

    So a service that gets no processor time for some seconds is waited for.
    """
    for _ in range(3):
        ready = selector.select(SILENCE_SECONDS)
        if ready:
            return ready
        with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=240) as newcomer:
            newcomer.sendall(HEALTH)
            while newcomer.recv(4096):
                pass
    return []


def _send_all(connections: list[socket.socket], content: bytes, port: int) -> None:
    unsent = dict.fromkeys(connections, memoryview(content))
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_WRITE)
        while unsent and (ready := _next_ready(selector, port)):
            for key, _ in ready:
                connection = cast(socket.socket, key.fileobj)
                try:
                    unsent[connection] = unsent[connection][connection.send(unsent[connection][:65536]) :]
                except OSError:
                    del unsent[connection]
                else:
                    if not unsent[connection]:
                        del unsent[connection]
                if connection not in unsent:
                    selector.unregister(connection)


def _receive_all(connections: list[socket.socket], port: int) -> dict[socket.socket, bytes]:
    """What the connections receive until all are closed or silent."""
    received = dict.fromkeys(connections, b"")
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ)
        while selector.get_map() and (ready := _next_ready(selector, port)):
            for key, _ in ready:
                connection = cast(socket.socket, key.fileobj)
                part = b""
                with suppress(OSError):
                    part = connection.recv(1 << 20)
                received[connection] += part
                if not part:
                    selector.unregister(connection)
    return received


def main() -> None:
    port, count, content = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]).read_bytes()
    connections = [socket.create_connection(("127.0.0.1", port), timeout=240) for _ in range(count)]
    for connection in connections:
        connection.setblocking(False)
    print("connected", flush=True)
    _send_all(connections, content, port)
    print("sent", flush=True)
    sys.stdin.readline()
    responses: Counter[str] = Counter()
    closing = 0
    for connection, received in _receive_all(connections, port).items():
        heads = [part.partition(b"\r\n\r\n")[0] for part in received.split(b"HTTP/1.1 ")[1:]]
        responses[",".join(head[:3].decode() for head in heads)] += 1
        closing += bool(heads) and b"connection: close" in heads[-1].lower()
        connection.close()
    print(json.dumps({"responses": responses, "closing": closing}), flush=True)


class Flood:
    """A flood in a process of its own. It is sending from the start on."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def wait_for(self, line: str) -> None:
        """Waits until the flood has printed this line."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"{line}\n".encode()

    def has_sent(self) -> bool:
        """Whether the flood has printed something since."""
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            return bool(selector.select(0))

    def received(self) -> dict[str, Any]:
        """What the connections have received: how many had each list of statuses, and how many are told to close."""
        printed, _ = self._process.communicate(b"\n", timeout=240)
        found: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return found


@contextmanager
def flood(port: int, count: int, content: Path) -> Iterator[Flood]:
    """Opens the connections, and begins to send the content of a file on each."""
    arguments = [sys.executable, "-m", __name__, str(port), str(count), str(content)]
    # Without a buffer, which would hold a line that `has_sent` looks for in the pipe.
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            yield Flood(process)
        finally:
            process.kill()


if __name__ == "__main__":
    main()
