"""Checks wait long in tests: a busy machine is no problem of the service."""

import pytest

from dealer_agent.operations import backup_file, doctor, outside_checks


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of this process may take minutes."""
    monkeypatch.setattr(doctor, "CHECK_SECONDS", 600.0)
    monkeypatch.setattr(outside_checks, "ADDRESS_SECONDS", 120.0)
    monkeypatch.setattr(outside_checks, "CONNECT_SECONDS", 120.0)
    monkeypatch.setattr(outside_checks, "SEND_SECONDS", 120.0)


@pytest.fixture
def cheap_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of a passphrase costs nothing, in tests of other things."""
    monkeypatch.setattr(backup_file, "_SCRYPT_COST", 2)
