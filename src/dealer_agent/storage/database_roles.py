"""Prepares a PostgreSQL database for a service that row-level security applies to (`storage.isolation`).

One role owns the tables, and nobody logs in as it. The service logs in as another role, which owns nothing and has only
the rights that it needs. Commands about dealers log in as a third one, which is a member of the owner.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import Connection, text

from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.database_url import database_url
from dealer_agent.storage.errors import BadDatabaseUrl, StorageError, translating
from dealer_agent.storage.isolation import SERVICE_RIGHTS
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

IS_MEMBER = text("SELECT pg_has_role(CAST(:admin AS name), CAST(:owner AS name), 'MEMBER')")

FIND_POWER = text(
    """
    SELECT rolname FROM pg_roles
    WHERE (rolsuper OR rolbypassrls OR rolname = :owner) AND pg_has_role(CAST(:service AS name), oid, 'MEMBER')
    LIMIT 1
    """
)

FUNCTIONS = ("set_changed_at", "announce_change", "dealers_with_due_deliveries")


ADMIN_VARIABLE = "DATABASE_ADMIN_URL"
"""The database with a role that may do more than the service: that of commands, the owner, or a superuser."""


class Roles(NamedTuple):
    """The names of the roles: of the owner of the tables, of the service, and of commands about dealers."""

    owner: str
    service: str
    admin: str


class Passwords(NamedTuple):
    """New passwords of the roles that log in."""

    service: str
    admin: str


LOCK_ROLES = text("SELECT pg_advisory_xact_lock(4919150214103307)")
"""One command at a time changes the roles of a database: PostgreSQL refuses changes of one catalog row at once."""


def prepare_database(url: str, roles: Roles, passwords: Passwords | None = None) -> str | None:
    """Makes the roles that are missing, migrates the database as the owner, and grants the service what it needs.

    `url` is that of a superuser, or of a role that may create roles and owns the database. It may be called again, for
    example after an upgrade. Tables of an earlier owner get the new one. The roles get the `passwords`.
    Returns the revision that the schema had. Raises BadDatabaseUrl for another database than PostgreSQL, and any
    StorageError.
    """
    parsed = database_url(url)
    if parsed.get_backend_name() != "postgresql":
        raise BadDatabaseUrl("only a PostgreSQL database has roles: write postgresql://...")
    engine = writer_engine(parsed)
    try:
        with translating(), engine.begin() as connection:
            return _prepare(connection, roles, passwords)
    finally:
        engine.dispose()


def _prepare(connection: Connection, roles: Roles, passwords: Passwords | None) -> str | None:
    """Creates the roles and the tables, and grants each role its rights. May run again after an update."""
    connection.execute(LOCK_ROLES)
    quote = connection.dialect.identifier_preparer.quote_identifier
    owner, service, admin = map(quote, roles)
    database, schema = map(quote, connection.execute(READ_PLACE).one())

    def run(statement: str) -> None:
        connection.execute(text(statement.replace(":", "\\:")))

    for role, login in ((roles.owner, "NOLOGIN"), (roles.service, "LOGIN"), (roles.admin, "LOGIN")):
        if connection.execute(FIND_ROLE, {"role": role}).one_or_none() is None:
            run(f"CREATE ROLE {quote(role)} {login}")
    if passwords is not None:
        run(f"ALTER ROLE {service} PASSWORD '{_verifier(connection, passwords.service, roles.service)}'")
        run(f"ALTER ROLE {admin} PASSWORD '{_verifier(connection, passwords.admin, roles.admin)}'")
    if not connection.execute(READ_ADMIN).scalar():
        run(f"GRANT {owner} TO CURRENT_USER")
    if not connection.execute(IS_MEMBER, roles._asdict()).scalar():
        run(f"GRANT {owner} TO {admin}")
    power = connection.execute(FIND_POWER, {"owner": roles.owner, "service": roles.service}).scalar()
    if power is not None:
        raise StorageError(
            f"row-level security would not apply to the role {roles.service}, because it is {power} or a member of it: "
            "choose another service role, or take this power from it"
        )
    run(f"GRANT CONNECT ON DATABASE {database} TO {service}, {admin}")
    run(f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {owner}")
    run(f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC, {service}")
    run(f"GRANT USAGE ON SCHEMA {schema} TO {service}, {admin}")
    tables = [*metadata.tables, REVISION_TABLE]
    parameters = {"tables": tables, "functions": list(FUNCTIONS), "owner": owner}
    for kind, name, arguments in connection.execute(LIST_OBJECTS, parameters).all():
        run(f"ALTER {kind} {quote(name)}{'' if arguments is None else f'({arguments})'} OWNER TO {owner}")
    run(f"SET LOCAL ROLE {owner}")
    revision = migrate_connection(connection)
    every = ", ".join(map(quote, metadata.tables))
    run(f"REVOKE ALL ON {every} FROM {service}")
    run(f"GRANT SELECT ON {every} TO {service}")
    for table, rights in SERVICE_RIGHTS.items():
        if rights:
            run(f"GRANT {rights} ON {quote(table)} TO {service}")
    run(f"GRANT SELECT ON {REVISION_TABLE} TO {service}")
    run(f"GRANT EXECUTE ON FUNCTION dealers_with_due_deliveries TO {service}")
    # An earlier version gave the service all rights on new tables.
    run(f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} REVOKE ALL ON TABLES FROM {service}")
    run("RESET ROLE")
    return revision


READ_DATABASE = text(
    "SELECT current_database(), current_schema(), oid FROM pg_database WHERE datname = current_database()"
)


def require_same_database(url: str, admin_url: str) -> None:
    """Raises StorageError unless both URLs name the same PostgreSQL database and schema."""
    places = set()
    for each in (url, admin_url):
        engine = writer_engine(database_url(each))
        try:
            with translating(), engine.begin() as connection:
                places.add(tuple(connection.execute(READ_DATABASE).one()))
        finally:
            engine.dispose()
    if len(places) > 1:
        raise StorageError(f"{ADMIN_VARIABLE} and DATABASE_URL name different databases: correct one of them")


@contextmanager
def inserting_only(connection: Connection, tables: Sequence[str]) -> Iterator[None]:
    """Runs the statements of a `with` block as a role that may only insert rows into these tables, of any dealer.

    A restore needs it. Row-level security would otherwise refuse rows of several dealers. And whatever a backup of
    unknown origin contains, it can only add rows. The transaction makes the role and drops it again.

    Raises any error of SQLAlchemy.
    """
    connection.execute(LOCK_ROLES)
    quote = connection.dialect.identifier_preparer.quote_identifier
    role = f"dealer_agent_restore_{secrets.token_hex(8)}"
    schema = quote(connection.execute(READ_PLACE).one()[1])
    named = list(map(quote, tables))
    connection.exec_driver_sql(f"CREATE ROLE {role} NOLOGIN")
    if not connection.execute(READ_ADMIN).scalar():
        connection.exec_driver_sql(f"GRANT {role} TO CURRENT_USER")
    # It is not granted again: up to PostgreSQL 14, every role can make tables in the schema public by default.
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
