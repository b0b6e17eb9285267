"""A shop on each database."""

from collections.abc import Iterator

import pytest
from tests.delivery.shop import Shop
from tests.storage.current import make_current
from tests.storage.samples import DEALER, VAULT

from dealer_agent.storage.store import Store


@pytest.fixture
def shop(database_url: str) -> Iterator[Shop]:
    make_current(database_url)
    with Store.open(database_url, VAULT) as store:
        store.check_keys(DEALER)
        writer = store.lead_writer()
        yield Shop(store, writer)
        writer.close()
