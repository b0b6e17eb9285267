"""The trace of the request that made a delivery."""

from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Adds the column. Deliveries without a trace have NULL."""
    op.execute("ALTER TABLE outbox ADD COLUMN trace VARCHAR")
