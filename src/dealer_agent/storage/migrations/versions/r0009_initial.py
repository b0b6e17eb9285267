"""The first schema: all tables (`storage.schema` describes them).

It has the number of the last of the migrations that it replaced, so a database that those made is up to date.
"""

from alembic import op

revision = "0009"
down_revision = None

TABLES = (
    """
    CREATE TABLE accesses (
        dealer_id VARCHAR NOT NULL,
        access_id VARCHAR NOT NULL,
        at BIGINT NOT NULL,
        actor VARCHAR NOT NULL,
        action VARCHAR NOT NULL,
        lead_id VARCHAR,
        leads INTEGER NOT NULL,
        number BIGINT NOT NULL,
        deleted BIGINT,
        deleted_head {bytes},
        hash {bytes} NOT NULL,
        CONSTRAINT pk_accesses PRIMARY KEY (dealer_id, access_id)
    )
    """,
    """
    CREATE TABLE clocks (
        dealer_id VARCHAR NOT NULL,
        trusted_at BIGINT NOT NULL,
        CONSTRAINT pk_clocks PRIMARY KEY (dealer_id)
    )
    """,
    """
    CREATE TABLE dealers (
        dealer_id VARCHAR NOT NULL,
        consent_events BIGINT DEFAULT '0' NOT NULL,
        consent_head {bytes},
        consent_seal {bytes},
        accesses BIGINT DEFAULT '0' NOT NULL,
        access_head {bytes},
        access_seal {bytes},
        CONSTRAINT pk_dealers PRIMARY KEY (dealer_id)
    )
    """,
    """
    CREATE TABLE idempotency (
        dealer_id VARCHAR NOT NULL,
        fingerprint {bytes} NOT NULL,
        at BIGINT NOT NULL,
        lead_id VARCHAR,
        reply {bytes} NOT NULL,
        CONSTRAINT pk_idempotency PRIMARY KEY (dealer_id, fingerprint)
    )
    """,
    """
    CREATE TABLE imports (
        dealer_id VARCHAR NOT NULL,
        revision BIGINT NOT NULL,
        at BIGINT NOT NULL,
        source VARCHAR NOT NULL,
        layout VARCHAR NOT NULL,
        full_file BOOLEAN NOT NULL,
        added INTEGER NOT NULL,
        changed INTEGER NOT NULL,
        unchanged INTEGER NOT NULL,
        sold INTEGER NOT NULL,
        back INTEGER NOT NULL,
        CONSTRAINT pk_imports PRIMARY KEY (dealer_id, revision)
    )
    """,
    """
    CREATE TABLE leads (
        dealer_id VARCHAR NOT NULL,
        lead_id VARCHAR NOT NULL,
        received_at BIGINT NOT NULL,
        used_at BIGINT NOT NULL,
        erased_at BIGINT,
        source_agent {bytes},
        status VARCHAR NOT NULL,
        rooftop VARCHAR NOT NULL,
        vehicle_id VARCHAR,
        vin VARCHAR,
        stock VARCHAR,
        vehicle {bytes},
        token_id VARCHAR,
        may_be_same_person_as VARCHAR,
        customer {bytes},
        payload {bytes},
        CONSTRAINT pk_leads PRIMARY KEY (dealer_id, lead_id)
    )
    """,
    """
    CREATE TABLE refusals (
        dealer_id VARCHAR NOT NULL,
        refusal_id VARCHAR NOT NULL,
        at BIGINT NOT NULL,
        code VARCHAR NOT NULL,
        CONSTRAINT pk_refusals PRIMARY KEY (dealer_id, refusal_id)
    )
    """,
    """
    CREATE TABLE revisions (
        dealer_id VARCHAR NOT NULL,
        stock_revision BIGINT NOT NULL,
        token_revision BIGINT NOT NULL,
        CONSTRAINT pk_revisions PRIMARY KEY (dealer_id)
    )
    """,
    """
    CREATE TABLE tokens (
        dealer_id VARCHAR NOT NULL,
        token_id VARCHAR NOT NULL,
        purpose VARCHAR DEFAULT 'skills' NOT NULL,
        name VARCHAR NOT NULL,
        token_hash {bytes} NOT NULL,
        created_at BIGINT NOT NULL,
        revoked_at BIGINT,
        CONSTRAINT pk_tokens PRIMARY KEY (dealer_id, token_id)
    )
    """,
    """
    CREATE TABLE units (
        dealer_id VARCHAR NOT NULL,
        vehicle_id VARCHAR NOT NULL,
        vin VARCHAR,
        stock VARCHAR,
        digest VARCHAR NOT NULL,
        document_hash {bytes} NOT NULL,
        first_seen BIGINT NOT NULL,
        changed_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        sold_at BIGINT,
        CONSTRAINT pk_units PRIMARY KEY (dealer_id, vehicle_id)
    )
    """,
    """
    CREATE TABLE vault_key_uses (
        dealer_id VARCHAR NOT NULL,
        key_id VARCHAR NOT NULL,
        state VARCHAR NOT NULL,
        since BIGINT NOT NULL,
        lacked_by VARCHAR,
        CONSTRAINT pk_vault_key_uses PRIMARY KEY (dealer_id, key_id)
    )
    """,
    """
    CREATE TABLE vault_keys (
        dealer_id VARCHAR NOT NULL,
        key_id VARCHAR NOT NULL,
        proof {bytes} NOT NULL,
        CONSTRAINT pk_vault_keys PRIMARY KEY (dealer_id, key_id)
    )
    """,
    """
    CREATE TABLE withdrawals (
        dealer_id VARCHAR NOT NULL,
        contact_hash {bytes} NOT NULL,
        channel VARCHAR NOT NULL,
        at BIGINT NOT NULL,
        CONSTRAINT pk_withdrawals PRIMARY KEY (dealer_id, contact_hash, channel)
    )
    """,
    """
    CREATE TABLE appointments (
        dealer_id VARCHAR NOT NULL,
        appointment_id VARCHAR NOT NULL,
        lead_id VARCHAR NOT NULL,
        rooftop VARCHAR NOT NULL,
        kind VARCHAR NOT NULL,
        status VARCHAR NOT NULL,
        created_at BIGINT NOT NULL,
        starts_at BIGINT,
        ends_at BIGINT,
        cancelled_at BIGINT,
        shares VARCHAR,
        reply {bytes} NOT NULL,
        request {bytes},
        CONSTRAINT pk_appointments PRIMARY KEY (dealer_id, appointment_id),
        CONSTRAINT fk_appointments_leads FOREIGN KEY (dealer_id, lead_id) REFERENCES leads (dealer_id, lead_id)
    )
    """,
    """
    CREATE TABLE consent_events (
        dealer_id VARCHAR NOT NULL,
        number BIGINT NOT NULL,
        lead_id VARCHAR NOT NULL,
        kind VARCHAR NOT NULL,
        at BIGINT NOT NULL,
        granted_at BIGINT,
        expires_at BIGINT,
        channels {bytes} NOT NULL,
        purpose VARCHAR NOT NULL,
        commitment {bytes} NOT NULL,
        body {bytes},
        hash {bytes} NOT NULL,
        CONSTRAINT pk_consent_events PRIMARY KEY (dealer_id, number),
        CONSTRAINT fk_consent_events_leads FOREIGN KEY (dealer_id, lead_id) REFERENCES leads (dealer_id, lead_id)
    )
    """,
    """
    CREATE TABLE consent_proofs (
        dealer_id VARCHAR NOT NULL,
        number BIGINT NOT NULL,
        lead_id VARCHAR NOT NULL,
        last_at BIGINT NOT NULL,
        body {bytes} NOT NULL,
        CONSTRAINT pk_consent_proofs PRIMARY KEY (dealer_id, number),
        CONSTRAINT fk_consent_proofs_leads FOREIGN KEY (dealer_id, lead_id) REFERENCES leads (dealer_id, lead_id)
    )
    """,
    """
    CREATE TABLE lead_contacts (
        dealer_id VARCHAR NOT NULL,
        contact_hash {bytes} NOT NULL,
        vehicle_key {bytes} NOT NULL,
        received_at BIGINT NOT NULL,
        lead_id VARCHAR NOT NULL,
        contact {bytes} NOT NULL,
        vehicle {bytes},
        CONSTRAINT pk_lead_contacts PRIMARY KEY (dealer_id, contact_hash, vehicle_key, received_at, lead_id),
        CONSTRAINT fk_lead_contacts_leads FOREIGN KEY (dealer_id, lead_id) REFERENCES leads (dealer_id, lead_id)
    )
    """,
    """
    CREATE TABLE lead_events (
        dealer_id VARCHAR NOT NULL,
        event_id VARCHAR NOT NULL,
        lead_id VARCHAR NOT NULL,
        at BIGINT NOT NULL,
        changes {bytes},
        CONSTRAINT pk_lead_events PRIMARY KEY (dealer_id, event_id),
        CONSTRAINT fk_lead_events_leads FOREIGN KEY (dealer_id, lead_id) REFERENCES leads (dealer_id, lead_id)
    )
    """,
    """
    CREATE TABLE outbox (
        dealer_id VARCHAR NOT NULL,
        delivery_id VARCHAR NOT NULL,
        lead_id VARCHAR NOT NULL,
        event_id VARCHAR,
        kind VARCHAR NOT NULL,
        rooftop VARCHAR NOT NULL,
        channel VARCHAR NOT NULL,
        state VARCHAR NOT NULL,
        created_at BIGINT NOT NULL,
        due_at BIGINT NOT NULL,
        attempts INTEGER NOT NULL,
        lease VARCHAR,
        leased_until BIGINT,
        settled_at BIGINT,
        problem VARCHAR,
        document {bytes},
        unknown INTEGER DEFAULT '0' NOT NULL,
        follows VARCHAR,
        CONSTRAINT pk_outbox PRIMARY KEY (dealer_id, delivery_id),
        CONSTRAINT fk_outbox_leads FOREIGN KEY (dealer_id, lead_id) REFERENCES leads (dealer_id, lead_id)
    )
    """,
    """
    CREATE TABLE proof_contacts (
        dealer_id VARCHAR NOT NULL,
        contact_hash {bytes} NOT NULL,
        lead_id VARCHAR NOT NULL,
        CONSTRAINT pk_proof_contacts PRIMARY KEY (dealer_id, contact_hash, lead_id),
        CONSTRAINT fk_proof_contacts_leads FOREIGN KEY (dealer_id, lead_id) REFERENCES leads (dealer_id, lead_id)
    )
    """,
    """
    CREATE TABLE unit_documents (
        dealer_id VARCHAR NOT NULL,
        vehicle_id VARCHAR NOT NULL,
        unit {bytes} NOT NULL,
        CONSTRAINT pk_unit_documents PRIMARY KEY (dealer_id, vehicle_id),
        CONSTRAINT fk_unit_documents_units FOREIGN KEY (dealer_id, vehicle_id)
            REFERENCES units (dealer_id, vehicle_id) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE places (
        dealer_id VARCHAR NOT NULL,
        rooftop VARCHAR NOT NULL,
        kind VARCHAR NOT NULL,
        quarter BIGINT NOT NULL,
        place INTEGER NOT NULL,
        appointment_id VARCHAR NOT NULL,
        CONSTRAINT pk_places PRIMARY KEY (dealer_id, rooftop, kind, quarter, place),
        CONSTRAINT fk_places_appointments FOREIGN KEY (dealer_id, appointment_id)
            REFERENCES appointments (dealer_id, appointment_id) ON DELETE CASCADE
    )
    """,
)

