"""Which writes the lead writer takes together, and when it tries those of blocked dealers again."""

from collections import Counter
from concurrent.futures import Future
from itertools import pairwise
from typing import Any

import pytest

from dealer_agent.storage.leads import lead_queue
from dealer_agent.storage.leads.lead_queue import GROUP, RETRIES, SHARED_GROUP, LeadQueue
from dealer_agent.storage.leads.lead_write import LeadWrite
from dealer_agent.storage.transaction import OneCipher

pytestmark = pytest.mark.requirement("fair-share")


class Clock:
    """Replaces the clock of the queue. A wait moves it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(lead_queue, "perf_counter", clock)
    return clock


@pytest.fixture
def queue(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> LeadQueue:
    queue = LeadQueue()

    def wait(seconds: float | None = None) -> None:
        assert seconds is not None, "nothing ends this wait"
        clock.now += seconds + 1e-6

    monkeypatch.setattr(queue._changed, "wait", wait)
    return queue


def add(queue: LeadQueue, clock: Clock, dealer_id: str, count: int = 1, seconds: float = 5.0) -> None:
    for _ in range(count):
        future: Future[Any] = Future()
        queue.add(LeadWrite(dealer_id, lambda _: None, None, OneCipher(None), future, None, seconds, clock.now))


def group(queue: LeadQueue) -> Counter[str]:
    return Counter(write.dealer_id for write in queue.next_group())


def test_one_dealer_alone_has_whole_groups(queue: LeadQueue, clock: Clock) -> None:
    add(queue, clock, "flood", 100)
    assert [group(queue), group(queue)] == [{"flood": GROUP}, {"flood": 100 - GROUP}]


def test_a_lead_beside_a_flood_is_in_the_next_group_without_leads_of_the_flood(queue: LeadQueue, clock: Clock) -> None:
    add(queue, clock, "flood", 500)
    assert group(queue) == {"flood": GROUP}
    for dealer_id in ("a", "b"):
        add(queue, clock, dealer_id)
        assert group(queue) == {dealer_id: 1}
        assert group(queue) == {"flood": SHARED_GROUP}
    clock.now += 2
    assert group(queue) == {"flood": GROUP}


def test_a_flood_has_its_turn_while_leads_of_others_arrive_without_end(queue: LeadQueue, clock: Clock) -> None:
    add(queue, clock, "flood", 500)
    groups = []
    for number in range(20):
        add(queue, clock, "steady", SHARED_GROUP)
        add(queue, clock, f"new-{number}")
        groups.append(group(queue))
    assert all("flood" in one | next_one for one, next_one in pairwise(groups))
    assert all("steady" in one | next_one for one, next_one in pairwise(groups))


def test_dealers_with_many_leads_have_equal_shares(queue: LeadQueue, clock: Clock) -> None:
    for dealer_id in "abcdefgh":
        add(queue, clock, dealer_id, 100)
    assert sum((group(queue) for _ in range(6)), Counter()) == dict.fromkeys("abcdefgh", 3 * SHARED_GROUP // 4)


def test_a_group_has_at_most_one_lead_of_each_of_many_dealers(queue: LeadQueue, clock: Clock) -> None:
    for number in range(20):
        add(queue, clock, f"dealer-{number}", 3)
    seen = sum((group(queue) for _ in range(20 // SHARED_GROUP)), Counter())
    assert seen == dict.fromkeys(seen, 1)
    assert len(seen) == 20


def take_and_block(queue: LeadQueue) -> tuple[Counter[str], int]:
    """Takes the next group and blocks its dealers, except "other", which has no lock to wait for.

    Returns how many writes of each dealer the group had, and how many writes were too old to be put back.
    """
    by_dealer: dict[str, list[LeadWrite[Any]]] = {}
    for write in queue.next_group():
        by_dealer.setdefault(write.dealer_id, []).append(write)
    found = Counter({dealer_id: len(writes) for dealer_id, writes in by_dealer.items()})
    by_dealer.pop("other", None)
    old = sum(len(queue.put_back_blocked(dealer_id, writes, waited=False)) for dealer_id, writes in by_dealer.items())
    return found, old


def test_writes_of_a_blocked_dealer_wait_apart_in_longer_and_longer_pauses_until_they_are_too_old(
    queue: LeadQueue, clock: Clock
) -> None:
    begun, pauses, refused = clock.now, [], 0
    add(queue, clock, "blocked", 30)
    while not refused:
        _, refused = take_and_block(queue)
        assert len(queue) == 30 - refused
        add(queue, clock, "other")
        assert group(queue) == {"other": 1}
        tried = clock.now
        if not refused:
            clock.now = queue._retries[0][0]
            pauses.append(round(clock.now - tried, 6))
    assert refused == 30
    assert 5 <= clock.now - begun < 5 + lead_queue.LONGEST_PAUSE_SECONDS
    assert pauses == sorted(pauses)
    assert pauses[-1] <= lead_queue.LONGEST_PAUSE_SECONDS
    assert len(pauses) < 10 + 5 / lead_queue.LONGEST_PAUSE_SECONDS


def test_many_blocked_dealers_are_tried_a_few_at_a_time(queue: LeadQueue, clock: Clock) -> None:
    blocked = [f"blocked-{number}" for number in range(200)]
    for dealer_id in blocked:
        add(queue, clock, dealer_id, seconds=60)
    while not all(map(queue.is_blocked, blocked)):
        take_and_block(queue)
    pauses, steps_of_a_pause = 10, 10
    tried = 0
    for _ in range(pauses * steps_of_a_pause):
        clock.now += lead_queue.RETRIES_PAUSE_SECONDS / steps_of_a_pause
        add(queue, clock, "other")
        found, _ = take_and_block(queue)
        if "other" not in found:
            # "other" was in the last group, so blocked dealers that are tried again come first, and can fill a group.
            found |= take_and_block(queue)[0]
        assert found["other"] == 1
        tried += len(found) - 1
    assert 0 < tried <= (pauses + 1) * RETRIES
