"""Confirms failures: a dealer's data changes while it is checked, and a change of data is not a defect.

A check that fails is done again with nothing remembered, of another test customer. It has failed if it fails again and
the data held still meanwhile: the listings and the dealer's information are read after it, and are what they were
before it. If they changed, it is done again, a few times. So an agent that moves its stock from second to second is not
blamed for that, and a defect is still found, because it also shows between two changes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, Literal

from dealer_agent.checker.check import Check
from dealer_agent.checker.events import Outcome
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.outcome import Failed, NotChecked, Skipped, Unprepared
from dealer_agent.checker.requirement import Requirement
from dealer_agent.checker.searches import key_of
from dealer_agent.checker.target import Listing, Target, TargetStock

MOST_REPETITIONS = 5
"""How often a check that fails is done again."""

Movement = Literal["still", "silent", "moved"]
"""Whether data changed. `silent`: it changed, and no listing that did says so in its times.

A defect can look like that, for example prices that are different in each response. An honest agent can, too, if its
times are days.
"""

_TIMES = ("updated_at", "changed_at")


@dataclass(frozen=True)
class Finding:
    """What a check found. `sentence` is the failure or the reason. `exchange` shows a failure.

    `unprepared`: it was skipped because its preparation failed.
    """

    outcome: Outcome
    sentence: str = ""
    exchange: Exchange | None = None
    unprepared: bool = False


@dataclass(frozen=True)
class Reading:
    """The data of a dealer at one time: its stock, and its `dealer.information` (None if it cannot be read)."""

    stock: TargetStock
    information: Any


async def confirm(first: Finding, target: Target, requirement: Requirement, check: Check) -> Finding:
    """The finding that counts instead of the first one, which is a failure, or was not prepared."""
    try:
        if first.outcome != "fail":
            before = await _read(target)
            if movement(before, await _read(target, fresh=True)) == "still":
                return first
            target.wire.has_changed = True
            first = await _done_again(target, requirement, check)
        return await _repeat(first, target, requirement, check) if first.outcome == "fail" else first
    except NotChecked as reason:
        return Finding("could not check", f"{reason} Without that, it fails: {first.sentence}")


async def find(target: Target, requirement: Requirement, check: Check) -> Finding:
    """What a check finds when it is done once."""
    seen = len(target.exchanges)
    try:
        _require(target, requirement)
        await check.run(target)
    except Failed as failure:
        # A check that sent nothing, and needs no skill, looked at the card.
        looked_at = None if requirement.skills else target.card.exchange
        exchange = failure.exchange or (target.latest if len(target.exchanges) > seen else looked_at)
        return Finding("fail", failure.sentence, exchange)
    except Skipped as reason:
        return Finding("skipped", str(reason), unprepared=isinstance(reason, Unprepared))
    except NotChecked as reason:
        return Finding("could not check", str(reason))
    except Exception as defect:  # noqa: BLE001 - a defect of the check is never the target's fault.
        sentence = f"The check itself failed: {type(defect).__name__}: {defect}"
        return Finding("could not check", sentence, target.latest)
    return Finding("pass")


def movement(before: Reading, after: Reading) -> Movement:
    """How the data changed between two readings. Of a stock that is not read to its end, the order may change."""
    # None: the stock could not be read. Two such readings show no change.
    if before.stock.listings is None or after.stock.listings is None:
        return "still" if before.stock.listings is after.stock.listings else "moved"
    old, new = _by_key(before.stock), _by_key(after.stock)
    complete = before.stock.is_complete and after.stock.is_complete
    if before.stock.total != after.stock.total or (complete and old.keys() != new.keys()):
        return "moved"
    changed = [
        (old[key], listing) for key, listing in new.items() if key in old and _content(listing) != _content(old[key])
    ]
    if any(one.get(name) != other.get(name) for one, other in changed for name in _TIMES):
        return "moved"
    return "silent" if changed or before.information != after.information else "still"


async def _repeat(first: Finding, target: Target, requirement: Requirement, check: Check) -> Finding:
    """The finding of a check that failed, done again until it is certain, a few times at most."""
    # A requirement without skills is about the form of requests and responses, and needs no data.
    sees_data = bool(requirement.skills)
    readings = [await _read(target, fresh=target.wire.has_changed)] if sees_data else []
    failure, movements = first, []
    for _ in range(MOST_REPETITIONS):
        again = await _done_again(target, requirement, check)
        if again.outcome not in ("fail", "pass"):
            return Finding("could not check", f"{again.sentence} Before that, it failed: {first.sentence}")
        moved: Movement = "still"
        if sees_data and (again.outcome == "fail" or not target.wire.has_changed):
            readings.append(await _read(target, fresh=True))
            moved = movement(*readings[-2:])
            target.wire.has_changed |= moved != "still"
        if again.outcome == "pass" and target.wire.has_changed:
            return again
        if again.outcome == "fail":
            if moved == "still":
                return again
            failure = again
            movements.append(moved)
    if not movements:
        reason = f"It failed once, and passed {MOST_REPETITIONS} times after that"
    elif (
        set(movements) == {"silent"}
        or _came_back(readings)
        or (requirement.subject == "search" and _are_shuffled(readings))
    ):
        return failure
    else:
        reason = f"The dealer's data changed each of {MOST_REPETITIONS} times"
    return Finding("could not check", f"{reason}: {failure.sentence}")


def _came_back(readings: list[Reading]) -> bool:
    """Whether data changed and was the same again twice, times included: the agent has two answers to one question.

    One change is not a proof: a unit that is sold and comes back has its old times again.
    """
    alike = Counter(
        number
        for pair in combinations(enumerate(readings), 2)
        if movement(pair[0][1], pair[1][1]) == "still"
        for number, _ in pair
    )
    return any(count > 1 for count in alike.values())


def _are_shuffled(readings: list[Reading]) -> bool:
    """Whether listings that did not change have another order in each reading: the order of pages is by chance."""
    return len(readings) > MOST_REPETITIONS and all(
        _order_differs(_by_key(one.stock), _by_key(other.stock)) for one, other in pairwise(readings)
    )


def _order_differs(old: Mapping[str, Listing], new: Mapping[str, Listing]) -> bool:
    """Whether two listings, which are equal in both readings, have another order."""
    positions = {key: number for number, key in enumerate(old)}
    order = [positions[key] for key, listing in new.items() if old.get(key) == listing]
    return order != sorted(order)


async def _read(target: Target, *, fresh: bool = False) -> Reading:
    """The data of the dealer, as it was read last, or now if `fresh`."""
    information = None
    with _unrecorded(target):
        if fresh or (target.stock.listings is None and target.stock.problem is None):
            await target.read_stock(fresh=True)
        with suppress(Failed, Skipped):
            information = await target.ask("dealer.information")
    return Reading(replace(target.stock), information)


async def _done_again(target: Target, requirement: Requirement, check: Check) -> Finding:
    """What the check finds with nothing remembered but the listings."""
    with _unrecorded(target):
        return await find(target, requirement, check)


@contextmanager
def _unrecorded(target: Target) -> Iterator[None]:
    """In this block, each request is sent anew, and no later check sees its exchange."""
    seen = len(target.exchanges)
    try:
        with target.wire.anew():
            yield
    finally:
        del target.exchanges[seen:]


def _require(target: Target, requirement: Requirement) -> None:
    """Raises Skipped if the target or the run does not have what the requirement needs."""
    missing = [skill for skill in requirement.skills if skill not in target.card.skills]
    if missing:
        raise Skipped(f"The card does not offer {missing[0]}.")
    if requirement.leads and not target.leads:
        raise Skipped("The check submits leads. Allow it with --leads.")


def _by_key(stock: TargetStock) -> dict[str, Listing]:
    return {key_of(each): each for each in stock.listings or []}


def _content(listing: Listing) -> Mapping[str, Any]:
    """What a listing says, without its times."""
    return {name: value for name, value in listing.items() if name not in _TIMES}
