"""The loop that claims, sends and settles deliveries: each at least once, none lost (docs/protocol.md#durability)."""

import asyncio
import io
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from msgspec import UNSET
from sqlalchemy import update
from tests.delivery.shop import AT_ONCE, CRM, HOOK, NORTH, PROFILE, Failing, Hanging, Noting, SampleDealer, so
from tests.storage.calls import lock_at
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER, NO_NOTICES

from dealer_agent.config.settings import DeliverySettings
from dealer_agent.delivery import attempt
from dealer_agent.delivery import loop as loops
from dealer_agent.delivery.attempt import Lease, NotDelivered
from dealer_agent.delivery.outlets import DealerOutlets
from dealer_agent.leads.lead_view import DeliveredMessage
from dealer_agent.server.log import BufferedLines, configure_logs
from dealer_agent.storage.deliveries import outbox
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.deliveries.outbox import DueDelivery, Receiver, retry_deliveries
from dealer_agent.storage.errors import DatabaseUnreachable
from dealer_agent.storage.privacy.erasure import erase_lead
from dealer_agent.storage.schema import outbox as deliveries
from dealer_agent.storage.store import Store

BUSY = NotDelivered("answered 503")
REFUSED = NotDelivered("answered 422", channel_failed=False, permanent=True)


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(loops, "STOP_SECONDS", 0.3)


def test_a_lead_goes_to_every_channel_once_and_is_settled(sample_dealer: SampleDealer) -> None:
    crm, hook = Noting(), Noting()
    leads = [sample_dealer.take(CRM, HOOK) for _ in range(5)]
    sample_dealer.deliver({CRM: crm, HOOK: hook}, sample_dealer.settled)
    for outlet in (crm, hook):
        assert sorted(letter.lead_id for letter in outlet.taken) == sorted(leads)
    rows = sample_dealer.rows()
    assert {(row.state, row.attempts, row.problem) for row in rows} == {("sent", 1, None)}
    assert {row.delivery_id for row in rows} == {letter.delivery_id for letter in crm.taken + hook.taken}


def test_a_new_lead_wakes_the_loop_at_once(sample_dealer: SampleDealer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "POLL_SECONDS", 3600)
    look, looked = outbox.due_receivers, threading.Event()

    def noted(*given: Any) -> list[Receiver]:
        found = look(*given)
        looked.set()
        return found

    monkeypatch.setattr(outbox, "due_receivers", noted)

    async def run() -> None:
        crm = Noting()
        async with sample_dealer.delivering({CRM: crm}) as loop:
            await so(looked.is_set)
            await asyncio.to_thread(sample_dealer.take, CRM)
            loop.wake(DEALER)
            await so(lambda: crm.taken)

    asyncio.run(run())


def test_a_document_is_made_in_a_thread(sample_dealer: SampleDealer) -> None:
    """Whoever asks meanwhile is answered."""
    makers: set[int] = set()

    class Watched(Noting):
        def render(self, delivery: DueDelivery, message: DeliveredMessage) -> bytes:
            makers.add(threading.get_ident())
            return super().render(delivery, message)

    sample_dealer.take(CRM)
    sample_dealer.deliver({CRM: Watched()}, sample_dealer.settled)
    assert makers
    assert threading.get_ident() not in makers


def test_a_failed_delivery_comes_back_with_the_same_id_until_it_arrives(sample_dealer: SampleDealer) -> None:
    crm = Noting(BUSY, REFUSED, NotDelivered("no response within 20 s"))
    lead_id = sample_dealer.take(CRM)
    sample_dealer.deliver({CRM: crm}, sample_dealer.settled)
    assert len({letter.delivery_id for letter in crm.tried}) == 1
    row = sample_dealer.row(lead_id)
    assert (row.state, row.attempts) == ("sent", 4)


@pytest.mark.parametrize("draw", [0.25, 0.75])
def test_the_wait_is_a_random_part_of_the_longest_and_the_problem_is_recorded(
    sample_dealer: SampleDealer, monkeypatch: pytest.MonkeyPatch, draw: float
) -> None:
    """Full jitter: deliveries that failed together do not come back together."""
    monkeypatch.setattr(attempt, "random", SimpleNamespace(random=lambda: draw))
    lead_id, began = sample_dealer.take(CRM), datetime.now(UTC)
    settings = DeliverySettings(first_retry_seconds=3600, longest_retry_minutes=60)
    sample_dealer.deliver({CRM: Failing()}, lambda: sample_dealer.row(lead_id).problem, settings)
    row = sample_dealer.row(lead_id)
    assert (row.state, row.problem, row.leased_until) == ("waiting", "answered 500", None)
    assert began <= row.due_at - timedelta(hours=draw) <= datetime.now(UTC)


