"""The keys of customer data: what happens without them, with wrong ones, and while they change."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from tests.soak import examples, sqlite_first
from tests.storage.calls import at_time, list_leads, lock_at, read, reencrypt_all, with_cipher
from tests.storage.contents import sealed_values
from tests.storage.samples import (
    CIPHER,
    DEALER,
    KEYRING,
    MONDAY,
    NO_NOTICES,
    TUESDAY,
    consent,
    first_answer,
    lead,
    storing,
)
from tests.storage.test_erasure import VEHICLES, known
from ulid import ULID

from dealer_agent.encryption import Cipher, InvalidKeys, Keyring
from dealer_agent.storage.columns import is_sealed
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.errors import KeyMissing, StorageError, WrongKey
from dealer_agent.storage.leads.idempotency import find_idempotent
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.persons import find_duplicate, find_leads_of
from dealer_agent.storage.leads.stored_leads import get_lead, record_contacts, record_lead
from dealer_agent.storage.leads.visits import visits_of
from dealer_agent.storage.privacy.consents import record_consent, verify_chain
from dealer_agent.storage.privacy.erasure import dispose, erase_lead
from dealer_agent.storage.privacy.reencryption import STEPS, _find_others, _reencrypt, reencrypt, values_by_key
from dealer_agent.storage.schema import metadata
from dealer_agent.storage.stock.reading import ChangeCounters, read_revision
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

NEW = Cipher(replace(KEYRING, keys=(("k-second", bytes(range(1, 33))), *KEYRING.keys)))
ONLY_NEW = Cipher(replace(KEYRING, keys=NEW.keyring.keys[:1]))
IMPOSTOR = Cipher(replace(KEYRING, keys=((KEYRING.active, bytes(32)),)))
"""Another key of the same name."""

VALUES = 2 * 15 + 1
"""Of two people: all that `known` stores, and the seal of the chain's end. A contact and its vehicle count once."""


@pytest.fixture
def filled(store: Store, writer: LeadWriter) -> Store:
    store.check_keys(DEALER)
    for person, lead_id in (("Sam", "L1"), ("Pat", "L2")):
        writer.submit(DEALER, known(person, lead_id)).result(60)
    return store


@pytest.fixture
def renewed(database_url: str, filled: Store) -> Iterator[Store]:
    """The same database for who has a newer key in front of the old one."""
    with Store.open(database_url, NEW) as opened:
        opened.check_keys(DEALER)
        yield opened


@sqlite_first()
def test_without_a_key_what_holds_no_customer_data_works_and_the_rest_says_what_to_do(
    database_url: str, filled: Store
) -> None:
    with Store.open(database_url) as store:
        assert read(store, DEALER, read_revision) == ChangeCounters(0, 0)
        assert read(store, DEALER, values_by_key) == {KEYRING.active: VALUES}
        for call in (
            lambda: store.check_keys(DEALER),
            lambda: read(store, DEALER, list_leads, 1),
            lambda: read(store, DEALER, get_lead, "L1"),
            lambda: read(store, DEALER, find_leads_of, ["email:sam@example.com"]),
            lambda: lock_at(MONDAY, store, DEALER, erase_lead, "L1"),
            lambda: read(store, DEALER, verify_chain),
            lambda: reencrypt_all(store, DEALER, 1),
            lambda: dispose(store, DEALER, leads_unused_since=TUESDAY, consents_before=TUESDAY, now=TUESDAY),
            lambda: lock_at(MONDAY, store, DEALER, withdraw, "L1", ["sms"], by="Alex", reason=None, profile=NO_NOTICES),
        ):
            with pytest.raises(KeyMissing, match="DEALER_AGENT_KEYS"):
                call()


