"""What a signature costs: the processor time of an anonymous request and of a signed one, in turn in one process.

The keys of the agent are known. The verification of Ed25519 alone is the part that no implementation can avoid.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import median

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct

from benchmarks.buyers import post
from benchmarks.in_process import Compared, InProcess, compared, in_process, stocked_dealer
from dealer_agent.http_signatures.directory import directory_document
from dealer_agent.http_signatures.keys import private_key_of
from dealer_agent.http_signatures.signing import RequestSigner
from dealer_agent.storage.key_sets import ask_for_keys, put_keys

REQUESTS = 400
ORIGIN = "https://agent.example"
HOST = "127.0.0.1:8080"
SEARCH = "inventory.search"


class SignatureFigures(Struct, frozen=True):
    """A signed search beside an anonymous one, and the microseconds to verify Ed25519 alone."""

    search: Compared
    ed25519: float


def signature_figures(rounds: int, progress: Callable[[str], None]) -> SignatureFigures:
    """Measures searches."""
    with stocked_dealer([SEARCH], progress) as (folder, bodies):
        return asyncio.run(_measured(folder, bodies[SEARCH][:REQUESTS], rounds, progress))


async def _measured(
    folder: Path, bodies: Sequence[bytes], rounds: int, progress: Callable[[str], None]
) -> SignatureFigures:
    key = private_key_of(Ed25519PrivateKey.generate())
    signer = RequestSigner(key, ORIGIN)
    anonymous = [_addressed(post(body)) for body in bodies]
    measured = []
    async with in_process(folder) as running:
        await _make_known(running, signer)
        for number in range(rounds):
            progress(f"round {number + 1}")
            signed = [_signed(signer, body) for body in bodies]
            measured.append(await running.round(anonymous, signed))
    return SignatureFigures(compared(SEARCH, measured), _ed25519())


async def _make_known(running: InProcess, signer: RequestSigner) -> None:
    """Gives the service the keys of the agent, as if it had fetched them. The fetch is no part of the figure."""
    keys = running.service.process.known_keys
    with keys.store.write(keys.owner) as tx:
        ask_for_keys(tx, [signer.origin])
        put_keys(tx, signer.origin, directory_document([signer.key]), tx.now + timedelta(hours=1))
    await keys.refresh()


def _addressed(request: bytes) -> bytes:
    return request.replace(b"Host: 127.0.0.1\r\n", f"Host: {HOST}\r\n".encode())


def _signed(signer: RequestSigner, body: bytes) -> bytes:
    """A request with a signature of its own."""
    head, separator, rest = _addressed(post(body)).partition(b"\r\n\r\n")
    headers = signer.sign("POST", HOST, "/message:send", "", body, time.time())
    return head + "".join(f"\r\n{name}: {value}" for name, value in headers.items()).encode() + separator + rest


def _ed25519() -> float:
    """Microseconds of processor time to verify a signature of 400 bytes."""
    key, text = Ed25519PrivateKey.generate(), b"a" * 400
    signature, public = key.sign(text), key.public_key()
    spent = []
    for _ in range(1000):
        before = time.thread_time()
        public.verify(signature, text)
        spent.append(time.thread_time() - before)
    return median(spent) * 1e6
