"""What the role of the service may do on PostgreSQL: what its statements need, and nothing about dealers' settings."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from sqlalchemy import Delete, Dialect, Insert, Update, insert
from sqlalchemy.dialects import postgresql
from tests.storage.databases import fresh_schema
from tests.storage.service_role import admin_of, as_role, drop_roles, prepared_schema, roles_of
from tests.storage.statements import statements_of_modules
from tests.storage.test_isolation import rows_of

from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.database_roles import Roles, prepare_database
from dealer_agent.storage.database_url import database_url
from dealer_agent.storage.errors import DatabaseReadOnly, HostTaken
from dealer_agent.storage.installation.dealer_registry import add_dealer, add_host, change_settings, remove_dealer
from dealer_agent.storage.isolation import ALL_DEALERS, INSTALLATION_TABLES, SERVICE_RIGHTS
from dealer_agent.storage.migrate import REVISION_TABLE
from dealer_agent.storage.schema import metadata
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

POSTGRESQL: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
DOCUMENT = b'name = "North Motors"'
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "isolation.md"
ROLES = Roles("dealer_agent_owner", "dealer_agent_service", "dealer_agent_admin")
OF_COMMANDS = ("dealer_registry.",)
"""The modules whose statements change dealers. The service only reads with them."""


@pytest.fixture(scope="module")
def urls(postgresql_server: str) -> Iterator[tuple[str, str]]:
    """A prepared schema with a row of the dealer north in each table: the URLs of a superuser and of the service."""
    with prepared_schema(postgresql_server) as made:
        engine = writer_engine(database_url(made[0]))
        with engine.begin() as connection:
            for table in metadata.sorted_tables:
                connection.execute(insert(table), list(rows_of(table, "north", connection)))
        engine.dispose()
        yield made


def needed_rights() -> dict[str, set[str]]:
    """What the statements of the service do with each table."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, statement in statements_of_modules().items():
        if name.startswith(OF_COMMANDS) or not isinstance(statement, Insert | Update | Delete):
            continue
        table = str(statement.table)
        found[table].add(type(statement).__name__.upper())
        if "DO UPDATE" in str(statement.compile(dialect=POSTGRESQL)):
            found[table].add("UPDATE")
    return found


@pytest.mark.filterwarnings("ignore:Column .* is marked as a member of the primary key")
def test_the_service_may_do_exactly_what_its_statements_do() -> None:
    granted = {
        table: set(re.sub(r" \(\w+\)", "", rights).split(", ")) - {""} for table, rights in SERVICE_RIGHTS.items()
    }
    needed = needed_rights()
    assert granted == {table: needed[table] for table in metadata.tables}


def rights_of(connection: psycopg.Connection[Any], role: str, table: str) -> list[str]:
    """What a role of a real database may do with a table."""
    found = connection.execute(
        "SELECT r FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER'])"
        " WITH ORDINALITY AS each (r, place) WHERE has_table_privilege(%s, to_regclass(%s), r) ORDER BY place",
        [role, table],
    )
    return [right for (right,) in found]


def columns_to_update(connection: psycopg.Connection[Any], role: str, table: str) -> list[str]:
    """The columns that a role may update, if it may not update the others."""
    found = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0"
        " AND has_column_privilege(%s, attrelid, attnum, 'UPDATE') AND NOT has_table_privilege(%s, attrelid, 'UPDATE')",
        [table, role, role],
    )
    return [column for (column,) in found]


def test_the_page_about_isolation_lists_all_tables_as_they_are_in_the_database(urls: tuple[str, str]) -> None:
    """The page has each table, what a transaction about all dealers reads, and what the service may change."""
    role = roles_of(urls[0]).service
    expected = []
    with psycopg.connect(urls[0]) as connection, psycopg.connect(urls[1]) as service:
        service.execute("SELECT set_config('dealer_agent.dealer', %s, false)", [ALL_DEALERS])
        for table in sorted(metadata.tables):
            rights = rights_of(connection, role, table)
            assert rights[0] == "SELECT"
            columns = columns_to_update(connection, role, table)
            changes = [*rights[1:], *(f"UPDATE of `{column}`" for column in columns)]
            reads = service.execute(f"SELECT 1 FROM {table} WHERE dealer_id = 'north' LIMIT 1".encode()).fetchone()
            expected.append(f"| `{table}` | {'yes' if reads else '-'} | {', '.join(changes) or '-'} |")
    found = re.findall(r"^\| `(\w+)` .*$", PAGE.read_text("utf-8"), re.MULTILINE)
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert [line for name, line in zip(found, lines, strict=True) if name not in ROLES] == expected