@sqlite_first()
@pytest.mark.parametrize(
    ("cipher", "failure", "words"),
    [
        pytest.param(IMPOSTOR, WrongKey, "k-first is not the one", id="a wrong key"),
        pytest.param(ONLY_NEW, KeyMissing, "k-first, which is not among the keys", id="a lost key"),
    ],
)
def test_a_wrong_or_lost_key_is_refused_before_anything_is_read_or_written(
    database_url: str, filled: Store, cipher: Cipher, failure: type[StorageError], words: str
) -> None:
    with Store.open(database_url, cipher) as store:
        for call in (
            lambda: store.check_keys(DEALER),
            lambda: read(store, DEALER, list_leads, 1),
            lambda: lock_at(MONDAY, store, DEALER, erase_lead, "L1"),
            lambda: lock_at(MONDAY, store, DEALER, withdraw, "L1", ["sms"], by="Alex", reason=None, profile=NO_NOTICES),
            lambda: reencrypt_all(store, DEALER, 9),
        ):
            with pytest.raises(failure, match=words) as refused:
                call()
            assert bytes(32).hex() not in str(refused.value)
        assert store.check_keys("lakeside") is cipher, "another dealer's data has keys of its own"
    assert read(filled, DEALER, verify_chain).rows == 6
    assert read(filled, DEALER, list_leads, 9)[0].erased_at is None


@sqlite_first()
def test_a_dealers_first_key_is_noted_when_it_is_first_used(database_url: str, store: Store) -> None:
    assert store.check_keys(DEALER) is CIPHER
    with Store.open(database_url, IMPOSTOR) as other, pytest.raises(WrongKey):
        other.check_keys(DEALER)
    with Store.open(database_url, NEW) as other:
        other.check_keys(DEALER)
        other.check_keys(DEALER)
    with Store.open(database_url, CIPHER) as other, pytest.raises(KeyMissing, match="k-second"):
        other.check_keys(DEALER)


@sqlite_first()
def test_a_job_of_the_lead_writer_fails_with_a_storage_error_if_a_key_is_missing_or_wrong(
    writer: LeadWriter, filled: Store
) -> None:
    """The key can go while the service runs. A StorageError tells the buyer to send the lead again later."""
    with pytest.raises(KeyMissing):
        writer.submit(DEALER, lambda tx: get_lead(with_cipher(tx, ONLY_NEW), "L1")).result(60)
    with pytest.raises(WrongKey):
        writer.submit(DEALER, lambda tx: get_lead(with_cipher(tx, IMPOSTOR), "L1")).result(60)


@sqlite_first()
def test_every_encrypted_column_is_encrypted_again_by_a_change_of_keys(store: Store) -> None:
    """The columns that the schema marks as sealed are those that a key rotation encrypts again."""
    sealed = {
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.columns
        if is_sealed(column)
    }
    assert {str(each.column) for each in STEPS} | {"lead_contacts.vehicle"} == sealed, "it goes with its contact"


def test_a_change_of_keys_leaves_nothing_under_the_old_one_and_everything_as_it_was(
    database_url: str, renewed: Store
) -> None:
    before = [read(renewed, DEALER, get_lead, name) for name in ("L1", "L2")]
    visits = read(renewed, DEALER, visits_of, "L1")
    assert read(renewed, DEALER, values_by_key) == {"k-first": VALUES}
    assert reencrypt_all(renewed, DEALER, 1000) == VALUES
    assert read(renewed, DEALER, values_by_key) == {"k-second": VALUES}
    with Store.open(database_url, ONLY_NEW) as store:
        assert [read(store, DEALER, get_lead, name) for name in ("L1", "L2")] == before
        assert read(store, DEALER, visits_of, "L1") == visits
        assert read(store, DEALER, find_leads_of, ["phone:+12025550101"]) == ["L1"]
        assert read(store, DEALER, verify_chain) == (6, 0, None, None)
    with Store.open(database_url, CIPHER) as store, pytest.raises(KeyMissing):
        store.check_keys(DEALER)


