"""From 0005, where agents' names stood in the clear, to 0006: all is carried over, and nothing is left behind."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from tests.storage.contents import everything
from tests.storage.samples import DEALER, MONDAY, TUESDAY, VAULT, WEDNESDAY
from tests.storage.test_migrate_to_privacy import ANSWER, at_0002, fill_0002

from dealer_agent.storage import KeyMissing, Store, find_duplicate, find_idempotent, migrate
from dealer_agent.storage.connections import database_url as parse
from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.schema import microseconds

CONTACTS = ("email:sam.sample@example.com", "phone:+12025550101")
VEHICLES = [sha256(name.encode()).hexdigest().encode() for name in ("L1", "L2")]
FINGERPRINT = sha256(b'["token","k"]').digest()
CLEAR = (b"Example Agent", b"sell my data", *VEHICLES, FINGERPRINT)
"""What 0005 kept as it came, or as a hash that anybody can compute."""

ERASE_L2 = (
    "UPDATE leads SET customer = NULL, payload = NULL, erased_at = 9 WHERE lead_id = 'L2'",
    "DELETE FROM lead_contacts WHERE lead_id = 'L2'",
)
DISPOSE_OF_L2 = ERASE_L2[:1]


def at_0005(url: str, *changes: str) -> None:
    """A database as the program before this one left it."""

    def fill(connection: Connection) -> None:
        fill_0002(connection)
        scope = {"scope": b'["lead_submission","sell my data"]'}
        connection.execute(text("UPDATE consents SET scope = :scope"), scope)

    at_0002(url, fill)
    migrate(url, VAULT, to="0005")
    engine = writer_engine(parse(url))
    with engine.begin() as connection:
        for change in changes:
            connection.execute(text(change))
    engine.dispose()


def stored(store: Store, look: Callable[[Connection], object]) -> object:
    with store._reading() as connection:
        return look(connection)


def test_leads_consents_and_answers_are_found_as_before(database_url: str) -> None:
    at_0005(database_url)
    assert migrate(database_url, VAULT) == "0005"
    with Store.open(database_url, VAULT) as store:
        assert [lead.source_agent for lead in store.list_leads(DEALER, 9)] == ["Example Agent"] * 2
        found = store.get_lead(DEALER, "L1")
        assert found is not None
        assert [event.agent for event in found.consents] == [None, "Example Agent"]
        assert {event.scope for event in found.consents} == {("lead_submission", "sell my data")}
        assert store.verify_chain(DEALER) == (3, 0, None, None)
        assert store.find_leads_of(DEALER, CONTACTS) == ["L1", "L2"]
        assert stored(store, lambda c: find_duplicate(c, VAULT, DEALER, CONTACTS, "L2", MONDAY)) == "L2"
        first = stored(store, lambda c: find_idempotent(c, VAULT, DEALER, "token", "k", TUESDAY))
        assert first == (sha256(b"payload").digest(), ANSWER, MONDAY)


@pytest.mark.requirement("sealed-at-rest")
def test_nothing_is_left_in_the_clear(database_url: str) -> None:
    """Neither in a table nor, on SQLite, in free space or WAL."""
    at_0005(database_url)
    migrate(database_url, VAULT)
    with Store.open(database_url, VAULT) as store:
        held = everything(store)
        assert b"A1ridgeline" in held, "this is where it would be found"
        assert not [clear for clear in CLEAR if clear in held]


def test_the_old_file_did_hold_it_in_the_clear(sqlite_url: str, tmp_path: Path) -> None:
    """So the search above finds what is there to be found."""
    at_0005(sqlite_url)
    held = b"".join(part.read_bytes() for part in tmp_path.glob("dealer.db*"))
    assert not [clear for clear in CLEAR if clear not in held]


@pytest.mark.parametrize(
    ("changes", "known_contacts"),
    [pytest.param(ERASE_L2, ["L1"], id="erased"), pytest.param(DISPOSE_OF_L2, ["L1", "L2"], id="disposed of")],
)
def test_a_forgotten_lead_loses_its_agent_and_its_vehicle(
    database_url: str, changes: tuple[str, ...], known_contacts: list[str]
) -> None:
    at_0005(database_url, *changes)
    migrate(database_url, VAULT)
    with Store.open(database_url, VAULT) as store:
        assert [lead.source_agent for lead in store.list_leads(DEALER, 9)] == [None, "Example Agent"]
        assert store.find_leads_of(DEALER, CONTACTS) == known_contacts
        left = "SELECT count(*) FROM lead_contacts WHERE lead_id = 'L2' AND (vehicle IS NOT NULL OR vehicle_key <> :no)"
        assert stored(store, lambda c: c.execute(text(left), {"no": b""}).scalar()) == 0


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE consent_events SET purpose = 'anything' WHERE number = 2",
        "UPDATE consent_events SET agent = 'Somebody' WHERE number = 2",
        "UPDATE consent_events SET body = (SELECT body FROM consent_events AS c WHERE c.number = 1) WHERE number = 2",
        "DELETE FROM consent_events WHERE number = 2",
    ],
)
def test_a_chain_that_was_tampered_with_shows_it_still_at_the_same_event(database_url: str, change: str) -> None:
    at_0005(database_url, change)
    migrate(database_url, VAULT)
    with Store.open(database_url, VAULT) as store:
        assert store.verify_chain(DEALER).first_broken == 2


def test_a_chain_whose_end_was_cut_off_still_shows_it(database_url: str) -> None:
    at_0005(database_url, "DELETE FROM consent_events WHERE number = 3")
    migrate(database_url, VAULT)
    with Store.open(database_url, VAULT) as store:
        assert store.verify_chain(DEALER).first_broken == 3


def test_the_clock_is_trusted_as_far_as_the_newest_row(database_url: str) -> None:
    at_0005(database_url)
    migrate(database_url, VAULT)
    with Store.open(database_url, VAULT) as store:
        trusted = stored(store, lambda c: c.execute(text("SELECT trusted_at FROM clocks")).scalar())
        assert trusted == microseconds(WEDNESDAY)


def test_without_the_key_the_database_stays_as_it_is(database_url: str) -> None:
    at_0005(database_url)
    with pytest.raises(KeyMissing, match="DEALER_AGENT_KEYS"):
        migrate(database_url)
    assert migrate(database_url, VAULT) == "0005"