def test_the_service_cannot_change_the_settings_of_dealers_whatever_it_sets(urls: tuple[str, str]) -> None:
    admin, service = urls
    statements = (
        "UPDATE registered_dealers SET enabled = false",
        "INSERT INTO dealer_settings VALUES ('north', 9, 1, 'me', '', 'x')",
        "UPDATE dealer_settings SET document = 'x'",
        "DELETE FROM dealer_hosts",
        "DELETE FROM leads",
        "DELETE FROM consent_events",
        "UPDATE consent_events SET kind = 'granted'",
        "DELETE FROM tokens",
        "TRUNCATE outbox",
        "CREATE TRIGGER mine BEFORE INSERT ON leads FOR EACH ROW EXECUTE FUNCTION announce_change()",
    )
    with psycopg.connect(service, autocommit=True) as connection:
        for dealer_id in (ALL_DEALERS, "north"):
            connection.execute("SELECT set_config('dealer_agent.dealer', %s, false)", [dealer_id])
            for statement in statements:
                with pytest.raises(InsufficientPrivilege):
                    connection.execute(statement.encode())
    assert admin != service


@pytest.mark.parametrize("table", INSTALLATION_TABLES)
def test_a_transaction_about_all_dealers_changes_no_row_of_one(urls: tuple[str, str], table: str) -> None:
    """Also with all rights, as an earlier version gave them to the service."""
    with psycopg.connect(urls[0]) as connection:
        role = roles_of(urls[0]).service
        connection.execute(f'GRANT ALL ON {table} TO "{role}"'.encode())
        connection.execute(f'SET LOCAL ROLE "{role}"'.encode())
        connection.execute("SELECT set_config('dealer_agent.dealer', '*', true)")
        assert connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() != (0,)
        assert connection.execute(f"UPDATE {table} SET dealer_id = 'south'".encode()).rowcount == 0
        assert connection.execute(f"DELETE FROM {table}".encode()).rowcount == 0
        connection.rollback()


def test_the_role_for_commands_changes_dealers_and_the_service_does_not(postgresql_server: str) -> None:
    with prepared_schema(postgresql_server) as (_, service):
        with Store.open(admin_of(service)) as store:
            for dealer_id in ("north", "south"):
                with store.write(dealer_id) as tx:
                    add_dealer(tx, DOCUMENT, actor="test")
            with store.write("north") as tx:
                change_settings(tx, DOCUMENT, expected=1, actor="test")
                add_host(tx, "north.example.com")
            with pytest.raises(HostTaken), store.write("south") as tx:
                add_host(tx, "north.example.com")
        with Store.open(service) as store:
            with pytest.raises(DatabaseReadOnly), store.write("east") as tx:
                add_dealer(tx, DOCUMENT, actor="test")
            with pytest.raises(DatabaseReadOnly), store.write("north") as tx:
                change_settings(tx, DOCUMENT, expected=2, actor="test")
            with pytest.raises(DatabaseReadOnly):
                remove_dealer(store, "north")
        with Store.open(admin_of(service)) as store:
            assert remove_dealer(store, "north")["dealer_settings"] == 2


def test_a_role_with_needless_rights_is_a_problem_until_the_database_is_prepared_again(postgresql_server: str) -> None:
    with fresh_schema(postgresql_server) as url:
        roles = roles_of(url)
        prepare_database(url, roles)
        with psycopg.connect(url, autocommit=True) as connection:
            schema = connection.execute("SELECT current_schema()").fetchone()
            assert schema is not None
            # What an earlier version gave to the service.
            rights = f'ON ALL TABLES IN SCHEMA "{schema[0]}" TO "{roles.service}"'
            connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE {rights}".encode())
        with Store.open(as_role(url, roles.service)) as store:
            problem = store.isolation_problem()
            assert problem is not None
            assert "has rights that the service never uses (UPDATE on accesses, DELETE on agent_policies, " in problem
            assert "dealer-agent database prepare" in problem
            prepare_database(url, roles)
            assert store.isolation_problem() is None
        drop_roles(postgresql_server, roles)


def test_the_tables_of_a_new_migration_are_closed_to_the_service_until_they_are_granted(postgresql_server: str) -> None:
    with fresh_schema(postgresql_server) as url:
        roles = roles_of(url)
        prepare_database(url, roles)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'SET ROLE "{roles.owner}"'.encode())
            connection.execute("CREATE TABLE another (dealer_id text)")
            assert rights_of(connection, roles.service, "another") == []
            assert rights_of(connection, roles.service, REVISION_TABLE) == ["SELECT"]
        drop_roles(postgresql_server, roles)
