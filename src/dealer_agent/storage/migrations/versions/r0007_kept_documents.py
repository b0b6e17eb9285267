"""A delivery keeps what was sent until it is settled, and how many of its attempts have an unknown outcome."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Adds three columns to outbox. Of attempts before now nobody knows whether they arrived."""
    op.add_column("outbox", sa.Column("document", sa.LargeBinary, comment="sealed"))
    op.add_column("outbox", sa.Column("unknown", sa.Integer, nullable=False, server_default="0"))
    op.add_column("outbox", sa.Column("follows", sa.String))
    op.execute("UPDATE outbox SET unknown = attempts WHERE state IN ('waiting', 'parked')")
