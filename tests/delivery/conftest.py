"""A shop on each database."""

from collections.abc import Iterator

import pytest
from tests.delivery.shop import Shop
from tests.storage.samples import DEALER, VAULT

from dealer_agent.storage import Store, migrate


@pytest.fixture
def shop(database_url: str) -> Iterator[Shop]:
    migrate(database_url, VAULT)
    with Store.open(database_url, VAULT) as store:
        store.check_keys(DEALER)
        writer = store.lead_writer()
        yield Shop(store, writer)
        writer.close()