def test_a_channel_that_hangs_holds_up_its_own_leads_only(sample_dealer: SampleDealer) -> None:
    hook, crm = Hanging(), Noting()
    for _ in range(2 * loops.CONCURRENCY):
        sample_dealer.take(HOOK)
    leads = [sample_dealer.take(CRM) for _ in range(10)]
    sample_dealer.deliver(
        {HOOK: hook, CRM: crm}, lambda: len(crm.taken) == 10 and len(hook.tried) >= loops.CHANNEL_CONCURRENCY
    )
    assert sorted(letter.lead_id for letter in crm.taken) == sorted(leads)
    assert len(hook.tried) == loops.CHANNEL_CONCURRENCY


def test_one_claim_takes_from_each_address_as_much_as_it_may(sample_dealer: SampleDealer) -> None:
    """What one receiver leaves over is not given to the other, and the later leads of both wait."""
    leads = [sample_dealer.take(CRM, HOOK) for _ in range(2 * loops.CHANNEL_CONCURRENCY)]
    outlets = {CRM: Hanging(), HOOK: Hanging()}
    sample_dealer.deliver(
        outlets, lambda: all(len(each.tried) == loops.CHANNEL_CONCURRENCY for each in outlets.values())
    )
    for outlet in outlets.values():
        assert {letter.lead_id for letter in outlet.tried} == set(leads[: loops.CHANNEL_CONCURRENCY])
    taking = {CRM: Noting(), HOOK: Noting()}
    sample_dealer.deliver(taking, sample_dealer.settled)
    for each in taking.values():
        assert sorted(letter.lead_id for letter in each.taken) == sorted(leads)
    assert {row.attempts for row in sample_dealer.rows()} == {1}


def test_after_the_set_age_it_is_undeliverable(sample_dealer: SampleDealer) -> None:
    lead_id = sample_dealer.take(CRM)
    settings = DeliverySettings(first_retry_seconds=0, give_up_after_hours=0)
    sample_dealer.deliver({CRM: Failing()}, sample_dealer.settled, settings)
    row = sample_dealer.row(lead_id)
    assert (row.state, row.attempts, row.problem) == ("undeliverable", 1, "answered 500")


def test_a_undeliverable_one_that_is_retried_is_tried_again(sample_dealer: SampleDealer) -> None:
    crm = Noting(BUSY)
    lead_id = sample_dealer.take(CRM)
    settings = DeliverySettings(first_retry_seconds=0, give_up_after_hours=0)

    async def run() -> None:
        async with sample_dealer.delivering({CRM: crm}, settings):
            await so(lambda: sample_dealer.row(lead_id).state == "undeliverable")
            retry = partial(outbox.retry_deliveries, channel="crm")
            assert await asyncio.to_thread(lock_at, datetime.now(UTC), sample_dealer.store, DEALER, retry) == 1
            await so(lambda: sample_dealer.row(lead_id).state == "sent")

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["confirm", "cancel"])
def test_what_a_crm_refuses_for_good_is_tried_on_and_what_a_mailbox_refuses_is_undeliverable(
    sample_dealer: SampleDealer, kind: str
) -> None:
    """CRMs say so wrongly; to insist with a customer's mailbox makes the dealer's mail suspect."""
    customer = (NORTH, "customer")
    crm, mailbox = Noting(REFUSED), Failing(channel_failed=False, permanent=True)
    lead_id, told = sample_dealer.take(CRM), sample_dealer.take(customer, kind=kind)
    sample_dealer.deliver({CRM: crm, customer: mailbox}, sample_dealer.settled)
    assert sample_dealer.row(lead_id).state == "sent"
    assert (sample_dealer.row(told).state, len(mailbox.tried)) == ("undeliverable", 1)


