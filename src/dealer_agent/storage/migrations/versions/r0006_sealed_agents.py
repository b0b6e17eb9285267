"""The agent's name and the scope of a consent are sealed, hashes of vehicles and idempotency keys are keyed.

Adds `lead_contacts.vehicle` and the table `clocks`. `leads.source_agent` becomes a sealed column.
`agent` and `scope` of consent events move into their sealed bodies, so each chain is written anew; an event that was
tampered with still shows. Of an erased lead the agent's name is dropped, of a lead that is disposed of the vehicle too.

As in 0003, no clear text stays in dead rows: tables are made anew, or rewritten, and `storage.migrate` cleans the
SQLite file.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import context, op

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.encryption.errors import DecryptionFailed
from dealer_agent.storage.errors import KeyMissing
from dealer_agent.storage.event_chain import (
    NOTHING_BEFORE,
    ChainEnd,
    KeptEnd,
    body_context,
    commitment,
    end_is_sound,
    event_hash,
    seal_end,
)
from dealer_agent.storage.idempotency import KeptReply, reply_row
from dealer_agent.storage.keys import check_keys, note_active_key
from dealer_agent.storage.leads import contact_row, lead_context
from dealer_agent.storage.migrations.versions.r0003_privacy import event_hash_1

revision = "0006"
down_revision = "0005"

_BATCH = 200

_REPLACED = {
    "consent_events": ("ix_consent_events_dealer_id_lead_id_number",),
    "lead_contacts": ("ix_lead_contacts_dealer_id_lead_id",),
    "idempotency": ("ix_idempotency_dealer_id_at", "ix_idempotency_dealer_id_lead_id"),
}
"""Tables that are made anew, with their indexes."""

_TIMES = {
    "leads": ("received_at", "used_at"),
    "consent_events": ("at",),
    "lead_events": ("at",),
    "appointments": ("created_at",),
    "outbox": ("created_at", "settled_at"),
    "accesses": ("at",),
    "refusals": ("at",),
    "idempotency": ("at",),
    "imports": ("at",),
    "tokens": ("created_at", "revoked_at"),
}
"""Columns that hold the time at which a row was written."""


def upgrade() -> None:
    """Makes the tables of 0006, carries everything over, drops what was in the clear."""
    op.create_table(
        "clocks",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("trusted_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", name="pk_clocks"),
    )
    _note_newest_times()
    postgresql = op.get_bind().dialect.name == "postgresql"
    for table, indexes in _REPLACED.items():
        for index in indexes:
            op.drop_index(index, table)
        op.rename_table(table, f"old_{table}")
        if postgresql:
            op.execute(f"ALTER TABLE old_{table} RENAME CONSTRAINT pk_{table} TO pk_old_{table}")
    _make_tables()
    op.add_column("leads", sa.Column("sealed_agent", sa.LargeBinary, comment="sealed"))
    _Carrier(op.get_bind(), context.config.attributes["cipher"]).carry()
    for table in _REPLACED:
        op.drop_table(f"old_{table}")
    op.drop_column("leads", "source_agent")
    op.alter_column("leads", "sealed_agent", new_column_name="source_agent")
    if postgresql:
        # A changed type has PostgreSQL write the table anew, without dead rows and dropped columns.
        op.execute("ALTER TABLE leads ALTER COLUMN status TYPE varchar USING status || ''")


def _note_newest_times() -> None:
    """The clock is trusted as far as the newest row of each dealer."""
    told = " UNION ALL ".join(
        f"SELECT dealer_id, {column} AS at FROM {table}"  # noqa: S608
        for table, columns in _TIMES.items()
        for column in columns
    )
    op.execute(
        f"INSERT INTO clocks (dealer_id, trusted_at) SELECT dealer_id, max(at) FROM ({told}) AS told "  # noqa: S608
        "WHERE at IS NOT NULL GROUP BY dealer_id"
    )


def _make_tables() -> None:
    op.create_table(
        "consent_events",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("lead_id", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("granted_at", sa.BigInteger),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("channels", sa.LargeBinary, nullable=False),
        sa.Column("purpose", sa.String, nullable=False),
        sa.Column("commitment", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, comment="sealed"),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "number", name="pk_consent_events"),
        _belongs_to_a_lead("consent_events"),
    )
    op.create_index("ix_consent_events_dealer_id_lead_id_number", "consent_events", ["dealer_id", "lead_id", "number"])
    op.create_table(
        "lead_contacts",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("contact_hash", sa.LargeBinary, nullable=False),
        sa.Column("vehicle_key", sa.LargeBinary, nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("lead_id", sa.String, nullable=False),
        sa.Column("contact", sa.LargeBinary, nullable=False, comment="sealed"),
        sa.Column("vehicle", sa.LargeBinary, comment="sealed"),
        sa.PrimaryKeyConstraint(
            "dealer_id", "contact_hash", "vehicle_key", "received_at", "lead_id", name="pk_lead_contacts"
        ),
        _belongs_to_a_lead("lead_contacts"),
    )
    op.create_index("ix_lead_contacts_dealer_id_lead_id", "lead_contacts", ["dealer_id", "lead_id"])
    op.create_table(
        "idempotency",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("lead_id", sa.String),
        sa.Column("reply", sa.LargeBinary, nullable=False, comment="sealed"),
        sa.PrimaryKeyConstraint("dealer_id", "fingerprint", name="pk_idempotency"),
    )
    op.create_index("ix_idempotency_dealer_id_at", "idempotency", ["dealer_id", "at"])
    op.create_index("ix_idempotency_dealer_id_lead_id", "idempotency", ["dealer_id", "lead_id"])


def _belongs_to_a_lead(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["dealer_id", "lead_id"], ["leads.dealer_id", "leads.lead_id"], name=f"fk_{table}_leads"
    )


class _Carrier:
    """Carries the old rows over; times stay as they are, microseconds since 1970."""

    def __init__(self, connection: sa.Connection, cipher: Cipher | None) -> None:
        self._connection = connection
        self._given = cipher

    def carry(self) -> None:
        """Raises KeyMissing and WrongKey when there is something to seal and not the dealer's keys."""
        dealers = self._connection.execute(sa.text("SELECT DISTINCT dealer_id FROM leads")).scalars().all()
        if not dealers:
            return
        if self._given is None:
            raise KeyMissing(
                "this version encrypts more of the customer data in the database, and there is no key: put the key "
                "file dealer-agent.keys beside dealer.toml, or set DEALER_AGENT_KEYS"
            )
        self._vault = self._given
        for dealer_id in dealers:
            if not check_keys(self._connection, self._vault, dealer_id):
                note_active_key(self._connection, self._vault, dealer_id)
        self._carry_leads()
        self._carry_contacts()
        self._carry_replies()
        for dealer_id in dealers:
            self._carry_chain(dealer_id)

    def _rows(self, select: str, *key: str, **given: Any) -> Iterator[sa.RowMapping]:
        """All rows of a statement in the order of their key, a few at a time."""
        columns, names = ", ".join(key), ", ".join(f":{column}" for column in key)
        first = sa.text(f"SELECT * FROM ({select}) AS found ORDER BY {columns} LIMIT {_BATCH}")  # noqa: S608
        more = sa.text(
            f"SELECT * FROM ({select}) AS found WHERE ({columns}) > ({names}) "  # noqa: S608
            f"ORDER BY {columns} LIMIT {_BATCH}"
        )
        rows = self._connection.execute(first, given).mappings().all()
        while rows:
            yield from rows
            rows = self._connection.execute(more, given | {column: rows[-1][column] for column in key}).mappings().all()

    def _add(self, table: str, row: Mapping[str, Any]) -> None:
        columns, names = ", ".join(row), ", ".join(f":{column}" for column in row)
        self._connection.execute(sa.text(f"INSERT INTO {table} ({columns}) VALUES ({names})"), row)  # noqa: S608

    def _carry_leads(self) -> None:
        seal = sa.text("UPDATE leads SET sealed_agent = :sealed WHERE dealer_id = :dealer_id AND lead_id = :lead_id")
        select = "SELECT dealer_id, lead_id, source_agent FROM leads WHERE erased_at IS NULL"
        for old in self._rows(select, "dealer_id", "lead_id"):
            dealer_id, lead_id, agent = old["dealer_id"], old["lead_id"], old["source_agent"]
            sealed = self._vault.seal(agent.encode(), *lead_context("source_agent", dealer_id, lead_id))
            self._connection.execute(seal, {"sealed": sealed, "dealer_id": dealer_id, "lead_id": lead_id})

    def _carry_contacts(self) -> None:
        select = (
            "SELECT c.*, l.erased_at FROM old_lead_contacts AS c "
            "JOIN leads AS l ON l.dealer_id = c.dealer_id AND l.lead_id = c.lead_id"
        )
        key = ("dealer_id", "contact_hash", "vehicle_key", "received_at", "lead_id")
        seen: set[tuple[Any, ...]] = set()
        for old in self._rows(select, *key):
            dealer_id, lead_id, vehicle_hash = old["dealer_id"], old["lead_id"], old["vehicle_key"]
            contact = self._vault.open(
                old["contact"], "lead_contacts", "contact", dealer_id, lead_id, vehicle_hash
            ).decode()
            known = vehicle_hash and old["erased_at"] is None
            vehicle = bytes.fromhex(vehicle_hash) if known else None
            row = contact_row(self._vault, dealer_id, lead_id, contact, vehicle, old["received_at"])
            same = tuple(row[name] for name in key)
            # While keys change, one contact of a lead may be there under two of them.
            if same not in seen:
                self._add("lead_contacts", row)
            seen.add(same)

    def _carry_replies(self) -> None:
        for old in self._rows("SELECT * FROM old_idempotency", "dealer_id", "fingerprint"):
            dealer_id, known_as = old["dealer_id"], bytes(old["fingerprint"])
            opened = self._vault.open(old["reply"], "idempotency", "reply", dealer_id, known_as.hex())
            payload_hash, reply = msgspec.msgpack.decode(opened, type=tuple[bytes, bytes])
            answer = KeptReply(payload_hash, reply, known_as)
            self._add("idempotency", reply_row(self._vault, dealer_id, answer, old["at"], old["lead_id"]))

    def _carry_chain(self, dealer_id: str) -> None:
        """Writes a dealer's chain anew. A link that does not hold stays broken, at the same event."""
        before, end = ChainEnd(0, NOTHING_BEFORE), ChainEnd(0, NOTHING_BEFORE)
        select = "SELECT * FROM old_consent_events WHERE dealer_id = :of_dealer"
        for old in map(dict, self._rows(select, "number", of_dealer=dealer_id)):
            row = {name: value for name, value in old.items() if name not in ("scope", "agent")}
            row |= self._body(old)
            holds = old["number"] == before.events + 1 and bytes(old["hash"]) == event_hash_1(old, before.head)
            row["hash"] = event_hash(row, end.head) if holds else old["hash"]
            self._add("consent_events", row)
            before, end = (ChainEnd(old["number"], bytes(each)) for each in (old["hash"], row["hash"]))
        self._carry_end(dealer_id, before, end)

    def _body(self, old: Mapping[str, Any]) -> dict[str, bytes]:
        """An event's body with scope and agent in it, and its commitment. One that was tampered with stays as it is."""
        place = body_context(old["dealer_id"], old["number"])
        if old["body"] is None:
            return {}
        try:
            opened = self._vault.open(bytes(old["body"]), *place)
        except DecryptionFailed:
            return {}
        if commitment(opened) != bytes(old["commitment"]):
            return {}
        told = msgspec.msgpack.decode(opened)
        scope = msgspec.json.decode(old["scope"])
        if scope:
            told["scope"] = scope
        if old["agent"] is not None:
            told["agent"] = old["agent"]
        body = msgspec.msgpack.encode(told)
        return {"commitment": commitment(body), "body": self._vault.seal(body, *place)}

    def _carry_end(self, dealer_id: str, before: ChainEnd, end: ChainEnd) -> None:
        select = sa.text("SELECT consent_events, consent_head, consent_seal FROM dealers WHERE dealer_id = :dealer_id")
        found = self._connection.execute(select, {"dealer_id": dealer_id}).one_or_none()
        if found is None or found.consent_seal is None:
            return
        kept = KeptEnd(ChainEnd(found.consent_events, bytes(found.consent_head)), bytes(found.consent_seal))
        if kept.end != before:
            return
        seal = seal_end(self._vault, dealer_id, end) if end_is_sound(self._vault, dealer_id, kept) else kept.seal
        self._connection.execute(
            sa.text("UPDATE dealers SET consent_head = :head, consent_seal = :seal WHERE dealer_id = :dealer_id"),
            {"head": end.head, "seal": seal, "dealer_id": dealer_id},
        )
