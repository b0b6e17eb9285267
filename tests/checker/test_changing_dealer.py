"""A dealer's data changes during a run. That is no failure, and no defect hides behind it."""

from collections import Counter
from pathlib import Path

import httpx
import pytest
from tests.checker.changing_dealer import URL, ChangingDealer, changing_dealer
from tests.soak import SOAK, soak_count, soak_seed

from dealer_agent.checker.events import Verdict
from dealer_agent.checker.runner import Options, run_checks

pytestmark = pytest.mark.outside_protocol("checker")


def check(dealer: ChangingDealer, options: Options) -> list[Verdict]:
    async def run() -> list[Verdict]:
        async with httpx.AsyncClient(transport=dealer.transport("198.51.100.7")) as client:
            return await run_checks(URL, options, client, lambda _: None)

    verdicts: list[Verdict] = dealer.dealership.portal.call(run)
    return verdicts


def expect_no_failure(verdicts: list[Verdict], dealer: ChangingDealer) -> None:
    """Prints how many checks could not be done, and why."""
    outcomes = Counter(each.outcome for each in verdicts)
    print(f"\n{dict(outcomes)} of {len(verdicts)}; {dealer.imports} imports and {dealer.leads} leads so far")
    for each in verdicts:
        if each.outcome == "could not check":
            print(f"  {each.requirement.id}: {each.sentence}")
    assert not [(str(each.variant), each.requirement.id, each.sentence) for each in verdicts if each.outcome == "fail"]


def test_a_dealer_whose_stock_moves_fails_nothing(tmp_path: Path) -> None:
    with changing_dealer(tmp_path / "dealer", seed=1, pause=0.2) as dealer, dealer.changing(buyers=5):
        expect_no_failure(
            check(dealer, Options(rate=200, leads=True, revisions={"1.0.0"}, bindings={"JSONRPC"})), dealer
        )


@pytest.mark.soak
def test_a_dealer_whose_stock_and_hours_move_fails_nothing_in_many_runs(tmp_path: Path) -> None:
    with changing_dealer(tmp_path / "dealer", seed=soak_seed(), pause=1.0) as dealer, dealer.changing(buyers=50):
        for number in range(soak_count("SOAK_RUNS", 20 if SOAK else 2)):
            if number == 1:
                dealer.change_hours()
            # So fast that the data changes about 20 times in a run.
            expect_no_failure(check(dealer, Options(rate=100, leads=True)), dealer)
