"""The record of consents: only added to, chained so that tampering shows, and asked before anybody is contacted."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text
from tests.soak import examples, sqlite_first
from tests.storage.calls import at_time, lock_at, read, with_cipher
from tests.storage.samples import (
    CIPHER,
    DEALER,
    KEYRING,
    MONDAY,
    NO_NOTICES,
    TUESDAY,
    WEDNESDAY,
    consent,
    lead,
    storing,
)
from ulid import ULID

from dealer_agent.encryption import Cipher, Keyring
from dealer_agent.leads.consent_events import ConsentRecord
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.stored_leads import get_lead, record_lead
from dealer_agent.storage.privacy.consents import (
    allowed_channels,
    record_consent,
    record_withdrawal_event,
    verify_chain,
)
from dealer_agent.storage.privacy.erasure import erase_lead
from dealer_agent.storage.privacy.event_chain import CONSENTS, ChainEnd, ChainReport, end_mac, lock_dealer, row_hash
from dealer_agent.storage.schema import consent_events
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

CHANNELS = ("email", "phone", "sms")


@pytest.fixture
def chained(store: Store, writer: LeadWriter) -> Store:
    """Five events: a consent for each of three leads, a revocation in the middle, and a second consent at the end."""

    def job(tx: Transaction) -> None:
        storing("L1", contacts=["sam@example.com"])(tx)
        storing("L2", contacts=["pat@example.com"])(tx)
        record_withdrawal_event(at_time(tx, TUESDAY), "L1", ("sms",), by="Alex", reason="called us")
        storing("L3", contacts=["kim@example.com"])(tx)
        record_consent(tx, "L2", consent(TUESDAY, expires_at=WEDNESDAY, source_agent="Agent"))

    writer.submit(DEALER, job).result(60)
    return store


def changed(store: Store, *statements: str, **values: Any) -> ChainReport:
    """What a check says once somebody changed the tables by hand, around this program."""
    with store.write(DEALER) as tx:
        for statement in statements:
            tx.connection.execute(text(statement), values)
    return read(store, DEALER, verify_chain)


@sqlite_first()
def test_a_chain_that_nobody_touched_is_whole(chained: Store) -> None:
    assert read(chained, DEALER, verify_chain) == ChainReport(rows=5, erased=0, first_broken=None, problem=None)


@sqlite_first()
def test_a_dealer_without_leads_has_an_empty_chain(store: Store) -> None:
    assert read(store, "nobody", verify_chain) == ChainReport(rows=0, erased=0, first_broken=None, problem=None)


@sqlite_first()
def test_each_dealer_has_a_chain_of_its_own(chained: Store, writer: LeadWriter) -> None:
    def job(tx: Transaction) -> None:
        agreed = consent()
        record_lead(tx, lead("X1"), agreed, contacts=[], vehicle_key=None)

    writer.submit("lakeside", job).result(60)
    found = read(chained, "lakeside", get_lead, "X1")
    assert found is not None
    assert [event.number for event in found.consents] == [1]
    assert read(chained, "lakeside", verify_chain).rows == 1
    assert read(chained, DEALER, verify_chain).rows == 5


@sqlite_first()
def test_a_revocation_says_who_noted_it_and_why(chained: Store) -> None:
    found = read(chained, DEALER, get_lead, "L1")
    assert found is not None
    _, revoked = found.consents
    assert (revoked.number, revoked.kind, revoked.at, revoked.channels) == (3, "revoked", TUESDAY, ("sms",))
    assert (revoked.by, revoked.reason) == ("Alex", "called us")
    assert (revoked.consent_text, revoked.request_hash, revoked.granted_at) == (None, None, None)


@sqlite_first()
def test_nothing_is_revoked_of_a_lead_that_does_not_exist(chained: Store) -> None:
    with pytest.raises(StorageError, match="refused a statement"):
        lock_at(TUESDAY, chained, DEALER, withdraw, "NONE", ["email"], by="Alex", reason=None, profile=NO_NOTICES)
    assert read(chained, DEALER, verify_chain) == (5, 0, None, None)


# Whatever of the second event somebody changes.
CHANGED_COLUMNS = {
    "lead_id": "'L1'",
    "kind": "'revoked'",
    "at": "at + 1",
    "granted_at": "granted_at - 1",
    "expires_at": "at + 1",
    "channels": ":channels",
    "purpose": "'anything'",
    "commitment": ":channels",
    "hash": ":channels",
    "body": "(SELECT body FROM consent_events AS other WHERE other.dealer_id = 'ridgeline' AND other.number = 4)",
}


@sqlite_first()
@pytest.mark.parametrize("column", CHANGED_COLUMNS)
def test_a_changed_column_shows_at_its_event(chained: Store, column: str) -> None:
    found = changed(
        chained,
        f"UPDATE consent_events SET {column} = {CHANGED_COLUMNS[column]} WHERE number = 2",
        channels=b'["phone"]',
    )
    assert (found.rows, found.first_broken) == (1, 2)
    assert found.problem


@sqlite_first()
def test_every_column_of_an_event_is_bound(chained: Store) -> None:
    """The table above is complete; number and dealer are the row's place in the chain."""
    assert {column.name for column in consent_events.columns} == {*CHANGED_COLUMNS, "dealer_id", "number"}


