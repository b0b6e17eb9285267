"""Requests at a steady rate: each is sent at its time, even if earlier ones have no response yet."""

import asyncio
import time
from collections.abc import Sequence
from statistics import quantiles

from msgspec import Struct


class Steady(Struct, frozen=True):
    """The result of a run: the number of responses and of refusals, and p50, p99 and the longest of the times in
    milliseconds, measured from the planned time of sending."""

    answered: int
    refused: int
    p50: float
    p99: float
    longest: float = 0.0


def send_steadily(port: int, requests: Sequence[bytes], per_second: float) -> Steady:
    """Sends all of these to a server of this machine. Returns after the last response."""
    return asyncio.run(_send(port, requests, per_second))


async def _send(port: int, requests: Sequence[bytes], per_second: float) -> Steady:
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    waited: list[float] = []
    refused = 0

    async def one(request: bytes, due: float) -> None:
        nonlocal refused
        reader, writer = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        waited.append(time.perf_counter() - due)
        refused += not head.startswith(b"HTTP/1.1 200")
        idle.append((reader, writer))

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, request in enumerate(requests):
            due = started + number / per_second
            await asyncio.sleep(max(0, due - time.perf_counter()))
            group.create_task(one(request, due))
    for _, writer in idle:
        writer.close()
    hundredths = quantiles(waited, n=100)
    p50, p99, longest = (seconds * 1000 for seconds in (hundredths[49], hundredths[98], max(waited)))
    return Steady(len(waited), refused, p50, p99, longest)
