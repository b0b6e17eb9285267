"""A sample dealer on each database."""

from collections.abc import Iterator

import pytest
from tests.delivery.shop import SampleDealer
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER

from dealer_agent.storage.store import Store


@pytest.fixture
def sample_dealer(database_url: str) -> Iterator[SampleDealer]:
    make_current(database_url)
    with Store.open(database_url, CIPHER) as store:
        store.check_keys(DEALER)
        writer = store.lead_writer()
        yield SampleDealer(store, writer)
        writer.close()
