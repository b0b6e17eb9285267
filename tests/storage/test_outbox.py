"""The outbox: at least once, one worker at a time, nothing lost with a process (docs/protocol.md#durability)."""

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, update
from tests.forks import FORKS
from tests.soak import sqlite_first
from tests.storage import other_sender
from tests.storage.calls import at_time, of_dealer
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER, MONDAY, TUESDAY

from dealer_agent.dealers.routing import NewDelivery
from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.database_url import database_url as parsed
from dealer_agent.storage.deliveries import outbox
from dealer_agent.storage.deliveries.outbox import DeliveryRecord, DueDelivery, Receiver
from dealer_agent.storage.deliveries.sent_deliveries import StoredDocument, renew
from dealer_agent.storage.errors import AlreadyStored
from dealer_agent.storage.schema import leads
from dealer_agent.storage.schema import outbox as outbox_table
from dealer_agent.storage.transaction import InstallationTransaction, OneCipher, Transaction

LEASE = timedelta(minutes=5)
CRM, HOOK = ("North", "crm"), ("North", "hook")
BOTH = (NewDelivery("lead", *CRM), NewDelivery("lead", *HOOK))


class Database:
    """A database with one lead, and transactions on it."""

    def __init__(self, url: str) -> None:
        make_current(url)
        self.engine = writer_engine(parsed(url))
        with self.writing() as tx:
            for dealer_id in (DEALER, "other"):
                lead = {"dealer_id": dealer_id, "lead_id": "L1", "received_at": MONDAY, "used_at": MONDAY}
                words = {"source_agent": b"sealed", "status": "received", "rooftop": "North"}
                tx.connection.execute(insert(leads), lead | words)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        with self.engine.begin() as connection:
            yield Transaction(connection, DEALER, MONDAY, OneCipher(CIPHER))

    def enqueue(self, *rows: NewDelivery) -> list[str]:
        with self.writing() as tx:
            return outbox.enqueue(at_time(tx, MONDAY), "L1", rows)

    def claim(self, now: datetime = MONDAY, receiver: Receiver = CRM, limit: int = 10) -> list[DueDelivery]:
        with self.writing() as tx:
            return outbox.claim(at_time(tx, now), LEASE, receiver, limit)

    def shown(self, delivery_id: str) -> DeliveryRecord:
        with self.writing() as tx:
            record = outbox.get_delivery(tx, delivery_id)
        assert record is not None
        return record


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    made = Database(database_url)
    yield made
    made.engine.dispose()


def test_a_row_is_due_at_once_at_its_own_address_and_at_its_own_dealer(database: Database) -> None:
    crm, hook = database.enqueue(*BOTH)
    with database.writing() as tx:
        assert sorted(outbox.due_receivers(at_time(tx, MONDAY), LEASE)) == [CRM, HOOK]
        assert outbox.due_receivers(of_dealer(tx, "other"), LEASE) == []
        assert outbox.claim(of_dealer(tx, "other"), LEASE, CRM, 10) == []
    (claimed,) = database.claim()
    assert (claimed.delivery_id, claimed.lead_id, claimed.kind, claimed.receiver) == (crm, "L1", "lead", CRM)
    assert (claimed.attempts, claimed.tried_since) == (1, MONDAY)
    assert [delivery.delivery_id for delivery in database.claim(receiver=HOOK)] == [hook]


@sqlite_first()
def test_enqueue_without_deliveries_returns_no_ids(database: Database) -> None:
    assert database.enqueue() == []


@sqlite_first()
def test_a_claimed_row_is_nobody_elses_until_its_lease_ends(database: Database) -> None:
    database.enqueue(*BOTH)
    (first,) = database.claim()
    assert database.claim(MONDAY + LEASE - timedelta(microseconds=1)) == []
    with database.writing() as tx:
        assert outbox.due_receivers(at_time(tx, MONDAY), LEASE) == [HOOK]
    (second,) = database.claim(MONDAY + LEASE)
    assert (second.delivery_id, second.attempts) == (first.delivery_id, 2)
    assert second.lease != first.lease


@sqlite_first()
def test_a_process_that_read_its_clock_before_another_one_claimed_gets_nothing(database: Database) -> None:
    """The process may have waited for the database after it read its clock."""
    database.enqueue(NewDelivery("lead", *CRM))
    assert database.claim(MONDAY)
    assert database.claim(MONDAY - timedelta(milliseconds=5)) == []


