"""A dealer's data changes during a run. That is no failure, and no defect hides behind it."""

from collections import Counter
from pathlib import Path

import httpx
import pytest
from tests.checker.changing_dealer import URL, ChangingDealer, changing_dealer
from tests.soak import soak_count, soak_seed

from dealer_agent.checker.events import Verdict
from dealer_agent.checker.runner import Options, run_checks

pytestmark = pytest.mark.outside_protocol("checker")

RATE = 100.0
"""Requests a second, so that the data changes about 20 times in a run."""


def check(dealer: ChangingDealer, options: Options) -> list[Verdict]:
    async def run() -> list[Verdict]:
        async with httpx.AsyncClient(transport=dealer.transport("198.51.100.7")) as client:
            return await run_checks(URL, options, client, lambda _: None)

    verdicts: list[Verdict] = dealer.dealership.portal.call(run)
    return verdicts


def show(verdicts: list[Verdict], dealer: ChangingDealer) -> None:
    outcomes = Counter(each.outcome for each in verdicts)
    undone = Counter(
        f"{each.requirement.id}: {each.sentence}" for each in verdicts if each.outcome == "could not check"
    )
    print(dict(outcomes), f"{dealer.imports} imports, {dealer.leads} leads")
    for sentence, count in undone.items():
        print(f"  could not check ({count}): {sentence}")


@pytest.mark.soak
def test_a_dealer_whose_stock_moves_every_second_fails_nothing(tmp_path: Path) -> None:
    with changing_dealer(tmp_path / "dealer", seed=soak_seed(), pause=1.0) as dealer, dealer.changing(buyers=50):
        for number in range(soak_count("RUNS", 20)):
            if number == 2:
                dealer.change_hours()
            verdicts = check(dealer, Options(rate=RATE, leads=True))
            show(verdicts, dealer)
            failed = [each for each in verdicts if each.outcome == "fail"]
            assert not failed, [(str(each.place), each.requirement.id, each.sentence) for each in failed]
