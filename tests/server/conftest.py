"""Fixtures: `dealership` is one dealer for tests that change nothing. `open_dealership` opens others, with settings."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.server.dealership import LISTENS_AT, NO_LIMITS, Dealership, run_dealership, set_up

OpenDealership = Callable[..., Dealership]


@pytest.fixture(scope="session")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a dealership with its stock, which is never opened. The others copy its database."""
    directory = tmp_path_factory.mktemp("stocked")
    set_up(directory)
    return directory


@pytest.fixture(scope="session")
def dealership(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[Dealership]:
    directory = tmp_path_factory.mktemp("dealership")
    set_up(directory, stocked=stocked)
    with run_dealership(directory) as opened:
        yield opened


@pytest.fixture
def open_dealership(tmp_path: Path, stocked: Path) -> Iterator[OpenDealership]:
    """Opens a dealership. The argument is added to its `dealer.toml`."""
    with ExitStack() as stack:

        def open_one(extra: str = NO_LIMITS, listens_at: str = LISTENS_AT) -> Dealership:
            directory = tmp_path / f"dealer-{len(list(tmp_path.iterdir()))}"
            set_up(directory, extra, stocked=stocked)
            return stack.enter_context(run_dealership(directory, listens_at))

        yield open_one