@sqlite_first()
@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(days=400)])
def test_what_was_stored_or_leased_by_a_clock_that_was_ahead_is_not_kept_waiting(
    database: Database, ahead: timedelta
) -> None:
    """A clock may be set back; what waits would else wait until it has caught up."""
    database.enqueue(NewDelivery("lead", *CRM))
    earlier = MONDAY - ahead
    with database.writing() as tx:
        assert outbox.due_receivers(at_time(tx, earlier), LEASE) == [CRM]
    (first,) = database.claim(MONDAY)
    (second,) = database.claim(earlier)
    assert (second.delivery_id, second.attempts) == (first.delivery_id, 2)
    assert database.claim(earlier) == [], "this lease is one of the clock as it is"
    with database.writing() as tx:
        assert outbox.reschedule(tx, second, earlier + 2 * LEASE, "answered 503")
    assert database.claim(earlier + LEASE) == [], "it was put off by the clock as it is"
    assert [one.delivery_id for one in database.claim(earlier + 2 * LEASE)] == [first.delivery_id]


@sqlite_first()
def test_the_longest_due_comes_first_and_no_more_than_asked_for(database: Database) -> None:
    ids = database.enqueue(*[NewDelivery("lead", *CRM)] * 3)
    (late,) = [delivery for delivery in database.claim() if delivery.delivery_id == ids[0]]
    with database.writing() as tx:
        assert outbox.reschedule(tx, late, TUESDAY, "no response within 20 s")
    later = TUESDAY + LEASE
    assert [delivery.delivery_id for delivery in database.claim(later, limit=2)] == sorted(ids[1:])
    assert [delivery.delivery_id for delivery in database.claim(later, limit=2)] == [ids[0]]


@sqlite_first()
def test_a_failed_row_comes_back_when_it_is_due_again(database: Database) -> None:
    (crm,) = database.enqueue(BOTH[0])
    (claimed,) = database.claim()
    with database.writing() as tx:
        assert outbox.reschedule(tx, claimed, TUESDAY, "answered 503")
    shown = database.shown(crm)
    assert (shown.state, shown.due_at, shown.problem, shown.leased_until) == ("waiting", TUESDAY, "answered 503", None)
    assert database.claim(TUESDAY - timedelta(microseconds=1)) == []
    assert [delivery.attempts for delivery in database.claim(TUESDAY)] == [2]


@sqlite_first()
@pytest.mark.parametrize(("settle", "state"), [(outbox.give_up, "undeliverable"), (outbox.drop, "dropped")])
def test_what_was_given_up_is_not_claimed_again(database: Database, settle: object, state: str) -> None:
    (crm,) = database.enqueue(BOTH[0])
    (claimed,) = database.claim()
    with database.writing() as tx:
        assert settle(at_time(tx, TUESDAY), claimed, "a problem")  # type: ignore[operator]
    shown = database.shown(crm)
    assert (shown.state, shown.settled_at, shown.problem) == (state, TUESDAY, "a problem")
    assert database.claim(TUESDAY + LEASE) == []


@sqlite_first()
def test_what_was_sent_is_not_claimed_again(database: Database) -> None:
    (crm,) = database.enqueue(BOTH[0])
    (claimed,) = database.claim()
    with database.writing() as tx:
        outbox.settle_sent(at_time(tx, TUESDAY), claimed, "1 of 2 recipients refused (550)")
    shown = database.shown(crm)
    assert (shown.state, shown.settled_at) == ("sent", TUESDAY)
    assert shown.problem == "1 of 2 recipients refused (550)"
    assert database.claim(TUESDAY + LEASE) == []


def test_a_process_that_lost_the_lease_can_neither_reschedule_nor_give_up(database: Database) -> None:
    (crm,) = database.enqueue(BOTH[0])
    (lost,) = database.claim()
    (held,) = database.claim(MONDAY + LEASE)
    with database.writing() as tx:
        assert not outbox.reschedule(tx, lost, TUESDAY, "too late")
        assert not outbox.give_up(at_time(tx, TUESDAY), lost, "too late")
        assert not outbox.drop(at_time(tx, TUESDAY), lost, "too late")
        outbox.release(tx, lost)
    shown = database.shown(crm)
    assert (shown.state, shown.problem, shown.attempts) == ("waiting", None, 2)
    assert shown.leased_until == MONDAY + 2 * LEASE
    with database.writing() as tx:
        assert outbox.give_up(at_time(tx, TUESDAY), held, "in time")


