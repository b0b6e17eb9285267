"""`sample_dealer` is a fresh dealer on each database; `sqlite_dealer` is one for all tests that look at answers only.

`new_intake` opens the intake of a profile on each database, for tests that set the clock.

Every test runs on SQLite. On PostgreSQL, a short run has the first case of each test with the mark `both_databases`.
These tests send every statement that the tests of this folder send, and they have the races, the failures and the
costs. `make soak` runs all tests on both databases.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.skills.intake_setup import IntakeSetup, open_intake
from tests.skills.sample_dealers import SampleDealer, open_sample_dealer

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the other tests and the further cases on PostgreSQL with `soak`."""
    seen: set[str] = set()
    for item in items:
        if item.path.parent != HERE or not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        if item.callspec.params.get("database_url") != "postgresql":
            continue
        test = item.nodeid.partition("[")[0]
        if test in seen or not item.get_closest_marker("both_databases"):
            item.add_marker("soak")
        seen.add(test)


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
