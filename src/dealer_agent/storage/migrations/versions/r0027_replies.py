"""Adds the tables of the record of replies."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"

TABLES = ("recorded_replies", "reply_settings")


def upgrade() -> None:
    """Makes the tables with their index, and on PostgreSQL their policies."""
    op.create_table(
        "recorded_replies",
        *(sa.Column(name, sa.String, nullable=False) for name in ("dealer_id", "batch_id", "settings_id")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("first_at", "last_at", "number", "revision")),
        sa.Column("replies", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "batch_id", name="pk_recorded_replies"),
    )
    op.create_index("ix_recorded_replies_dealer_id_last_at", "recorded_replies", ["dealer_id", "last_at"])
    op.create_table(
        "reply_settings",
        *(sa.Column(name, sa.String, nullable=False) for name in ("dealer_id", "settings_id")),
        sa.Column("used_at", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "settings_id", name="pk_reply_settings"),
    )
    if op.get_bind().dialect.name == "postgresql":
        for table in TABLES:
            op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
            op.execute(
                f"CREATE POLICY one_dealer ON {table} USING (dealer_id = current_setting('dealer_agent.dealer', true))"
            )
