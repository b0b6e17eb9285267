"""Tests of this folder may be coroutines."""

import pytest

from dealer_agent.encryption.passwords import NO_PASSWORD
from dealer_agent.feeds.collection import sftp_server


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def quick_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login does not take the time, or the work, that hides which users there are."""
    monkeypatch.setattr(sftp_server, "LOOKUP_SECONDS", 0.0)
    monkeypatch.setattr(sftp_server, "REFUSAL_SECONDS", 0.05)
    monkeypatch.setattr(sftp_server, "SWEEP_SECONDS", 0.1)
    monkeypatch.setattr(sftp_server, "NO_PASSWORD", NO_PASSWORD.replace("m=65536,t=3,p=4", "m=64,t=1,p=1"))
