"""Customer data is sealed, consents become a chain of events, visits and deliveries get their tables.

What older rows hold in the clear is sealed on the way. Their tables are made anew and the old ones dropped: an update
in place would leave the clear text behind in dead rows. `storage.migrate` cleans what SQLite keeps beside its tables.
"""

import secrets
from collections import defaultdict
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import context, op
from msgspec import Struct

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage.errors import KeyMissing
from dealer_agent.storage.event_chain import NOTHING_BEFORE, ChainEnd, body_context, commitment, seal_end
from dealer_agent.storage.keys import note_active_key

revision = "0003"
down_revision = "0002"

_REPLACED = ("consents", "lead_events", "lead_contacts", "idempotency", "leads")
"""Children before their parents."""

_INDEXES = {
    "consents": ("ix_consents_dealer_id_lead_id",),
    "lead_events": ("ix_lead_events_dealer_id_lead_id",),
    "lead_contacts": ("ix_lead_contacts_dealer_id_lead_id",),
    "idempotency": ("ix_idempotency_dealer_id_at",),
    "leads": ("ix_leads_dealer_id_received_at_lead_id",),
}

_KINDS = {"showroom_visit": "sales", "trade_in_appraisal": "trade_in"}
"""Kinds of visit that have two names."""

_BATCH = 200


