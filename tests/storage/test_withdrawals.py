"""A withdrawal of consent outlives the customer's leads, and holds nothing but a hash, a channel and a time."""

from datetime import timedelta
from hashlib import sha256

import pytest
from sqlalchemy import select
from tests.soak import sqlite_first
from tests.storage.calls import lock_at, read, reencrypt_all, with_cipher
from tests.storage.contents import everything
from tests.storage.samples import CIPHER, DEALER, KEYRING, MONDAY, NO_NOTICES, TUESDAY, WEDNESDAY, storing

from dealer_agent.encryption import Cipher, Keyring
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.errors import WrongKey
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.persons import find_leads_of
from dealer_agent.storage.privacy.erasure import erase_lead
from dealer_agent.storage.privacy.reencryption import delete_unused_keys, values_by_key
from dealer_agent.storage.privacy.withdrawals import withdrawn_since
from dealer_agent.storage.schema import lead_contacts, withdrawals
from dealer_agent.storage.store import Store

SAM, PHONE, PAT = "email:sam@example.com", "phone:+12025550123", "email:pat@example.com"
SENDER = '["agent","Example Agent","email:sam@example.com"]'


@pytest.fixture
def withdrawn(store: Store, writer: LeadWriter) -> Store:
    """A customer with two contact points, who withdrew two channels."""
    writer.submit(DEALER, storing("L1", contacts=[SAM, PHONE, SENDER])).result(60)
    writer.submit(DEALER, storing("L2", contacts=[PAT])).result(60)
    lock_at(TUESDAY, store, DEALER, withdraw, "L1", ["phone", "sms"], by="Alex", reason=None, profile=NO_NOTICES)
    return store


def found(
    store: Store, *contacts: str, cipher: Cipher = CIPHER, dealer_id: str = DEALER, at: timedelta = timedelta()
) -> set[str]:
    with store.read(dealer_id) as tx:
        return set(withdrawn_since(with_cipher(tx, cipher), contacts, TUESDAY + at))


@sqlite_first()
@pytest.mark.requirement("withdrawal-lasts")
def test_a_withdrawal_holds_for_every_contact_point_of_the_lead(withdrawn: Store) -> None:
    for contacts in ((SAM,), (PHONE,), (SAM, PHONE), (PAT, PHONE)):
        assert found(withdrawn, *contacts) == {"phone", "sms"}
    assert found(withdrawn, PAT) == found(withdrawn) == found(withdrawn, SAM, dealer_id="lakeside") == set()


@sqlite_first()
def test_a_consent_from_after_the_withdrawal_counts(withdrawn: Store) -> None:
    assert found(withdrawn, SAM, at=timedelta(microseconds=1)) == set()
    lock_at(WEDNESDAY, withdrawn, DEALER, withdraw, "L1", ["sms"], by="Alex", reason=None, profile=NO_NOTICES)
    lock_at(MONDAY, withdrawn, DEALER, withdraw, "L1", ["sms"], by="Alex", reason="noted late", profile=NO_NOTICES)
    assert found(withdrawn, SAM, at=timedelta(hours=1)) == {"sms"}


@pytest.mark.requirement("withdrawal-lasts")
@pytest.mark.parametrize("consent_too", [False, True])
def test_a_withdrawal_outlives_erasure_and_changes_of_keys(
    database_url: str, withdrawn: Store, consent_too: bool
) -> None:
    lock_at(WEDNESDAY, withdrawn, DEALER, erase_lead, "L1", consent_too=consent_too)
    newer = Cipher(Keyring((("k-second", bytes(range(1, 33))), *KEYRING.keys), KEYRING.permanent))
    with Store.open(database_url, newer) as store:
        reencrypt_all(store, DEALER, 100)
    only_new = Cipher(Keyring(newer.keyring.keys[:1], KEYRING.permanent))
    with Store.open(database_url, only_new) as store:
        assert read(store, DEALER, find_leads_of, [SAM]) == []
        assert found(store, SAM, cipher=only_new) == {"phone", "sms"}


@sqlite_first()
def test_the_table_of_withdrawals_has_only_channels_times_and_hashes(withdrawn: Store) -> None:
    """The two contact points, and not the sender's key, for two channels each."""
    with withdrawn.read(DEALER) as tx:
        rows = tx.connection.execute(select(withdrawals)).all()
    assert {(row.dealer_id, row.channel, row.at) for row in rows} == {
        (DEALER, "phone", TUESDAY),
        (DEALER, "sms", TUESDAY),
    }
    assert [len(row.contact_hash) for row in rows] == [32] * 4
    assert b"sam@example.com" not in everything(withdrawn)


def test_without_the_permanent_secret_nobody_finds_out_whose_withdrawal_it_is(withdrawn: Store) -> None:
    """The keys of customer data do not help, and no hash is made without a key."""
    other = Cipher(Keyring(KEYRING.keys, bytes(32)))
    assert found(withdrawn, SAM, PHONE, cipher=other) == set()
    with withdrawn.read(DEALER) as tx:
        hashes = {bytes(value) for value in tx.connection.execute(select(withdrawals.c.contact_hash)).scalars()}
        others = {bytes(value) for value in tx.connection.execute(select(lead_contacts.c.contact_hash)).scalars()}
    guesses = [text for one in (SAM, PHONE) for text in (one, one.partition(":")[2], f'["{DEALER}","{one}"]')]
    assert not hashes.intersection(sha256(text.encode()).digest() for text in guesses)
    assert not hashes.intersection(others), "a lead of the same person is not found by it"


@pytest.mark.requirement("withdrawal-lasts")
def test_the_permanent_secret_is_needed_after_everybody_is_erased(database_url: str, withdrawn: Store) -> None:
    """Another one would forget every withdrawal."""
    withdrawn.check_keys(DEALER)
    for lead_id in ("L1", "L2"):
        lock_at(WEDNESDAY, withdrawn, DEALER, erase_lead, lead_id, consent_too=True)
    assert read(withdrawn, DEALER, values_by_key), "`keys create` makes no key file in the place of a lost one"
    lock_at(WEDNESDAY, withdrawn, DEALER, delete_unused_keys)
    other = Cipher(Keyring(KEYRING.keys, bytes(32)))
    with Store.open(database_url, other) as store, pytest.raises(WrongKey, match="permanent secret"):
        store.check_keys(DEALER)
