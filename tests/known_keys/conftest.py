"""An open store on each database, and an agent with a key directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.delivery.certificates import server_certificate
from tests.known_keys.agents import Agent, agent
from tests.storage.current import make_current
from tests.storage.samples import CIPHER

from dealer_agent.storage.store import Store


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    make_current(database_url)
    with Store.open(database_url, CIPHER) as opened:
        yield opened


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    context, trusted = server_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    with agent(context) as running:
        yield running