def upgrade() -> None:
    """Makes the tables of 0003, carries leads and consents over, drops the old ones."""
    op.add_column("tokens", sa.Column("purpose", sa.String, nullable=False, server_default="skills"))
    op.add_column("dealers", sa.Column("consent_events", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("dealers", sa.Column("consent_head", sa.LargeBinary))
    op.add_column("dealers", sa.Column("consent_seal", sa.LargeBinary))
    _set_aside()
    _make_lead_tables()
    _make_visit_tables()
    _make_other_tables()
    _Carrier(op.get_bind(), context.config.attributes["cipher"]).carry()
    for table in _REPLACED:
        op.drop_table(f"old_{table}")


def _set_aside() -> None:
    for table in _REPLACED:
        for index in _INDEXES[table]:
            op.drop_index(index, table)
        op.rename_table(table, f"old_{table}")
        if op.get_bind().dialect.name == "postgresql":
            # Names of keys are names in the schema there, and the new tables need them.
            op.execute(f"ALTER TABLE old_{table} RENAME CONSTRAINT pk_{table} TO pk_old_{table}")


def _make_lead_tables() -> None:
    op.create_table(
        "leads",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("lead_id", sa.String, nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("used_at", sa.BigInteger, nullable=False),
        sa.Column("erased_at", sa.BigInteger),
        sa.Column("source_agent", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("rooftop", sa.String, nullable=False),
        sa.Column("vehicle_id", sa.String),
        sa.Column("vin", sa.String),
        sa.Column("stock", sa.String),
        sa.Column("vehicle", sa.LargeBinary),
        sa.Column("customer", sa.LargeBinary, comment="sealed"),
        sa.Column("payload", sa.LargeBinary, comment="sealed"),
        sa.PrimaryKeyConstraint("dealer_id", "lead_id", name="pk_leads"),
    )
    op.create_index("ix_leads_dealer_id_received_at_lead_id", "leads", ["dealer_id", "received_at", "lead_id"])
    op.create_index("ix_leads_dealer_id_used_at", "leads", ["dealer_id", "used_at"])
    op.create_table(
        "lead_events",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("event_id", sa.String, nullable=False),
        sa.Column("lead_id", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("changes", sa.LargeBinary, comment="sealed"),
        sa.PrimaryKeyConstraint("dealer_id", "event_id", name="pk_lead_events"),
        _belongs_to_a_lead("lead_events"),
    )
    op.create_index("ix_lead_events_dealer_id_lead_id", "lead_events", ["dealer_id", "lead_id"])
    op.create_table(
        "lead_contacts",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("contact_hash", sa.LargeBinary, nullable=False),
        sa.Column("vehicle_key", sa.String, nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("lead_id", sa.String, nullable=False),
        sa.Column("contact", sa.LargeBinary, nullable=False, comment="sealed"),
        sa.PrimaryKeyConstraint(
            "dealer_id", "contact_hash", "vehicle_key", "received_at", "lead_id", name="pk_lead_contacts"
        ),
        _belongs_to_a_lead("lead_contacts"),
    )
    op.create_index("ix_lead_contacts_dealer_id_lead_id", "lead_contacts", ["dealer_id", "lead_id"])
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
        sa.Column("scope", sa.LargeBinary, nullable=False),
        sa.Column("purpose", sa.String, nullable=False),
        sa.Column("agent", sa.String),
        sa.Column("commitment", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, comment="sealed"),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "number", name="pk_consent_events"),
        _belongs_to_a_lead("consent_events"),
    )
    op.create_index("ix_consent_events_dealer_id_lead_id_number", "consent_events", ["dealer_id", "lead_id", "number"])
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


def _make_visit_tables() -> None:
    op.create_table(
        "appointments",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("appointment_id", sa.String, nullable=False),
        sa.Column("lead_id", sa.String, nullable=False),
        sa.Column("rooftop", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("starts_at", sa.BigInteger),
        sa.Column("ends_at", sa.BigInteger),
        sa.Column("cancelled_at", sa.BigInteger),
        sa.Column("shares", sa.String),
        sa.Column("reply", sa.LargeBinary, nullable=False),
        sa.Column("request", sa.LargeBinary, comment="sealed"),
        sa.PrimaryKeyConstraint("dealer_id", "appointment_id", name="pk_appointments"),
        _belongs_to_a_lead("appointments"),
    )
    op.create_index("ix_appointments_dealer_id_lead_id", "appointments", ["dealer_id", "lead_id"])
    op.create_index("ix_appointments_dealer_id_starts_at", "appointments", ["dealer_id", "starts_at"])
    op.create_index(
        "ix_appointments_dealer_id_shares",
        "appointments",
        ["dealer_id", "shares"],
        sqlite_where=sa.text("shares IS NOT NULL"),
        postgresql_where=sa.text("shares IS NOT NULL"),
    )
    op.create_table(
        "places",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("rooftop", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("quarter", sa.BigInteger, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("appointment_id", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "rooftop", "kind", "quarter", "place", name="pk_places"),
        sa.ForeignKeyConstraint(
            ["dealer_id", "appointment_id"],
            ["appointments.dealer_id", "appointments.appointment_id"],
            name="fk_places_appointments",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_places_dealer_id_appointment_id", "places", ["dealer_id", "appointment_id"])


def _make_other_tables() -> None:
    op.create_table(
        "outbox",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("delivery_id", sa.String, nullable=False),
        sa.Column("lead_id", sa.String, nullable=False),
        sa.Column("event_id", sa.String),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("rooftop", sa.String, nullable=False),
        sa.Column("channel", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("lease", sa.String),
        sa.Column("leased_until", sa.BigInteger),
        sa.Column("settled_at", sa.BigInteger),
        sa.Column("problem", sa.String),
        sa.PrimaryKeyConstraint("dealer_id", "delivery_id", name="pk_outbox"),
        _belongs_to_a_lead("outbox"),
    )
    op.create_index("ix_outbox_dealer_id_state_due_at", "outbox", ["dealer_id", "state", "due_at"])
    op.create_index("ix_outbox_dealer_id_lead_id", "outbox", ["dealer_id", "lead_id"])
    op.create_table(
        "accesses",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("access_id", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("lead_id", sa.String),
        sa.Column("leads", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "access_id", name="pk_accesses"),
    )
    op.create_index("ix_accesses_dealer_id_at", "accesses", ["dealer_id", "at"])
    op.create_table(
        "vault_keys",
        sa.Column("dealer_id", sa.String, nullable=False),
        sa.Column("key_id", sa.String, nullable=False),
        sa.Column("proof", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dealer_id", "key_id", name="pk_vault_keys"),
    )


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
        """Raises KeyMissing when there is something to seal and no key."""
        dealers = self._connection.execute(sa.text("SELECT DISTINCT dealer_id FROM old_leads")).scalars().all()
        if not dealers:
            return
        if self._given is None:
            raise KeyMissing(
                "this version seals the customer data that stands in the database, and there is no key to seal it "
                "with: make one with dealer-agent keys create"
            )
        self._vault = self._given
        for dealer_id in dealers:
            note_active_key(self._connection, self._vault, dealer_id)
        self._carry_leads()
        self._carry_events()
        self._carry_contacts()
        self._carry_replies()
        self._carry_consents()

    def _rows(self, select: str, *key: str) -> Iterator[sa.RowMapping]:
        """All rows of a statement in the order of their key, a few at a time."""
        columns, names = ", ".join(key), ", ".join(f":{column}" for column in key)
        first = sa.text(f"SELECT * FROM ({select}) AS found ORDER BY {columns} LIMIT {_BATCH}")  # noqa: S608
        more = sa.text(
            f"SELECT * FROM ({select}) AS found WHERE ({columns}) > ({names}) "  # noqa: S608
            f"ORDER BY {columns} LIMIT {_BATCH}"
        )
        rows = self._connection.execute(first).mappings().all()
        while rows:
            yield from rows
            rows = self._connection.execute(more, {column: rows[-1][column] for column in key}).mappings().all()

    def _add(self, table: str, row: Mapping[str, Any]) -> None:
        columns, names = ", ".join(row), ", ".join(f":{column}" for column in row)
        self._connection.execute(sa.text(f"INSERT INTO {table} ({columns}) VALUES ({names})"), row)  # noqa: S608

    def _carry_leads(self) -> None:
        last_event = (
            "SELECT max(at) FROM old_lead_events AS e WHERE e.dealer_id = l.dealer_id AND e.lead_id = l.lead_id"
        )
        for old in self._rows(f"SELECT l.*, ({last_event}) AS last_event FROM old_leads AS l", "dealer_id", "lead_id"):  # noqa: S608
            dealer_id, lead_id = old["dealer_id"], old["lead_id"]
            row = {
                name: old[name]
                for name in (
                    "dealer_id",
                    "lead_id",
                    "received_at",
                    "source_agent",
                    "status",
                    "vehicle_id",
                    "vin",
                    "stock",
                )
            }
            row["used_at"] = max(old["received_at"], old["last_event"] or 0)
            row["rooftop"] = ""  # It was not noted; only the dealer's settings of that time could tell.
            row |= {
                name: self._vault.seal(old[name], "leads", name, dealer_id, lead_id) for name in ("customer", "payload")
            }
            self._add("leads", row)
            if old["appointment"] is not None:
                visit = msgspec.json.decode(old["appointment"], type=_Visit)
                self._carry_visit(dealer_id, lead_id, old["received_at"], visit)

    def _carry_events(self) -> None:
        for old in self._rows("SELECT * FROM old_lead_events", "dealer_id", "event_id"):
            context = "lead_events", "changes", old["dealer_id"], old["event_id"]
            self._add("lead_events", {**old, "changes": self._vault.seal(old["changes"], *context)})
            visit = msgspec.json.decode(old["changes"], type=_Changes).appointment
            if visit is not None:
                self._carry_visit(old["dealer_id"], old["lead_id"], old["at"], visit)

    def _carry_visit(self, dealer_id: str, lead_id: str, at: int, visit: "_Visit") -> None:
        reply = msgspec.json.decode(visit.reply, type=_Reply)
        kind = msgspec.json.decode(visit.request, type=_Request).appointment_type
        row = {
            "dealer_id": dealer_id,
            "appointment_id": reply.appointment_id,
            "lead_id": lead_id,
            "rooftop": "",
            "kind": _KINDS.get(kind, kind),
            "status": reply.status,
            "created_at": at,
            "reply": bytes(visit.reply),
            "request": self._vault.seal(
                bytes(visit.request), "appointments", "request", dealer_id, reply.appointment_id
            ),
        }
        self._add("appointments", row)

    def _carry_contacts(self) -> None:
        key = ("dealer_id", "contact", "vehicle_key", "received_at", "lead_id")
        for old in self._rows("SELECT * FROM old_lead_contacts", *key):
            row = dict(old)
            context = old["dealer_id"], old["lead_id"], old["vehicle_key"]
            row["contact"] = self._vault.seal(old["contact"].encode(), "lead_contacts", "contact", *context)
            row["contact_hash"] = self._vault.hash(old["contact"], "lead_contacts", "contact_hash", old["dealer_id"])
            self._add("lead_contacts", row)

    def _carry_replies(self) -> None:
        for old in self._rows("SELECT * FROM old_idempotency", "dealer_id", "fingerprint"):
            dealer_id, fingerprint = old["dealer_id"], bytes(old["fingerprint"])
            answer = msgspec.msgpack.encode((old["payload_hash"], old["reply"]))
            row = {
                "dealer_id": dealer_id,
                "fingerprint": fingerprint,
                "at": old["at"],
                "lead_id": msgspec.json.decode(old["reply"], type=_Answer).data.lead_id,
                "reply": self._vault.seal(answer, "idempotency", "reply", dealer_id, fingerprint.hex()),
            }
            self._add("idempotency", row)

    def _carry_consents(self) -> None:
        """Makes each dealer's chain of what was agreed to until now."""
        select = (
            "SELECT c.*, l.customer FROM old_consents AS c "
            "JOIN old_leads AS l ON l.dealer_id = c.dealer_id AND l.lead_id = c.lead_id"
        )
        ends: dict[str, ChainEnd] = defaultdict(lambda: ChainEnd(0, NOTHING_BEFORE))
        for old in self._rows(select, "dealer_id", "received_at", "consent_id"):
            dealer_id = old["dealer_id"]
            end = ends[dealer_id]
            number = end.events + 1
            body = msgspec.msgpack.encode(
                {
                    "salt": secrets.token_bytes(32),
                    "text": old["consent_text"].decode(),
                    "request_hash": old["request_hash"],
                    "customer": old["customer"],
                }
            )
            row = {
                "dealer_id": dealer_id,
                "number": number,
                "lead_id": old["lead_id"],
                "kind": "granted",
                "at": old["received_at"],
                "granted_at": old["granted_at"],
                "expires_at": old["expires_at"],
                "channels": old["channels"],
                "scope": old["scope"],
                "purpose": "",  # It was not noted.
                "agent": old["source_agent"],
                "commitment": commitment(body),
                "body": self._vault.seal(body, *body_context(dealer_id, number)),
            }
            row["hash"] = event_hash_1(row, end.head)
            self._add("consent_events", row)
            ends[dealer_id] = ChainEnd(number, row["hash"])
        for dealer_id, end in ends.items():
            seal = seal_end(self._vault, dealer_id, end)
            self._connection.execute(
                sa.text(
                    "UPDATE dealers SET consent_events = :events, consent_head = :head, consent_seal = :seal "
                    "WHERE dealer_id = :dealer_id"
                ),
                {"events": end.events, "head": end.head, "seal": seal, "dealer_id": dealer_id},
            )


def event_hash_1(row: Mapping[str, Any], before: bytes) -> bytes:
    """The hash of an event after the one with the hash `before`, in the chains of 0003 and 0004."""
    columns = ("dealer_id", "number", "lead_id", "kind", "at", "granted_at", "expires_at", "channels", "scope")
    texts = (
        None if row[name] is None else row[name].replace("\0", "\N{REPLACEMENT CHARACTER}")
        for name in ("purpose", "agent")
    )
    covered = ("consent event 1", *(row[name] for name in columns), *texts, row["commitment"], before)
    return sha256(msgspec.json.encode(covered)).digest()


class _Visit(Struct):
    """A visit as 0002 kept it: what was asked for, and what was answered."""

    request: msgspec.Raw
    reply: msgspec.Raw


class _Changes(Struct):
    appointment: _Visit | None = None


class _Request(Struct):
    appointment_type: str


class _Reply(Struct):
    appointment_id: str
    status: str


class _Receipt(Struct):
    lead_id: str


class _Answer(Struct):
    """A first answer as 0002 kept it."""

    data: _Receipt