@sqlite_first()
def test_a_lease_is_renewed_by_its_holder_only(database: Database) -> None:
    database.enqueue(BOTH[0])
    (lost,) = database.claim()
    with database.writing() as tx:
        renew(at_time(tx, MONDAY + LEASE / 2), lost, LEASE)
    assert database.claim(MONDAY + LEASE) == []
    (held,) = database.claim(MONDAY + 2 * LEASE)
    for document in (None, StoredDocument(b"")):
        with pytest.raises(AlreadyStored), database.writing() as tx:
            renew(at_time(tx, MONDAY + 2 * LEASE), lost, LEASE, document)
    assert database.shown(held.delivery_id).leased_until == MONDAY + 3 * LEASE


@sqlite_first()
def test_who_has_lost_the_lease_after_sending_has_sent_it_nevertheless(database: Database) -> None:
    """Else the lead would be sent once more for nothing."""
    (crm,) = database.enqueue(BOTH[0])
    (lost,) = database.claim()
    (held,) = database.claim(MONDAY + LEASE)
    with database.writing() as tx:
        outbox.settle_sent(at_time(tx, TUESDAY), lost)
        assert not outbox.reschedule(tx, held, TUESDAY, "answered 500")
    assert database.shown(crm).state == "sent"


@sqlite_first()
def test_a_released_row_is_due_at_once_and_its_first_claim_does_not_count(database: Database) -> None:
    database.enqueue(BOTH[0])
    with database.writing() as tx:
        for claimed in outbox.claim(at_time(tx, MONDAY), LEASE, CRM, 10):
            outbox.release(tx, claimed)
    assert [delivery.attempts for delivery in database.claim()] == [1]


@pytest.mark.parametrize("chosen", [{"delivery_id": "first"}, {"channel": "crm"}, {}])
def test_a_retry_makes_what_waits_or_is_undeliverable_due_now_and_as_if_new(
    database: Database, chosen: dict[str, str]
) -> None:
    first, sent, hook = database.enqueue(NewDelivery("lead", *CRM), NewDelivery("lead", *CRM), BOTH[1])
    claimed = {delivery.delivery_id: delivery for delivery in [*database.claim(), *database.claim(receiver=HOOK)]}
    with database.writing() as tx:
        outbox.give_up(at_time(tx, MONDAY), claimed[first], "answered 500")
        outbox.settle_sent(at_time(tx, MONDAY), claimed[sent])
        outbox.reschedule(tx, claimed[hook], TUESDAY + LEASE, "answered 500")
        named = {"delivery_id": first} if "delivery_id" in chosen else chosen
        count = outbox.retry_deliveries(at_time(tx, TUESDAY), **named)
        assert outbox.retry_deliveries(of_dealer(tx, "other")) == 0
    assert count == (2 if not chosen else 1)
    (again,) = database.claim(TUESDAY)
    assert (again.delivery_id, again.attempts, again.tried_since) == (first, 1, TUESDAY)
    assert database.shown(first).settled_at is None
    assert [delivery.delivery_id for delivery in database.claim(TUESDAY, HOOK)] == ([] if chosen else [hook])
    assert database.shown(sent).state == "sent"


def test_a_list_shows_the_newest_first_of_what_is_asked_for(database: Database) -> None:
    crm, hook = database.enqueue(*BOTH)
    (claimed,) = database.claim()
    with database.writing() as tx:
        outbox.settle_sent(at_time(tx, TUESDAY), claimed)

        def listed(limit: int = 10, **asked: str) -> list[str]:
            found = outbox.list_deliveries(tx, limit, **asked)  # type: ignore[arg-type]
            return [record.delivery_id for record in found]

        assert listed() == sorted([crm, hook], reverse=True)
        assert listed(1) == [max(crm, hook)]
        assert listed(state="sent") == [crm]
        assert listed(channel="hook") == [hook]
        assert listed(lead_id="another") == []
        assert outbox.list_deliveries(of_dealer(tx, "other"), 10) == []
        assert outbox.get_delivery(of_dealer(tx, "other"), crm) is None


