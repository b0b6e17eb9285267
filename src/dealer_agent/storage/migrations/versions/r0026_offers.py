"""Adds the tables of quotes and holds."""

from alembic import op

from dealer_agent.storage.migrations.tables import add_index, add_table, isolate

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """Makes the tables with their indexes, and on PostgreSQL their policies."""
    add_table(
        "quotes",
        "quote_id",
        text="quote_id vehicle_id caller",
        numbers="created_at valid_until",
        data="document",
        nullable="caller",
        indexes=["created_at"],
    )
    add_table(
        "holds",
        "hold_id",
        text="hold_id quote_id status vehicle_id caller ended_why",
        data="key_hash request_hash",
        numbers="created_at expires_at ended_at",
        nullable="ended_why ended_at",
        indexes=["caller created_at", "quote_id"],
        unique=["key_hash"],
    )
    op.create_index("ix_holds_dealer_id_created_at", "holds", ["dealer_id", "created_at", "hold_id"])
    add_index("holds", "vehicle_id", where="ended_at IS NULL", unique=True)
    isolate(["quotes", "holds"])
