"""Who gets a vehicle, decided in the database: on both databases, with the writers of several machines at once."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta

import pytest
from tests.soak import SOAK, sqlite_first
from tests.storage.calls import read_at
from tests.storage.current import make_current
from tests.storage.samples import CIPHER

from dealer_agent.holds import HoldRequest, HoldRules, QuotedHold, begin_hold, release_hold
from dealer_agent.protocol.errors import HoldConflict, HoldLimit, ProtocolError
from dealer_agent.storage.errors import AlreadyStored
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.offers import (
    KEPT,
    OpenHolds,
    StoredHold,
    StoredQuote,
    add_hold,
    add_quote,
    count_open_holds,
    delete_old_offers,
    find_hold,
    find_quote,
    find_quotes,
    held_until,
    list_holds,
)
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

DEALER = "test-motors"
NOW = datetime(2026, 3, 4, 15, tzinfo=UTC)
RULES = HoldRules(timedelta(hours=2), 5, 99)
AGENTS, MACHINES = 64, 2
ROUNDS = 20 if SOAK else 3


def quoted(vehicle_id: str, number: int) -> StoredQuote:
    return StoredQuote(
        f"Q{number}", vehicle_id, None, NOW, NOW + timedelta(minutes=30), b'{"price":1,"currency":"USD"}'
    )


def asking(agent: int, quote_id: str, key: str = "one") -> HoldRequest:
    return HoldRequest(f"https://agent-{agent}.example", quote_id, f"{agent} {key}".encode(), quote_id.encode())


def quoting(quote: StoredQuote) -> Callable[[Transaction], None]:
    return lambda tx: add_quote(tx, quote)


def releasing(held: StoredHold) -> Callable[[Transaction], QuotedHold]:
    return lambda tx: release_hold(tx, held.hold_id, held.caller)


def holding(asked: HoldRequest, rules: HoldRules = RULES) -> Callable[[Transaction], QuotedHold]:
    return lambda tx: begin_hold(tx, asked, rules, lambda _: True)


def outcome(writer: LeadWriter, asked: HoldRequest, at: datetime = NOW) -> str:
    try:
        return writer.submit(DEALER, holding(asked), at).result(60).hold.status
    except ProtocolError as refused:
        return refused.code


@pytest.mark.requirement("offer-one-hold")
def test_of_many_agents_one_holds_the_vehicle(database_url: str) -> None:
    """Each machine has its own writer and its own connections."""
    make_current(database_url)
    with ExitStack() as stack:
        stores = [stack.enter_context(Store.open(database_url, CIPHER)) for _ in range(MACHINES)]
        writers = [stack.enter_context(closing(store.lead_writer())) for store in stores]
        threads = stack.enter_context(ThreadPoolExecutor(AGENTS))
        for number in range(ROUNDS):
            vehicle_id = f"vin-{number}"
            writers[0].submit(DEALER, quoting(quoted(vehicle_id, number)), NOW).result(60)
            ready = threading.Barrier(AGENTS)

            def ask(agent: int) -> str:
                ready.wait()  # noqa: B023
                return outcome(writers[agent % MACHINES], asking(agent + 1000 * number, f"Q{number}"))  # noqa: B023

            assert Counter(threads.map(ask, range(AGENTS))) == {"active": 1, "HOLD_CONFLICT": AGENTS - 1}
        with stores[0].read(DEALER, NOW) as tx:
            assert Counter(hold.vehicle_id for hold in list_holds(tx, 1000, which="open")) == {
                f"vin-{number}": 1 for number in range(ROUNDS)
            }


@sqlite_first()
@pytest.mark.requirement("offer-one-hold")
def test_the_database_refuses_a_second_hold_whatever_the_program_does(store: Store) -> None:
    """The unique index is the second line, behind the dealer's lock."""
    with closing(store.lead_writer()) as writer:
        writer.submit(DEALER, quoting(quoted("vin-1", 1)), NOW).result(60)
        first = writer.submit(DEALER, holding(asking(1, "Q1")), NOW).result(60).hold
        second = first._replace(hold_id="other", key_hash=b"other", caller="other")
        with pytest.raises(AlreadyStored):
            writer.submit(DEALER, lambda tx: add_hold(tx, second), NOW).result(60)


