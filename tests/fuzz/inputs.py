"""Runs generated inputs of every kind, counts the outcomes, and measures the time of each input.

    .venv/bin/python -m tests.fuzz.inputs --seed 7 --inputs 10000            # a run of one process
    .venv/bin/python -m tests.fuzz.inputs --seed 7 --only 4711               # one input of that run again, shown

Input number N of a seed is the same in every run, so a failure names both.
"""

import argparse
import asyncio
import heapq
import json
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, BinaryIO

import msgspec
from benchmarks.dealership import RATES, make_dealer
from msgspec import Struct, field
from tests.fuzz.judging import AnswerJudge
from tests.fuzz.kinds import (
    ACCEPTED,
    Kind,
    Sent,
    application_kind,
    envelope_kind,
    feed_kind,
    json_rpc_kind,
    over_asgi,
    settings_kind,
    unit_of_work,
)

from dealer_agent.bootstrap import application
from dealer_agent.config.installation import load_served
from dealer_agent.config.keys import create_key_file
from dealer_agent.config.settings import RateLimitSettings

UNITS = 1_000
WORST_SHOWN = 3
FAILURES_KEPT = 5

REQUEST_KINDS = ("envelope", "JSON-RPC", "application")


class Costly(Struct, order=True):
    """An input and its cost."""

    seconds: float
    number: int
    size: int


class Failure(Struct):
    """An input with a wrong outcome."""

    number: int
    kind: str
    problem: str
    shown: str


