"""The roles of a PostgreSQL database: one owns the tables, and the service uses them within row-level security."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from tests.storage.calls import read
from tests.storage.databases import fresh_schema
from tests.storage.samples import CIPHER, DEALER, import_rows, row
from tests.storage.service_role import as_role, drop_roles, prepared_schema, roles_of

from dealer_agent.storage import migrate as migrating
from dealer_agent.storage.database_roles import Passwords, prepare_database
from dealer_agent.storage.errors import BadDatabaseUrl, SchemaOutdated, StorageError
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.schema import SCHEMA_VERSION
from dealer_agent.storage.stock.reading import read_revision
from dealer_agent.storage.store import Store


@pytest.fixture
def url(postgresql_server: str) -> Iterator[str]:
    with fresh_schema(postgresql_server) as made:
        yield made
        drop_roles(postgresql_server, roles_of(made))


def run(url: str, statement: str, *names: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def test_the_service_role_is_isolated_and_can_do_its_work(url: str) -> None:
    roles = roles_of(url)
    assert prepare_database(url, roles) is None
    service = as_role(url, roles.service)
    assert migrate(service) == SCHEMA_VERSION
    with Store.open(service, CIPHER) as store:
        assert store.isolation_problem() is None
        import_rows(store, [row("V1")])
        assert read(store, DEALER, read_revision).stock == 1


def test_a_prepared_database_is_prepared_again_without_a_change(url: str) -> None:
    roles = roles_of(url)
    prepare_database(url, roles)
    with Store.open(as_role(url, roles.service), CIPHER) as store:
        import_rows(store, [row("V1")])
        assert prepare_database(url, roles) == SCHEMA_VERSION
        assert read(store, DEALER, read_revision).stock == 1


def test_the_tables_of_an_earlier_owner_get_the_new_one(url: str) -> None:
    migrate(url)
    with Store.open(url, CIPHER) as store:
        import_rows(store, [row("V1")])
    roles = roles_of(url)
    assert prepare_database(url, roles) == SCHEMA_VERSION
    with Store.open(as_role(url, roles.service), CIPHER) as store:
        assert store.isolation_problem() is None
        assert read(store, DEALER, read_revision).stock == 1


def test_the_service_role_cannot_change_the_tables(postgresql_server: str) -> None:
    with prepared_schema(postgresql_server) as (_, service):
        for statement in ("CREATE TABLE mine (a int)", "DROP POLICY one_dealer ON leads", "TRUNCATE units CASCADE"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                run(service, statement)


def test_a_service_role_is_told_how_the_schema_is_upgraded(
    postgresql_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with prepared_schema(postgresql_server) as (_, service):
        monkeypatch.setattr(migrating, "SCHEMA_VERSION", "9000")
        with pytest.raises(SchemaOutdated, match="may not change it: type dealer-agent database prepare"):
            migrate(service)
        monkeypatch.undo()


def test_a_password_reaches_the_server_only_as_a_verifier(url: str) -> None:
    roles = roles_of(url)
    prepare_database(url, roles, Passwords("a secret word", "another word"))
    with psycopg.connect(url) as connection:
        read = "SELECT rolpassword FROM pg_authid WHERE rolname = ANY(%s)"
        stored = connection.execute(read, [[roles.service, roles.admin]]).fetchall()
    assert [each[0][:14] for each in stored] == ["SCRAM-SHA-256$"] * 2


def test_a_service_role_with_too_much_power_is_refused(url: str) -> None:
    roles = roles_of(url)
    prepare_database(url, roles)
    owner, service = roles.owner, roles.service
    for words, give, take, names in (
        ("is a superuser", "ALTER ROLE {} SUPERUSER", "ALTER ROLE {} NOSUPERUSER", [service]),
        ("has BYPASSRLS", "ALTER ROLE {} BYPASSRLS", "ALTER ROLE {} NOBYPASSRLS", [service]),
        ("owns the tables", "GRANT {} TO {}", "REVOKE {} FROM {}", [owner, service]),
    ):
        run(url, give, *names)
        with pytest.raises(StorageError, match="row-level security would not apply"):
            prepare_database(url, roles)
        with Store.open(as_role(url, service)) as store:
            problem = store.isolation_problem()
        assert problem is not None
        assert problem.startswith(f"the user of the database {words}")
        assert "dealer-agent database prepare" in problem
        run(url, take, *names)
        prepare_database(url, roles)


def test_a_table_without_row_level_security_is_a_problem(url: str) -> None:
    roles = roles_of(url)
    prepare_database(url, roles)
    run(url, "ALTER TABLE leads DISABLE ROW LEVEL SECURITY")
    with Store.open(as_role(url, roles.service)) as store:
        assert "finds tables without row-level security" in str(store.isolation_problem())


def test_sqlite_has_no_roles_and_no_problem(sqlite_url: str) -> None:
    with pytest.raises(BadDatabaseUrl, match="only a PostgreSQL database has roles"):
        prepare_database(sqlite_url, roles_of(sqlite_url))
    migrate(sqlite_url)
    with Store.open(sqlite_url) as store:
        assert store.isolation_problem() is None