@sqlite_first()
@pytest.mark.requirement("offer-hold-ends")
def test_a_hold_ends_by_the_clock_although_nobody_ends_it(store: Store) -> None:
    with closing(store.lead_writer()) as writer:
        long = quoted("vin-1", 1)._replace(valid_until=NOW + timedelta(days=1))
        writer.submit(DEALER, quoting(long), NOW).result(60)
        first = writer.submit(DEALER, holding(asking(1, "Q1")), NOW).result(60).hold
        end = first.expires_at
        assert outcome(writer, asking(2, "Q1"), end - timedelta(microseconds=1)) == "HOLD_CONFLICT"
        assert outcome(writer, asking(2, "Q1"), end) == "active"
        ended = read_at(end, store, DEALER, find_hold, first.hold_id)
        assert ended is not None
        assert (ended.status, ended.ended_at) == ("expired", end)


def test_staff_see_which_holds_hold_now_and_when_the_first_one_ends(store: Store) -> None:
    with store.read(DEALER, NOW) as tx:
        assert count_open_holds(tx) == OpenHolds(0, None)
        assert held_until(tx, []) == {}
    with closing(store.lead_writer()) as writer:
        for number in range(3):
            writer.submit(DEALER, quoting(quoted(f"vin-{number}", number)), NOW).result(60)
        held = [
            writer.submit(DEALER, holding(asking(number, f"Q{number}")), NOW + timedelta(minutes=number))
            .result(60)
            .hold
            for number in range(3)
        ]
        later = NOW + timedelta(minutes=10)
        writer.submit(DEALER, releasing(held[0]), later).result(60)
        with store.read(DEALER, later) as tx:
            assert count_open_holds(tx) == OpenHolds(2, held[1].expires_at)
            assert list_holds(tx, 1, which="open") == [held[2]]
            assert list_holds(tx, 9, which="open", skip=1) == [held[1]]
            assert [hold.hold_id for hold in list_holds(tx, 9, which="ended")] == [held[0].hold_id]
            assert held_until(tx, ["vin-0", "vin-1", "other"]) == {"vin-1": held[1].expires_at}
            assert set(find_quotes(tx, ["Q1", "Q2", "other"])) == {"Q1", "Q2"}
        with store.read(DEALER, held[1].expires_at) as tx:
            assert count_open_holds(tx) == OpenHolds(1, held[2].expires_at)
            assert {hold.vehicle_id for hold in list_holds(tx, 9, which="ended")} == {"vin-0", "vin-1"}
        with store.read("another-dealer", later) as tx:
            assert count_open_holds(tx).number == 0
            assert held_until(tx, ["vin-1"]) == {}


@sqlite_first()
@pytest.mark.requirement("offer-budget")
def test_the_budget_comes_back_after_a_day(store: Store) -> None:
    rules = HoldRules(timedelta(minutes=5), 2, 99)
    with closing(store.lead_writer()) as writer:
        for number in range(4):
            quote = quoted(f"vin-{number}", number)._replace(valid_until=NOW + timedelta(days=3))
            writer.submit(DEALER, quoting(quote), NOW).result(60)

        def hold(number: int, at: datetime) -> QuotedHold:
            return writer.submit(DEALER, holding(asking(1, f"Q{number}", f"{number}"), rules), at).result(60)

        hold(0, NOW)
        hold(1, NOW + timedelta(hours=1))
        with pytest.raises(HoldLimit) as refused:
            hold(2, NOW + timedelta(hours=2))
        assert refused.value.details == {"retry_after_seconds": 22 * 3600}
        hold(2, NOW + timedelta(hours=24))
        with pytest.raises(HoldLimit):
            hold(3, NOW + timedelta(hours=24))


