"""The first schema: all tables (`storage.schema` describes them), triggers, and row-level security of PostgreSQL."""

import sqlalchemy as sa
from alembic import op

from dealer_agent.storage.migrations.first_functions import DUE_DEALERS, POSTGRESQL_TRIGGERS, SQLITE_TRIGGERS
from dealer_agent.storage.migrations.tables import add_index, add_table, isolate

revision = "0024"
down_revision = None

INSTALLATION_TABLES = ("registered_dealers", "dealer_hosts", "dealer_keys", "revisions", "jobs")
"""The tables whose rows of all dealers a transaction of the installation may read."""


def upgrade() -> None:
    """Makes the tables with their indexes, the triggers, and on PostgreSQL the policies."""
    _make_tables_of_installations()
    _make_tables_of_stock()
    _make_tables_of_leads()
    _make_tables_of_jobs()
    _make_tables_of_console()
    connection = op.get_bind()
    is_postgresql = connection.dialect.name == "postgresql"
    for statement in POSTGRESQL_TRIGGERS if is_postgresql else SQLITE_TRIGGERS:
        op.execute(statement)
    if is_postgresql:
        op.execute(DUE_DEALERS)
        op.execute("REVOKE ALL ON FUNCTION dealers_with_due_deliveries FROM PUBLIC")
    isolate(set(sa.inspect(connection).get_table_names()) - {"alembic_version"}, INSTALLATION_TABLES)


def _make_tables_of_installations() -> None:
    add_table(
        "dealers",
        "",
        numbers="consent_events accesses",
        data="consent_head consent_seal access_head access_seal",
        nullable="consent_head consent_seal access_head access_seal",
        defaults={"consent_events": "0", "accesses": "0"},
    )
    add_table("vault_keys", "key_id", text="key_id", data="proof")
    add_table("vault_key_uses", "key_id", text="key_id state lacked_by", numbers="since", nullable="lacked_by")
    add_table("clocks", "", numbers="trusted_at")
    add_table(
        "revisions",
        "",
        numbers="stock_counter token_counter settings_counter changed_at",
        defaults={"settings_counter": "0", "changed_at": "0"},
    )
    op.create_index("ix_revisions_changed_at_dealer_id", "revisions", ["changed_at", "dealer_id"])
    add_table(
        "registered_dealers",
        "",
        flags="enabled listed",
        text="name",
        numbers="settings_number added_at changed_at",
    )
    add_table("dealer_settings", "number", numbers="number at", text="actor note", data="document")
    add_table("dealer_hosts", "host", text="host", numbers="added_at")
    add_table("dealer_keys", "key_id", text="key_id", counts="position", data="wrapped", numbers="created_at")
    add_table("key_copies", "key_id", text="key_id", numbers="confirmed_at")
    add_table(
        "replicas",
        "machine",
        text="machine version settings forwarded_by",
        numbers="seen_at",
        nullable="forwarded_by",
    )
    add_table(
        "tokens",
        "token_id",
        text="token_id purpose scopes name",
        data="token_hash",
        numbers="created_at revoked_at expires_at used_at",
        nullable="scopes revoked_at expires_at used_at",
        defaults={"purpose": "skills"},
        unique=["token_hash"],
    )
    add_table(
        "nonces",
        "nonce",
        data="nonce",
        numbers="expires_at",
        indexes=["expires_at"],
    )
    add_table(
        "agent_policies",
        "agent number",
        text="agent state reason set_by",
        numbers="number set_at",
        counts="leads_a_day",
        data="skills rates",
        nullable="skills leads_a_day",
    )
    add_table("refusals", "refusal_id", text="refusal_id code", numbers="at", indexes=["at"])
    add_table(
        "accesses",
        "access_id",
        text="access_id actor action lead_id",
        numbers="at number deleted",
        counts="leads",
        data="deleted_head hash",
        nullable="lead_id deleted deleted_head",
        indexes=["at"],
        unique=["number"],
    )
    add_table("daily_counts", "day subject item", text="day subject item", numbers="number")


