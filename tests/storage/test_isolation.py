"""PostgreSQL keeps dealers apart, even if a statement forgets to say which dealer it is about."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard

import pytest
from sqlalchemy import (
    Boolean,
    CompoundSelect,
    Connection,
    Delete,
    Dialect,
    Engine,
    Insert,
    LargeBinary,
    Select,
    String,
    Table,
    Update,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.visitors import iterate
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, MONDAY, storing
from tests.storage.service_role import prepared_schema, roles_of
from tests.storage.statements import (
    Statement,
    is_of_dealer,
    statements_made_on_the_way,
    statements_of_modules,
    tables_without_dealer,
    without_dealer,
)
from tests.storage.test_lead_writer import Guard

from dealer_agent.storage.columns import ExternalText, UtcTime
from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.database_url import database_url as parsed
from dealer_agent.storage.errors import AlreadyStored
from dealer_agent.storage.isolation import ALL_DEALERS, INSTALLATION_TABLES, SET_DEALER
from dealer_agent.storage.privacy.consents import verify_chain
from dealer_agent.storage.schema import leads, metadata
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

ABOUT_ALL_DEALERS = {
    "dealer_keys.FIND_OTHERS",
    "dealer_registry.LIST_DEALERS",
    "dealer_registry.LIST_ALL_HOSTS",
    "dealer_registry.FIND_HOST",
    "dealer_registry.LOCK_HOSTS",
    "dealer_registry.COUNT_CHANGES",
    "dealer_registry.FIND_CHANGED",
    "jobs.FIND_ALL_DUE",
    "outbox.FIND_DEALERS_WITH_DUE",
    "outbox.CALL_DEALERS_WITH_DUE",
    "registration.HOLD",
    "registration.LIST_REMOVED",
    "registration.TAKE_ALONE",
}
"""The only statements that are meant for a transaction of the whole installation."""

STATES = {
    "outbox": ("waiting", "sent", "waiting", "undeliverable"),
    "vault_key_uses": ("active", "next", "retired", "active"),
}

UNTYPED = {"one_hash": b"x2", "other_hash": b"x2"}
"""Parameters whose type SQLAlchemy does not know."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Statement]:
    folder = tmp_path_factory.mktemp("statements")
    return statements_of_modules() | statements_made_on_the_way(f"sqlite:///{folder}/dealer.db")


def adds_values(statement: Statement) -> TypeGuard[Insert]:
    """Whether it is an INSERT of given values, which have a dealer. An INSERT from a SELECT reads rows."""
    return isinstance(statement, Insert) and statement.select is None


def test_every_statement_says_which_dealer_it_is_about(made: dict[str, Statement]) -> None:
    assert len(made) > 120
    silent = {
        name
        for name, statement in made.items()
        if not adds_values(statement) and not any(map(is_of_dealer, iterate(statement)))
    }
    assert silent == ABOUT_ALL_DEALERS


def test_no_statement_joins_rows_of_two_dealers(made: dict[str, Statement]) -> None:
    joining = {name: tables_without_dealer(made[name]) for name in made.keys() - ABOUT_ALL_DEALERS}
    assert {name: tables for name, tables in joining.items() if tables and not adds_values(made[name])} == {}


def test_every_key_and_every_unique_index_contains_the_dealer(database_url: str) -> None:
    make_current(database_url)
    engine = writer_engine(parsed(database_url))
    found = inspect(engine)
    tables = set(found.get_table_names()) - {"alembic_version"}
    for table in tables:
        keys: list[Any] = [
            found.get_pk_constraint(table)["constrained_columns"],
            *(each["column_names"] for each in found.get_unique_constraints(table)),
            *(each["column_names"] for each in found.get_indexes(table) if each["unique"]),
        ]
        assert all("dealer_id" in key for key in keys), table
        for key in found.get_foreign_keys(table):
            pairs = zip(key["constrained_columns"], key["referred_columns"], strict=True)
            assert ("dealer_id", "dealer_id") in pairs, table
    engine.dispose()
    assert tables == set(metadata.tables)


@pytest.fixture(scope="module")
def schema(postgresql_server: str) -> Iterator[tuple[Engine, str]]:
    """A prepared schema as a superuser sees it, and the name of its service role."""
    with prepared_schema(postgresql_server) as (url, _):
        engine = writer_engine(parsed(url))
        yield engine, roles_of(url).service
        engine.dispose()


