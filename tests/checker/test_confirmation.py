"""A failure counts if it shows again on data that held still. Data that changes is no failure, and hides none."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain, cycle, repeat
from random import Random
from typing import Any, TypeVar

import httpx
import pytest
from tests.checker.test_running import CARD, URL, Dealer, Respond, dealer, run

from dealer_agent.checker.card import FetchedCard, Interface
from dealer_agent.checker.check import Check
from dealer_agent.checker.confirmation import MOST_REPETITIONS
from dealer_agent.checker.events import Verdict
from dealer_agent.checker.outcome import Failed, Skipped, Unprepared
from dealer_agent.checker.target import Listing, Target, TargetStock
from dealer_agent.checker.wire import TargetConnection

pytestmark = pytest.mark.outside_protocol("checker")

SKILLS = CARD | {"skills": [{"id": "inventory.search"}, {"id": "dealer.information"}]}
OF_DATA, OF_PAGES, OF_FORM = "listing.vin", "search.pages-differ", "envelope.reply.role"

T = TypeVar("T")
Ends = Iterable[Exception | None]
Stocks = Iterable[list[Listing]]


def stock(*prices: int, at: str = "2026-11-24T10:00:00Z") -> list[Listing]:
    return [{"vin": f"VIN-{number}", "price": price, "updated_at": at} for number, price in enumerate(prices)]


STILL = stock(100, 200)


def having(stocks: Stocks) -> Respond:
    """A dealer that answers each search with the next stock, in pages of two."""
    coming = iter(stocks)

    def respond(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=SKILLS) if "agent-card" in request.url.path else httpx.Response(404)
        payload = json.loads(request.content)["params"]["message"]["parts"][0]["data"]
        data: dict[str, Any] = {"rooftops": [{"name": "North"}]}
        if payload["type"] == "inventory.search.request":
            vehicles, skip = next(coming), payload["pagination"]["skip"]
            data = {"total": len(vehicles), "vehicles": vehicles[skip : skip + 2]}
        message = {"role": "ROLE_AGENT", "parts": [{"data": {"data": data}}]}
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": {"message": message}})

    return respond


def judged(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, stocks: Stocks | None = None, requirement_id: str = OF_DATA
) -> tuple[Verdict, int]:
    """The verdict of a check that ends so each time it is done, and how many times it was done."""
    script, times = iter(ends), 0

    async def end(target: Target) -> None:
        nonlocal times
        times += 1
        if requirement_id in (OF_DATA, OF_PAGES):
            await target.listings()
        if (problem := next(script)) is not None:
            raise problem

    checks = {requirement_id: Check(requirement_id, end, last=False)}
    monkeypatch.setattr("dealer_agent.checker.runner.checks", lambda: checks)

    [verdict], _ = run(having(repeat(STILL) if stocks is None else stocks), requirement_id)
    return verdict, times


def failing(*sentences: str) -> Ends:
    return [Failed(each) for each in sentences]


def always() -> Ends:
    return (Failed("Wrong.") for _ in repeat(None))


@pytest.mark.parametrize("requirement_id", [OF_DATA, OF_FORM])
def test_a_defect_that_shows_again_fails_and_is_checked_twice(
    requirement_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict, times = judged(failing("First.", "Second."), monkeypatch, requirement_id=requirement_id)
    assert (verdict.outcome, verdict.sentence, times) == ("fail", "Second.", 2)


def test_a_vehicle_that_is_sold_during_the_run_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    stocks = chain([STILL], repeat(stock(100)))
    verdict, times = judged([*failing("First.", "With the old listings."), None], monkeypatch, stocks)
    assert (verdict.outcome, times) == ("pass", 3)


def test_a_defect_counts_as_soon_as_the_stock_holds_still(monkeypatch: pytest.MonkeyPatch) -> None:
    # The stock changes before each of the first repetitions, and then stays as it is.
    stocks = chain([stock(1), stock(1, 2), stock(1, 2, 3)], repeat(stock(1)))
    verdict, times = judged(always(), monkeypatch, stocks)
    assert verdict.outcome == "fail"
    assert 2 < times <= MOST_REPETITIONS + 1


def test_a_stock_that_never_holds_still_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    stocks = (stock(number, at=f"2026-11-24T10:{number:02}:00Z") for number in range(60))
    verdict, times = judged(always(), monkeypatch, stocks)
    assert verdict.outcome == "could not check"
    assert verdict.sentence == f"The dealer's data changed each of {MOST_REPETITIONS} times: Wrong."
    assert times == MOST_REPETITIONS + 1


@pytest.mark.parametrize(
    "stocks",
    [
        pytest.param((stock(number) for number in range(100, 200)), id="prices change in each response"),
        pytest.param(cycle([stock(100), stock(100, 200)]), id="a vehicle is in every other response"),
    ],
)
def test_data_that_changes_and_does_not_say_so_hides_no_defect(stocks: Stocks, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(always(), monkeypatch, stocks)[0].outcome == "fail"


@pytest.mark.parametrize(("requirement_id", "outcome"), [(OF_PAGES, "fail"), (OF_DATA, "could not check")])
def test_an_order_by_chance_fails_in_checks_of_pages_only(
    requirement_id: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_chance = Random(7)
    stocks = (by_chance.sample(stock(*range(12)), 12) for _ in repeat(None))
    assert judged(always(), monkeypatch, stocks, requirement_id)[0].outcome == outcome


def test_a_time_alone_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    stocks = (stock(100, at=f"2026-11-24T10:{number:02}:00Z") for number in range(60))
    assert judged(failing("First.", "Second."), monkeypatch, stocks)[0].outcome == "fail"


def test_a_defect_that_shows_sometimes_fails_if_it_shows_again(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, times = judged([Failed("First."), None, None, Failed("Again.")], monkeypatch)
    assert (verdict.outcome, verdict.sentence, times) == ("fail", "Again.", 4)


def test_a_failure_that_never_shows_again_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, _ = judged(chain([Failed("Once.")], repeat(None)), monkeypatch)
    assert verdict.outcome == "could not check"
    assert verdict.sentence == f"It failed once, and passed {MOST_REPETITIONS} times after that: Once."


def test_a_datum_that_is_gone_cannot_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, _ = judged([Failed("Wrong."), Skipped("No listing is pending.")], monkeypatch)
    assert verdict.outcome == "could not check"
    assert verdict.sentence == "No listing is pending. Before that, it failed: Wrong."


def test_a_check_whose_preparation_failed_is_done_again_if_the_data_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: Ends = [Unprepared("The vehicle is unknown."), None]
    assert judged(ends, monkeypatch)[0].outcome == "skipped"
    assert judged(ends, monkeypatch, chain([STILL], repeat(stock(100))))[0].outcome == "pass"


def on_wire(respond: Respond, go: Callable[[TargetConnection], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with httpx.AsyncClient(transport=Dealer(respond)) as client:
            return await go(TargetConnection(client, rate=1e6, deadline=time.monotonic() + 60))

    return asyncio.run(connected())


def test_pages_between_which_the_stock_changed_are_read_again() -> None:
    async def read(wire: TargetConnection) -> list[Listing]:
        card = FetchedCard(f"{URL}/card", SKILLS, await wire.request("GET", f"{URL}/card"))
        return await Target(card, Interface("JSONRPC", f"{URL}/rpc"), "proto", wire, TargetStock()).listings()

    # Between two pages, the first vehicle is sold: the third one is on neither page.
    first, then = stock(1, 2, 3, 4, 5), stock(1, 2, 3, 4, 5)[1:]
    assert on_wire(having(chain([first, then, then], repeat(then))), read) == then


def test_a_repetition_asks_anew_and_its_responses_do_not_count_for_the_run() -> None:
    asked: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, content=str(len(asked)).encode())

    async def ask(wire: TargetConnection) -> list[bytes]:
        run_ids, bodies = [wire.run_id], []
        bodies.append((await wire.request("GET", URL)).body)
        with wire.anew():
            run_ids.append(wire.run_id)
            bodies += [(await wire.request("GET", URL)).body for _ in range(2)]
        bodies.append((await wire.request("GET", URL)).body)
        assert run_ids[0] == wire.run_id != run_ids[1]
        return bodies

    assert on_wire(respond, ask) == [b"1", b"2", b"2", b"2"]
    assert len(asked) == 2


LIMITED = {"code": -32000, "message": "Too many.", "data": [{"reason": "RATE_LIMITED"}, {"retryable": True}]}


@pytest.mark.parametrize("status", [429, 200])
def test_a_refusal_for_the_rate_is_waited_for_and_judged(status: int) -> None:
    times = 0

    def busy_once(_: httpx.Request) -> httpx.Response:
        nonlocal times
        times += 1
        message = {"role": "ROLE_AGENT", "parts": [{"data": {"data": {}}}]}
        limited = {"jsonrpc": "2.0", "id": 1, "error": LIMITED}
        if times == 1:
            return httpx.Response(status, json=limited)
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": {"message": message}})

    only = ["envelope.reply.role", "limits.retry-after", "limits.rate-limited-code", "limits.rate-limited-retryable"]
    verdicts, _ = run(dealer(busy_once), only=only)
    assert {each.requirement.id: each.outcome for each in verdicts} == {
        "envelope.reply.role": "pass",
        "limits.retry-after": "fail",
        "limits.rate-limited-code": "pass",
        "limits.rate-limited-retryable": "pass",
    }