def _make_tables_of_stock() -> None:
    add_table(
        "units",
        "vehicle_id",
        text="vehicle_id vin stock digest action",
        data="document_hash",
        numbers="revision first_seen changed_at updated_at sold_at",
        nullable="vin stock sold_at",
        indexes=["sold_at"],
        unique=["vin"],
    )
    add_table(
        "unit_documents",
        "vehicle_id",
        of="units.vehicle_id",
        cascades=True,
        text="vehicle_id",
        data="unit before",
        nullable="before",
    )
    add_table(
        "imports",
        "revision",
        numbers="revision undoes at",
        text="source kind layout feed",
        flags="full_file",
        counts="added changed unchanged sold back",
        data="rooftops findings",
        nullable="feed rooftops findings undoes",
    )
    add_table(
        "unit_changes",
        "vehicle_id",
        text="vehicle_id vin stock digest action",
        data="document_hash unit",
        numbers="revision first_seen changed_at updated_at sold_at",
        nullable="vin stock unit sold_at",
    )
    add_table("feed_shapes", "rooftops", text="rooftops", data="shape before", nullable="before")
    add_table(
        "held_units",
        "vehicle_id",
        text="vehicle_id vin stock rooftop source decided_by decision",
        numbers="since good_at leaves_at decided_at",
        data="doubts released unit",
        nullable="vin stock decided_by good_at leaves_at decided_at unit",
    )
    add_table(
        "refused_imports",
        "refusal_id",
        text="refusal_id source layout feed",
        numbers="at",
        data="rooftops findings",
        nullable="layout feed rooftops",
        indexes=["at"],
    )
    add_table(
        "feeds",
        "name",
        text="name source fetch_problem file_problem",
        numbers="since checked_at succeeded_at new_at imported_at",
        counts="late_hours",
        data="digest seen imported_hash",
        nullable="seen imported_hash checked_at succeeded_at new_at imported_at fetch_problem file_problem",
    )
    add_table(
        "feed_files",
        "feed file_id",
        text="feed file_id name state problem",
        numbers="size received_at finished_at revision",
        counts="attempts",
        data="content_hash",
        nullable="finished_at revision problem",
        defaults={"attempts": "0"},
    )


def _make_tables_of_leads() -> None:
    add_table(
        "leads",
        "lead_id",
        text="lead_id status rooftop vehicle_id vin stock caller may_be_same_person_as quarantine mark marked_by"
        " decided_by decided_why",
        numbers="received_at used_at erased_at quarantined_at decided_at marked_at bounced_at",
        data="vehicle",
        sealed="source_agent customer payload",
        nullable="erased_at source_agent vehicle_id vin stock vehicle caller may_be_same_person_as customer payload"
        " quarantine quarantined_at decided_at decided_by decided_why mark marked_at marked_by bounced_at",
        # The last three columns: what became of the leads of each agent is counted from the index alone.
        indexes=["received_at lead_id caller mark bounced_at", "used_at"],
    )
    add_index("leads", "quarantined_at lead_id", where="quarantine = 'waiting'")
    add_index("leads", "may_be_same_person_as", where="may_be_same_person_as IS NOT NULL")
    add_index("leads", "caller received_at lead_id", where="caller IS NOT NULL")
    add_table(
        "lead_events",
        "event_id",
        of="leads.lead_id",
        text="event_id lead_id",
        numbers="at",
        sealed="changes",
        nullable="changes",
        indexes=["lead_id"],
    )
    add_table(
        "lead_contacts",
        "contact_hash vehicle_key received_at lead_id",
        of="leads.lead_id",
        data="contact_hash vehicle_key",
        numbers="received_at",
        text="lead_id",
        sealed="contact vehicle",
        nullable="vehicle",
        # The second finds the newest leads of a contact: a lead of a person with thousands of leads costs no more.
        indexes=["lead_id", "contact_hash received_at lead_id"],
    )
    add_table("withdrawals", "contact_hash channel", data="contact_hash", text="channel", numbers="at")
    add_table(
        "consent_proofs",
        "number",
        of="leads.lead_id",
        numbers="number last_at",
        text="lead_id",
        sealed="body",
        indexes=["lead_id", "last_at"],
    )
    add_table(
        "proof_contacts",
        "contact_hash lead_id",
        of="leads.lead_id",
        data="contact_hash",
        text="lead_id",
        indexes=["lead_id"],
    )
    add_table(
        "consent_events",
        "number",
        of="leads.lead_id",
        numbers="number at granted_at expires_at",
        text="lead_id kind purpose",
        data="channels commitment hash",
        sealed="body",
        nullable="granted_at expires_at body",
        # With the number: events are read in order, and SQLite would read the whole chain instead of sorting them.
        indexes=["lead_id number"],
    )
    # The check of the table of withdrawals reads these events only.
    op.execute(
        "CREATE INDEX ix_consent_events_withdrawals ON consent_events (dealer_id, number) "
        "WHERE kind IN ('revoked', 'revoked on another lead')"
    )
    add_table(
        "appointments",
        "appointment_id",
        of="leads.lead_id",
        text="appointment_id lead_id rooftop kind status shares vehicle_id",
        numbers="created_at starts_at ends_at cancelled_at",
        data="reply",
        sealed="request",
        nullable="starts_at ends_at cancelled_at shares request vehicle_id",
        indexes=["lead_id", "starts_at"],
    )
    add_index("appointments", "shares", where="shares IS NOT NULL")
    # Those that a person must arrange, the oldest first.
    add_index("appointments", "created_at", where="starts_at IS NULL")
    add_table(
        "places",
        "rooftop kind quarter place",
        of="appointments.appointment_id",
        cascades=True,
        text="rooftop kind appointment_id",
        numbers="quarter",
        counts="place",
        indexes=["appointment_id"],
    )
    add_table(
        "idempotency",
        "fingerprint",
        data="fingerprint",
        numbers="at",
        text="lead_id",
        sealed="reply",
        nullable="lead_id",
        indexes=["at", "lead_id"],
    )