@sqlite_first()
def test_a_change_of_keys_may_stop_anywhere_and_goes_on_from_there(renewed: Store, filled: Store) -> None:
    """Each call is a transaction: whoever is killed has done all of the last one or nothing."""
    left = VALUES
    for done in reencrypt(renewed, DEALER, 7):
        left -= done
        assert 0 < done <= 7
        assert sum(read(renewed, DEALER, values_by_key).values()) == VALUES
        assert read(renewed, DEALER, values_by_key).get("k-first", 0) == left
        assert read(renewed, DEALER, verify_chain).problem is None
        assert read(renewed, DEALER, find_leads_of, ["email:sam.sample@example.com"]) == ["L1"]
        assert None not in [read(renewed, DEALER, get_lead, name) for name in ("L1", "L2")]
    assert left == 0
    assert reencrypt_all(renewed, DEALER, 7) == 0


def test_a_worker_that_has_not_read_the_new_keys_yet_seals_nothing_with_the_old_one_during_a_change(
    database_url: str, renewed: Store
) -> None:
    """Otherwise it would write behind the progress of the change, and the value would be lost with the key."""
    source = [NEW.keyring]
    late = Cipher(KEYRING, lambda: source[0])
    with Store.open(database_url, late) as store, closing(store.lead_writer()) as writer:
        change = reencrypt(renewed, DEALER, 5)
        while read(renewed, DEALER, values_by_key).get("k-first", 0) > 5:
            next(change)
        assert late.keyring.active == "k-first"
        writer.submit(DEALER, storing("A1")).result(60)
        reencrypt_all(renewed, DEALER, 5)
    assert set(read(renewed, DEALER, values_by_key)) == {"k-second"}


@sqlite_first()
def test_a_change_whose_transaction_failed_leaves_nothing_out(renewed: Store) -> None:
    change = reencrypt(renewed, DEALER, 1)
    left = VALUES - next(change)
    with renewed.lock(DEALER) as tx:
        assert _reencrypt(tx, STEPS[0], _find_others(tx, STEPS[0], None, 9), 9) > 0
        tx.connection.rollback()
    left -= sum(change)
    assert (left, read(renewed, DEALER, values_by_key)) == (0, {"k-second": VALUES})


@sqlite_first()
def test_both_keys_are_needed_until_the_change_is_done(database_url: str, renewed: Store) -> None:
    renewed.check_keys(DEALER)
    next(reencrypt(renewed, DEALER, 3))
    for cipher, missing in ((CIPHER, "k-second"), (ONLY_NEW, "k-first")):
        with Store.open(database_url, cipher) as store, pytest.raises(KeyMissing, match=missing):
            store.check_keys(DEALER)


def test_repeats_are_found_while_keys_change(writer: LeadWriter, renewed: Store) -> None:
    """A service with the new key finds what is stored under the old one (docs/protocol.md#withdrawal-lasts)."""
    contacts = ["email:sam.sample@example.com"]

    def repeat(tx: Transaction) -> None:
        tx = with_cipher(tx, NEW)
        assert find_duplicate(tx, contacts, VEHICLES["Sam"], MONDAY) == "L1"
        first = find_idempotent(at_time(tx, MONDAY), "token", "L1")
        assert first is not None
        assert first.reply == b"Thank you, Samantha"
        # What a duplicate brings: the contact is there already, under the old key.
        record_contacts(tx, lead("L1"), contacts, VEHICLES["Sam"])
        record_consent(tx, "L1", consent(TUESDAY))

    writer.submit(DEALER, repeat).result(60)
    for _ in reencrypt(renewed, DEALER, 5):
        assert read(renewed, DEALER, find_leads_of, contacts) == ["L1"]
    assert read(renewed, DEALER, values_by_key) == {"k-second": VALUES + 1}, "the contact is stored once again"

    def by_new_key(tx: Transaction) -> None:
        tx = with_cipher(tx, ONLY_NEW)
        assert find_duplicate(tx, contacts, VEHICLES["Sam"], MONDAY) == "L1"
        assert find_idempotent(at_time(tx, MONDAY), "token", "L1") is not None

    with closing(renewed.lead_writer()) as later:
        later.submit(DEALER, by_new_key).result(60)
    assert read(renewed, DEALER, verify_chain) == (7, 0, None, None)


