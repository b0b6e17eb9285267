"""What agents asked a dealer on each day, and which monthly reports were mailed."""

from alembic import op

revision = "0018"
down_revision = "0017"

TABLES = {
    "daily_counts": """
        CREATE TABLE daily_counts (
            dealer_id VARCHAR NOT NULL,
            day VARCHAR NOT NULL,
            subject VARCHAR NOT NULL,
            item VARCHAR NOT NULL,
            number BIGINT NOT NULL,
            CONSTRAINT pk_daily_counts PRIMARY KEY (dealer_id, day, subject, item)
        )
    """,
    "monthly_reports": """
        CREATE TABLE monthly_reports (
            dealer_id VARCHAR NOT NULL,
            month VARCHAR NOT NULL,
            attempts INTEGER NOT NULL,
            due_at BIGINT NOT NULL,
            sent_at BIGINT,
            CONSTRAINT pk_monthly_reports PRIMARY KEY (dealer_id, month)
        )
    """,
}


def upgrade() -> None:
    """Adds the tables, and on PostgreSQL their policies."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    for name, table in TABLES.items():
        op.execute(table)
        if is_postgresql:
            op.execute(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY")
            op.execute(
                f"CREATE POLICY one_dealer ON {name} USING (dealer_id = current_setting('dealer_agent.dealer', true))"
            )