def test_a_receiver_that_asks_for_time_gets_it_for_all_that_is_meant_for_it(sample_dealer: SampleDealer) -> None:
    asked = NotDelivered("answered 429", retry_after=timedelta(hours=2))
    crm, hook = Noting(asked), Noting()
    lead_id = sample_dealer.take(CRM)

    async def run() -> None:
        async with sample_dealer.delivering({CRM: crm, HOOK: hook}):
            await so(lambda: sample_dealer.row(lead_id).problem)
            await asyncio.to_thread(sample_dealer.take, CRM, HOOK)
            await so(lambda: hook.taken)
            await asyncio.sleep(0.2)

    asyncio.run(run())
    assert len(crm.tried) == 1
    assert sample_dealer.row(lead_id).due_at > datetime.now(UTC) + timedelta(minutes=110)


def test_a_channel_that_failed_often_pauses_and_its_leads_wait_untried(sample_dealer: SampleDealer) -> None:
    crm, hook = Failing(), Noting()
    first = sample_dealer.take(CRM)
    settings = DeliverySettings(first_retry_seconds=0, breaker_failures=3, breaker_seconds=3600)

    async def run() -> None:
        async with sample_dealer.delivering({CRM: crm, HOOK: hook}, settings):
            await so(lambda: sample_dealer.row(first).attempts == 3 and sample_dealer.row(first).leased_until is None)
            await asyncio.to_thread(sample_dealer.take, CRM, HOOK)
            await so(lambda: hook.taken)
            await asyncio.sleep(0.2)

    asyncio.run(run())
    assert len(crm.tried) == 3
    assert Counter(row.attempts for row in sample_dealer.rows() if row.channel == "crm") == Counter([3, 0])


def test_after_its_pause_a_channel_gets_one_lead_and_then_all(sample_dealer: SampleDealer) -> None:
    crm = Noting(BUSY, BUSY, BUSY)
    for _ in range(6):
        sample_dealer.take(CRM)
    settings = DeliverySettings(first_retry_seconds=0, breaker_failures=3, breaker_seconds=1)
    sample_dealer.deliver({CRM: crm}, sample_dealer.settled, settings)
    assert {row.state for row in sample_dealer.rows()} == {"sent"}


def test_a_channel_that_refuses_leads_does_not_pause(sample_dealer: SampleDealer) -> None:
    """Refused leads are tried again. With a pause of an hour, they would not be sent in time."""
    crm = Noting(*[REFUSED] * 20)
    for _ in range(3):
        sample_dealer.take(CRM)
    settings = DeliverySettings(first_retry_seconds=0, breaker_failures=3, breaker_seconds=3600)
    sample_dealer.deliver({CRM: crm}, sample_dealer.settled, settings)
    assert {row.state for row in sample_dealer.rows()} == {"sent"}


def test_what_goes_to_a_channel_that_is_gone_is_undeliverable_and_says_so(sample_dealer: SampleDealer) -> None:
    lead_id = sample_dealer.take((NORTH, "old-crm"))
    moved = sample_dealer.take(("Closed Rooftop", "crm"))
    sample_dealer.deliver({CRM: Noting()}, sample_dealer.settled)
    for row in (sample_dealer.row(lead_id), sample_dealer.row(moved)):
        assert (row.state, row.problem) == ("undeliverable", f"{loops.WRONG_CHANNEL}{loops.RETRY} {row.delivery_id}")


def test_who_has_lost_the_lease_before_it_sends_sends_nothing(sample_dealer: SampleDealer) -> None:
    """Another process claimed the delivery while this one made the document."""
    lead_id = sample_dealer.take(CRM)

    class Late(Noting):
        def render(self, delivery: DueDelivery, message: DeliveredMessage) -> bytes:
            if not self.views:
                lost = {"lease": "another", "leased_until": datetime.now(UTC)}
                steal = update(deliveries).where(deliveries.c.lead_id == lead_id).values(lost)
                sample_dealer.writer.submit(DEALER, lambda tx: tx.execute(steal)).result(60)
            return super().render(delivery, message)

    crm = Late()
    sample_dealer.deliver({CRM: crm}, sample_dealer.settled)
    assert len(crm.tried) == 1, "the attempt that lost its lease made a document, and only the next one sent it"
    assert sample_dealer.row(lead_id).state == "sent"


