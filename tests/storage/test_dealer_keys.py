"""Each dealer of an installation has keys of its own, which only a key of the installation decrypts."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest
from sqlalchemy import text
from tests.soak import sqlite_first
from tests.storage.calls import read
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, KEYRING, MONDAY, storing

from dealer_agent.encryption import Cipher, DecryptionFailed, Keyring, UnknownKey, new_key
from dealer_agent.storage.errors import KeyMissing, KeysChanged, StorageError, WrongKey
from dealer_agent.storage.installation.dealer_registry import ADD_DEALER, add_dealer, remove_dealer
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.privacy.dealer_keys import change_keyring, create_keys
from dealer_agent.storage.privacy.reencryption import values_by_key
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

NORTH, SOUTH = "north-motors", "south-motors"


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """The store of an installation with two dealers, each with the lead L1."""
    make_current(database_url)
    with Store.open(database_url, CIPHER, many_dealers=True) as opened:
        for dealer_id in (NORTH, SOUTH):
            with opened.registration(dealer_id) as tx:
                add_dealer(tx, b'name = "Any Motors"', actor="test")
        with closing(opened.lead_writer()) as writer:
            done = [writer.submit(dealer_id, storing("L1")) for dealer_id in (NORTH, SOUTH)]
            assert [each.result(60) for each in done] == ["L1", "L1"]
        yield opened


def keyring_of(store: Store, dealer_id: str) -> Keyring:
    return store.check_keys(dealer_id).keyring


@sqlite_first()
def test_two_dealers_have_different_keys(store: Store) -> None:
    north, south = keyring_of(store, NORTH), keyring_of(store, SOUTH)
    assert len({north.keys[0], south.keys[0], KEYRING.keys[0]}) == 3
    assert len({north.permanent, south.permanent, KEYRING.permanent}) == 3
    assert read(store, NORTH, values_by_key).keys() == {north.active}
    assert read(store, SOUTH, values_by_key).keys() == {south.active}
    assert read(store, NORTH, get_lead, "L1") is not None


@sqlite_first()
def test_a_dealer_has_its_cipher_while_another_thread_forgets_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """No cipher is kept, as if each were forgotten at once."""
    wanted = keyring_of(store, NORTH)
    monkeypatch.setattr("dealer_agent.storage.privacy.dealer_keys.MOST_CIPHERS", 0)
    for dealer_id in (NORTH, SOUTH):
        store.forget_keys(dealer_id)
    assert keyring_of(store, NORTH) == wanted


@sqlite_first()
def test_the_keys_of_another_dealer_and_of_the_installation_read_nothing(store: Store) -> None:
    north = Cipher(keyring_of(store, NORTH))
    plain = north.encrypt(b"a name", "leads", "customer", NORTH, "L1")
    for other in (Cipher(keyring_of(store, SOUTH)), CIPHER):
        with pytest.raises(UnknownKey):
            other.decrypt(plain, "leads", "customer", NORTH, "L1")
        renamed = Cipher(Keyring(((north.keyring.active, other.keyring.keys[0][1]),)))
        with pytest.raises(DecryptionFailed):
            renamed.decrypt(plain, "leads", "customer", NORTH, "L1")


def test_a_key_of_one_dealer_does_not_work_in_the_row_of_another(store: Store) -> None:
    with store.write(ALL_DEALERS) as tx:
        tx.connection.execute(
            text("UPDATE dealer_keys SET dealer_id = 'east-motors' WHERE dealer_id = :south"), {"south": SOUTH}
        )
    with pytest.raises(WrongKey, match="of the dealer east-motors cannot be decrypted"):
        store.check_keys("east-motors")


def test_without_the_keys_of_one_dealer_the_other_is_readable_and_takes_leads(database_url: str, store: Store) -> None:
    with store.write(ALL_DEALERS) as tx:
        tx.connection.execute(text("DELETE FROM dealer_keys WHERE dealer_id = :north"), {"north": NORTH})
    with Store.open(database_url, CIPHER, many_dealers=True) as opened, closing(opened.lead_writer()) as writer:
        assert read(opened, SOUTH, get_lead, "L1") is not None
        with pytest.raises(KeyMissing):
            read(opened, NORTH, get_lead, "L1")
        with pytest.raises(KeyMissing, match="gone from the database"):
            opened.check_keys(NORTH)
        taken, refused = writer.submit(SOUTH, storing("L2")), writer.submit(NORTH, storing("L2"))
        assert taken.result(60) == "L2"
        with pytest.raises(KeyMissing):
            refused.result(60)


@sqlite_first()
def test_a_dealer_whose_keys_cannot_be_decrypted_stops_no_lead_of_another(database_url: str, store: Store) -> None:
    with store.write(ALL_DEALERS) as tx:
        tx.connection.execute(
            text("UPDATE dealer_keys SET wrapped = :changed WHERE dealer_id = :north"),
            {"changed": b"changed", "north": NORTH},
        )
    with Store.open(database_url, CIPHER, many_dealers=True) as opened, closing(opened.lead_writer()) as writer:
        done = [writer.submit(dealer_id, storing("L2")) for dealer_id in (NORTH, SOUTH, NORTH)]
        assert done[1].result(60) == "L2"
        for each in (done[0], done[2]):
            with pytest.raises(WrongKey, match="cannot be decrypted"):
                each.result(60)


@sqlite_first()
@pytest.mark.parametrize(
    ("keyring", "failure", "words"),
    [
        pytest.param(
            Keyring((new_key(),), KEYRING.permanent), KeyMissing, "installation's key k-first", id="a lost key"
        ),
        pytest.param(
            Keyring((("k-first", bytes(32)),), KEYRING.permanent), WrongKey, "is another one", id="a wrong key"
        ),
    ],
)
def test_a_wrong_key_of_the_installation_is_refused_and_the_error_says_what_to_do(
    database_url: str, store: Store, keyring: Keyring, failure: type[StorageError], words: str
) -> None:
    with Store.open(database_url, Cipher(keyring), many_dealers=True) as opened:
        with pytest.raises(failure, match=words) as refused:
            opened.check_keys(NORTH)
        assert "from your backup" in str(refused.value)
        assert "DEALER_AGENT_KEYS" in str(refused.value)
        with pytest.raises(failure, match="from your backup"):
            opened.check_keys(ALL_DEALERS)
        with pytest.raises(failure), opened.registration("east-motors") as tx:
            create_keys(tx)


def test_processes_that_make_the_keys_of_a_dealer_at_once_get_the_same(database_url: str, store: Store) -> None:
    new = {"enabled": True, "listed": False, "name": "East", "settings_number": 1}
    with store.registration("east-motors") as tx:
        tx.execute(ADD_DEALER, {**new, "added_at": MONDAY, "changed_at": MONDAY})

    def make(_: int) -> Keyring:
        with Store.open(database_url, CIPHER, many_dealers=True) as opened:
            return keyring_of(opened, "east-motors")

    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(make, range(4)))
    assert made == [keyring_of(store, "east-motors")] * 4


@sqlite_first()
def test_keys_of_a_transaction_that_failed_encrypt_nothing(store: Store) -> None:
    with store.registration("east-motors") as tx:
        add_dealer(tx, b'name = "East Motors"', actor="test")
        lost = tx.cipher.keyring
        tx.connection.rollback()
    with store.registration("east-motors") as tx:
        add_dealer(tx, b'name = "East Motors"', actor="test")
    assert keyring_of(store, "east-motors") != lost


def test_a_process_reads_the_keys_again_when_a_value_names_a_key_that_it_lacks(database_url: str, store: Store) -> None:
    cipher = store.check_keys(NORTH)
    before = cipher.keyring
    after = replace(before, keys=(new_key(), *before.keys))
    with Store.open(database_url, CIPHER, many_dealers=True) as other:
        with other.write(NORTH) as tx:
            change_keyring(tx, before.ids, after)
        with pytest.raises(KeysChanged, match="try again"), other.write(NORTH) as tx:
            change_keyring(tx, before.ids, before)
    assert cipher.keyring == before
    assert cipher.decrypt(Cipher(after).encrypt(b"new")) == b"new"
    assert cipher.keyring == after
    store.forget_keys(NORTH)
    assert keyring_of(store, NORTH) == after


@sqlite_first()
def test_a_removed_dealer_that_is_added_again_has_other_keys(database_url: str, store: Store) -> None:
    before = keyring_of(store, NORTH)
    with Store.open(database_url, CIPHER, many_dealers=True) as other:
        remove_dealer(other, NORTH)
        with other.registration(NORTH) as tx:
            add_dealer(tx, b'name = "North Motors"', actor="test")
        after = keyring_of(other, NORTH)
    assert not {*before.ids} & {*after.ids}
    with closing(store.lead_writer()) as writer, pytest.raises(KeyMissing):
        writer.submit(NORTH, storing("L2"), MONDAY).result(60)
    store.forget_keys(NORTH)
    with closing(store.lead_writer()) as writer:
        assert writer.submit(NORTH, storing("L2"), MONDAY).result(60) == "L2"
