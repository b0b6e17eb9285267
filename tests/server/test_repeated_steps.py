"""The background work of a process."""

import asyncio

import pytest

from dealer_agent.jobs.loop import MAINTENANCE_SECONDS
from dealer_agent.server import repeated_steps
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.storage.errors import StorageError

pytestmark = pytest.mark.outside_protocol("background work")


def test_a_failed_step_is_retried_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old customer data is deleted soon, also if the database was away at the first attempt."""
    monkeypatch.setattr(repeated_steps, "RETRY_SECONDS", 0.01)
    attempts: list[int] = []
    done = asyncio.Event()

    async def step() -> None:
        attempts.append(len(attempts))
        if len(attempts) == 1:
            raise StorageError("the database is away")
        done.set()

    async def run() -> None:
        repeating = asyncio.create_task(RepeatedSteps().repeat("purge", step, MAINTENANCE_SECONDS, first=0))
        await asyncio.wait_for(done.wait(), 60)
        repeating.cancel()

    asyncio.run(run())
    assert len(attempts) == 2