def test_every_table_has_a_policy(schema: tuple[Engine, str]) -> None:
    engine, _ = schema
    read = text(
        "SELECT c.relname, c.relrowsecurity, p.cmd, p.permissive, p.qual, p.with_check, p.roles = '{public}' FROM"
        " pg_class c LEFT JOIN pg_policies p ON p.schemaname = current_schema() AND p.tablename = c.relname"
        " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')"
    )
    with engine.begin() as connection:
        found = connection.execute(read).all()
        assert {row[0] for row in found} == set(inspect(connection).get_table_names())
    variable = "current_setting('dealer_agent.dealer'::text, true)"
    # Without a condition of its own, a write has that of a read.
    of_dealer = (True, "ALL", "PERMISSIVE", f"((dealer_id)::text = {variable})", None, True)
    of_all = (True, "SELECT", "PERMISSIVE", f"({variable} = '*'::text)", None, True)
    assert sorted(found) == sorted(
        [
            ("alembic_version", False, None, None, None, None, None),
            *((name, *of_dealer) for name in metadata.tables),
            *((name, *of_all) for name in INSTALLATION_TABLES),
        ]
    )


def value_of(kind: Any, number: int) -> Any:
    """A value of a column or parameter."""
    if isinstance(kind, UtcTime):
        return MONDAY
    if isinstance(kind, LargeBinary):
        return b"x%d" % number
    if isinstance(kind, Boolean):
        return True
    return f"x{number}" if isinstance(kind, String | ExternalText) else number


def rows_of(table: Table, dealer_id: str, connection: Connection) -> Iterator[dict[str, Any]]:
    """Rows that fit together, with the same ids for each dealer, in several states, some without optional values."""
    optional = {column["name"] for column in inspect(connection).get_columns(table.name) if column["nullable"]}
    keys = {column.name for column in table.primary_key} | {"token_hash", "document_hash", "key_hash"}
    for number in range(4):
        made = {
            column.name: None if column.name in optional and number % 2 else value_of(column.type, number)
            for column in table.columns
        }
        if table.name in STATES:
            made["state"] = STATES[table.name][number]
        if dealer_id == "south":
            # What is not found by its value differs.
            made |= {name: b"y" for name, value in made.items() if value == b"x%d" % number and name not in keys}
        if number >= 1 and [column.name for column in table.primary_key] == ["dealer_id"]:
            return
        yield made | {"dealer_id": dealer_id}


def fill(connection: Connection, dealer_id: str) -> None:
    for table in metadata.sorted_tables:
        connection.execute(insert(table), list(rows_of(table, dealer_id, connection)))


def give_all_rights(connection: Connection, role: str) -> None:
    """Until the end of the transaction: only the policies are tested, and not what the role may do."""
    schema = connection.exec_driver_sql("SELECT current_schema()").scalar_one()
    connection.exec_driver_sql(f'GRANT ALL ON ALL TABLES IN SCHEMA "{schema}" TO "{role}"')


def parameters_of(statement: Any, dialect: Dialect) -> dict[str, Any]:
    """A value for each parameter that has none, such that rows match."""
    values: dict[str, Any] = {}
    # A parameter of an UPDATE gets its type when the statement is compiled.
    for part in statement.compile(dialect=dialect).bind_names:
        if part.required and part.key != "dealer":
            value = UNTYPED.get(part.key) or value_of(part.type, 2)
            values[part.key] = [value_of(part.type, number) for number in range(4)] if part.expanding else value
    return values


_READ_EVERYTHING = " UNION ALL ".join(
    f"SELECT '{name}', string_agg(t::text, '; ' ORDER BY t::text) FROM {name} t WHERE dealer_id = %(dealer)s"
    for name in metadata.tables
)


def everything_of(connection: Connection, dealer_id: str) -> dict[str, str | None]:
    """The rows of a dealer in each table as text, None where there are none.

    One statement, which the server plans only a few times: it is asked often.
    """
    driver: Any = connection.connection.driver_connection
    found = driver.execute(_READ_EVERYTHING, {"dealer": dealer_id}, prepare=True)
    return {row[0]: row[1] for row in found}


def result_of(connection: Connection, statement: Any, role: str | None) -> tuple[list[str], dict[str, str | None]]:
    """What the statement, without its dealer, reads or counts, and then all rows of the other dealer if it may write.

    With a `role`, it runs as this role with a dealer. Nothing stays.
    """
    tried = connection.begin_nested()
    try:
        if role is not None:
            connection.exec_driver_sql(f'SET LOCAL ROLE "{role}"')
            connection.exec_driver_sql(SET_DEALER, ("north",))
        found = connection.execute(without_dealer(statement), parameters_of(statement, connection.dialect))
        shown = sorted(map(repr, found.all())) if found.returns_rows else [str(found.rowcount)]
        if role is not None:
            connection.exec_driver_sql("RESET ROLE")
        return shown, {} if only_reads(statement) else everything_of(connection, "south")
    finally:
        tried.rollback()


def only_reads(statement: Any) -> bool:
    """Whether no row can change by it. It is not asked what is in the tables then, which takes the server long."""
    writes = any(isinstance(part, Insert | Update | Delete) for part in iterate(statement))
    return isinstance(statement, Select | CompoundSelect) and not writes


