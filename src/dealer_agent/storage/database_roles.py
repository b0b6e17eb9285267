"""Prepares a PostgreSQL database for a service that row-level security applies to (`storage.isolation`).

One role owns the tables, and nobody logs in as it. The service logs in as another role, which owns nothing.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import Connection, text

from dealer_agent.storage.connections import database_url, writer_engine
from dealer_agent.storage.errors import BadDatabaseUrl, StorageError, translating
from dealer_agent.storage.migrate import REVISION_TABLE, migrate_connection
from dealer_agent.storage.schema import metadata

FIND_ROLE = text("SELECT 1 FROM pg_roles WHERE rolname = :role")

READ_PLACE = text("SELECT current_database(), current_schema()")

READ_ADMIN = text("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")

LIST_OBJECTS = text(
    """
    SELECT 'TABLE', relname, NULL FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND relname = ANY(:tables)
        AND relowner <> CAST(:owner AS regrole)
    UNION ALL
    SELECT 'FUNCTION', proname, pg_get_function_identity_arguments(oid) FROM pg_proc
    WHERE pronamespace = current_schema()::regnamespace AND proname = ANY(:functions)
        AND proowner <> CAST(:owner AS regrole)
    """
)

FIND_POWER = text(
    """
    SELECT rolname FROM pg_roles
    WHERE (rolsuper OR rolbypassrls OR rolname = :owner) AND pg_has_role(CAST(:service AS name), oid, 'MEMBER')
    LIMIT 1
    """
)

FUNCTIONS = ("set_changed_at", "announce_change", "dealers_with_due_deliveries")


class Roles(NamedTuple):
    """The names of the two roles."""

    owner: str
    service: str


LOCK_ROLES = text("SELECT pg_advisory_xact_lock(4919150214103307)")
"""One command at a time changes the roles of a database: PostgreSQL refuses changes of one catalog row at once."""


def prepare_database(url: str, roles: Roles, password: str | None = None) -> str | None:
    """Makes the roles that are missing, migrates the database as the owner, and grants the service what it needs.

    `url` is that of a superuser, or of a role that may create roles and owns the database. It may be called again, for
    example after an upgrade. Tables of an earlier owner get the new one. With a `password`, the service role gets it.
    Returns the revision that the schema had. Raises BadDatabaseUrl for another database than PostgreSQL, and any
    StorageError.
    """
    parsed = database_url(url)
    if parsed.get_backend_name() != "postgresql":
        raise BadDatabaseUrl("only a PostgreSQL database has roles: postgresql://... expected")
    engine = writer_engine(parsed)
    try:
        with translating(), engine.begin() as connection:
            return _prepare(connection, roles, password)
    finally:
        engine.dispose()


def _prepare(connection: Connection, roles: Roles, password: str | None) -> str | None:
    connection.execute(LOCK_ROLES)
    quote = connection.dialect.identifier_preparer.quote_identifier
    owner, service = map(quote, roles)
    database, schema = map(quote, connection.execute(READ_PLACE).one())

    def run(statement: str) -> None:
        connection.execute(text(statement.replace(":", "\\:")))

    for role, login in ((roles.owner, "NOLOGIN"), (roles.service, "LOGIN")):
        if connection.execute(FIND_ROLE, {"role": role}).one_or_none() is None:
            run(f"CREATE ROLE {quote(role)} {login}")
    if password is not None:
        run(f"ALTER ROLE {service} PASSWORD '{_verifier(connection, password, roles.service)}'")
    if not connection.execute(READ_ADMIN).scalar():
        run(f"GRANT {owner} TO CURRENT_USER")
    power = connection.execute(FIND_POWER, {"owner": roles.owner, "service": roles.service}).scalar()
    if power is not None:
        raise StorageError(
            f"row-level security would not apply to the role {roles.service}, because it is {power} or a member of it: "
            "choose another service role, or take this power from it"
        )
    run(f"GRANT CONNECT ON DATABASE {database} TO {service}")
    run(f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {owner}")
    run(f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC, {service}")
    run(f"GRANT USAGE ON SCHEMA {schema} TO {service}")
    tables = [*metadata.tables, REVISION_TABLE]
    sought = {"tables": tables, "functions": list(FUNCTIONS), "owner": owner}
    for kind, name, arguments in connection.execute(LIST_OBJECTS, sought).all():
        run(f"ALTER {kind} {quote(name)}{'' if arguments is None else f'({arguments})'} OWNER TO {owner}")
    run(f"SET LOCAL ROLE {owner}")
    found = migrate_connection(connection)
    rights = "SELECT, INSERT, UPDATE, DELETE"
    run(f"GRANT {rights} ON {', '.join(map(quote, metadata.tables))} TO {service}")
    run(f"GRANT SELECT ON {REVISION_TABLE} TO {service}")
    run(f"GRANT EXECUTE ON FUNCTION dealers_with_due_deliveries TO {service}")
    run(f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT {rights} ON TABLES TO {service}")
    run("RESET ROLE")
    return found


@contextmanager
def inserting_only(connection: Connection, tables: Sequence[str]) -> Iterator[None]:
    """Runs the statements of a `with` block as a role that may only insert rows into these tables, of any dealer.

    The transaction makes the role and drops it again. Raises any error of SQLAlchemy.
    """
    connection.execute(LOCK_ROLES)
    quote = connection.dialect.identifier_preparer.quote_identifier
    role = f"dealer_agent_restore_{secrets.token_hex(8)}"
    schema = quote(connection.execute(READ_PLACE).one()[1])
    named = list(map(quote, tables))
    connection.exec_driver_sql(f"CREATE ROLE {role} NOLOGIN")
    if not connection.execute(READ_ADMIN).scalar():
        connection.exec_driver_sql(f"GRANT {role} TO CURRENT_USER")
    connection.exec_driver_sql(f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC")
    connection.exec_driver_sql(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    connection.exec_driver_sql(f"GRANT INSERT ON {', '.join(named)} TO {role}")
    for table in named:
        connection.exec_driver_sql(f"CREATE POLICY restoring ON {table} FOR INSERT TO {role} WITH CHECK (true)")
    connection.exec_driver_sql(f"SET LOCAL ROLE {role}")
    yield
    connection.exec_driver_sql("RESET ROLE")
    for table in named:
        connection.exec_driver_sql(f"DROP POLICY restoring ON {table}")
    connection.exec_driver_sql(f"REVOKE ALL ON {', '.join(named)} FROM {role}")
    connection.exec_driver_sql(f"REVOKE ALL ON SCHEMA {schema} FROM {role}")
    connection.exec_driver_sql(f"DROP ROLE {role}")


def _verifier(connection: Connection, password: str, role: str) -> str:
    """The password in the form in which the server stores it. The server may log the statement."""
    driver = connection.connection.driver_connection
    assert driver is not None, "a connection in a transaction is open"
    verifier: bytes = driver.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    return verifier.decode("ascii")