DROP_LAST = "DELETE FROM consent_events WHERE number = 5"
SET_BACK = """
    UPDATE dealers SET consent_events = 4, consent_head = (SELECT hash FROM consent_events WHERE number = 4)
"""


@sqlite_first()
@pytest.mark.parametrize(
    ("statements", "first_broken", "words"),
    [
        pytest.param(
            ["UPDATE consent_events SET body = NULL WHERE number = 2"], 2, "text is missing", id="dropped text"
        ),
        pytest.param(
            [
                "UPDATE consent_events SET number = 99 WHERE number = 2",
                "UPDATE consent_events SET number = 2 WHERE number = 4",
                "UPDATE consent_events SET number = 4 WHERE number = 99",
            ],
            2,
            "was changed",
            id="two events swapped",
        ),
        pytest.param(["DELETE FROM consent_events WHERE number = 3"], 3, "missing", id="removed in the middle"),
        pytest.param(["DELETE FROM consent_events WHERE number = 1"], 1, "missing", id="the first removed"),
        pytest.param(["UPDATE consent_events SET number = 0 WHERE number = 1"], 1, "less than 1", id="a wrong number"),
        pytest.param([DROP_LAST], 5, "there were 5", id="removed at the end"),
        pytest.param([DROP_LAST, SET_BACK], 5, "not the one that was written", id="cut off, and the count set back"),
        pytest.param([SET_BACK], 6, "should end after event 4", id="the count set back alone"),
        pytest.param(["UPDATE dealers SET consent_head = consent_seal"], 6, "not the one that was", id="another head"),
        pytest.param(["UPDATE dealers SET consent_seal = NULL"], 6, "not the one that was", id="no seal"),
        pytest.param(["UPDATE dealers SET consent_seal = consent_head"], 6, "not the one that was", id="no such seal"),
        pytest.param(
            [
                "DELETE FROM consent_events",
                "UPDATE dealers SET consent_events = 0, consent_head = NULL, consent_seal = NULL",
            ],
            1,
            "has no event",
            id="all of it removed, and its end",
        ),
    ],
)
def test_verification_names_the_first_event_that_was_changed_in_the_database(
    chained: Store, statements: list[str], first_broken: int, words: str
) -> None:
    found = changed(chained, *statements)
    assert found.first_broken == first_broken
    assert found.problem is not None
    assert words in found.problem


