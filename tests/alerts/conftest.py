"""A watched dealer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.alerts.watched import Watched, watching
from tests.soak import SQLITE_FIRST
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER

from dealer_agent.storage.store import Store


@pytest.fixture(params=SQLITE_FIRST)
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database. Tests of the storage prove the statements on both kinds."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def dealer(database_url: str, tmp_path: Path) -> Iterator[Watched]:
    make_current(database_url)
    with Store.open(database_url, CIPHER) as store:
        store.check_keys(DEALER)
        with watching(database_url, store, tmp_path) as watched:
            yield watched
