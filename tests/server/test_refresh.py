"""The background work of a process."""

import asyncio
from dataclasses import fields
from types import SimpleNamespace
from typing import Any
from unittest.mock import sentinel

import pytest

from dealer_agent.server import refresh
from dealer_agent.server.refresh import PURGE_SECONDS, Refresher
from dealer_agent.storage.errors import StorageError

pytestmark = pytest.mark.outside_protocol("background work")

FIELDS = [field.name for field in fields(Refresher) if field.name != "failing"]


def test_a_failed_step_is_retried_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old customer data is deleted soon, also if the database was away at the first attempt."""
    monkeypatch.setattr(refresh, "RETRY_SECONDS", 0.01)
    attempts: list[int] = []
    done = asyncio.Event()

    async def step() -> None:
        attempts.append(len(attempts))
        if len(attempts) == 1:
            raise StorageError("the database is away")
        done.set()

    async def run() -> None:
        unused: Any = sentinel.unused
        refresher = Refresher(
            **{**dict.fromkeys(FIELDS, unused), "dealers": SimpleNamespace(process=SimpleNamespace(ready=True))}
        )
        repeating = asyncio.create_task(refresher._repeat("purge", step, PURGE_SECONDS, first=0))
        await asyncio.wait_for(done.wait(), 60)
        repeating.cancel()

    asyncio.run(run())
    assert len(attempts) == 2
