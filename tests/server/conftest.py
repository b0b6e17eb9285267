"""Fixtures: `dealership` is one dealer for tests that change nothing. `open_dealership` opens others, with settings."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import valkey
from tests.server.dealership import ENVIRONMENT, LISTENS_AT, NO_LIMITS, Dealership, run_dealership, set_up
from tests.servers.valkey import Valkey

from dealer_agent.config.loading import RATE_LIMIT_VARIABLE
from dealer_agent.jobs import loop
from dealer_agent.server import refresh

OpenDealership = Callable[..., Dealership]


@pytest.fixture(params=["by this machine", "in a shared store"])
def limits_kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs a test twice, because requests count in both places by the same rules."""
    if request.param == "by this machine":
        yield
        return
    server: Valkey = request.getfixturevalue("valkey_server")
    monkeypatch.setitem(ENVIRONMENT, RATE_LIMIT_VARIABLE, server.patient_url)
    yield
    with valkey.Valkey.from_url(server.url) as client:
        assert client.dbsize() > 0, "the service has counted in its own table"


EACH_BINDING = pytest.mark.parametrize(
    ("path", "limits_kept"),
    [("/message:send", "by this machine"), ("/rpc", "in a shared store")],
    indirect=["limits_kept"],
)
"""Each binding once, and each place where requests count: neither knows the other."""


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that starts now looks for changes, and for due jobs, twenty times a second."""
    monkeypatch.setattr(refresh, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.05)


@pytest.fixture(scope="session")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a dealership with its stock, which is never opened. The others copy its database."""
    folder = tmp_path_factory.mktemp("stocked")
    set_up(folder)
    return folder


@pytest.fixture(scope="session")
def dealership(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[Dealership]:
    folder = tmp_path_factory.mktemp("dealership")
    set_up(folder, stocked=stocked)
    with run_dealership(folder) as opened:
        yield opened


@pytest.fixture
def open_dealership(tmp_path: Path, stocked: Path) -> Iterator[OpenDealership]:
    """Opens a dealership. The argument is added to its `dealer.toml`."""
    with ExitStack() as stack:

        def open_one(extra: str = NO_LIMITS, listens_at: str = LISTENS_AT) -> Dealership:
            folder = tmp_path / f"dealer-{len(list(tmp_path.iterdir()))}"
            set_up(folder, extra, stocked=stocked)
            return stack.enter_context(run_dealership(folder, listens_at))

        yield open_one
