"""The chain of consent events decides who withdrew, and not the table that is derived from it. On both databases."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, text
from tests.soak import examples, sqlite_first
from tests.storage.calls import lock_at, read, reencrypt_all
from tests.storage.samples import DEALER, KEYRING, MONDAY, NO_NOTICES, TUESDAY, WEDNESDAY, consent, lead, storing

from dealer_agent.encryption import Cipher, Keyring
from dealer_agent.storage.deliveries.notices import withdraw, withdraw_late
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.stored_leads import record_lead
from dealer_agent.storage.privacy.consents import allowed_channels, record_consent, verify_chain
from dealer_agent.storage.privacy.erasure import erase_lead
from dealer_agent.storage.privacy.withdrawals import (
    compare_withdrawals,
    leads_to_recheck,
    restore_withdrawals,
    withdrawn_by_events,
    withdrawn_since,
)
from dealer_agent.storage.schema import withdrawals
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

pytestmark = pytest.mark.requirement("withdrawal-checked")

SAM, PHONE, PAT = "email:sam@example.com", "phone:+12025550123", "email:pat@example.com"
HOUR = timedelta(hours=1)


def withdrawn(store: Store, lead_id: str, at: datetime, *channels: str, by_link: bool = False) -> None:
    known_by = {"known_by": ("email:",)} if by_link else {}
    lock_at(at, store, DEALER, withdraw, lead_id, channels, by="Alex", reason=None, profile=NO_NOTICES, **known_by)


@pytest.fixture
def filled(store: Store, writer: LeadWriter) -> Store:
    """Sam withdrew two channels, also for Pat with the same phone. Pat withdrew one by a link. Sam is erased."""
    for lead_id, contacts in (("L1", [SAM, PHONE]), ("L2", [PAT, PHONE])):
        writer.submit(DEALER, storing(lead_id, contacts=contacts)).result(60)
    withdrawn(store, "L1", TUESDAY, "sms", "phone")
    withdrawn(store, "L2", TUESDAY + HOUR, "email", by_link=True)
    lock_at(WEDNESDAY, store, DEALER, erase_lead, "L1", consent_too=True)
    return store


def rows(store: Store) -> set[tuple[bytes, str, datetime]]:
    with store.read(DEALER) as tx:
        found = tx.connection.execute(select(withdrawals.c.contact_hash, withdrawals.c.channel, withdrawals.c.at))
        return {(bytes(contact_hash), channel, at) for contact_hash, channel, at in found}


def execute(store: Store, *statements: str) -> None:
    with store.write(DEALER) as tx:
        for statement in statements:
            tx.connection.execute(text(statement))


def words(store: Store) -> str | None:
    return read(store, DEALER, compare_withdrawals).words


CHANGES = {
    "DELETE FROM withdrawals": "7 missing",
    "DELETE FROM withdrawals WHERE channel = 'email'": "1 missing",
    "UPDATE withdrawals SET at = at - 1 WHERE channel = 'sms'": "3 changed",
    "UPDATE withdrawals SET at = at + 1 WHERE channel = 'email'": "1 changed",
    "UPDATE withdrawals SET channel = 'fax' WHERE channel = 'email'": "1 missing, 1 added by hand",
    "INSERT INTO withdrawals SELECT dealer_id, contact_hash, 'fax', at FROM withdrawals WHERE channel = 'email'": (
        "1 added by hand"
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_of_the_table_is_found_and_the_chain_restores_it(filled: Store, change: str) -> None:
    """Also that of an erased person, whose contact points are stored nowhere."""
    before = rows(filled)
    assert len(before) == 7
    assert words(filled) is None
    execute(filled, change)
    assert words(filled) == f"the table of withdrawals does not agree with the consent record (rows: {CHANGES[change]})"
    assert read(filled, DEALER, verify_chain).problem is None
    lock_at(WEDNESDAY, filled, DEALER, restore_withdrawals)
    assert (rows(filled), words(filled)) == (before, None)


@sqlite_first()
def test_the_table_agrees_with_the_chain_after_a_key_rotation(database_url: str, filled: Store) -> None:
    newer = Cipher(Keyring((("k-second", bytes(range(1, 33))), *KEYRING.keys), KEYRING.permanent))
    with Store.open(database_url, newer) as store:
        reencrypt_all(store, DEALER, 100)
    with Store.open(database_url, Cipher(Keyring(newer.keyring.keys[:1], KEYRING.permanent))) as store:
        assert words(store) is None


@sqlite_first()
def test_the_events_of_a_known_customer_decide_without_the_table(filled: Store, writer: LeadWriter) -> None:
    """By the contact points of each event: the link was sent to the e-mail address, not to the phone."""
    execute(filled, "DELETE FROM withdrawals")
    with filled.read(DEALER) as tx:
        assert withdrawn_since(tx, [PAT], MONDAY) == frozenset()
        assert withdrawn_by_events(tx, [PAT], TUESDAY + HOUR) == {"email"}
        assert withdrawn_by_events(tx, [PAT], TUESDAY + HOUR + timedelta(microseconds=1)) == frozenset()
        assert withdrawn_by_events(tx, [PHONE], MONDAY) == {"phone", "sms"}
        assert withdrawn_by_events(tx, [SAM], MONDAY) == frozenset(), "nothing finds the leads of an erased person"


def test_nonsense_in_the_chain_does_not_stop_leads_or_the_comparison(filled: Store) -> None:
    execute(filled, "UPDATE consent_events SET purpose = 'nonsense' WHERE kind <> 'granted'")
    with filled.read(DEALER) as tx:
        assert withdrawn_by_events(tx, [PAT], MONDAY) == frozenset()
    assert "7 added by hand" in (words(filled) or "")
    assert read(filled, DEALER, verify_chain).problem


def test_what_was_restored_applies_to_leads_that_came_meanwhile(filled: Store, writer: LeadWriter) -> None:
    """L3 has a consent from before the withdrawal, and loses the channel. The consent of L4 is newer, and stays."""
    execute(filled, "DELETE FROM withdrawals")
    later = TUESDAY + 2 * HOUR

    def came(lead_id: str, granted_at: datetime) -> None:
        def job(tx: Transaction) -> None:
            agreed = consent(later, granted_at=granted_at, channels=("email", "sms"))
            record_lead(tx, lead(lead_id, later), agreed, contacts=[SAM], vehicle_key=None)

        writer.submit(DEALER, job).result(60)

    came("L3", MONDAY)
    came("L4", TUESDAY + HOUR)
    restored = lock_at(WEDNESDAY, filled, DEALER, restore_withdrawals).restored
    found = read(filled, DEALER, leads_to_recheck, restored)
    late = [lock_at(WEDNESDAY, filled, DEALER, withdraw_late, each, restored, NO_NOTICES) for each in found]
    assert (found, late) == (["L3", "L4"], [True, False])
    allowed = {each: read(filled, DEALER, allowed_channels, each, WEDNESDAY) for each in found}
    assert allowed == {"L3": {"email"}, "L4": {"email", "sms"}}
    assert words(filled) is None


numbers = st.integers(0, 5)
channels = st.lists(st.sampled_from(["email", "phone", "sms"]), min_size=1, max_size=2, unique=True)
steps = st.one_of(
    st.tuples(st.just("lead"), st.lists(st.sampled_from([SAM, PHONE, PAT]), min_size=1, max_size=2, unique=True)),
    st.tuples(st.sampled_from(["withdraw", "link"]), numbers, channels),
    st.tuples(st.sampled_from(["erase", "agree"]), numbers),
)
tampering = st.sampled_from(list(CHANGES))


@sqlite_first()
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(steps, min_size=3, max_size=12), change=tampering)
def test_whatever_happened_the_chain_makes_the_table_again(
    store: Store, writer: LeadWriter, steps: list[tuple[Any, ...]], change: str
) -> None:
    lead_ids: list[str] = []
    with store.read(DEALER) as tx:
        begun = tx.connection.execute(text("SELECT count(*) FROM leads")).scalar_one()
    for hour, (what, which, *more) in enumerate(steps):
        now = MONDAY + hour * HOUR
        if what == "lead":
            lead_ids.append(f"L{begun + len(lead_ids)}")
            writer.submit(DEALER, storing(lead_ids[-1], now, contacts=which)).result(60)
        elif not lead_ids:
            continue
        elif what == "erase":
            lock_at(now, store, DEALER, erase_lead, lead_ids[which % len(lead_ids)])
        elif what == "agree":
            lock_at(now, store, DEALER, record_consent, lead_ids[which % len(lead_ids)], consent(now))
        else:
            withdrawn(store, lead_ids[which % len(lead_ids)], now, *more[0], by_link=what == "link")
    before = rows(store)
    assert words(store) is None
    execute(store, change)
    assert (words(store) is None) == (rows(store) == before)
    lock_at(WEDNESDAY, store, DEALER, restore_withdrawals)
    assert (rows(store), words(store)) == (before, None)