def test_nothing_is_sealed_with_a_key_that_was_retired(writer: LeadWriter, filled: Store, renewed: Store) -> None:
    """A retired key may be thrown away.

    A process that was away for a while, or was not restarted, must not use it again.
    """
    reencrypt_all(renewed, DEALER, 100)
    with pytest.raises(KeyMissing, match=r"k-first was retired .* restart"):
        writer.submit(DEALER, known("Sam", "L3")).result(60)
    with pytest.raises(KeyMissing, match="k-second"):
        lock_at(TUESDAY, filled, DEALER, withdraw, "L1", ["sms"], by="Alex", reason=None, profile=NO_NOTICES)
    assert read(renewed, DEALER, values_by_key) == {"k-second": VALUES}
    assert read(renewed, DEALER, get_lead, "L3") is None


@sqlite_first()
def test_a_writer_whose_key_was_retired_takes_the_one_that_its_source_has_now(
    database_url: str, renewed: Store
) -> None:
    source = [KEYRING]
    late = Cipher(KEYRING, lambda: source[0])
    with Store.open(database_url, late) as store, closing(store.lead_writer()) as writer:
        writer.submit(DEALER, storing("L3")).result(60)
        reencrypt_all(renewed, DEALER, 100)
        source[0] = ONLY_NEW.keyring
        writer.submit(DEALER, storing("L4")).result(60)
    assert set(read(renewed, DEALER, values_by_key)) == {"k-second"}
    assert {lead.lead_id for lead in read(renewed, DEALER, list_leads, 9)} == {"L1", "L2", "L3", "L4"}


def test_a_repeat_is_found_while_another_thread_drops_the_old_key(database_url: str, renewed: Store) -> None:
    reencrypt_all(renewed, DEALER, 100)
    source = [NEW.keyring]
    shared = Cipher(NEW.keyring, lambda: source[0])

    def contacts() -> Iterator[str]:
        yield "email:jo@example.com"
        source[0] = ONLY_NEW.keyring
        assert shared.refresh()
        yield "email:sam.sample@example.com"

    with Store.open(database_url, shared) as store, closing(store.lead_writer()) as writer:
        found = writer.submit(DEALER, lambda tx: find_duplicate(tx, contacts(), VEHICLES["Sam"], MONDAY))
        assert found.result(60) == "L1"


@sqlite_first()
def test_a_job_encrypts_with_the_keys_that_were_checked_for_it(database_url: str, filled: Store) -> None:
    source = [KEYRING]
    shared = Cipher(KEYRING, lambda: source[0])

    def refreshed_by_another_thread(tx: Transaction) -> None:
        source[0] = NEW.keyring
        assert shared.refresh()
        storing("L3")(tx)

    with Store.open(database_url, shared) as store, closing(store.lead_writer()) as writer:
        writer.submit(DEALER, refreshed_by_another_thread).result(60)
        assert set(read(filled, DEALER, values_by_key)) == {"k-first"}
        writer.submit(DEALER, storing("L4")).result(60)
    with Store.open(database_url, NEW) as ahead:
        assert set(read(ahead, DEALER, values_by_key)) == {"k-first", "k-second"}


@sqlite_first()
def test_who_has_not_read_a_new_key_yet_finds_what_others_stored_under_it_and_no_repeat_becomes_a_second_lead(
    database_url: str, store: Store
) -> None:
    """However late: a process may have stood still while the key changed, and has not looked at the file since."""
    store.check_keys(DEALER)
    source, contacts = [KEYRING], ["email:jo@example.com"]
    late = Cipher(KEYRING, lambda: source[0])

    def repeat(tx: Transaction) -> str | None:
        return find_duplicate(tx, contacts, None, MONDAY)

    with (
        Store.open(database_url, late) as still,
        closing(still.lead_writer()) as writer,
        Store.open(database_url, NEW) as ahead,
        closing(ahead.lead_writer()) as other,
    ):
        assert writer.submit(DEALER, repeat).result(60) is None
        source[0] = NEW.keyring
        ahead.check_keys(DEALER)
        other.submit(DEALER, storing("L9", contacts=contacts)).result(60)
        assert writer.submit(DEALER, repeat).result(60) == "L9"


