"""What each key is for and since when, so that keys change by age."""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0006"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def upgrade() -> None:
    """A table. The age of a key that is in use is not known: it counts from now."""
    op.create_table(
        "vault_key_uses",
        sa.Column("dealer_id", sa.String(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("lacked_by", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("dealer_id", "key_id", name="pk_vault_key_uses"),
    )
    now = int((datetime.now(UTC) - _EPOCH).total_seconds() * 1_000_000)
    op.get_bind().execute(
        sa.text(
            "INSERT INTO vault_key_uses (dealer_id, key_id, state, since)"
            " SELECT dealer_id, key_id, 'active', :now FROM vault_keys"
        ),
        {"now": now},
    )