def leaks(connection: Connection, statement: Any, alone: list[str], before: dict[str, str | None]) -> bool:
    """Whether the statement, without its dealer, meets the other dealer's rows as a superuser."""
    try:
        return result_of(connection, statement, None) != (alone, {} if only_reads(statement) else before)
    except DBAPIError:
        return True  # Such as one row expected, and two found.


def test_a_statement_that_forgets_the_dealer_reads_and_changes_nothing_of_another(
    schema: tuple[Engine, str], made: dict[str, Statement]
) -> None:
    engine, service = schema
    tried = {
        name: statement
        for name, statement in made.items()
        if name not in ABOUT_ALL_DEALERS and not adds_values(statement)
    }
    with engine.connect() as connection, connection.begin() as transaction:
        # Without foreign keys: a statement deletes rows that others refer to.
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        give_all_rights(connection, service)
        fill(connection, "north")
        alone = {name: result_of(connection, statement, None)[0] for name, statement in tried.items()}
        fill(connection, "south")
        before = everything_of(connection, "south")
        leaking = {name for name, statement in tried.items() if leaks(connection, statement, alone[name], before)}
        for name, statement in tried.items():
            shown, rows = result_of(connection, statement, service)
            assert (shown, rows) == (alone[name], {} if only_reads(statement) else before), name
        transaction.rollback()
    # The conditions of the others find none of these rows.
    assert len(leaking) > 100


def test_no_row_of_another_dealer_is_written(schema: tuple[Engine, str], made: dict[str, Statement]) -> None:
    engine, service = schema
    adding = {name: statement for name, statement in made.items() if adds_values(statement)}
    with engine.connect() as connection, connection.begin() as transaction:
        fill(connection, "south")
        rows = {name: list(rows_of(metadata.tables[name], "south", connection)) for name in metadata.tables}
        give_all_rights(connection, service)
        connection.exec_driver_sql(f'SET LOCAL ROLE "{service}"')
        connection.exec_driver_sql(SET_DEALER, ("north",))
        for statement in adding.values():
            for row in rows[str(statement.table)]:
                tried = connection.begin_nested()
                with pytest.raises(DBAPIError, match="row-level security"):
                    connection.execute(statement, parameters_of(statement, connection.dialect) | row)
                tried.rollback()
        transaction.rollback()
    assert len(adding) > 20


def test_a_transaction_without_a_dealer_sees_no_row(schema: tuple[Engine, str]) -> None:
    engine, service = schema
    with engine.connect() as connection, connection.begin() as transaction:
        fill(connection, "north")
        connection.exec_driver_sql(f'SET LOCAL ROLE "{service}"')
        assert not any(everything_of(connection, "north").values())
        transaction.rollback()


def test_a_transaction_of_the_installation_sees_only_its_own_tables(schema: tuple[Engine, str]) -> None:
    engine, service = schema
    with engine.connect() as connection, connection.begin() as transaction:
        fill(connection, "north")
        connection.exec_driver_sql(f'SET LOCAL ROLE "{service}"')
        connection.exec_driver_sql(SET_DEALER, (ALL_DEALERS,))
        seen = {table.name for table in metadata.sorted_tables if connection.execute(select(table)).first()}
        transaction.rollback()
    assert seen == set(INSTALLATION_TABLES)


def jobs_of(dealer_ids: Iterable[str]) -> Iterator[tuple[str, Callable[[Transaction], str]]]:
    for number, dealer_id in enumerate(dealer_ids):
        yield dealer_id, storing(f"L{number}", contacts=(f"{number}@example.com",))


def test_the_lead_writer_stores_leads_of_many_dealers_in_one_transaction(postgresql_server: str) -> None:
    dealer_ids = [f"dealer-{number % 5}" for number in range(40)]
    with prepared_schema(postgresql_server) as (_, service), Store.open(service, CIPHER) as store:
        writer = store.lead_writer()
        guard = Guard(writer, "dealer-0")
        stored = [writer.submit(dealer_id, job) for dealer_id, job in jobs_of(dealer_ids)]
        refused = writer.submit("dealer-1", storing("L1", contacts=("again@example.com",)))
        alone = writer.submit("dealer-9", lambda tx: tx.execute(select(leads.c.lead_id)).first())
        guard.open()
        assert [each.result(60) for each in stored] == [f"L{number}" for number in range(40)]
        with pytest.raises(AlreadyStored):
            refused.result(60)
        assert alone.result(60) is None
        writer.close()
        for dealer_id in set(dealer_ids):
            with store.read(dealer_id) as tx:
                found = {lead_id for (lead_id,) in tx.connection.execute(select(leads.c.lead_id))}
                assert verify_chain(tx).problem is None
            assert found == {f"L{number}" for number in range(40) if dealer_ids[number] == dealer_id}
