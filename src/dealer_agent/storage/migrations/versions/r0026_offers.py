"""Adds the tables of quotes and holds."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

TABLES = ("quotes", "holds")


def upgrade() -> None:
    """Makes the tables with their indexes, and on PostgreSQL their policies."""
    op.create_table(
        "quotes",
        *(sa.Column(name, sa.String, nullable=False) for name in ("dealer_id", "quote_id", "vehicle_id")),
        sa.Column("caller", sa.String),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("created_at", "valid_until")),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "quote_id", name="pk_quotes"),
    )
    op.create_table(
        "holds",
        *(
            sa.Column(name, sa.String, nullable=False)
            for name in ("dealer_id", "hold_id", "quote_id", "status", "vehicle_id", "caller")
        ),
        sa.Column("ended_why", sa.String),
        *(sa.Column(name, sa.LargeBinary, nullable=False) for name in ("key_hash", "request_hash")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("created_at", "expires_at")),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("dealer_id", "hold_id", name="pk_holds"),
    )
    has_not_ended = sa.text("ended_at IS NULL")
    op.create_index("ix_quotes_dealer_id_created_at", "quotes", ["dealer_id", "created_at"])
    op.create_index("ix_holds_dealer_id_key_hash", "holds", ["dealer_id", "key_hash"], unique=True)
    op.create_index("ix_holds_dealer_id_caller_created_at", "holds", ["dealer_id", "caller", "created_at"])
    op.create_index("ix_holds_dealer_id_quote_id", "holds", ["dealer_id", "quote_id"])
    op.create_index("ix_holds_dealer_id_created_at", "holds", ["dealer_id", "created_at", "hold_id"])
    op.create_index(
        "ix_holds_dealer_id_vehicle_id",
        "holds",
        ["dealer_id", "vehicle_id"],
        unique=True,
        sqlite_where=has_not_ended,
        postgresql_where=has_not_ended,
    )
    if op.get_bind().dialect.name == "postgresql":
        for table in TABLES:
            op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
            op.execute(
                f"CREATE POLICY one_dealer ON {table} USING (dealer_id = current_setting('dealer_agent.dealer', true))"
            )
