"""New connections beside many others: how many are accepted in a turn of the event loop, and what happens when there is
no file descriptor for one. Real sockets."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest
import uvloop

from dealer_agent.server.event_loop import ACCEPTED_PER_TURN, AcceptingLoop

CLIENTS = 200
SECONDS = 1.0


async def _turns_to_accept_all(listener: socket.socket) -> int:
    """How many turns of the loop pass between the first and the last client. All of them wait from the start."""
    loop = asyncio.get_running_loop()
    turns, seen, all_here = 0, [], asyncio.Event()

    class Client(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            seen.append(turns)
            if len(seen) == CLIENTS:
                all_here.set()

        def shutdown(self) -> None:
            pass

    server = await loop.create_server(Client, sock=listener)
    while not all_here.is_set():
        turns += 1
        await asyncio.sleep(0)
    server.close()
    await server.wait_closed()
    return seen[-1] - seen[0]


@pytest.mark.parametrize(("kind", "most"), [(AcceptingLoop, CLIENTS // ACCEPTED_PER_TURN + 2), (uvloop.Loop, None)])
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
@pytest.mark.requirement("overload")
def test_many_clients_are_accepted_in_one_turn_of_the_loop(
    kind: Callable[[], asyncio.AbstractEventLoop], most: int | None, address: str
) -> None:
    """In a busy process each turn takes long. So a client waits as many turns as pass until it is accepted."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server((address, 0), family=family, backlog=CLIENTS)
    except OSError:
        pytest.skip(f"GAP: this machine has no {address}")
    with listener, ExitStack() as clients, asyncio.Runner(loop_factory=kind) as runner:
        for _ in range(CLIENTS):
            clients.enter_context(socket.create_connection(listener.getsockname()[:2]))
        turns = runner.run(_turns_to_accept_all(listener))
    if most is None:
        assert turns >= CLIENTS - 1, "uvloop accepts several by itself: this module is no longer needed"
    else:
        assert turns <= most


OUT_OF_FILES = """
import asyncio, resource, socket, sys, time
from dealer_agent.server import event_loop, log

class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(data)
    def shutdown(self):
        self.transport.close()

async def main():
    listener = socket.create_server(("127.0.0.1", 0))
    server = await asyncio.get_running_loop().create_server(Echo, sock=listener)
    print(listener.getsockname()[1], flush=True)
    began = time.process_time()
    await asyncio.get_running_loop().run_in_executor(None, input)
    seconds = time.process_time() - began
    lines.flush()
    print(seconds)

lines = log.configure_logs("info", log.BufferedLines(sys.stdout.buffer))
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
with asyncio.Runner(loop_factory=event_loop.AcceptingLoop) as runner:
    runner.run(main())
"""


@pytest.mark.requirement("overload")
def test_without_file_descriptors_new_clients_wait_and_the_process_sleeps() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", OUT_OF_FILES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process, ExitStack() as clients:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        idle = [clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=120)) for _ in range(60)]
        # Accepted clients are served meanwhile.
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            idle[0].sendall(b"x")
            assert idle[0].recv(1) == b"x"
            time.sleep(0.01)
        idle[-1].sendall(b"y")
        for client in idle[:-1]:
            client.close()
        assert idle[-1].recv(1) == b"y"
        process.stdin.write("\n")
        process.stdin.close()
        *said, processor_seconds = process.stdout.read().splitlines()
    assert ["new connections wait" in line for line in said] == [True]
    assert float(processor_seconds) < SECONDS / 2, "it asked the kernel again and again"
