"""Machines stand anywhere: `machine_zone` runs a test on one in UTC and on one in Tokyo."""

import time
from collections.abc import Iterator

import pytest


@pytest.fixture(params=["UTC", "Asia/Tokyo"])
def machine_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
