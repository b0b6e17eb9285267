"""Conforming dealer agents in this process, and whole runs of the checker on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.server.dealership import LISTENS_AT, Dealership, run_dealership

from dealer_agent.checker.events import Verdict
from dealer_agent.checker.runner import Options
from dealer_agent.self_test.dealer import ConformingDealer, make_token
from dealer_agent.self_test.defect import Breaking


@dataclass(frozen=True)
class HonestAgent:
    """A running dealer of the tests. `token` is a bearer token, if it asks for tokens."""

    dealership: Dealership
    conforming: ConformingDealer

    @property
    def token(self) -> str | None:
        return self.conforming.token


@contextmanager
def running(folder: Path, *, tokens: bool = False) -> Iterator[HonestAgent]:
    """The honest agent of a dealer's folder. With `tokens`, a token is created for the checker."""
    token = make_token(folder) if tokens else None
    with run_dealership(folder) as dealership:
        yield HonestAgent(dealership, ConformingDealer(dealership.app, token))


def check_agent(
    agent: HonestAgent, options: Options, defect: Breaking | None = None, url: str = LISTENS_AT
) -> list[Verdict]:
    """The verdicts of a whole run on the agent, with a defect between."""
    run = partial(agent.conforming.check, options, defect, url)
    verdicts: list[Verdict] = agent.dealership.portal.call(run)
    return verdicts
