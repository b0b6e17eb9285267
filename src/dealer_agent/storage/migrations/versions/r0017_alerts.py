"""Alerts: what is observed, the messages about it, and the confirmed copies of keys."""

from alembic import op

revision = "0017"
down_revision = "0016"

TABLES = (
    """
    CREATE TABLE alert_checks (
        dealer_id VARCHAR NOT NULL,
        due_at BIGINT NOT NULL,
        digest_at BIGINT,
        lead_failed_at BIGINT,
        failed_leads INTEGER NOT NULL,
        CONSTRAINT pk_alert_checks PRIMARY KEY (dealer_id)
    )
    """,
    """
    CREATE TABLE alerts (
        dealer_id VARCHAR NOT NULL,
        condition VARCHAR NOT NULL,
        subject VARCHAR NOT NULL,
        seen_at BIGINT,
        cleared_at BIGINT,
        started_at BIGINT,
        ended_at BIGINT,
        reported_at BIGINT,
        start_reported BOOLEAN NOT NULL,
        unreported INTEGER NOT NULL,
        amount INTEGER,
        since BIGINT,
        CONSTRAINT pk_alerts PRIMARY KEY (dealer_id, condition, subject)
    )
    """,
    """
    CREATE TABLE alert_messages (
        dealer_id VARCHAR NOT NULL,
        message_id VARCHAR NOT NULL,
        receiver VARCHAR NOT NULL,
        kind VARCHAR NOT NULL,
        state VARCHAR NOT NULL,
        created_at BIGINT NOT NULL,
        due_at BIGINT NOT NULL,
        attempts INTEGER NOT NULL,
        settled_at BIGINT,
        problem VARCHAR,
        document {bytes} NOT NULL,
        CONSTRAINT pk_alert_messages PRIMARY KEY (dealer_id, message_id, receiver)
    )
    """,
    """
    CREATE TABLE key_copies (
        dealer_id VARCHAR NOT NULL,
        key_id VARCHAR NOT NULL,
        confirmed_at BIGINT NOT NULL,
        CONSTRAINT pk_key_copies PRIMARY KEY (dealer_id, key_id)
    )
    """,
)

NAMES = ("alert_checks", "alerts", "alert_messages", "key_copies")

# The service finds the dealers whose check is due in a transaction about all dealers.
INSTALLATION_TABLES = ("alert_checks",)


def upgrade() -> None:
    """Adds the tables, and on PostgreSQL their policies."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    for table in TABLES:
        op.execute(table.format(bytes="BYTEA" if is_postgresql else "BLOB"))
    if not is_postgresql:
        return
    for name in NAMES:
        this_dealer = "dealer_id = current_setting('dealer_agent.dealer', true)"
        if name in INSTALLATION_TABLES:
            this_dealer += " OR current_setting('dealer_agent.dealer', true) = '*'"
        op.execute(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY one_dealer ON {name} USING ({this_dealer})")
