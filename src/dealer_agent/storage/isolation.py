"""Separates dealers with PostgreSQL's row-level security: a transaction sees and writes rows of its dealer only.

Each table has a policy that compares `dealer_id` with the session variable `dealer_agent.dealer`. It is set
until the end of the transaction. Without it, no row is visible. An installation-wide transaction sets `ALL_DEALERS`.
It also reads INSTALLATION_TABLES, and changes no row of a dealer. SQLite has no such protection.

The variable protects against mistakes of this program, not against a person with the service's login, who can set it to
any dealer. Such a person has the rights of the service's role: SERVICE_RIGHTS. It cannot change the settings, hosts and
registration of dealers, and cannot delete what the service never deletes.

The policies are not forced on the owner of the tables. The owner runs migrations and backups, and the function
`dealers_with_due_deliveries` runs as the owner. So a service must not connect as the owner (`isolation_problem`).
"""

from typing import Any

from sqlalchemy import Connection, text

from dealer_agent.storage.errors import translated_driver_error

ALL_DEALERS = "*"
"""No dealer id: those are slugs."""

INSTALLATION_TABLES = (
    "registered_dealers",
    "dealer_hosts",
    "dealer_keys",
    "revisions",
    "jobs",
)
"""The tables whose rows of all dealers a transaction of the installation may read."""

_RIGHTS = {
    "": "registered_dealers dealer_settings dealer_hosts",
    "INSERT": "imports agent_policies",
    "INSERT, UPDATE": "dealers clocks revisions unit_documents record_starts feed_shapes leads appointments tokens"
    " alert_checks key_copies",
    "INSERT, UPDATE (body)": "consent_events",
    "INSERT, DELETE": "vault_keys unit_changes recorded_units refused_imports consent_proofs proof_contacts places"
    " accesses refusals nonces invitations quotes recorded_replies",
    "INSERT, UPDATE, DELETE": "vault_key_uses dealer_keys replicas jobs units held_units feeds feed_files lead_events"
    " lead_contacts outbox idempotency daily_counts key_sets alerts alert_messages withdrawals"
    " people memberships passkeys console_sessions lead_notes holds reply_settings",
}
SERVICE_RIGHTS = {table: rights for rights, tables in _RIGHTS.items() for table in tables.split()}
"""What the service's role may do with each table, besides SELECT: what the statements of the service need."""

SET_DEALER = "SELECT set_config('dealer_agent.dealer', %s, true)"

_DEALER = "dealer of the transaction"
"""The key of the variable's value in the `info` of a connection."""

READ_PROBLEM = text(
    """
    SELECT CASE
        WHEN EXISTS (SELECT FROM pg_roles WHERE rolsuper AND pg_has_role(current_user, oid, 'MEMBER'))
            THEN 'is a superuser, or may become one'
        WHEN EXISTS (SELECT FROM pg_roles WHERE rolbypassrls AND pg_has_role(current_user, oid, 'MEMBER'))
            THEN 'has BYPASSRLS, or may become a role that has it'
        WHEN EXISTS (
            SELECT FROM pg_class
            WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
                AND pg_has_role(current_user, relowner, 'MEMBER')
        ) THEN 'owns the tables, or may become their owner'
        WHEN EXISTS (
            SELECT FROM pg_class
            WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
                AND relname <> 'alembic_version' AND NOT row_security_active(oid)
                AND has_table_privilege(oid, 'SELECT, INSERT, UPDATE, DELETE')
        ) THEN 'finds tables without row-level security'
    END
    """
)


READ_RIGHTS = text(
    """
    SELECT relname, right_name
    FROM pg_class CROSS JOIN unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) AS right_name
    WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(:tables)
        AND has_table_privilege(oid, right_name)
    ORDER BY relname, right_name
    """
)

MAX_NAMED = 3
"""The most rights that a message names."""


def isolation_problem(connection: Connection) -> str | None:
    """Why the database does not isolate the dealers of a service, and what to do; None if it does.

    SQLite isolates nothing. This is not a problem, because its file belongs to the user of the service.
    """
    if connection.dialect.name != "postgresql":
        return None
    problem: str | None = connection.execute(READ_PROBLEM).scalar()
    if problem is not None:
        return (
            f"the user of the database {problem}, so row-level security does not apply to this service: type "
            "dealer-agent database prepare, and give DATABASE_URL the service role that it makes"
        )
    rights = connection.execute(READ_RIGHTS, {"tables": list(SERVICE_RIGHTS)}).all()
    needless = [f"{right} on {table}" for table, right in rights if right not in SERVICE_RIGHTS[table].split(", ")]
    if not needless:
        return None
    named = ", ".join(needless[:MAX_NAMED]) + (" and others" if len(needless) > MAX_NAMED else "")
    return (
        f"the user of the database has rights that the service never uses ({named}), so a person with its login could "
        "do more than the service: type dealer-agent database prepare, which takes them away"
    )


def begin_transaction(connection: Connection, statements: str, dealer_id: str | None, then: str = "") -> int:
    """Begins a transaction on PostgreSQL with these statements, sets its dealer, and executes `then`.

    Returns how many rows the last statement has. Raises StorageError.

    All of it is one message to the server. The driver, which begins each transaction by itself, finds it begun.
    """
    # Imported here: SQLite does not need the driver.
    from psycopg.errors import error_from_result
    from psycopg.pq import ExecStatus
    from psycopg.sql import quote

    driver: Any = connection.connection.driver_connection
    if dealer_id is not None:
        statements += f"; SET LOCAL dealer_agent.dealer = {quote(dealer_id, driver)}"
    result = driver.pgconn.exec_((f"{statements}; {then}" if then else statements).encode())
    if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        raise translated_driver_error(error_from_result(result))
    connection.info[_DEALER] = dealer_id
    return int(result.ntuples)


def must_set_dealer(connection: Connection, dealer_id: str) -> bool:
    """Whether the transaction must set this dealer before its next statement."""
    return connection.dialect.name == "postgresql" and connection.info.get(_DEALER) != dealer_id


def set_dealer(connection: Connection, dealer_id: str) -> None:
    """Sets the dealer of the statements that follow, unless it is set. Raises StorageError.

    Only transactions of the lead writer have several dealers. Within a pipeline it costs no round trip.
    """
    if not must_set_dealer(connection, dealer_id):
        return
    driver: Any = connection.connection.driver_connection
    try:
        driver.execute(SET_DEALER, [dealer_id])
    except connection.dialect.loaded_dbapi.Error as error:
        raise translated_driver_error(error) from None
    connection.info[_DEALER] = dealer_id


def current_dealer(connection: Connection) -> str | None:
    """The dealer of the next statement, if it is known."""
    current: str | None = connection.info.get(_DEALER)
    return current


def forget_dealer(connection: Connection) -> None:
    """Call it after a rollback to a savepoint, which restores an earlier value."""
    connection.info.pop(_DEALER, None)
