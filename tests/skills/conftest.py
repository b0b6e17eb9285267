"""`shop` is a fresh dealer on each database; `sqlite_shop` is one for all tests that look at answers only."""

from collections.abc import Iterator

import pytest
from tests.skills.shop import Shop, open_shop


@pytest.fixture
def shop(database_url: str) -> Iterator[Shop]:
    with open_shop(database_url) as opened:
        yield opened


@pytest.fixture(scope="session")
def sqlite_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(f"sqlite:///{tmp_path_factory.mktemp('shop')}/dealer.db") as opened:
        yield opened
