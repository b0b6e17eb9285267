"""`shop` is a fresh dealer on each database; `sqlite_shop` is one for all tests that look at answers only.

`counter` opens the desk of a profile on each database, for tests that set the clock.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.skills.counter import Counter, open_counter
from tests.skills.shop import Shop, open_shop


@pytest.fixture
def shop(database_url: str) -> Iterator[Shop]:
    with open_shop(database_url) as opened:
        yield opened


@pytest.fixture(scope="session")
def sqlite_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(f"sqlite:///{tmp_path_factory.mktemp('shop')}/dealer.db") as opened:
        yield opened


@pytest.fixture
def counter(database_url: str) -> Iterator[Callable[..., Counter]]:
    with ExitStack() as opened:
        yield lambda profile, **more: opened.enter_context(open_counter(database_url, profile, **more))
