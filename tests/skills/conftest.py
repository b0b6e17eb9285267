"""`sample_dealer` is a fresh dealer on each database; `sqlite_dealer` is one for all tests that look at answers only.

`new_intake` opens the intake of a profile on each database, for tests that set the clock.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.skills.intake_setup import IntakeSetup, open_intake
from tests.skills.sample_dealers import SampleDealer, open_sample_dealer


@pytest.fixture
def sample_dealer(database_url: str) -> Iterator[SampleDealer]:
    with open_sample_dealer(database_url) as opened:
        yield opened


@pytest.fixture(scope="session")
def sqlite_dealer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleDealer]:
    with open_sample_dealer(f"sqlite:///{tmp_path_factory.mktemp('sample_dealer')}/dealer.db") as opened:
        yield opened


@pytest.fixture
def new_intake(database_url: str) -> Iterator[Callable[..., IntakeSetup]]:
    with ExitStack() as opened:
        yield lambda profile, **more: opened.enter_context(open_intake(database_url, profile, **more))
