"""The machines that serve a dealer or an installation, with their versions and settings."""

from alembic import op

revision = "0016"
down_revision = "0015"

REPLICAS = """
    CREATE TABLE replicas (
        dealer_id VARCHAR NOT NULL,
        machine VARCHAR NOT NULL,
        version VARCHAR NOT NULL,
        settings VARCHAR NOT NULL,
        seen_at BIGINT NOT NULL,
        CONSTRAINT pk_replicas PRIMARY KEY (dealer_id, machine)
    )
"""


def upgrade() -> None:
    """Adds the table, and on PostgreSQL its policy."""
    op.execute(REPLICAS)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE replicas ENABLE ROW LEVEL SECURITY")
        op.execute(
            "CREATE POLICY one_dealer ON replicas USING (dealer_id = current_setting('dealer_agent.dealer', true))"
        )