def test_only_an_erasure_drops_a_delivery(sample_dealer: SampleDealer) -> None:
    """The end of a consent takes contact points away, and never hides a lead from the dealer."""
    now = datetime.now(UTC)
    erased, withdrew, kept = (sample_dealer.take(CRM) for _ in range(3))
    lock_at(now, sample_dealer.store, DEALER, withdraw, withdrew, ["email"], by="test", reason=None, profile=NO_NOTICES)
    lock_at(now, sample_dealer.store, DEALER, erase_lead, erased)
    # What was undeliverable before may be asked for again later.
    lock_at(now, sample_dealer.store, DEALER, retry_deliveries)
    crm = Noting()
    sample_dealer.deliver({CRM: crm}, sample_dealer.settled)
    assert sorted(letter.lead_id for letter in crm.tried) == sorted([withdrew, kept])
    assert sample_dealer.row(erased).state == "dropped"
    view = crm.views[sample_dealer.row(withdrew).delivery_id]
    assert (view.channels, view.customer.email, view.resend) == ((), UNSET, False)


class Logs:
    """What the loop logs."""

    def __init__(self) -> None:
        self._stream = io.BytesIO()
        self._lines = BufferedLines(self._stream)
        configure_logs("debug", self._lines)

    def text(self) -> str:
        self._lines.flush()
        return self._stream.getvalue().decode()


@pytest.fixture
def logs() -> Iterator[Logs]:
    yield Logs()
    structlog.reset_defaults()


def test_a_fault_counts_as_one_attempt_and_logs_no_customer_data(sample_dealer: SampleDealer, logs: Logs) -> None:
    crm = Noting(RuntimeError("sam@example.com is in this message"), None)
    lead_id = sample_dealer.take(CRM)
    sample_dealer.deliver({CRM: crm}, lambda: sample_dealer.row(lead_id).problem, DeliverySettings())
    lock_at(datetime.now(UTC), sample_dealer.store, DEALER, retry_deliveries)
    sample_dealer.deliver({CRM: crm}, sample_dealer.settled, DeliverySettings())
    assert '"event":"fault"' in logs.text()
    assert '"error":"RuntimeError"' in logs.text()
    assert "sam" not in logs.text().lower()
    assert sample_dealer.row(lead_id).state == "sent"


def test_problems_and_logs_of_every_outcome_hold_nothing_of_the_customer(
    sample_dealer: SampleDealer, logs: Logs
) -> None:
    for _ in range(4):
        sample_dealer.take(CRM)
    sample_dealer.take((NORTH, "gone"))
    crm = Noting(BUSY, REFUSED, ValueError("Sam Sample"), None)
    sample_dealer.deliver({CRM: crm}, sample_dealer.settled, DeliverySettings(first_retry_seconds=0, breaker_seconds=0))
    told = logs.text() + " ".join(row.problem or "" for row in sample_dealer.rows())
    assert "delivery sent" in told
    assert "sample" not in told.lower()


def test_a_stop_releases_what_is_being_sent_and_what_has_not_begun(sample_dealer: SampleDealer) -> None:
    lead_ids = [sample_dealer.take(CRM) for _ in range(loops.CHANNEL_CONCURRENCY + 2)]
    sample_dealer.deliver({CRM: (crm := Hanging())}, lambda: len(crm.tried) == loops.CHANNEL_CONCURRENCY)
    rows = [sample_dealer.row(lead_id) for lead_id in lead_ids]
    assert {(row.state, row.attempts, row.leased_until) for row in rows} == {("waiting", 0, None)}
    sample_dealer.deliver({CRM: Noting()}, sample_dealer.settled)
    assert {row.state for row in sample_dealer.rows()} == {"sent"}


def test_a_stop_lets_what_is_nearly_sent_end(sample_dealer: SampleDealer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "STOP_SECONDS", 30)
    begun = asyncio.Event()

    class Slow(Noting):
        async def send(self, delivery: DueDelivery, document: bytes, lease: Lease) -> str | None:
            begun.set()
            await asyncio.sleep(0.3)
            return await super().send(delivery, document, lease)

    async def run() -> None:
        async with sample_dealer.delivering({CRM: Slow()}):
            await begun.wait()

    lead_id = sample_dealer.take(CRM)
    asyncio.run(run())
    assert sample_dealer.row(lead_id).state == "sent"


def test_two_workers_share_the_work_and_send_nothing_twice(sample_dealer: SampleDealer, database_url: str) -> None:
    leads = [sample_dealer.take(CRM) for _ in range(40)]
    with Store.open(database_url, CIPHER) as store:
        other = SampleDealer(store, store.lead_writer())
        mine, theirs = Noting(), Noting()

        async def run() -> None:
            async with sample_dealer.delivering({CRM: mine}), other.delivering({CRM: theirs}):
                await so(sample_dealer.settled)

        asyncio.run(run())
        other.writer.close()
    assert sorted(letter.lead_id for letter in mine.taken + theirs.taken) == sorted(leads)


