"""When the upkeep of each dealer of an installation is due."""

from alembic import op

revision = "0012"
down_revision = "0011"

UPKEEP = """
    CREATE TABLE upkeep (
        dealer_id VARCHAR NOT NULL,
        due_at BIGINT NOT NULL,
        heads_at BIGINT,
        CONSTRAINT pk_upkeep PRIMARY KEY (dealer_id)
    )
"""


def upgrade() -> None:
    """Adds the table, and on PostgreSQL its policy."""
    op.execute(UPKEEP)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE upkeep ENABLE ROW LEVEL SECURITY")
        op.execute(
            "CREATE POLICY one_dealer ON upkeep USING (dealer_id = current_setting('dealer_agent.dealer', true) "
            "OR current_setting('dealer_agent.dealer', true) = '*')"
        )
