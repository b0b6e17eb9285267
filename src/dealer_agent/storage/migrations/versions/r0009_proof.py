"""Withdrawals and proofs of consent that outlive a lead, and an access log that is a chain.

Numbers and hashes of the old entries of the access log are made here. `storage.migrate` seals the log's end and notes
the earlier withdrawals: both need the keys.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_BATCH = 500


def upgrade() -> None:
    """Adds tables, columns and an index, and makes the access log anew with numbers and hashes."""
    op.add_column("dealers", sa.Column("accesses", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("dealers", sa.Column("access_head", sa.LargeBinary))
    op.add_column("dealers", sa.Column("access_seal", sa.LargeBinary))
    op.create_index(
        "ix_lead_contacts_dealer_id_contact_hash_received_at_lead_id",
        "lead_contacts",
        ["dealer_id", "contact_hash", "received_at", "lead_id"],
    )
    _make_tables()
    _number_accesses(op.get_bind())


def _make_tables() -> None:
    op.create_table(
        "withdrawals",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("contact_hash", sa.LargeBinary, nullable=False),
        sa.Column("channel", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "contact_hash", "channel", name="pk_withdrawals"),
    )
    op.create_table(
        "consent_proofs",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("lead_id", sa.String, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False, comment="sealed"),
        sa.PrimaryKeyConstraint("dealer_id", "number", name="pk_consent_proofs"),
        _belongs_to_a_lead("consent_proofs"),
    )
    op.create_index("ix_consent_proofs_dealer_id_lead_id", "consent_proofs", ["dealer_id", "lead_id"])
    op.create_index("ix_consent_proofs_dealer_id_last_at", "consent_proofs", ["dealer_id", "last_at"])
    op.create_table(
        "proof_contacts",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("contact_hash", sa.LargeBinary, nullable=False),
        sa.Column("lead_id", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "contact_hash", "lead_id", name="pk_proof_contacts"),
        _belongs_to_a_lead("proof_contacts"),
    )
    op.create_index("ix_proof_contacts_dealer_id_lead_id", "proof_contacts", ["dealer_id", "lead_id"])


def _belongs_to_a_lead(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["dealer_id", "lead_id"], ["leads.dealer_id", "leads.lead_id"], name=f"fk_{table}_leads"
    )


def _number_accesses(connection: sa.Connection) -> None:
    """Makes the table anew: SQLite adds no column without a value."""
    op.drop_index("ix_accesses_dealer_id_at", "accesses")
    op.rename_table("accesses", "old_accesses")
    if connection.dialect.name == "postgresql":
        op.execute("ALTER TABLE old_accesses RENAME CONSTRAINT pk_accesses TO pk_old_accesses")
    op.create_table(
        "accesses",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("access_id", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("lead_id", sa.String),
        sa.Column("leads", sa.Integer, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("deleted", sa.BigInteger),
        sa.Column("deleted_head", sa.LargeBinary),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "access_id", name="pk_accesses"),
    )
    op.create_index("ix_accesses_dealer_id_at", "accesses", ["dealer_id", "at"])
    op.create_index("ix_accesses_dealer_id_number", "accesses", ["dealer_id", "number"], unique=True)
    columns = ("dealer_id", "access_id", "at", "actor", "action", "lead_id", "leads", "number", "hash")
    add = sa.text(f"INSERT INTO accesses ({', '.join(columns)}) VALUES (:{', :'.join(columns)})")  # noqa: S608
    dealers = connection.execute(sa.text("SELECT DISTINCT dealer_id FROM old_accesses")).scalars().all()
    for dealer_id in dealers:
        number, head = 0, b""
        for row in _old_entries(connection, dealer_id):
            number += 1
            head = _hash(row, number, head)
            connection.execute(add, dict(row) | {"number": number, "hash": head})
        place = {"dealer_id": dealer_id, "number": number, "head": head}
        connection.execute(
            sa.text("INSERT INTO dealers (dealer_id) VALUES (:dealer_id) ON CONFLICT (dealer_id) DO NOTHING"), place
        )
        connection.execute(
            sa.text("UPDATE dealers SET accesses = :number, access_head = :head WHERE dealer_id = :dealer_id"), place
        )
    op.drop_table("old_accesses")


def _old_entries(connection: sa.Connection, dealer_id: str) -> Iterator[sa.RowMapping]:
    """The entries of a dealer by time, a few at a time."""
    columns = "dealer_id, access_id, at, actor, action, lead_id, leads"
    begin = f"SELECT {columns} FROM old_accesses WHERE dealer_id = :dealer_id "  # noqa: S608
    order = f"ORDER BY at, access_id LIMIT {_BATCH}"
    rows = connection.execute(sa.text(begin + order), {"dealer_id": dealer_id}).mappings().all()
    while rows:
        yield from rows
        after = {"dealer_id": dealer_id, "at": rows[-1]["at"], "access_id": rows[-1]["access_id"]}
        more = sa.text(begin + "AND (at, access_id) > (:at, :access_id) " + order)
        rows = connection.execute(more, after).mappings().all()


def _hash(row: sa.RowMapping, number: int, before: bytes) -> bytes:
    """The hash of an entry in the form of 0009."""
    first, *rest = (row[name] for name in ("dealer_id", "access_id", "at", "actor", "action", "lead_id", "leads"))
    covered: tuple[Any, ...] = ("access 1", first, number, *rest, None, None, before)
    return hashlib.sha256(msgspec.json.encode(covered)).digest()
