"""The dealer agents of these tests. Each runs once for all tests of a process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.checker.agents import HonestAgent, running

from dealer_agent.self_test.dealer import ASKS_FOR_TOKENS, PUBLISHED, make_dealer


@pytest.fixture(scope="session")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HonestAgent]:
    folder: Path = tmp_path_factory.mktemp("checked") / "dealer"
    make_dealer(folder, tables=PUBLISHED)
    with running(folder) as agent:
        yield agent


@pytest.fixture(scope="session")
def asking_for_tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HonestAgent]:
    folder: Path = tmp_path_factory.mktemp("checked-tokens") / "dealer"
    make_dealer(folder, tables=ASKS_FOR_TOKENS)
    with running(folder, tokens=True) as agent:
        yield agent
