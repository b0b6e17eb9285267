"""Leads with their consent records, idempotency, refusals, and access tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Makes leads, consents, lead_events, lead_contacts, idempotency, refusals and tokens."""
    op.create_table(
        "leads",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("lead_id", sa.String, nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("source_agent", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("vehicle_id", sa.String),
        sa.Column("vin", sa.String),
        sa.Column("stock", sa.String),
        sa.Column("customer", sa.LargeBinary, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("appointment", sa.LargeBinary),
        sa.PrimaryKeyConstraint("dealer_id", "lead_id", name="pk_leads"),
    )
    op.create_index("ix_leads_dealer_id_received_at_lead_id", "leads", ["dealer_id", "received_at", "lead_id"])
    op.create_table(
        "consents",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("consent_id", sa.String, nullable=False),
        sa.Column("lead_id", sa.String, nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("granted_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("channels", sa.LargeBinary, nullable=False),
        sa.Column("scope", sa.LargeBinary, nullable=False),
        sa.Column("consent_text", sa.LargeBinary, nullable=False),
        sa.Column("source_agent", sa.String),
        sa.Column("request_hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "consent_id", name="pk_consents"),
        _belongs_to_a_lead("fk_consents_leads"),
    )
    op.create_index("ix_consents_dealer_id_lead_id", "consents", ["dealer_id", "lead_id"])
    op.create_table(
        "lead_events",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("event_id", sa.String, nullable=False),
        sa.Column("lead_id", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("changes", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "event_id", name="pk_lead_events"),
        _belongs_to_a_lead("fk_lead_events_leads"),
    )
    op.create_index("ix_lead_events_dealer_id_lead_id", "lead_events", ["dealer_id", "lead_id"])
    op.create_table(
        "lead_contacts",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("contact", sa.String, nullable=False),
        sa.Column("vehicle_key", sa.String, nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("lead_id", sa.String, nullable=False),
        sa.PrimaryKeyConstraint(
            "dealer_id", "contact", "vehicle_key", "received_at", "lead_id", name="pk_lead_contacts"
        ),
        _belongs_to_a_lead("fk_lead_contacts_leads"),
    )
    op.create_index("ix_lead_contacts_dealer_id_lead_id", "lead_contacts", ["dealer_id", "lead_id"])
    op.create_table(
        "idempotency",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("payload_hash", sa.LargeBinary, nullable=False),
        sa.Column("reply", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "fingerprint", name="pk_idempotency"),
    )
    op.create_index("ix_idempotency_dealer_id_at", "idempotency", ["dealer_id", "at"])
    op.create_table(
        "refusals",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("refusal_id", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("code", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "refusal_id", name="pk_refusals"),
    )
    op.create_index("ix_refusals_dealer_id_at", "refusals", ["dealer_id", "at"])
    op.create_table(
        "tokens",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("token_id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("token_hash", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("dealer_id", "token_id", name="pk_tokens"),
    )
    op.create_index("ix_tokens_dealer_id_token_hash", "tokens", ["dealer_id", "token_hash"], unique=True)


def _belongs_to_a_lead(name: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["dealer_id", "lead_id"], ["leads.dealer_id", "leads.lead_id"], name=name)
