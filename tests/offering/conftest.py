"""Fixtures: dealerships that make offers, and agents that they know."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.server.conftest import looks_often as looks_often
from tests.server.conftest import stocked as stocked
from tests.server.dealership import NO_LIMITS, Dealership, message, run_dealership, set_up

OFFERS = """
[offers]
enabled = true
"""


class Agent:
    """An agent with a token of the dealer."""

    def __init__(self, dealership: Dealership, token: str | None) -> None:
        self.dealership = dealership
        self.token = token

    def ask(self, skill: str, **members: Any) -> httpx.Response:
        """The response of a skill."""
        return self.dealership.post(message(skill, **members), token=self.token)

    def quote(self, **vehicle: str) -> dict[str, Any]:
        """The data of a quote."""
        return data_of(self.ask("offer.quote", **vehicle))

    def hold(self, quote_id: str, key: str, **members: Any) -> httpx.Response:
        """The response to a request for a hold."""
        return self.ask("offer.hold", quote_id=quote_id, idempotency_key=key, **members)


def data_of(answer: httpx.Response) -> dict[str, Any]:
    """The data of a successful response."""
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()["message"]["parts"][0]["data"]["data"]
    return data


class Offering:
    """A dealership that makes offers, with agents that it knows, and one that it does not."""

    def __init__(self, dealership: Dealership, tokens: list[str]) -> None:
        self.dealership = dealership
        self.agents = [Agent(dealership, token) for token in tokens]
        self.stranger = Agent(dealership, None)


Offered = Callable[..., Offering]


@pytest.fixture
def offering(tmp_path: Path, stocked: Path) -> Iterator[Offered]:
    """Opens a dealership. The argument is added to its `dealer.toml`."""
    with ExitStack() as stack:

        def opened(extra: str = OFFERS, agents: int = 2) -> Offering:
            folder = tmp_path / f"dealer-{len(list(tmp_path.iterdir()))}"
            set_up(folder, NO_LIMITS + extra, stocked=stocked)
            # Tokens that are there before the start are known at once.
            closed = Dealership(folder, None, None)  # type: ignore[arg-type]
            tokens = [closed.new_token()[1] for _ in range(agents)]
            return Offering(stack.enter_context(run_dealership(folder)), tokens)

        yield opened