@sqlite_first()
@pytest.mark.requirement("offer-budget")
def test_one_quick_release_a_day_gives_the_budget_back(store: Store) -> None:
    rules = HoldRules(timedelta(hours=2), 1, 99)
    with closing(store.lead_writer()) as writer:
        for number in range(3):
            writer.submit(DEALER, quoting(quoted(f"vin-{number}", number)), NOW).result(60)
        for number in range(2):
            held = writer.submit(DEALER, holding(asking(1, f"Q{number}", f"{number}"), rules), NOW).result(60).hold
            writer.submit(DEALER, releasing(held), NOW + timedelta(minutes=20)).result(60)
        with pytest.raises(HoldLimit):
            writer.submit(DEALER, holding(asking(1, "Q2", "2"), rules), NOW).result(60)


@sqlite_first()
@pytest.mark.requirement("offer-most-held")
def test_all_agents_together_hold_a_bounded_number_of_vehicles(store: Store) -> None:
    rules = HoldRules(timedelta(hours=2), 5, 3)
    with closing(store.lead_writer()) as writer:
        for number in range(5):
            quote = quoted(f"vin-{number}", number)._replace(valid_until=NOW + timedelta(days=1))
            writer.submit(DEALER, quoting(quote), NOW).result(60)

        def hold(number: int, at: datetime) -> QuotedHold:
            return writer.submit(DEALER, holding(asking(number, f"Q{number}"), rules), at).result(60)

        held = [hold(number, NOW + timedelta(minutes=10 * number)).hold for number in range(3)]
        with pytest.raises(HoldLimit) as refused:
            hold(3, NOW + timedelta(minutes=30))
        assert refused.value.details == {"retry_after_seconds": 90 * 60}
        writer.submit(DEALER, releasing(held[1]), NOW + timedelta(minutes=40)).result(60)
        hold(3, NOW + timedelta(minutes=40))
        with pytest.raises(HoldLimit):
            hold(4, NOW + timedelta(minutes=50))
        # The first hold has ended by the clock.
        hold(4, NOW + timedelta(hours=2))


def test_offers_are_kept_for_two_years(store: Store) -> None:
    with closing(store.lead_writer()) as writer:
        writer.submit(DEALER, quoting(quoted("vin-1", 1)), NOW).result(60)
        hold = writer.submit(DEALER, holding(asking(1, "Q1")), NOW).result(60).hold
    for at, is_kept in ((NOW + KEPT, True), (NOW + KEPT + timedelta(days=3), False)):
        with store.write(DEALER, at) as tx:
            delete_old_offers(tx)
            assert (find_hold(tx, hold.hold_id) is not None, find_quote(tx, "Q1") is not None) == (is_kept, is_kept)


def test_quotes_of_anonymous_agents_are_bounded_and_those_with_a_hold_stay(store: Store) -> None:
    with closing(store.lead_writer()) as writer:
        for number in range(6):
            quote = quoted(f"vin-{number}", number)._replace(
                caller="https://agent-1.example" if number == 1 else None, created_at=NOW + timedelta(minutes=number)
            )
            writer.submit(DEALER, quoting(quote), NOW).result(60)
        writer.submit(DEALER, holding(asking(1, "Q0")), NOW).result(60)
    with store.write(DEALER, NOW) as tx:
        delete_old_offers(tx, most_anonymous=2)
        assert [number for number in range(6) if find_quote(tx, f"Q{number}")] == [0, 1, 4, 5]


@sqlite_first()
def test_a_conflict_says_nothing_of_the_holder(store: Store) -> None:
    with closing(store.lead_writer()) as writer:
        writer.submit(DEALER, quoting(quoted("vin-1", 1)), NOW).result(60)
        writer.submit(DEALER, holding(asking(1, "Q1")), NOW).result(60)
        with pytest.raises(HoldConflict) as refused:
            writer.submit(DEALER, holding(asking(2, "Q1")), NOW).result(60)
    assert "agent-1" not in f"{refused.value.message} {refused.value.details}"
