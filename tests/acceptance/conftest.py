"""Services that several tests share: started once, because a start takes seconds."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.acceptance.dealers import stocked_dealer
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dealer's folder with the stock of three."""
    return stocked_dealer(tmp_path / "store")