def _make_tables_of_jobs() -> None:
    """Deliveries, jobs, fetched keys and alerts. `add_table` explains its words."""
    add_table(
        "outbox",
        "delivery_id",
        of="leads.lead_id",
        text="delivery_id lead_id event_id kind rooftop channel state lease problem follows trace",
        numbers="created_at due_at leased_until settled_at",
        counts="attempts unknown",
        sealed="document",
        nullable="event_id lease leased_until settled_at problem document follows trace",
        defaults={"unknown": "0"},
        # With the state: SQLite would read all waiting deliveries instead of those of one lead.
        indexes=["lead_id state", "state rooftop channel due_at delivery_id"],
    )
    # The dealers with due deliveries, and the oldest of each. The second column is 0 for one that was never put off.
    op.execute(
        "CREATE INDEX ix_outbox_due ON outbox (dealer_id, (COALESCE(NULLIF(due_at, created_at), 0))) "
        "WHERE state = 'waiting'"
    )
    add_table(
        "jobs",
        "kind subject",
        text="kind subject lease result",
        numbers="due_at leased_until",
        counts="attempts",
        nullable="lease leased_until result",
    )
    # The due jobs of all dealers.
    op.create_index("ix_jobs_kind_due_at", "jobs", ["kind", "due_at"])
    add_table(
        "key_sets",
        "source",
        text="source problem",
        data="document",
        numbers="version asked_at tried_at fetched_at expires_at used_at pinned_until",
        nullable="document tried_at fetched_at expires_at pinned_until problem",
    )
    add_table(
        "alert_checks",
        "",
        numbers="digest_at lead_failed_at",
        counts="failed_leads",
        nullable="digest_at lead_failed_at",
    )
    add_table(
        "alerts",
        "condition subject",
        text="condition subject detail",
        numbers="seen_at cleared_at started_at ended_at reported_at since",
        flags="start_reported",
        counts="unreported amount",
        nullable="seen_at cleared_at started_at ended_at reported_at since amount",
    )
    add_table(
        "alert_messages",
        "message_id receiver",
        text="message_id receiver kind state problem",
        numbers="created_at settled_at",
        counts="attempts",
        data="document",
        nullable="settled_at problem",
    )


def _make_tables_of_console() -> None:
    # The rows of people belong to the installation, so their `dealer_id` is that of its owner. `for_dealer` is the
    # dealer for whom the person works.
    add_table(
        "people",
        "person_id",
        text="person_id email password",
        numbers="totp_number totp_step created_at signed_in_at",
        data="recovery",
        nullable="password totp_number totp_step signed_in_at",
        unique=["email"],
    )
    add_table("memberships", "person_id for_dealer", text="person_id for_dealer role", data="rooftops")
    add_table(
        "passkeys",
        "credential_id",
        text="person_id name",
        data="credential_id public_key",
        numbers="sign_count created_at used_at",
        nullable="used_at",
        indexes=["person_id"],
    )
    add_table(
        "invitations",
        "token_hash",
        text="person_id for_dealer role invited_by",
        data="token_hash rooftops",
        flags="by_operator",
        numbers="created_at expires_at",
        indexes=["person_id"],
    )
    add_table(
        "console_sessions",
        "session_hash",
        text="session_id person_id address browser",
        data="session_hash",
        numbers="created_at used_at proved_at",
        nullable="proved_at",
        indexes=["person_id", "used_at"],
    )
    add_table(
        "lead_notes",
        "note_id",
        of="leads.lead_id",
        text="note_id lead_id written_by",
        numbers="at",
        sealed="text",
        nullable="text",
        indexes=["lead_id at"],
    )
