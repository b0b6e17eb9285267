"""How many deliveries may begin: slots are shared, and channels pause (docs/reference/delivery.md)."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.delivery.loop import CHANNEL_CONCURRENCY, CONCURRENCY, PROCESS_CONCURRENCY
from dealer_agent.delivery.slots import Breaker, share_slots
from dealer_agent.storage.deliveries.outbox import Receiver

TOTAL, OF_DEALER = 24, 10
DEALERS = [f"dealer-{number}" for number in range(12)]
RECEIVERS: list[Receiver] = [("North", "crm"), ("North", "hook"), ("South", "crm")]

receivers = st.dictionaries(st.sampled_from(RECEIVERS), st.integers(0, 2 * OF_DEALER), min_size=1)
capacities = st.dictionaries(st.sampled_from(DEALERS), receivers, max_size=len(DEALERS))
used_slots = st.dictionaries(st.sampled_from(DEALERS), st.integers(0, OF_DEALER)).filter(
    lambda used: sum(used.values()) <= TOTAL
)


def shared(capacities: Mapping[str, Mapping[Receiver, int]], used: Mapping[str, int]) -> Counter[str]:
    shares = share_slots(capacities, used, total=TOTAL, of_dealer=OF_DEALER)
    return Counter({dealer_id: sum(share.values()) for dealer_id, share in shares.items()})


@given(capacities, used_slots)
def test_no_receiver_dealer_or_process_gets_more_than_it_may(
    capacities: dict[str, dict[Receiver, int]], used: dict[str, int]
) -> None:
    shares = share_slots(capacities, used, total=TOTAL, of_dealer=OF_DEALER)
    for dealer_id, share in shares.items():
        assert all(0 < count <= capacities[dealer_id][receiver] for receiver, count in share.items())
        assert used.get(dealer_id, 0) + sum(share.values()) <= OF_DEALER
    assert sum(used.values()) + sum(sum(share.values()) for share in shares.values()) <= TOTAL


@given(capacities, used_slots)
def test_no_dealer_gets_a_slot_while_one_with_fewer_waits(
    capacities: dict[str, dict[Receiver, int]], used: dict[str, int]
) -> None:
    shares = shared(capacities, used)
    for waiting in (dealer_id for dealer_id in capacities if shares[dealer_id] < sum(capacities[dealer_id].values())):
        has = used.get(waiting, 0) + shares[waiting]
        assert all(used.get(other, 0) + count <= has + 1 for other, count in shares.items())


@given(capacities, used_slots)
def test_a_dealer_without_deliveries_in_progress_gets_a_slot_while_one_is_free(
    capacities: dict[str, dict[Receiver, int]], used: dict[str, int]
) -> None:
    shares = shared(capacities, used)
    free = TOTAL - sum(used.values()) - sum(shares.values())
    idle = [each for each in capacities if not used.get(each) and any(capacities[each].values())]
    assert free == 0 or all(shares[dealer_id] for dealer_id in idle)


@given(st.integers(1, 8))
def test_dealers_whose_receivers_hang_leave_slots_to_the_others(hanging: int) -> None:
    """Nothing ends, and the dealers claim again and again."""
    capacities = {dealer_id: dict.fromkeys(RECEIVERS, TOTAL) for dealer_id in DEALERS[:hanging]}
    used: Counter[str] = Counter()
    for _ in range(3):
        used.update(shared(capacities, used))
    free = TOTAL - sum(used.values())
    assert max(used.values()) <= free + 1
    assert shared({"new": {RECEIVERS[0]: TOTAL}}, used)["new"] > 0


@given(capacities, used_slots)
def test_the_receivers_of_a_dealer_take_turns(capacities: dict[str, dict[Receiver, int]], used: dict[str, int]) -> None:
    for dealer_id, share in share_slots(capacities, used, total=TOTAL, of_dealer=OF_DEALER).items():
        for receiver, capacity in capacities[dealer_id].items():
            if share.get(receiver, 0) < capacity:
                assert max(share.values()) <= share.get(receiver, 0) + 1


@given(st.lists(st.sampled_from(DEALERS), unique=True, min_size=1), used_slots)
def test_of_equal_dealers_the_first_comes_first(order: list[str], used: dict[str, int]) -> None:
    shares = shared({dealer_id: {RECEIVERS[0]: TOTAL} for dealer_id in order}, used)
    for first, second in pairwise(order):
        if used.get(first, 0) == used.get(second, 0):
            assert shares[first] >= shares[second]


def test_a_newcomer_gets_the_next_free_slot_of_a_process_whose_slots_hang() -> None:
    """Each of eight dealers has four channels that hang, and they began one after the other."""
    channels: dict[Receiver, int] = {("North", f"crm{number}"): CHANNEL_CONCURRENCY for number in range(4)}
    used: Counter[str] = Counter()

    def begin(*dealers: str) -> Counter[str]:
        wanted = dict.fromkeys(dealers, channels)
        shares = share_slots(wanted, used, total=PROCESS_CONCURRENCY, of_dealer=CONCURRENCY)
        return Counter({dealer_id: sum(share.values()) for dealer_id, share in shares.items()})

    for dealer_id in DEALERS[:8]:
        used += begin(dealer_id)
    assert list(used.values()) == [64, 32, 16, 8, 4, 2, 1, 1]
    used[DEALERS[0]] -= 1
    assert begin(*DEALERS[:8], "newcomer") == {"newcomer": 1}


def test_a_channel_rests_after_so_many_failures_in_a_row_then_one_tries_it() -> None:
    breaker = Breaker(failures_allowed=3, pause_seconds=60)
    for now in (0.0, 1.0):
        breaker.failed(now)
        assert breaker.capacity(now, in_progress=1, at_once=4) == 3
    breaker.failed(2.0)
    assert breaker.capacity(61.9, in_progress=0, at_once=4) == 0
    assert breaker.capacity(62.0, in_progress=0, at_once=4) == 1
    assert breaker.capacity(62.0, in_progress=1, at_once=4) == 0
    breaker.failed(63.0)
    assert breaker.capacity(122.9, in_progress=0, at_once=4) == 0
    assert breaker.capacity(123.0, in_progress=0, at_once=4) == 1


def test_one_success_closes_the_circuit_breaker_and_forgets_earlier_failures() -> None:
    breaker = Breaker(failures_allowed=2, pause_seconds=60)
    breaker.failed(0.0)
    breaker.succeeded()
    breaker.failed(1.0)
    assert breaker.capacity(1.0, in_progress=0, at_once=4) == 4
    breaker.failed(2.0)
    assert breaker.capacity(3.0, in_progress=0, at_once=4) == 0
    breaker.succeeded()
    assert breaker.capacity(3.0, in_progress=0, at_once=4) == 4


def test_a_receiver_that_asks_for_time_gets_it_from_the_whole_channel() -> None:
    breaker = Breaker(failures_allowed=5, pause_seconds=60)
    breaker.failed(0.0, asked_to_wait=30)
    breaker.failed(1.0)
    assert breaker.capacity(29.9, in_progress=0, at_once=4) == 0
    assert breaker.capacity(30.0, in_progress=0, at_once=4) == 4
