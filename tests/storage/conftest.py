"""An open store on each database."""

from collections.abc import Iterator

import pytest
from tests.storage.current import make_current
from tests.storage.samples import CIPHER

from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.store import Store


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    make_current(database_url)
    with Store.open(database_url, CIPHER) as opened:
        yield opened


@pytest.fixture
def writer(store: Store) -> Iterator[LeadWriter]:
    lead_writer = store.lead_writer()
    yield lead_writer
    lead_writer.close()
