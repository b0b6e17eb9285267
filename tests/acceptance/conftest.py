"""Services that several tests share: started once, because a start takes seconds."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.acceptance.asking import asked
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.key_files import LEADS, wanted
from tests.acceptance.known_agent import Known, known_agent
from tests.acceptance.running import Running, serving, succeed_here


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with the stock of three, open to everybody."""
    with serving(stocked_dealer(tmp_path_factory.mktemp("open"))) as running:
        yield running


class Guarded(NamedTuple):
    """A service whose every skill asks for a token, and one that it takes."""

    url: str
    token: str


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = stocked_dealer(tmp_path_factory.mktemp("guarded"), '\n[auth]\nmode = "bearer"\n')
    token = succeed_here("tokens", "create", "Acceptance Agent", "--dir", folder).strip()
    with serving(folder) as running:
        yield Guarded(running.url, token)


OFFERS = """
[offers]
enabled = true

[[pricing.lines]]
label = "State tax"
kind = "tax"
payee = "government"
rate = "0.0725"
base = "price"
"""


@pytest.fixture(scope="session")
def offering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A service that makes offers, and a token of it."""
    folder = stocked_dealer(tmp_path_factory.mktemp("offering"), OFFERS)
    token = succeed_here("tokens", "create", "Acceptance Agent", "--dir", folder).strip()
    with serving(folder) as running:
        yield Guarded(running.url, token)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dealer's folder with the stock of three."""
    return stocked_dealer(tmp_path / "store")


@pytest.fixture(scope="session")
def with_leads(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Makes copies of a dealer's folder with some leads in its database."""
    original = stocked_dealer(tmp_path_factory.mktemp("keys") / "store")
    with serving(original) as running:
        for number in range(LEADS):
            asked(running.url, "lead.submit", **wanted(number))
    with closing(sqlite3.connect(original / "dealer-agent.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def copied(folder: Path) -> Path:
        folder.mkdir(mode=0o700)
        for name in ("dealer.toml", "dealer-agent.keys", "dealer-agent.db"):
            (folder / name).write_bytes((original / name).read_bytes())
            (folder / name).chmod(0o600)
        return folder

    return copied


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    """A service that knows an agent."""
    with known_agent(tmp_path_factory.mktemp("signing")) as made:
        yield made