@sqlite_first()
def test_an_old_copy_of_the_keys_leaves_the_right_ones_working(database_url: str, renewed: Store) -> None:
    """A command ran with the old key in front, which was destroyed. The service needs that key no more than before."""
    reencrypt_all(renewed, DEALER, 100)
    old_in_front = Cipher(replace(KEYRING, keys=(*KEYRING.keys, *ONLY_NEW.keyring.keys)))
    with Store.open(database_url, old_in_front) as store:
        store.check_keys(DEALER)
        assert len(read(store, DEALER, list_leads, 9)) == 2
        with pytest.raises(KeyMissing, match="the key k-first was retired"):
            lock_at(TUESDAY, store, DEALER, withdraw, "L1", ["sms"], by="Alex", reason=None, profile=NO_NOTICES)
    with Store.open(database_url, ONLY_NEW) as store:
        store.check_keys(DEALER)
        lock_at(TUESDAY, store, DEALER, withdraw, "L1", ["sms"], by="Alex", reason=None, profile=NO_NOTICES)
        assert read(store, DEALER, verify_chain).problem is None


@pytest.mark.parametrize("noted", [True, False], ids=["a key of the dealer's", "a key that nobody has"])
def test_a_process_without_the_key_that_another_uses_does_not_make_the_chain_look_changed(
    database_url: str, writer: LeadWriter, filled: Store, renewed: Store, noted: bool
) -> None:
    """A command has the new key in DEALER_AGENT_KEYS, and the service was not restarted yet."""
    lock_at(TUESDAY, renewed, DEALER, withdraw, "L1", ["email"], by="Alex", reason=None, profile=NO_NOTICES)
    if noted:
        with pytest.raises(KeyMissing, match=r"another process uses the key k-second.* restart this process"):
            writer.submit(DEALER, storing("L3")).result(60)
        with pytest.raises(KeyMissing, match="k-second"):
            writer.probe(DEALER, 60).result(60)
        assert read(renewed, DEALER, verify_chain).problem is None
    else:
        with renewed.write(DEALER) as tx:
            forged = {"seal": b"\x01\x09k-unknown" + bytes(32)}
            tx.connection.execute(text("UPDATE dealers SET consent_seal = :seal"), forged)
        assert writer.submit(DEALER, storing("L3")).result(60) == "L3", "somebody changed the seal: leads are taken"
    with closing(renewed.lead_writer()) as restarted:
        restarted.submit(DEALER, storing("L4")).result(60)
    assert (read(renewed, DEALER, verify_chain).problem is None) is noted


@sqlite_first()
def test_keys_at_hand_go_on_working_where_a_new_one_cannot_be_read(database_url: str, renewed: Store) -> None:
    def unreadable() -> Keyring:
        raise InvalidKeys("line 1 is not a key", 1)

    with Store.open(database_url, Cipher(KEYRING, unreadable)) as store, closing(store.lead_writer()) as writer:
        assert writer.submit(DEALER, storing("L3")).result(60) == "L3"


@sqlite_first()
def test_a_key_that_cannot_be_read_takes_the_place_of_no_retired_one(database_url: str, renewed: Store) -> None:
    def unreadable() -> Keyring:
        raise InvalidKeys("line 1 is not a key", 1)

    with Store.open(database_url, Cipher(KEYRING, unreadable)) as store, closing(store.lead_writer()) as writer:
        reencrypt_all(renewed, DEALER, 100)
        with pytest.raises(KeyMissing, match="k-first was retired, and the new one cannot be read: line 1"):
            writer.submit(DEALER, storing("L3")).result(60)