def rewritten(tx: Transaction, cipher: Cipher | None, *, head: bool = True) -> None:
    """Takes back a revocation, by somebody who knows this program and makes every hash anew; `head`: the end's too."""
    events = [dict(row._mapping) for row in tx.connection.execute(consent_events.select().order_by("number"))]
    events[2]["channels"] = b"[]"
    before = b""
    for event in events:
        event["hash"] = before = row_hash(event, before)
        tx.connection.execute(
            text("UPDATE consent_events SET hash = :hash, channels = :channels WHERE number = :number"),
            {name: event[name] for name in ("hash", "channels", "number")},
        )
    if head:
        tx.connection.execute(text("UPDATE dealers SET consent_head = :head"), {"head": before})
    if cipher is not None:
        seal = end_mac(with_cipher(tx, cipher), ChainEnd(len(events), before), CONSENTS)
        tx.connection.execute(text("UPDATE dealers SET consent_seal = :seal"), {"seal": seal})


@pytest.mark.parametrize(
    ("cipher", "head"),
    [
        pytest.param(None, True, id="with the old seal"),
        pytest.param(None, False, id="with the old end and its seal"),
        pytest.param(
            Cipher(Keyring((("k-first", b"another key with the same name..."[:32]),))), True, id="another key"
        ),
        pytest.param(Cipher(Keyring((("k-own", bytes(32)),))), True, id="a key of their own"),
    ],
)
def test_a_chain_that_was_written_again_without_the_key_fails_verification(
    chained: Store, cipher: Cipher | None, head: bool
) -> None:
    with chained.write(DEALER) as tx:
        rewritten(tx, cipher, head=head)
    found = read(chained, DEALER, verify_chain)
    assert (found.rows, found.first_broken) == (5, 6)
    assert found.problem is not None
    assert "not the one that was written" in found.problem


@sqlite_first()
def test_what_only_the_seal_prevents_is_possible_with_the_key(chained: Store) -> None:
    """So it is the key that makes the difference in the test above."""
    with chained.write(DEALER) as tx:
        rewritten(tx, CIPHER)
    assert read(chained, DEALER, verify_chain).problem is None


@sqlite_first()
def test_events_that_come_later_do_not_hide_what_was_cut_off(chained: Store, writer: LeadWriter) -> None:
    changed(chained, DROP_LAST, SET_BACK)
    writer.submit(DEALER, storing("L4")).result(60)  # No lead is lost to it.
    found = read(chained, DEALER, verify_chain)
    assert (found.rows, found.first_broken) == (5, 6)


@sqlite_first()
def test_a_write_that_fails_leaves_no_gap_in_the_chain(store: Store, writer: LeadWriter) -> None:
    """The savepoint of the write is rolled back, and so is the end of the chain from which the next write goes on."""

    def failing(tx: Transaction) -> None:
        storing("LOST")(tx)
        raise RuntimeError

    def busy(_: Transaction) -> None:
        futures.extend(writer.submit(DEALER, job) for job in (storing("L1"), failing, storing("L2")))

    futures: list[Any] = []
    writer.submit(DEALER, busy).result(60)
    assert futures[0].result(60) == "L1"
    with pytest.raises(RuntimeError):
        futures[1].result(60)
    assert futures[2].result(60) == "L2"
    assert read(store, DEALER, verify_chain) == (2, 0, None, None)


def test_verification_names_the_lost_key_of_a_text_that_cannot_be_decrypted(database_url: str, chained: Store) -> None:
    with chained.write(DEALER) as tx:
        tx.connection.execute(text("DELETE FROM vault_keys"))
    other = Cipher(Keyring((("k-other", bytes(32)),)))
    with Store.open(database_url, other) as store:
        found = read(store, DEALER, verify_chain)
    assert found.first_broken == 1
    assert found.problem is not None
    assert KEYRING.active in found.problem


def event(channels: str, expires: int | None = None) -> tuple[str, tuple[str, ...], int | None]:
    """A grant (with the day on which it ends) as `+ep`, a revocation as `-e`."""
    letters = {channel[0]: channel for channel in CHANNELS}
    return channels[0], tuple(letters[letter] for letter in channels[1:]), expires


