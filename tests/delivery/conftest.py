"""A sample dealer."""

from collections.abc import Iterator

import pytest
from tests.delivery.shop import SampleDealer
from tests.soak import SQLITE_FIRST
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER

from dealer_agent.delivery import loop
from dealer_agent.storage.store import Store


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop writes its results together, twenty times a second. A test would only wait for that."""
    monkeypatch.setattr(loop, "TURN_SECONDS", 0.002)


@pytest.fixture(params=SQLITE_FIRST)
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database. Tests of the storage prove the statements on both kinds."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def sample_dealer(database_url: str) -> Iterator[SampleDealer]:
    make_current(database_url)
    with Store.open(database_url, CIPHER) as store:
        store.check_keys(DEALER)
        writer = store.lead_writer()
        yield SampleDealer(store, writer)
        writer.close()