@sqlite_first()
def test_an_erased_lead_needs_no_key_any_more(renewed: Store) -> None:
    for name in ("L1", "L2"):
        lock_at(TUESDAY, renewed, DEALER, erase_lead, name, consent_too=True)
    assert sealed_values(renewed) == set()
    assert read(renewed, DEALER, values_by_key) == {"k-second": 1}, "the end of the chain, sealed by the last erasure"
    assert reencrypt_all(renewed, DEALER, 9) == 0


def test_a_value_that_does_not_open_is_named_and_can_be_erased(renewed: Store) -> None:
    with renewed.write(DEALER) as tx:
        other = "(SELECT customer FROM leads AS o WHERE o.dealer_id = 'ridgeline' AND o.lead_id = 'L1')"
        tx.connection.execute(text(f"UPDATE leads SET customer = {other} WHERE lead_id = 'L2'"))
    with pytest.raises(WrongKey, match=r"\(leads\.customer of L2\)"):
        reencrypt_all(renewed, DEALER, 1000)
    with pytest.raises(WrongKey, match=r"changed or moved.*\(leads\.customer of L2\)"):
        read(renewed, DEALER, get_lead, "L2")
    lock_at(TUESDAY, renewed, DEALER, erase_lead, "L2")
    reencrypt_all(renewed, DEALER, 1000)
    assert set(read(renewed, DEALER, values_by_key)) == {"k-second"}


def test_a_change_of_keys_does_not_hide_that_the_chain_was_tampered_with(renewed: Store) -> None:
    with renewed.write(DEALER) as tx:
        tx.connection.execute(text("DELETE FROM consent_events WHERE number = 6"))
        head = "(SELECT hash FROM consent_events WHERE number = 5)"
        tx.connection.execute(text(f"UPDATE dealers SET consent_events = 5, consent_head = {head}"))
    reencrypt_all(renewed, DEALER, 1000)
    assert read(renewed, DEALER, verify_chain).first_broken == 6
    assert read(renewed, DEALER, values_by_key)["k-first"] == 1, (
        "its seal is left, and the key to it is not to be thrown away"
    )


def test_each_dealer_changes_keys_apart(renewed: Store) -> None:
    assert reencrypt_all(renewed, "lakeside", 1000) == 0
    assert read(renewed, "lakeside", values_by_key) == {}
    assert read(renewed, DEALER, values_by_key) == {"k-first": VALUES}


@sqlite_first()
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(keys=st.lists(st.integers(0, 2), min_size=1, max_size=6), limit=st.integers(1, 9))
def test_whatever_keys_were_in_front_one_after_the_other_the_last_one_gets_it_all(
    database_url: str, store: Store, keys: list[int], limit: int
) -> None:
    """Leads come while keys go to and fro; then everything comes under the key that is in front at the end."""
    ring = [("k-zero", bytes(32)), ("k-one-longer-id", bytes([1] * 32)), ("k-2", bytes([2] * 32))]
    vaults = [Cipher(Keyring((ring[n], *(key for key in ring if key != ring[n])))) for n in range(3)]
    dealer_id = str(ULID())  # Every example has a dealer of its own.
    with store.lock(dealer_id) as tx:
        for turn, key in enumerate(keys):
            then = with_cipher(tx, vaults[key])
            record_lead(then, lead(f"L{turn}"), consent(), contacts=["email:sam"], vehicle_key=None)
            first_answer(str(turn))(then)
    with Store.open(database_url, vaults[keys[-1]]) as last:
        reencrypt_all(last, dealer_id, limit)
    with Store.open(database_url, Cipher(Keyring((ring[keys[-1]],)))) as alone, alone.read(dealer_id, MONDAY) as tx:
        for turn in range(len(keys)):
            assert find_idempotent(tx, "token", str(turn)) is not None
        assert find_duplicate(tx, ["email:sam"], None, MONDAY) == "L0"