class Report(Struct):
    """The outcomes of a run, by kind."""

    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    worst: dict[str, list[Costly]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    failed: int = 0

    def count(self, kind: str, outcome: str, cost: Costly) -> None:
        """Adds one input."""
        outcomes = self.outcomes.setdefault(kind, {})
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        self.seconds[kind] = self.seconds.get(kind, 0.0) + cost.seconds
        worst = self.worst.setdefault(kind, [])
        heapq.heappush(worst, cost)
        if len(worst) > WORST_SHOWN:
            heapq.heappop(worst)

    def fail(self, failure: Failure) -> None:
        """Adds a failure. Only the first ones are kept with their inputs."""
        self.failed += 1
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append(failure)

    def add(self, other: "Report") -> None:
        """Adds the report of another process."""
        for kind, outcomes in other.outcomes.items():
            self.outcomes[kind] = dict(Counter(self.outcomes.get(kind, {})) + Counter(outcomes))
            self.seconds[kind] = self.seconds.get(kind, 0.0) + other.seconds[kind]
            self.worst[kind] = heapq.nlargest(WORST_SHOWN, self.worst.get(kind, []) + other.worst[kind])
        self.failures += other.failures
        self.failed += other.failed

    def accepted(self, *kinds: str) -> float:
        """The share of inputs of these kinds that was accepted."""
        counts = Counter[bool]()
        for kind in kinds:
            for outcome, count in self.outcomes.get(kind, {}).items():
                counts[outcome.startswith(ACCEPTED)] += count
        return counts[True] / max(1, counts.total())

    def lines(self) -> list[str]:
        """The counts by kind and outcome, and the worst of each kind."""
        lines = []
        for kind, outcomes in sorted(self.outcomes.items()):
            total = sum(outcomes.values())
            mean = self.seconds[kind] / total * 1e6
            lines.append(
                f"{kind}: {total:,} inputs, {self.accepted(kind):.0%} accepted, {mean:.0f} µs of processor time each"
            )
            common = sorted(outcomes.items(), key=lambda pair: -pair[1])
            lines.append("  " + "; ".join(f"{outcome} {count:,}" for outcome, count in common))
            worst = heapq.nlargest(WORST_SHOWN, self.worst[kind])
            lines.append(
                "  worst: " + ", ".join(f"{each.seconds * 1000:.1f} ms (number {each.number:,})" for each in worst)
            )
        return lines


class Run:
    """The kinds of one process, and the inputs of one seed."""

    def __init__(self, kinds: list[Kind], seed: int) -> None:
        self._seed = seed
        self._kinds = kinds
        self._shares = [kind.share for kind in kinds]
        self._unit = min(unit_of_work() for _ in range(10))
        self.report = Report()

    def input(self, number: int) -> tuple[Kind, Any]:
        """Input number N of the seed."""
        source = Random((self._seed << 40) + number)
        (kind,) = source.choices(self._kinds, self._shares)
        return kind, kind.make(source)

    async def feed(self, number: int) -> str | None:
        """Runs one input and counts it. Returns its outcome, or None for a failure."""
        kind, given = self.input(number)
        size = len(given.body if isinstance(given, Sent) else given[0] if isinstance(given, tuple) else given)
        try:
            seconds, outcome = await self._timed(kind, given)
            self.report.count(kind.name, outcome, Costly(seconds, number, size))
            units = seconds / self._unit
            for _ in range(4):
                # A busy machine, or a job of another thread, makes an input slow once, but not each time.
                if units > kind.bound:
                    await asyncio.sleep(0.5)
                    unit = unit_of_work()
                    units = min(units, (await self._timed(kind, given))[0] / max(unit, unit_of_work()))
            assert units <= kind.bound, f"costs {units:.0f} units of work for {size:,} bytes, at most {kind.bound}"
        except Exception:  # noqa: BLE001 - any exception is a failure of the program, and reported with its input.
            problem = traceback.format_exc(limit=-6)
            self.report.fail(Failure(number, kind.name, problem, repr(given)[:1_500]))
            return None
        return outcome

    async def _timed(self, kind: Kind, given: Any) -> tuple[float, str]:
        before = kind.clock()
        outcome = kind.take(given)
        if not isinstance(outcome, str):
            outcome = await outcome
        return kind.clock() - before, outcome


async def _idle() -> None:
    """Waits, at most 30 seconds, until the threads of the start have done their work: it is no cost of an input."""
    for _ in range(150):
        before = time.process_time()
        await asyncio.sleep(0.2)
        if time.process_time() - before < 3 * unit_of_work():
            return


@asynccontextmanager
async def prepared(seed: int, folder: Path) -> AsyncIterator[Run]:
    """A run with its dealers in the folder."""
    configured = folder / "settings"
    configured.mkdir(mode=0o700)
    create_key_file(configured)
    dealer = folder / "dealer"
    make_dealer(dealer, UNITS)
    # The file ends with its rate limits. No rate refuses a request, and no request is logged.
    other_rates = [f'{rate} = ""' for rate in RateLimitSettings.__struct_fields__ if rate not in RATES]
    with (dealer / "dealer.toml").open("a", encoding="utf-8") as settings:
        settings.write("\n".join((*other_rates, "[logs]", "access = false", 'level = "warning"', "")))
    app = application(load_served(dealer, {}, "http://127.0.0.1:8080"))
    incoming: asyncio.Queue[Any] = asyncio.Queue()
    outgoing: asyncio.Queue[Any] = asyncio.Queue()
    state: dict[str, Any] = {}
    lifespan = asyncio.create_task(app({"type": "lifespan", "state": state}, incoming.get, outgoing.put))
    await incoming.put({"type": "lifespan.startup"})
    started = await outgoing.get()
    assert started["type"] == "lifespan.startup.complete", started
    document = json.loads((await over_asgi(app, Sent("GET", "/openapi.json", (), b""))).body)
    judge = AnswerJudge(document, folder)
    kinds = [
        envelope_kind(),
        json_rpc_kind(),
        application_kind(app, state, judge),
        feed_kind(),
        settings_kind(configured),
    ]
    await _idle()
    try:
        yield Run(kinds, seed)
    finally:
        await incoming.put({"type": "lifespan.shutdown"})
        await lifespan


async def run(seed: int, numbers: range, *, show: bool = False, reached: BinaryIO | None = None) -> Report:
    """Runs the inputs with these numbers. After a crash of the process, `reached` holds the number of the last one."""
    with tempfile.TemporaryDirectory() as folder:
        async with prepared(seed, Path(folder)) as made:
            for count, number in enumerate(numbers):
                if reached:
                    reached.seek(0)
                    reached.write(b"%020d" % number)
                outcome = await made.feed(number)
                if show:
                    print(repr(made.input(number)[1]), outcome, sep="\n")
                if count % 100 == 0:
                    # The background work of the service continues.
                    await asyncio.sleep(0)
            return made.report


def main() -> int:
    """The command line. The exit code is 1 if an input had a wrong outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--part", type=int, default=0, help="of --parts processes, the number of this one")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--only", type=int, help="feed and show only the input with this number")
    parser.add_argument("--report", type=Path, help="write the report as JSON into this file, and print nothing")
    chosen = parser.parse_args()
    numbers = range(chosen.part, chosen.inputs, chosen.parts)
    if chosen.only is not None:
        numbers = range(chosen.only, chosen.only + 1)
    if chosen.report:
        with chosen.report.with_suffix(".reached").open("wb", buffering=0) as reached:
            report = asyncio.run(run(chosen.seed, numbers, reached=reached))
        chosen.report.write_bytes(msgspec.json.encode(report))
        return 0
    report = asyncio.run(run(chosen.seed, numbers, show=chosen.only is not None))
    print("\n".join(report.lines()))
    for failure in report.failures:
        print(f"number {failure.number} ({failure.kind}): {failure.shown}\n{failure.problem}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