@sqlite_first()
@pytest.mark.parametrize(
    ("events", "allowed"),
    [
        pytest.param([event("+ep")], "ep", id="what was granted"),
        pytest.param([event("+ep"), event("-e")], "p", id="less what was revoked"),
        pytest.param([event("+e"), event("-eps")], "", id="revoked altogether"),
        pytest.param([event("+e"), event("-e"), event("+e")], "e", id="a later grant allows again"),
        pytest.param([event("+e"), event("-e"), event("+p")], "p", id="of its own channels only"),
        pytest.param([event("+e", expires=0)], "", id="expired this moment"),
        pytest.param([event("+e", expires=1)], "e", id="not yet expired"),
        pytest.param([event("+e", expires=-1), event("+p")], "p", id="one of two expired"),
        pytest.param([event("+e"), event("+ep", expires=-1)], "e", id="what one allows the other's end does not take"),
        pytest.param([], "", id="nothing was granted"),
    ],
)
def test_a_customer_may_be_contacted_by_what_was_granted_and_not_revoked(
    store: Store, events: list[tuple[str, tuple[str, ...], int | None]], allowed: str
) -> None:
    with store.lock(DEALER) as tx:
        _bare_lead(tx.connection, DEALER, "L1")
        for second, (sign, channels, expires) in enumerate(events):
            ends = None if expires is None else MONDAY + timedelta(days=expires)
            _add(tx, "L1", sign, channels, ends, MONDAY + timedelta(seconds=second))
    assert read(store, DEALER, allowed_channels, "L1", MONDAY) == set(event("+" + allowed)[1])
    assert read(store, DEALER, allowed_channels, "L2", MONDAY) == set()


@sqlite_first()
@pytest.mark.parametrize(
    ("granted_at", "allowed"),
    [
        pytest.param(MONDAY, {"email"}, id="given before, sent once more"),
        pytest.param(TUESDAY, {"email"}, id="given that moment"),
        pytest.param(TUESDAY + timedelta(seconds=1), {"email", "sms"}, id="given anew"),
    ],
)
def test_a_revoked_channel_is_not_used_for_a_consent_from_before_the_revocation(
    store: Store, granted_at: datetime, allowed: set[str]
) -> None:
    """Agents send the consent that they have with every request: it says nothing anew."""
    with store.lock(DEALER) as tx:
        _bare_lead(tx.connection, DEALER, "L1")
        record_consent(tx, "L1", consent(MONDAY, granted_at=MONDAY))
        record_withdrawal_event(at_time(tx, TUESDAY), "L1", ("sms",), by="Alex", reason=None)
        record_consent(tx, "L1", consent(WEDNESDAY, granted_at=granted_at))
    assert read(store, DEALER, allowed_channels, "L1", WEDNESDAY) == allowed


@sqlite_first()
def test_nobody_is_contacted_once_erased(chained: Store) -> None:
    assert read(chained, DEALER, allowed_channels, "L1", MONDAY) == {"email"}
    lock_at(TUESDAY, chained, DEALER, erase_lead, "L1")
    assert read(chained, DEALER, allowed_channels, "L1", MONDAY) == set()


def _bare_lead(connection: Connection, dealer_id: str, lead_id: str) -> None:
    connection.execute(
        text(
            "INSERT INTO leads (dealer_id, lead_id, received_at, used_at, source_agent, status, rooftop) "
            "VALUES (:dealer_id, :lead_id, 0, 0, '', 'received', '')"
        ),
        {"dealer_id": dealer_id, "lead_id": lead_id},
    )


def _add(
    tx: Transaction,
    lead_id: str,
    sign: str,
    channels: tuple[str, ...],
    expires_at: datetime | None,
    at: datetime,
) -> None:
    if sign == "+":
        agreed: ConsentRecord = consent(at, granted_at=at, channels=channels, expires_at=expires_at)
        record_consent(tx, lead_id, agreed)
    else:
        record_withdrawal_event(at_time(tx, at), lead_id, channels, by="Alex", reason=None)


