"""Fixtures: `console` is a running dealership with an https address, and `signed_in` gives browsers of its people."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.console.browsers import ORIGIN, Browser, add_member, sign_in
from tests.server.conftest import stocked as stocked
from tests.server.dealership import NO_LIMITS, Dealership, run_dealership, set_up

from dealer_agent.console import credentials
from dealer_agent.encryption import passwords
from dealer_agent.server import refresh

SERVICE = f'[service]\npublic_url = "{ORIGIN}"\n'
SignedIn = Callable[..., Browser]


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """A password takes a few milliseconds to check. tests/encryption/test_passwords.py proves the usual costs."""
    monkeypatch.setattr(passwords, "MEMORY_KIB", 64)
    monkeypatch.setattr(passwords, "ITERATIONS", 1)
    monkeypatch.setattr(credentials, "NO_PASSWORD", passwords.NO_PASSWORD.replace("m=65536,t=3", "m=64,t=1"))


@pytest.fixture(autouse=True)
def refreshed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service looks for changes ten times a second."""
    monkeypatch.setattr(refresh, "POLL_SECONDS", 0.1)


@pytest.fixture
def console(tmp_path: Path, stocked: Path) -> Iterator[Dealership]:
    """A dealership of a test's own."""
    set_up(tmp_path / "dealer", SERVICE + NO_LIMITS, stocked=stocked)
    with run_dealership(tmp_path / "dealer") as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_console(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[Dealership]:
    """One dealership for the tests of a module that change nothing in it."""
    folder = tmp_path_factory.mktemp("shared") / "dealer"
    set_up(folder, SERVICE + NO_LIMITS, stocked=stocked)
    with run_dealership(folder) as opened:
        yield opened


@contextmanager
def _browsers(console: Dealership) -> Iterator[SignedIn]:
    with console.store() as store:

        def of(role: str = "owner", *, email: str = "", rooftops: tuple[str, ...] = (), proved: bool = True) -> Browser:
            person = add_member(store, role, email=email, rooftops=rooftops)
            return sign_in(console, store, person, proved=proved)

        yield of


@pytest.fixture
def signed_in(console: Dealership) -> Iterator[SignedIn]:
    """The browser of a person with a role, who has just proved who they are."""
    with _browsers(console) as of:
        yield of


@pytest.fixture
def signed_in_there(shared_console: Dealership) -> Iterator[SignedIn]:
    """The same at the shared dealership."""
    with _browsers(shared_console) as of:
        yield of