INDEXES = (
    "CREATE INDEX ix_accesses_dealer_id_at ON accesses (dealer_id, at)",
    "CREATE UNIQUE INDEX ix_accesses_dealer_id_number ON accesses (dealer_id, number)",
    "CREATE INDEX ix_idempotency_dealer_id_at ON idempotency (dealer_id, at)",
    "CREATE INDEX ix_idempotency_dealer_id_lead_id ON idempotency (dealer_id, lead_id)",
    "CREATE INDEX ix_leads_dealer_id_may_be_same_person_as "
    "ON leads (dealer_id, may_be_same_person_as) WHERE may_be_same_person_as IS NOT NULL",
    "CREATE INDEX ix_leads_dealer_id_received_at_lead_id ON leads (dealer_id, received_at, lead_id)",
    "CREATE INDEX ix_leads_dealer_id_used_at ON leads (dealer_id, used_at)",
    "CREATE INDEX ix_refusals_dealer_id_at ON refusals (dealer_id, at)",
    "CREATE UNIQUE INDEX ix_tokens_dealer_id_token_hash ON tokens (dealer_id, token_hash)",
    "CREATE INDEX ix_units_dealer_id_sold_at ON units (dealer_id, sold_at)",
    "CREATE UNIQUE INDEX ix_units_dealer_id_vin ON units (dealer_id, vin)",
    "CREATE INDEX ix_appointments_dealer_id_lead_id ON appointments (dealer_id, lead_id)",
    "CREATE INDEX ix_appointments_dealer_id_shares ON appointments (dealer_id, shares) WHERE shares IS NOT NULL",
    "CREATE INDEX ix_appointments_dealer_id_starts_at ON appointments (dealer_id, starts_at)",
    "CREATE INDEX ix_consent_events_dealer_id_lead_id_number ON consent_events (dealer_id, lead_id, number)",
    "CREATE INDEX ix_consent_proofs_dealer_id_last_at ON consent_proofs (dealer_id, last_at)",
    "CREATE INDEX ix_consent_proofs_dealer_id_lead_id ON consent_proofs (dealer_id, lead_id)",
    "CREATE INDEX ix_lead_contacts_dealer_id_contact_hash_received_at_lead_id "
    "ON lead_contacts (dealer_id, contact_hash, received_at, lead_id)",
    "CREATE INDEX ix_lead_contacts_dealer_id_lead_id ON lead_contacts (dealer_id, lead_id)",
    "CREATE INDEX ix_lead_events_dealer_id_lead_id ON lead_events (dealer_id, lead_id)",
    "CREATE INDEX ix_outbox_dealer_id_lead_id_state ON outbox (dealer_id, lead_id, state)",
    "CREATE INDEX ix_outbox_dealer_id_state_rooftop_channel_due_at_delivery_id "
    "ON outbox (dealer_id, state, rooftop, channel, due_at, delivery_id)",
    "CREATE INDEX ix_proof_contacts_dealer_id_lead_id ON proof_contacts (dealer_id, lead_id)",
    "CREATE INDEX ix_places_dealer_id_appointment_id ON places (dealer_id, appointment_id)",
)

ENCRYPTED_COLUMNS = (
    "idempotency.reply",
    "leads.source_agent",
    "leads.customer",
    "leads.payload",
    "appointments.request",
    "consent_events.body",
    "consent_proofs.body",
    "lead_contacts.contact",
    "lead_contacts.vehicle",
    "lead_events.changes",
    "outbox.document",
)


def upgrade() -> None:
    """Makes the tables and indexes."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    for table in TABLES:
        op.execute(table.format(bytes="BYTEA" if is_postgresql else "BLOB"))
    for index in INDEXES:
        op.execute(index)
    if is_postgresql:
        for column in ENCRYPTED_COLUMNS:
            op.execute(f"COMMENT ON COLUMN {column} IS 'sealed'")
