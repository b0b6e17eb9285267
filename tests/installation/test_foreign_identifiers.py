"""No answer of a dealer contains data of another dealer, whatever identifiers of other dealers a request carries.

300 requests in every run, SOAK_FOREIGN requests on each database in `make soak`. They go to the real command over
HTTP. A failure names the seed and the number of the request.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.running import Running, serving
from tests.installation.foreign_requests import KINDS, ForeignRequest, make_request
from tests.installation.marked_dealers import DealerClient, MarkedDealer, learn, make_marked, marked_dealers
from tests.soak import SOAK, soak_count, soak_seed
from tests.storage.current import make_current
from tests.storage.service_role import prepared_schema

REQUESTS = soak_count("SOAK_FOREIGN", 300)
SEED = soak_seed()
"""Every long run has new requests. A short run always has the same."""
CONNECTIONS = 16


@contextmanager
def database(kind: str, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The environment with an empty database. On PostgreSQL with a role that row-level security applies to."""
    if kind == "sqlite":
        url: str = request.getfixturevalue("sqlite_url")
        make_current(url)
        yield {"DATABASE_URL": url}
        return
    with prepared_schema(request.getfixturevalue("postgresql_server")) as (_, service_url):
        yield {"DATABASE_URL": service_url}


@pytest.mark.requirement("dealer-addresses")
@pytest.mark.parametrize("kind", ["postgresql", pytest.param("sqlite", marks=pytest.mark.soak)])
def test_no_answer_contains_data_of_another_dealer(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, record_property: Any
) -> None:
    dealers = marked_dealers()
    with database(kind, request) as env:
        installation = make_marked(tmp_path / "installation", dealers, env)
        with serving(installation.folder, workers=2 if SOAK else 1, **env) as running:
            learn(running.url, installation, dealers)
            check_identifiers(running, dealers)
            started = time.monotonic()
            found = asyncio.run(send_all(running.port, dealers))
            seconds = time.monotonic() - started
            check_identifiers(running, dealers)
    assert not found.failures, "\n".join(found.failures)
    figure = f"{REQUESTS:,} requests of seed {SEED} with identifiers of other dealers on {kind} in {seconds:.0f} s"
    record_property("figure", f"{figure}; {found.marked:,} answers had data of their own dealer")
    assert set(found.kinds) == set(KINDS)
    # Enough requests reach the data of the dealer that they are for.
    assert found.marked > REQUESTS // 10


def check_identifiers(running: Running, dealers: Sequence[MarkedDealer]) -> None:
    """The identifiers are valid at their own dealer. Otherwise no request would show anything."""
    for dealer in dealers:
        client = DealerClient(running.url, dealer)
        assert client.ask("inventory.vehicle", vin=dealer.vins[0])["trim"] == dealer.marker
        assert client.ask("inventory.vehicle", vehicle_id=dealer.vehicle_ids[0])["trim"] == dealer.marker
        assert client.get(f"/calendar/{dealer.calendar}.ics").status_code == 200
        pages = [client.get(link) for link in dealer.links]
        # A link to a visit that was not confirmed, because its time is taken, says that it is over.
        assert {page.status_code for page in pages} <= {200, 410}
        assert pages[0].status_code == 200
        assert all(dealer.marker in page.text for page in pages)


class Found:
    """The result of a run."""

    def __init__(self, dealers: Sequence[MarkedDealer]) -> None:
        self.dealers = dealers
        self.kinds: Counter[str] = Counter()
        self.marked = 0
        self.failures: list[str] = []

    def judge(self, number: int, sent: ForeignRequest, status: int, answer: bytes) -> None:
        """Examines the response to a request: its status, and what of other dealers it contains."""
        self.kinds[sent.kind] += 1
        self.marked += sent.target.marker.encode() in answer
        problems = [
            f"data of {other.dealer_id}: {leaked.group()!r}"
            for other in self.dealers
            if other is not sent.target
            for leaked in other.secrets.finditer(answer)
            if leaked.group() not in sent.data
        ]
        if status not in sent.statuses:
            problems.append(f"status {status}, not {sorted(sent.statuses)}")
        if problems and len(self.failures) < 20:
            self.failures.append(
                f"seed {SEED}, request {number} ({sent.kind}): {problems[0]}\n{sent.data!r}\n{answer[:600]!r}"
            )


async def send_all(port: int, dealers: Sequence[MarkedDealer]) -> Found:
    """Sends all requests over some connections."""
    found, numbers = Found(dealers), iter(range(REQUESTS))

    async def one_connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in numbers:
            sent = make_request(SEED, number, dealers)
            writer.write(sent.data)
            head = await reader.readuntil(b"\r\n\r\n")
            status, _, fields = head.partition(b"\r\n")
            length = 0
            for field in fields.lower().split(b"\r\n"):
                if field.startswith(b"content-length:"):
                    length = int(field.partition(b":")[2])
            answer = head + await reader.readexactly(length)
            found.judge(number, sent, int(status.split()[1]), answer)
            if b"\r\nconnection: close" in head.lower():
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(one_connection())
    return found