def test_a_database_that_was_away_is_asked_again(sqlite_url: str, tmp_path: Path) -> None:
    make_current(sqlite_url)
    with Store.open(sqlite_url, CIPHER) as store:
        store.check_keys(DEALER)
        sample_dealer = SampleDealer(store, store.lead_writer())
        sample_dealer.take(CRM)
        file, away = tmp_path / "dealer.db", tmp_path / "away.db"
        crm = Noting()

        async def run() -> None:
            file.rename(away)
            async with sample_dealer.delivering({CRM: crm}) as loop:
                await so(lambda: loop._poll_timer.is_failing)
                away.rename(file)
                await so(lambda: crm.taken)
                await so(sample_dealer.settled)
                await so(lambda: not loop._poll_timer.is_failing)

        asyncio.run(run())
        sample_dealer.writer.close()


def test_what_was_sent_is_settled_though_the_database_was_away_just_then(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be sent again for nothing."""
    monkeypatch.setattr(loops, "RECORD_AGAIN_SECONDS", 0.05)
    make_current(sqlite_url)
    file, away = tmp_path / "dealer.db", tmp_path / "away.db"
    write = loops.DeliveryLoop._write

    async def back_when_it_was_missed(loop: loops.DeliveryLoop, *given: Any, **options: Any) -> Any:
        try:
            return await write(loop, *given, **options)
        except DatabaseUnreachable:
            away.rename(file)
            raise

    monkeypatch.setattr(loops.DeliveryLoop, "_write", back_when_it_was_missed)

    class Unlucky(Noting):
        async def send(self, delivery: DueDelivery, document: bytes, lease: Lease) -> str | None:
            note = await super().send(delivery, document, lease)
            file.rename(away)
            return note

    with Store.open(sqlite_url, CIPHER) as store:
        store.check_keys(DEALER)
        sample_dealer = SampleDealer(store, store.lead_writer())
        lead_id = sample_dealer.take(CRM)
        crm = Unlucky()

        async def run() -> None:
            async with sample_dealer.delivering({CRM: crm}, AT_ONCE):
                await so(lambda: crm.taken and file.exists())
                await so(sample_dealer.settled)

        asyncio.run(run())
        assert (sample_dealer.row(lead_id).state, len(crm.tried)) == ("sent", 1)
        sample_dealer.writer.close()


def test_new_settings_of_a_dealer_hold_for_its_next_delivery(sample_dealer: SampleDealer) -> None:
    """The pause of a channel that was corrected ends with them."""
    wrong, corrected = Failing(), Noting()
    outlets: dict[Receiver, Noting] = {CRM: wrong}
    settings = DeliverySettings(first_retry_seconds=0, breaker_failures=1, breaker_seconds=3600)
    lead_id = sample_dealer.take(CRM)

    async def run() -> None:
        loop = loops.DeliveryLoop(
            sample_dealer.store,
            sample_dealer.writer,
            lambda: [DEALER],
            lambda _: DealerOutlets(PROFILE, outlets.copy(), settings),
        )
        running = asyncio.create_task(loop.run())
        await so(lambda: sample_dealer.row(lead_id).problem)
        outlets[CRM] = corrected
        loop.forget(DEALER)
        await so(sample_dealer.settled)
        loop.stop()
        await running

    asyncio.run(run())
    assert (len(wrong.tried), len(corrected.taken)) == (1, 1)


def test_only_dealers_with_something_to_send_or_to_remember_are_kept(
    sample_dealer: SampleDealer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "MOST_KEPT", 2)
    sample_dealer.take(CRM)
    idle = [f"idle-{number}" for number in range(9)]
    settings = DeliverySettings(breaker_failures=1, breaker_seconds=3600)

    async def run() -> None:
        loop = loops.DeliveryLoop(
            sample_dealer.store,
            sample_dealer.writer,
            lambda: [DEALER, *idle],
            lambda _: DealerOutlets(PROFILE, {CRM: Failing()}, settings),
        )
        running = asyncio.create_task(loop.run())
        await so(lambda: sample_dealer.rows()[0].problem)
        await so(lambda: idle[-1] in loop._queues)
        await so(lambda: len(loop._queues) == 2)
        assert DEALER in loop._queues
        loop.stop()
        await running

    asyncio.run(run())