LEADS = ("L1", "L2", "L3")
chosen = st.lists(st.sampled_from(CHANNELS), unique=True, max_size=3).map(tuple)
steps = st.lists(st.tuples(st.sampled_from(LEADS), st.sampled_from("++-x"), chosen, st.booleans()), max_size=12)
properties = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@sqlite_first()
@properties
@given(steps=steps)
def test_after_any_events_the_chain_is_valid_and_allows_the_right_channels(store: Store, steps: list[Any]) -> None:
    dealer_id = str(ULID())  # Every example has a dealer of its own.
    model: dict[str, set[str]] = {name: set() for name in LEADS}
    erased: set[str] = set()
    texts = 0
    with store.lock(dealer_id) as tx:
        for name in LEADS:
            _bare_lead(tx.connection, dealer_id, name)
            record_consent(tx, name, consent(channels=()))
        for second, (name, sign, channels, expired) in enumerate(steps):
            if name in erased:
                continue
            if sign == "x":
                erase_lead(at_time(tx, MONDAY), name)
                erased.add(name)
                model[name].clear()
                continue
            at = MONDAY + timedelta(seconds=second)
            _add(tx, name, sign, channels, MONDAY if expired else None, at)
            if sign == "-":
                model[name] -= set(channels)
            elif not expired:
                model[name] |= set(channels)
        report = verify_chain(tx)
        for name in LEADS:
            assert allowed_channels(tx, name, MONDAY) == model[name]
            texts += sum(row is not None for row in _bodies(tx.connection, dealer_id, name))
    assert report.problem is None
    assert report.first_broken is None
    # Each erasure adds an event without a text.
    assert report.rows - report.erased - texts == len(erased)


def _bodies(connection: Connection, dealer_id: str, lead_id: str) -> Iterator[bytes | None]:
    told = {"dealer_id": dealer_id, "lead_id": lead_id}
    yield from connection.execute(
        text("SELECT body FROM consent_events WHERE dealer_id = :dealer_id AND lead_id = :lead_id"), told
    ).scalars()


def _integer(value: int) -> int:
    return value + 1


def _bytes(value: bytes) -> bytes:
    return value[:-1] + bytes([value[-1] ^ 1])


CHANGES: Mapping[type, Callable[[Any], Any]] = {int: _integer, bytes: _bytes, str: lambda value: value + "."}


@properties
@given(data=st.data())
def test_any_change_of_any_value_shows(store: Store, data: st.DataObject) -> None:
    """Of one value, of any type, in any row of a longer chain: at that event, or at the end."""
    dealer_id = str(ULID())
    with store.lock(dealer_id) as tx:
        for name in LEADS:
            _bare_lead(tx.connection, dealer_id, name)
            record_consent(tx, name, consent(expires_at=WEDNESDAY, source_agent="Agent"))
            record_withdrawal_event(at_time(tx, MONDAY), name, ("sms",), by="Alex", reason="said so")
        number = data.draw(st.integers(1, 2 * len(LEADS)))
        place = {"dealer_id": dealer_id, "number": number}
        row = tx.connection.execute(
            text("SELECT * FROM consent_events WHERE dealer_id = :dealer_id AND number = :number"), place
        ).one()
        values = {name: value for name, value in row._mapping.items() if value not in (None, "")}
        column = data.draw(st.sampled_from(sorted(set(values) - {"dealer_id", "number", "lead_id"})))
        tx.connection.execute(
            text(f"UPDATE consent_events SET {column} = :value WHERE dealer_id = :dealer_id AND number = :number"),
            place | {"value": CHANGES[type(values[column])](values[column])},
        )
        assert verify_chain(tx).first_broken == number


@sqlite_first()
def test_a_dealers_events_are_numbered_without_gaps_in_two_stores(database_url: str, store: Store) -> None:
    """The second store's connection remembers no end of the chain, or an old one: the lock shows the new one."""
    with Store.open(database_url, CIPHER) as other:
        for turn in range(3):
            for each in (store, other):
                with each.lock(DEALER) as tx:
                    lock_dealer(tx)
                    storing(f"L{turn}{id(each)}")(tx)
    assert read(store, DEALER, verify_chain) == (6, 0, None, None)
