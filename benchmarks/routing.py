"""Replicas behind HAProxy: each request to the next replica, and each dealer to a replica of its own (consistent hash).

Three replicas with one worker each have the same dealers. Memory is that of all replicas together, after so many
requests to each dealer that every replica may have loaded it. Then one replica is killed, and later started again. The
lines of HAProxy are those of deploy/haproxy/haproxy.cfg.
"""

import http.client
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct
from tests.servers.haproxy import IN_TURN, LoadBalancer, routing_by_dealer
from tests.storage.databases import own_postgresql, with_system_folders
from tests.storage.service_role import prepared_schema

from benchmarks.buyers import MIX, asks
from benchmarks.installation_costs import ROOMY_MIB
from benchmarks.many_dealers import USUAL, dealers_of, prepare, write_installation
from benchmarks.platform_clients import median_and_p99
from benchmarks.servers import Server, installation
from benchmarks.stock_maker import stock

REPLICAS = 3
ROUNDS = 8
"""Requests to each dealer. In turn, a replica gets none of them for one dealer in 26."""
FIRST = 20
"""The dealers whose requests show that the load balancer has found all replicas."""
PATIENCE_SECONDS = 120
REPLICA = "X-Replica"
ROUND_ROBIN, BY_DEALER = "round robin", "by dealer"


class Answers(Struct, frozen=True):
    """Responses: how many, p50 and p99 in milliseconds, and how many were not 200."""

    count: int
    p50: float
    p99: float
    failed: int


class Routed(Struct, frozen=True):
    """One way of routing. Memory of all replicas together in MiB: without dealers, and after all requests.

    `warm` are the responses before a replica goes. `gone` are the first ones after it, of the dealers whose last
    replica it was, and `returned` the first ones of the dealers that it gets again.
    """

    routing: str
    started_mib: float
    mib: float
    warm: Answers
    gone: Answers
    returned: Answers


class RoutingFigures(Struct, frozen=True):
    """Both ways, for so many dealers and units."""

    dealers: int
    units: int
    replicas: int
    routed: list[Routed]


Say = Callable[[str], None]


def routing_figures(dealers: int, say: Say) -> RoutingFigures:
    """Measures round robin, then routing by dealer, each with new replicas."""
    os.environ["PATH"] = with_system_folders(os.environ.get("PATH", os.defpath))
    sizes = dealers_of(dealers).sizes()
    with (
        tempfile.TemporaryDirectory() as name,
        own_postgresql() as server,
        prepared_schema(server.url) as (admin_url, service_url),
    ):
        say(f"{dealers:,} dealers are made")
        first = Path(name) / "first"
        write_installation(first, snapshot_memory_mib=ROOMY_MIB, workers=1)
        prepare(first, admin_url, service_url, sizes)
        routed = [
            _routed(Path(name), first, {"DATABASE_URL": service_url}, list(sizes), routing, lines, say)
            for routing, lines in ((ROUND_ROBIN, IN_TURN), (BY_DEALER, routing_by_dealer()))
        ]
    return RoutingFigures(dealers, sum(sizes.values()), REPLICAS, routed)


def _routed(
    folder: Path,
    first: Path,
    env: Mapping[str, str],
    dealers: Sequence[str],
    routing: str,
    lines: Sequence[str],
    say: Say,
) -> Routed:
    with ExitStack() as stack:
        replicas = []
        for number in range(REPLICAS):
            say(f"{routing}: replica {number + 1} starts")
            # The same keys and settings, and no files of another replica.
            own = folder / f"{routing.replace(' ', '-')}-{number}"
            own.mkdir(mode=0o700)
            for file in first.iterdir():
                if file.is_file():
                    shutil.copy2(file, own)
            replicas.append(_Replica(own, env))
            stack.callback(replicas[-1].stop)
        folder_of_balancer = folder / f"haproxy-{routing.replace(' ', '-')}"
        folder_of_balancer.mkdir()
        # The service never sees the header of the response.
        named = [*lines, f"http-response set-header {REPLICA} %s"]
        balancer = LoadBalancer(folder_of_balancer, [replica.server.port for replica in replicas], named)
        stack.callback(balancer.kill)
        client = _Client(balancer.port)
        _wait(lambda: len({client.ask(dealer).replica for dealer in dealers[:FIRST]}) == REPLICAS)
        started_mib = sum(replica.server.whole_memory() for replica in replicas)
        say(f"{routing}: {ROUNDS} requests to each dealer")
        dice = random.Random(5)
        for _ in range(ROUNDS):
            client.ask_each(dice.sample(dealers, len(dealers)))
        mib = sum(replica.server.whole_memory() for replica in replicas)
        warm = client.ask_each(dealers)
        say(f"{routing}: a replica is killed")
        killed = replicas[0]
        its_name = f"s{killed.server.port}"
        its_dealers = [dealer for dealer in dealers if client.last[dealer] == its_name]
        killed.kill()
        gone = client.ask_each(its_dealers)
        say(f"{routing}: the replica starts again")
        killed.start()
        balancer.configure([replica.server.port for replica in replicas])
        its_name = f"s{killed.server.port}"
        # It may load one dealer meanwhile. That of the measured ones is the last.
        _wait(lambda: client.ask(its_dealers[-1]).replica == its_name)
        returned = [each for each in client.ask_each(dealers) if each.replica == its_name]
    return Routed(routing, started_mib, mib, _answers(warm), _answers(gone), _answers(returned))


class _Replica:
    """A running replica, with a folder of its own."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder, self._env = folder, env
        self.start()

    def start(self) -> None:
        self._running = ExitStack()
        self.server: Server = self._running.enter_context(installation(self._folder, 1, self._env))

    def kill(self) -> None:
        """Ends it as a lost machine does: connections to it are refused then."""
        os.kill(self.server.main, signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        self._running.close()


@dataclass
class _Client:
    """Sends searches, one after the other. `last` has the replica that last answered for a dealer."""

    port: int
    last: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        units = [msgspec.json.decode(listing.json) for listing in stock(USUAL)]
        self._body = next(
            ask.body for ask in asks(MIX, units) if ask.kind == "search" and b'"rooftops"' not in ask.body
        )

    def ask(self, dealer_id: str) -> "_Answer":
        """Searches at a dealer, on a new connection."""
        begun = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
        connection.request("POST", f"/d/{dealer_id}/message:send", self._body, headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        taken = (time.perf_counter() - begun) * 1000
        self.last[dealer_id] = replica = answer.getheader(REPLICA, "")
        return _Answer(taken, answer.status, replica)

    def ask_each(self, dealers: Sequence[str]) -> list["_Answer"]:
        """A search at each dealer."""
        return [self.ask(dealer_id) for dealer_id in dealers]


class _Answer(NamedTuple):
    milliseconds: float
    status: int
    replica: str


def _answers(found: Sequence[_Answer]) -> Answers:
    p50, p99 = median_and_p99([each.milliseconds for each in found]) if found else (0.0, 0.0)
    return Answers(len(found), p50, p99, sum(each.status != 200 for each in found))


def _wait(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < ends, "the load balancer has not found the replicas"
        time.sleep(0.05)
