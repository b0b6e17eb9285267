"""The dealers of an installation, row-level security, and announcements of changes (see `storage.schema`)."""

from alembic import op
from sqlalchemy import Connection, inspect, text

revision = "0011"
down_revision = "0010"

TABLES = (
    """
    CREATE TABLE registered_dealers (
        dealer_id VARCHAR NOT NULL,
        enabled BOOLEAN NOT NULL,
        listed BOOLEAN NOT NULL,
        name VARCHAR NOT NULL,
        settings_number BIGINT NOT NULL,
        added_at BIGINT NOT NULL,
        changed_at BIGINT NOT NULL,
        CONSTRAINT pk_registered_dealers PRIMARY KEY (dealer_id)
    )
    """,
    """
    CREATE TABLE dealer_settings (
        dealer_id VARCHAR NOT NULL,
        number BIGINT NOT NULL,
        at BIGINT NOT NULL,
        actor VARCHAR NOT NULL,
        note VARCHAR NOT NULL,
        document {bytes} NOT NULL,
        CONSTRAINT pk_dealer_settings PRIMARY KEY (dealer_id, number)
    )
    """,
    """
    CREATE TABLE dealer_hosts (
        dealer_id VARCHAR NOT NULL,
        host VARCHAR NOT NULL,
        added_at BIGINT NOT NULL,
        CONSTRAINT pk_dealer_hosts PRIMARY KEY (dealer_id, host)
    )
    """,
    """
    CREATE TABLE dealer_keys (
        dealer_id VARCHAR NOT NULL,
        key_id VARCHAR NOT NULL,
        position INTEGER NOT NULL,
        wrapped {bytes} NOT NULL,
        created_at BIGINT NOT NULL,
        CONSTRAINT pk_dealer_keys PRIMARY KEY (dealer_id, key_id)
    )
    """,
    "ALTER TABLE revisions ADD COLUMN settings_revision BIGINT DEFAULT '0' NOT NULL",
    "ALTER TABLE revisions ADD COLUMN changed_at BIGINT DEFAULT '0' NOT NULL",
    "CREATE INDEX ix_revisions_changed_at_dealer_id ON revisions (changed_at, dealer_id)",
    # The dealers with due deliveries, and the oldest of each. The second column is 0 for one that was never put off.
    "CREATE INDEX ix_outbox_due ON outbox (dealer_id, (COALESCE(NULLIF(due_at, created_at), 0))) "
    "WHERE state = 'waiting'",
)

# SQLite runs no trigger for the change that a trigger makes.
SQLITE_TRIGGERS = (
    """
    CREATE TRIGGER revisions_added AFTER INSERT ON revisions
    BEGIN
        UPDATE revisions SET changed_at = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
        WHERE dealer_id = NEW.dealer_id;
    END
    """,
    """
    CREATE TRIGGER revisions_changed AFTER UPDATE OF stock_revision, token_revision, settings_revision ON revisions
    WHEN NEW.stock_revision <> OLD.stock_revision
        OR NEW.token_revision <> OLD.token_revision
        OR NEW.settings_revision <> OLD.settings_revision
    BEGIN
        UPDATE revisions SET changed_at = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
        WHERE dealer_id = NEW.dealer_id;
    END
    """,
)

# The functions name no table, or are bound to their tables when they are made (BEGIN ATOMIC). So nobody can redirect
# them with another search path.
POSTGRESQL_TRIGGERS = (
    """
    CREATE FUNCTION set_changed_at() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' OR OLD IS DISTINCT FROM NEW THEN
            NEW.changed_at := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
        END IF;
        RETURN NEW;
    END $$
    """,
    "CREATE TRIGGER set_changed_at BEFORE INSERT OR UPDATE ON revisions FOR EACH ROW EXECUTE FUNCTION set_changed_at()",
    """
    CREATE FUNCTION announce_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' THEN
            PERFORM pg_notify('dealer_agent_changes', OLD.dealer_id);
        ELSIF TG_OP = 'INSERT' OR OLD IS DISTINCT FROM NEW THEN
            PERFORM pg_notify('dealer_agent_changes', NEW.dealer_id);
        END IF;
        RETURN NULL;
    END $$
    """,
    *(
        f"CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION announce_change()"
        for table in ("revisions", "registered_dealers", "dealer_hosts", "dealer_keys")
    ),
)

# It runs as the owner of the tables, for whom row-level security does not hold, and returns only ids. `outbox` of the
# application has the same statement for SQLite, and its explanation.
DUE_DEALERS = """
    CREATE FUNCTION dealers_with_due_deliveries(now_at bigint, latest bigint, most integer) RETURNS SETOF varchar
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        WITH RECURSIVE waiting(dealer_id) AS (
            SELECT min(dealer_id) FROM outbox WHERE state = 'waiting'
            UNION ALL
            SELECT (SELECT min(o.dealer_id) FROM outbox o WHERE o.state = 'waiting' AND o.dealer_id > w.dealer_id)
            FROM waiting w WHERE w.dealer_id IS NOT NULL
        )
        SELECT w.dealer_id
        FROM waiting w
        CROSS JOIN LATERAL (
            SELECT o.due_at FROM outbox o
            WHERE o.dealer_id = w.dealer_id AND o.state = 'waiting'
                AND COALESCE(NULLIF(o.due_at, o.created_at), 0) <= now_at
                AND (o.leased_until IS NULL OR o.leased_until <= now_at OR o.leased_until > latest)
                AND (
                    o.follows IS NULL
                    OR NOT EXISTS (
                        SELECT FROM outbox b
                        WHERE b.dealer_id = o.dealer_id AND b.delivery_id = o.follows
                            AND (b.state = 'waiting' OR b.leased_until > now_at AND b.leased_until <= latest)
                    )
                )
            ORDER BY COALESCE(NULLIF(o.due_at, o.created_at), 0)
            LIMIT 1
        ) oldest
        ORDER BY oldest.due_at, w.dealer_id
        LIMIT most;
    END
"""

INSTALLATION_TABLES = ("registered_dealers", "dealer_settings", "dealer_hosts", "dealer_keys", "revisions")


def upgrade() -> None:
    """Adds the tables, and on PostgreSQL the policies of all tables."""
    connection = op.get_bind()
    is_postgresql = connection.dialect.name == "postgresql"
    for table in TABLES:
        op.execute(table.format(bytes="BYTEA" if is_postgresql else "BLOB"))
    for statement in POSTGRESQL_TRIGGERS if is_postgresql else SQLITE_TRIGGERS:
        op.execute(statement)
    if is_postgresql:
        op.execute(DUE_DEALERS)
        op.execute("REVOKE ALL ON FUNCTION dealers_with_due_deliveries FROM PUBLIC")
        _isolate(connection)


def _isolate(connection: Connection) -> None:
    for table in inspect(connection).get_table_names():
        if table == "alembic_version":
            continue
        this_dealer = "dealer_id = current_setting('dealer_agent.dealer', true)"
        if table in INSTALLATION_TABLES:
            this_dealer += " OR current_setting('dealer_agent.dealer', true) = '*'"
        connection.execute(text(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"))
        connection.execute(text(f"CREATE POLICY one_dealer ON {table} USING ({this_dealer})"))
