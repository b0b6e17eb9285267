"""No generated input breaks a decoder, the application, a feed reader or the settings, or costs too much.

1,000 inputs in every run, 1,000,000 in `make soak` (`SOAK_INPUTS`), then in two processes. A failure names the seed and
the number of the input; `python -m tests.fuzz.inputs --seed SEED --only NUMBER` feeds and shows it again.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from tests.fuzz.inputs import REQUEST_KINDS, Report, run
from tests.soak import SOAK, soak_count, soak_seed

INPUTS = soak_count("SOAK_INPUTS", 1_000)
SEED = soak_seed()
"""Every long run has new inputs. A short run always has the same."""

PROCESSES = 2
"""Of the long form. The start of a process takes ten times as long as 500 inputs."""
ROOT = Path(__file__).resolve().parents[2]


AGAIN = f"again: .venv/bin/python -m tests.fuzz.inputs --seed {SEED} --only"


def in_processes(folder: Path) -> Report:
    """What some processes report, which share the inputs."""
    reports = [folder / f"{part}.json" for part in range(PROCESSES)]
    parts = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.fuzz.inputs", "--seed", str(SEED), "--inputs", str(INPUTS)),
                *("--part", str(part), "--parts", str(PROCESSES), "--report", path),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for part, path in enumerate(reports)
    ]
    for part, path in zip(parts, reports, strict=True):
        said = part.communicate()[0]
        reached = path.with_suffix(".reached")
        number = int(reached.read_bytes() or 0) if reached.exists() else 0
        assert part.returncode == 0, f"a process ended with {part.returncode}; {AGAIN} {number}\n{said}"
    found = Report()
    for path in reports:
        found.add(msgspec.json.decode(path.read_bytes(), type=Report))
    return found


@pytest.fixture
def same_logs() -> Iterator[None]:
    """The application of the inputs logs warnings only. Other tests of this process read more."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.mark.usefixtures("same_logs")
@pytest.mark.requirement("anything-else-wrong")
@pytest.mark.requirement("nothing-internal-leaves")
def test_no_generated_input_fails_or_costs_more_than_the_bound(tmp_path: Path, record_property: Any) -> None:
    """Every input is accepted, or refused with an error of the protocol. A request costs at most 20 units of work."""
    started = time.monotonic()
    found = in_processes(tmp_path) if SOAK else asyncio.run(run(SEED, range(INPUTS)))
    record_property("figure", f"{INPUTS:,} generated inputs of seed {SEED} in {time.monotonic() - started:.0f} s")
    for line in found.lines():
        record_property("figure", f"  {line}")
    failures = [f"{AGAIN} {each.number}  ({each.kind}) {each.shown}\n{each.problem}" for each in found.failures]
    assert found.failed == 0, f"{found.failed} inputs failed:\n" + "\n".join(failures)
    assert sum(sum(outcomes.values()) for outcomes in found.outcomes.values()) == INPUTS
    # Enough inputs pass the first checks.
    assert min(found.accepted(kind) for kind in REQUEST_KINDS) >= 0.2