def test_two_processes_never_hold_one_lease_and_leave_no_row_behind(database_url: str, database: Database) -> None:
    """Nor the rows of a third, which died with what it had claimed."""
    ids = database.enqueue(*[NewDelivery("lead", *CRM)] * 80)
    with database.writing() as tx:
        died_with = outbox.claim(at_time(tx, datetime.now(UTC)), timedelta(seconds=1), CRM, 10)
    held: multiprocessing.Queue[str] = FORKS.Queue()
    workers = [FORKS.Process(target=other_sender.send_all, args=(database_url, held)) for _ in range(2)]
    for worker in workers:
        worker.start()
    told = [held.get(timeout=240) for _ in ids]
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    assert Counter(told) == Counter(ids)
    lost = {delivery.delivery_id for delivery in died_with}
    for delivery_id in ids:
        record = database.shown(delivery_id)
        assert (record.state, record.attempts) == ("sent", 2 if delivery_id in lost else 1)


def due_dealers(database: Database, now: datetime = MONDAY, most: int = 10) -> list[str]:
    with database.engine.begin() as connection:
        return outbox.dealers_with_due(InstallationTransaction(connection, now), LEASE, most)


@sqlite_first()
def test_the_dealers_with_due_deliveries_come_longest_waiting_first(database: Database) -> None:
    assert due_dealers(database) == []
    with database.writing() as tx:
        for dealer_id, at in ((DEALER, MONDAY + timedelta(seconds=2)), ("other", MONDAY + timedelta(seconds=1))):
            outbox.enqueue(at_time(of_dealer(tx, dealer_id), at), "L1", BOTH)
    assert due_dealers(database, MONDAY + timedelta(minutes=1)) == ["other", DEALER]
    assert due_dealers(database, MONDAY + timedelta(minutes=1), 1) == ["other"]
    # A row that was never put off is due although the clock was set back.
    assert due_dealers(database, MONDAY - timedelta(days=1)) == ["other", DEALER]


def test_a_dealer_is_not_due_while_its_deliveries_are_sent_put_off_or_wait_for_others(database: Database) -> None:
    crm, _ = database.enqueue(*BOTH)
    (first,), (second,) = database.claim(receiver=CRM), database.claim(receiver=HOOK)
    assert due_dealers(database) == []
    with database.writing() as tx:
        following = outbox.enqueue(
            tx, "L1", [NewDelivery("resend", *CRM)], {CRM: outbox.WaitingDelivery(crm, untried=False)}
        )
    assert due_dealers(database) == []
    later = MONDAY + timedelta(hours=1)
    with database.writing() as tx:
        outbox.settle_sent(tx, second)
        assert outbox.reschedule(tx, first, later, "refused")
    assert due_dealers(database) == []
    assert due_dealers(database, later) == [DEALER]
    with database.writing() as tx:
        assert following
        outbox.retry_deliveries(tx, delivery_id=crm)
    (again,) = database.claim(limit=1)
    with database.writing() as tx:
        outbox.settle_sent(tx, again)
    assert due_dealers(database) == [DEALER]


@pytest.mark.parametrize("waiting_rows", [1, 1000])
def test_a_dealer_with_many_waiting_deliveries_costs_one_step(sqlite_url: str, waiting_rows: int) -> None:
    """SQLite counts its steps: they do not grow with the deliveries of a dealer, sent or put off."""
    database = Database(sqlite_url)
    with database.writing() as tx:
        for number in range(waiting_rows):
            (delivery_id,) = outbox.enqueue(tx, "L1", [NewDelivery("lead", *CRM)])
            later = MONDAY + timedelta(hours=1) if number % 2 else MONDAY
            state = "waiting" if number % 3 else "sent"
            tx.connection.execute(
                update(outbox_table)
                .where(outbox_table.c.delivery_id == delivery_id)
                .values(due_at=later, created_at=MONDAY - timedelta(hours=1), state=state)
            )
    with database.engine.begin() as connection:
        steps = []
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(lambda: steps.append(1), 1)
        outbox.dealers_with_due(InstallationTransaction(connection, MONDAY), LEASE, 10)
        driver.set_progress_handler(None, 1)
    database.engine.dispose()
    assert len(steps) < 500
