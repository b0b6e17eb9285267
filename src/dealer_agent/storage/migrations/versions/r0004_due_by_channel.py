"""What is due at one channel, or waits for one lead, is found without looking at what waits for the others."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Two indexes of the outbox in the place of two others."""
    op.create_index(
        "ix_outbox_dealer_id_state_rooftop_channel_due_at_delivery_id",
        "outbox",
        ["dealer_id", "state", "rooftop", "channel", "due_at", "delivery_id"],
    )
    op.drop_index("ix_outbox_dealer_id_state_due_at", "outbox")
    op.create_index("ix_outbox_dealer_id_lead_id_state", "outbox", ["dealer_id", "lead_id", "state"])
    op.drop_index("ix_outbox_dealer_id_lead_id", "outbox")
