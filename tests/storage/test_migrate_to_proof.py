"""From 0006 to 0009: earlier withdrawals are kept, and the access log becomes a chain."""

import pytest
from sqlalchemy import text
from tests.storage.samples import DEALER, MONDAY, TUESDAY, VAULT
from tests.storage.test_migrate_to_privacy import at_0002, fill_0002

from dealer_agent.storage import KeyMissing, Store, migrate
from dealer_agent.storage.connections import database_url as parse
from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.schema import microseconds
from dealer_agent.storage.withdrawals import withdrawn_since

SAM = "email:sam.sample@example.com"
ENTRIES = 1201


def at_0006(url: str, *, revoked: bool = True, entries: int = ENTRIES) -> None:
    """A database as the program before this one left it."""
    at_0002(url, fill_0002)
    migrate(url, VAULT, to="0006")
    engine = writer_engine(parse(url))
    with engine.begin() as connection:
        if revoked:
            # The chain is not sound with it. The migration carries over what is there.
            connection.execute(
                text("UPDATE consent_events SET kind = 'revoked', at = :at WHERE lead_id = 'L1'"),
                {"at": microseconds(TUESDAY)},
            )
        columns = "dealer_id, access_id, at, actor, action, leads"
        add = f"INSERT INTO accesses ({columns}) VALUES (:dealer, :id, :at, 'Alex', 'x', 1)"
        if entries:
            rows = [{"dealer": DEALER, "id": f"{n:026}", "at": microseconds(MONDAY) + n // 7} for n in range(entries)]
            connection.execute(text(add), rows)
    engine.dispose()


@pytest.mark.requirement("withdrawal-lasts")
def test_withdrawals_and_the_access_log_are_carried_over(database_url: str) -> None:
    at_0006(database_url)
    assert migrate(database_url, VAULT) == "0006"
    with Store.open(database_url, VAULT) as store:
        with store._reading() as connection:
            found = withdrawn_since(connection, VAULT, DEALER, [SAM], MONDAY)
        assert found
        assert store.verify_accesses(DEALER) == (ENTRIES, 0, None, None)
        store.log_access(DEALER, TUESDAY, "Kim", "leads list", leads=1)
        assert store.verify_accesses(DEALER) == (ENTRIES + 1, 0, None, None)
        assert len(store.list_accesses(DEALER, 2000)) == ENTRIES + 1


@pytest.mark.parametrize(("revoked", "entries"), [(True, 0), (False, 1)])
def test_without_the_key_the_database_stays_as_it_is(database_url: str, revoked: bool, entries: int) -> None:
    at_0006(database_url, revoked=revoked, entries=entries)
    with pytest.raises(KeyMissing, match="DEALER_AGENT_KEYS"):
        migrate(database_url)
    assert migrate(database_url, VAULT) == "0006"


def test_a_database_without_either_needs_no_key(database_url: str) -> None:
    at_0006(database_url, revoked=False, entries=0)
    assert migrate(database_url) == "0006"
    with Store.open(database_url, VAULT) as store:
        assert store.verify_accesses(DEALER) == (0, 0, None, None)
