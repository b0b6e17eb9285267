"""A real service with two workers, for the official clients."""

from collections.abc import Iterator

import pytest
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import Running, serving


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = stocked_dealer(tmp_path_factory.mktemp("mcp"), '\n[leads]\nconsent_text = "Call me, {dealer}."\n')
    with serving(folder, workers=2) as running:
        yield running
