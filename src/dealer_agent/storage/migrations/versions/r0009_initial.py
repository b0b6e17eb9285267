"""The first schema: all tables (`storage.schema` describes them).

It has the number of the last of the migrations that it replaced, so a database that those made is up to date.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = None

TYPES: dict[str, type[sa.types.TypeEngine[Any]]] = {
    "text": sa.String,
    "numbers": sa.BigInteger,
    "counts": sa.Integer,
    "flags": sa.Boolean,
    "data": sa.LargeBinary,
    "sealed": sa.LargeBinary,
}


def _table(
    name: str,
    key: str,
    *,
    of: str = "",
    cascades: bool = False,
    nullable: str = "",
    defaults: Mapping[str, str] = MappingProxyType({}),
    indexes: Sequence[str] = (),
    unique: Sequence[str] = (),
    **columns: str,
) -> None:
    """Makes a table with the columns of each type (`TYPES`). All names are split at spaces.

    The primary key and each index begin with `dealer_id`, and then have the named columns. Each row belongs to the row
    of the table `of` that has the same key. With `cascades`, it is deleted with that row.
    """
    described = [
        sa.Column(
            column,
            TYPES[kind],
            nullable=column in nullable.split(),
            server_default=defaults.get(column),
            comment="sealed" if kind == "sealed" else None,
        )
        for kind, names in columns.items()
        for column in names.split()
    ]
    constraints: list[sa.Constraint] = [sa.PrimaryKeyConstraint("dealer_id", *key.split(), name=f"pk_{name}")]
    if of:
        owner, owner_key = of.split(".")
        constraints.append(
            sa.ForeignKeyConstraint(
                ["dealer_id", owner_key],
                [f"{owner}.dealer_id", of],
                name=f"fk_{name}_{owner}",
                ondelete="CASCADE" if cascades else None,
            )
        )
    op.create_table(name, sa.Column("dealer_id", sa.String, nullable=False), *described, *constraints)
    for index in (*indexes, *unique):
        _index(name, index, unique=index in unique)


def _index(table: str, columns: str, where: str | None = None, *, unique: bool = False) -> None:
    """Makes an index, of the rows that satisfy the condition `where`."""
    names = ["dealer_id", *columns.split()]
    condition = None if where is None else sa.text(where)
    op.create_index(
        f"ix_{table}_{'_'.join(names)}",
        table,
        names,
        unique=unique,
        sqlite_where=condition,
        postgresql_where=condition,
    )


def upgrade() -> None:
    """Makes the tables and indexes."""
    _table(
        "dealers",
        "",
        numbers="consent_events accesses",
        data="consent_head consent_seal access_head access_seal",
        nullable="consent_head consent_seal access_head access_seal",
        defaults={"consent_events": "0", "accesses": "0"},
    )
    _table("vault_keys", "key_id", text="key_id", data="proof")
    _table("vault_key_uses", "key_id", text="key_id state lacked_by", numbers="since", nullable="lacked_by")
    _table("clocks", "", numbers="trusted_at")
    _table("revisions", "", numbers="stock_revision token_revision")
    _table(
        "units",
        "vehicle_id",
        text="vehicle_id vin stock digest",
        data="document_hash",
        numbers="first_seen changed_at updated_at sold_at",
        nullable="vin stock sold_at",
        indexes=["sold_at"],
        unique=["vin"],
    )
    _table(
        "unit_documents",
        "vehicle_id",
        of="units.vehicle_id",
        cascades=True,
        text="vehicle_id",
        data="unit",
    )
    _table(
        "imports",
        "revision",
        numbers="revision at",
        text="source layout",
        flags="full_file",
        counts="added changed unchanged sold back",
    )
    _table(
        "leads",
        "lead_id",
        text="lead_id status rooftop vehicle_id vin stock token_id may_be_same_person_as",
        numbers="received_at used_at erased_at",
        data="vehicle",
        sealed="source_agent customer payload",
        nullable="erased_at source_agent vehicle_id vin stock vehicle token_id may_be_same_person_as customer payload",
        indexes=["received_at lead_id", "used_at"],
    )
    _index("leads", "may_be_same_person_as", where="may_be_same_person_as IS NOT NULL")
    _table(
        "lead_events",
        "event_id",
        of="leads.lead_id",
        text="event_id lead_id",
        numbers="at",
        sealed="changes",
        nullable="changes",
        indexes=["lead_id"],
    )
    _table(
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
    _table("withdrawals", "contact_hash channel", data="contact_hash", text="channel", numbers="at")
    _table(
        "consent_proofs",
        "number",
        of="leads.lead_id",
        numbers="number last_at",
        text="lead_id",
        sealed="body",
        indexes=["lead_id", "last_at"],
    )
    _table(
        "proof_contacts",
        "contact_hash lead_id",
        of="leads.lead_id",
        data="contact_hash",
        text="lead_id",
        indexes=["lead_id"],
    )
    _table(
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
    _table(
        "appointments",
        "appointment_id",
        of="leads.lead_id",
        text="appointment_id lead_id rooftop kind status shares",
        numbers="created_at starts_at ends_at cancelled_at",
        data="reply",
        sealed="request",
        nullable="starts_at ends_at cancelled_at shares request",
        indexes=["lead_id", "starts_at"],
    )
    _index("appointments", "shares", where="shares IS NOT NULL")
    _table(
        "places",
        "rooftop kind quarter place",
        of="appointments.appointment_id",
        cascades=True,
        text="rooftop kind appointment_id",
        numbers="quarter",
        counts="place",
        indexes=["appointment_id"],
    )
    _table(
        "outbox",
        "delivery_id",
        of="leads.lead_id",
        text="delivery_id lead_id event_id kind rooftop channel state lease problem follows",
        numbers="created_at due_at leased_until settled_at",
        counts="attempts unknown",
        sealed="document",
        nullable="event_id lease leased_until settled_at problem document follows",
        defaults={"unknown": "0"},
        # With the state: SQLite would read all waiting deliveries instead of those of one lead.
        indexes=["lead_id state", "state rooftop channel due_at delivery_id"],
    )
    _table(
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
    _table(
        "idempotency",
        "fingerprint",
        data="fingerprint",
        numbers="at",
        text="lead_id",
        sealed="reply",
        nullable="lead_id",
        indexes=["at", "lead_id"],
    )
    _table("refusals", "refusal_id", text="refusal_id code", numbers="at", indexes=["at"])
    _table(
        "tokens",
        "token_id",
        text="token_id purpose name",
        data="token_hash",
        numbers="created_at revoked_at",
        nullable="revoked_at",
        defaults={"purpose": "skills"},
        unique=["token_hash"],
    )
