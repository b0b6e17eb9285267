"""What is due at one channel is found without looking at what waits for the others."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """One index of the outbox in the place of another."""
    op.create_index(
        "ix_outbox_dealer_id_state_rooftop_channel_due_at_delivery_id",
        "outbox",
        ["dealer_id", "state", "rooftop", "channel", "due_at", "delivery_id"],
    )
    op.drop_index("ix_outbox_dealer_id_state_due_at", "outbox")
