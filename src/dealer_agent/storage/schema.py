"""The tables, the same on SQLite and PostgreSQL. Each key begins with `dealer_id`: the tables can be partitioned by it.

A time is an integer: microseconds since 1970 in UTC. SQLite has no type for times, and PostgreSQL returns them in the
zone of the session. An integer compares, sorts and indexes the same on both, in a third of the size of ISO text.

JSON documents are UTF-8 bytes, as msgspec writes them. The databases must not rewrite the content of a buyer or a feed,
and text columns of PostgreSQL cannot store every JSON string.

Text from strangers, and data about people, is only in columns with the comment "sealed". The cipher encrypts each value
and binds it to its table, column and row. A keyed hash finds the value again. An erasure empties the encrypted columns
and the keyed hashes.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    Column,
    ColumnElement,
    Dialect,
    ForeignKeyConstraint,
    FromClause,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    text,
)
from sqlalchemy.types import TypeDecorator

FIRST_REVISION = "0009"
"""The first migration. A database of an older revision cannot be upgraded."""

SCHEMA_REVISION = "0011"
"""The newest migration. Revisions are numbers of four digits, so that they sort by age."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@lru_cache(maxsize=4096)  # An import gives thousands of units one and the same time.
def _from_microseconds(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def time_of(value: int | None) -> datetime | None:
    """The time of a number of microseconds since 1970."""
    return None if value is None else _from_microseconds(value)


def microseconds(value: datetime) -> int:
    """The microseconds since 1970. Raises ValueError for a time without an offset."""
    if value.tzinfo is None:
        raise ValueError("a time without an offset")
    return (value - _EPOCH) // _MICROSECOND


class UtcTime(TypeDecorator[datetime]):
    """An aware datetime, stored as microseconds since 1970, and read in UTC. Raises ValueError for a naive one."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        """To the database."""
        return None if value is None else microseconds(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """From the database."""
        return time_of(value)


def as_stored(words: str) -> str:
    """Text as it is stored: U+0000, which PostgreSQL cannot store, becomes U+FFFD."""
    return words.replace("\0", "\N{REPLACEMENT CHARACTER}")


class Words(TypeDecorator[str]):
    """Text from outside, the same on both databases (`as_stored`)."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """To the database."""
        return None if value is None else as_stored(value)


metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)


def of_dealer(table: FromClause) -> ColumnElement[bool]:
    """The condition that a row belongs to the dealer of the transaction: its parameter is `dealer`."""
    return table.c.dealer_id == bindparam("dealer")


LEAD_IDS: BindParameter[Any] = bindparam("lead_ids", expanding=True)
"""The parameter of a statement about several leads."""


def _of_lead() -> ForeignKeyConstraint:
    """The foreign key of a table whose rows belong to leads."""
    return ForeignKeyConstraint(["dealer_id", "lead_id"], ["leads.dealer_id", "leads.lead_id"])


# A dealer has a row in `dealers`, which is the lock for leads, and one in `revisions`, which is the lock for stock and
# tokens. So a long import never delays a lead.
# The dealer's row also has the ends of its two hash chains (`storage.event_chain`), each with a MAC in the column named
# `seal`: removed rows at the end are detected too. `accesses` counts the entries that the access log ever had.
dealers = Table(
    "dealers",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("consent_events", BigInteger, nullable=False, server_default="0"),
    Column("consent_head", LargeBinary),
    Column("consent_seal", LargeBinary),
    Column("accesses", BigInteger, nullable=False, server_default="0"),
    Column("access_head", LargeBinary),
    Column("access_seal", LargeBinary),
)

# The keys that encrypt the dealer's data. `proof` is a known text, encrypted with the key: it detects a wrong key.
vault_keys = Table(
    "vault_keys",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("key_id", String, primary_key=True),
    Column("proof", LargeBinary, nullable=False),
)

# The use of each key (`storage.keys.KeyState`), since when, and the machine that does not have the next key. Rows stay:
# a destroyed key never encrypts again, even if an old copy of the key file is restored.
vault_key_uses = Table(
    "vault_key_uses",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("key_id", String, primary_key=True),
    Column("state", String, nullable=False),
    Column("since", UtcTime, nullable=False),
    Column("lacked_by", Words),
)

# `trusted_at` is the newest time at which a running service found its clock plausible (`storage.clock`).
clocks = Table(
    "clocks",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("trusted_at", UtcTime, nullable=False),
)

# Counters of changes: `settings_revision` counts those of settings, hosts, keys and state. A trigger sets `changed_at`
# with the database's clock, in every statement that changes a counter. The row outlives a removed dealer, so that other
# processes notice the removal.
revisions = Table(
    "revisions",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("stock_revision", BigInteger, nullable=False),
    Column("token_revision", BigInteger, nullable=False),
    Column("settings_revision", BigInteger, nullable=False, server_default="0"),
    Column("changed_at", UtcTime, nullable=False, server_default="0"),
    Index(None, "changed_at", "dealer_id"),
)

# The dealers of an installation (`storage.dealer_registry`). A single dealer with a folder of its own has no row.
# `settings_number` is the number of its current settings, and `name` is the name in them: the list of dealers reads no
# documents. `listed`: the dealer wants to be in that list.
registered_dealers = Table(
    "registered_dealers",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("enabled", Boolean, nullable=False),
    Column("listed", Boolean, nullable=False),
    Column("name", Words, nullable=False),
    Column("settings_number", BigInteger, nullable=False),
    Column("added_at", UtcTime, nullable=False),
    Column("changed_at", UtcTime, nullable=False),
)

# `document` is a validated dealer.toml, in UTF-8.
dealer_settings = Table(
    "dealer_settings",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", UtcTime, nullable=False),
    Column("actor", Words, nullable=False),
    Column("note", Words, nullable=False),
    Column("document", LargeBinary, nullable=False),
)

# A host belongs to one dealer of the installation. The key does not say so, because every key begins with `dealer_id`:
# `dealer_registry.add_host` checks it under a lock. `host` is in canonical form (`dealers.hosts`).
dealer_hosts = Table(
    "dealer_hosts",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("host", String, primary_key=True),
    Column("added_at", UtcTime, nullable=False),
)

# A dealer's own keys, each encrypted with a key of the installation. The key with position 0 is the active one. The
# lasting secret has the id "lasting".
dealer_keys = Table(
    "dealer_keys",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("key_id", String, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

# Every import changes these rows. The documents, which seldom change, have another table: PostgreSQL writes whole rows.
units = Table(
    "units",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("vehicle_id", Words, primary_key=True),
    Column("vin", Words),
    Column("stock", Words),
    Column("digest", String, nullable=False),
    Column("document_hash", LargeBinary, nullable=False),
    Column("first_seen", UtcTime, nullable=False),
    Column("changed_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Column("sold_at", UtcTime),
    Index(None, "dealer_id", "vin", unique=True),
    Index(None, "dealer_id", "sold_at"),
)

unit_documents = Table(
    "unit_documents",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("vehicle_id", Words, primary_key=True),
    Column("unit", LargeBinary, nullable=False),
    ForeignKeyConstraint(["dealer_id", "vehicle_id"], ["units.dealer_id", "units.vehicle_id"], ondelete="CASCADE"),
)

imports = Table(
    "imports",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("at", UtcTime, nullable=False),
    Column("source", Words, nullable=False),
    Column("layout", String, nullable=False),
    Column("full_file", Boolean, nullable=False),
    Column("added", Integer, nullable=False),
    Column("changed", Integer, nullable=False),
    Column("unchanged", Integer, nullable=False),
    Column("sold", Integer, nullable=False),
    Column("back", Integer, nullable=False),
)

# `rooftop` is where the lead goes. `vehicle` is the listing at the time of the lead (JSON, nothing personal). `used_at`
# is the last use of the customer's data: disposal counts from it. `source_agent` is the name that the sender gave.
# `token_id` is the sender's token, if it sent one. `may_be_same_person_as` is an earlier lead of another sender, with
# the same vehicle and one of the same contact points; erasing either lead removes it.
leads = Table(
    "leads",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("lead_id", String, primary_key=True),
    Column("received_at", UtcTime, nullable=False),
    Column("used_at", UtcTime, nullable=False),
    Column("erased_at", UtcTime),
    Column("source_agent", LargeBinary, comment="sealed"),
    Column("status", String, nullable=False),
    Column("rooftop", Words, nullable=False),
    Column("vehicle_id", Words),
    Column("vin", Words),
    Column("stock", Words),
    Column("vehicle", LargeBinary),
    Column("token_id", String),
    Column("may_be_same_person_as", String),
    Column("customer", LargeBinary, comment="sealed"),
    Column("payload", LargeBinary, comment="sealed"),
    Index(None, "dealer_id", "received_at", "lead_id"),
    Index(None, "dealer_id", "used_at"),
    Index(
        None,
        "dealer_id",
        "may_be_same_person_as",
        sqlite_where=text("may_be_same_person_as IS NOT NULL"),
        postgresql_where=text("may_be_same_person_as IS NOT NULL"),
    ),
)

lead_events = Table(
    "lead_events",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("event_id", String, primary_key=True),
    Column("lead_id", String, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("changes", LargeBinary, comment="sealed"),
    _of_lead(),
    Index(None, "dealer_id", "lead_id"),
)

# The contact points of a lead, and its sender together with them (`leads.received_lead`): they find the lead again.
# `contact_hash` and `vehicle_key` are keyed hashes. `vehicle_key` is empty if the lead names no vehicle, and after its
# disposal. `vehicle` is the hash from which `vehicle_key` is made: a key rotation needs it.
lead_contacts = Table(
    "lead_contacts",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("contact_hash", LargeBinary, primary_key=True),
    Column("vehicle_key", LargeBinary, primary_key=True),
    Column("received_at", UtcTime, primary_key=True, autoincrement=False),
    Column("lead_id", String, primary_key=True),
    Column("contact", LargeBinary, nullable=False, comment="sealed"),
    Column("vehicle", LargeBinary, comment="sealed"),
    _of_lead(),
    Index(None, "dealer_id", "lead_id"),
    # The newest leads of a contact: a lead of a person with thousands of leads costs no more than others.
    Index(None, "dealer_id", "contact_hash", "received_at", "lead_id"),
)

# The channels that were withdrawn for a contact point, and the last time. `contact_hash` is made with a lasting key. A
# row outlives the customer's leads, so that an old consent that an agent sends again allows nothing.
withdrawals = Table(
    "withdrawals",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("contact_hash", LargeBinary, primary_key=True),
    Column("channel", String, primary_key=True),
    Column("at", UtcTime, nullable=False),
)

# The bodies of the consent events of erased customers. They prove the consent and serve nothing else. `last_at` is the
# time of the newest of the lead's events when it was erased: the age counts from it.
consent_proofs = Table(
    "consent_proofs",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("lead_id", String, nullable=False),
    Column("last_at", UtcTime, nullable=False),
    Column("body", LargeBinary, nullable=False, comment="sealed"),
    _of_lead(),
    Index(None, "dealer_id", "lead_id"),
    Index(None, "dealer_id", "last_at"),
)

# The contact points of erased customers, as hashes that are made with a lasting key: they find the proofs.
proof_contacts = Table(
    "proof_contacts",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("contact_hash", LargeBinary, primary_key=True),
    Column("lead_id", String, primary_key=True),
    _of_lead(),
    Index(None, "dealer_id", "lead_id"),
)

# A hash chain for each dealer. Rows are only added. `hash` covers the number, the columns that are not encrypted,
# `commitment` and the `hash` before. `commitment` is a salted hash of `body` (text as shown, scope, agent, hash of the
# request, the person); the salt is encrypted with it. So the chain stays valid after erasures and key rotations.
consent_events = Table(
    "consent_events",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("lead_id", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("granted_at", UtcTime),
    Column("expires_at", UtcTime),
    Column("channels", LargeBinary, nullable=False),
    Column("purpose", Words, nullable=False),
    Column("commitment", LargeBinary, nullable=False),
    Column("body", LargeBinary, comment="sealed"),
    Column("hash", LargeBinary, nullable=False),
    _of_lead(),
    # With the number: events are read in order, and SQLite would read the whole chain instead of sorting them.
    Index(None, "dealer_id", "lead_id", "number"),
)

# `reply` is the reply to the request (JSON: ids, status and times). `shares` is the visit that it is part of.
appointments = Table(
    "appointments",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("appointment_id", String, primary_key=True),
    Column("lead_id", String, nullable=False),
    Column("rooftop", Words, nullable=False),
    Column("kind", String, nullable=False),
    Column("status", String, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("starts_at", UtcTime),
    Column("ends_at", UtcTime),
    Column("cancelled_at", UtcTime),
    Column("shares", String),
    Column("reply", LargeBinary, nullable=False),
    Column("request", LargeBinary, comment="sealed"),
    _of_lead(),
    Index(None, "dealer_id", "lead_id"),
    Index(None, "dealer_id", "starts_at"),
    Index(
        None,
        "dealer_id",
        "shares",
        sqlite_where=text("shares IS NOT NULL"),
        postgresql_where=text("shares IS NOT NULL"),
    ),
)

# A visit occupies one of the rooftop's places for its kind in each quarter of an hour that it overlaps: the primary key
# decides between two buyers.
places = Table(
    "places",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("rooftop", Words, primary_key=True),
    Column("kind", String, primary_key=True),
    Column("quarter", UtcTime, primary_key=True, autoincrement=False),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("appointment_id", String, nullable=False),
    ForeignKeyConstraint(
        ["dealer_id", "appointment_id"], ["appointments.dealer_id", "appointments.appointment_id"], ondelete="CASCADE"
    ),
    Index(None, "dealer_id", "appointment_id"),
)

# 0 for a delivery that was never put off (`outbox.FIND_DUE`).
_DUE_KEY = text("(COALESCE(NULLIF(due_at, created_at), 0))")
_WAITING = text("state = 'waiting'")

# One row for each delivery. `state` is waiting, sent, parked or dropped; a waiting row with a lease is being sent.
# `event_id` is the reason of the delivery (`dealers.routing.NewDelivery`). `document` is what the first attempt sent;
# every later attempt sends the same bytes. It is empty before the first attempt and after the last. `unknown` counts
# the attempts that may have arrived. `follows` is an earlier delivery of the same lead to the same receiver: this one
# waits until that one is sent, parked or dropped.
outbox = Table(
    "outbox",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("delivery_id", String, primary_key=True),
    Column("lead_id", String, nullable=False),
    Column("event_id", String),
    Column("kind", String, nullable=False),
    Column("rooftop", Words, nullable=False),
    Column("channel", Words, nullable=False),
    Column("state", String, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("due_at", UtcTime, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("lease", String),
    Column("leased_until", UtcTime),
    Column("settled_at", UtcTime),
    Column("problem", Words),
    Column("document", LargeBinary, comment="sealed"),
    Column("unknown", Integer, nullable=False, server_default="0"),
    Column("follows", String),
    _of_lead(),
    Index(None, "dealer_id", "state", "rooftop", "channel", "due_at", "delivery_id"),
    # With the state: SQLite would read all waiting deliveries instead of those of one lead.
    Index(None, "dealer_id", "lead_id", "state"),
    # The dealers with due deliveries, and the oldest of each (`outbox.dealers_with_due`).
    Index("ix_outbox_due", "dealer_id", _DUE_KEY, sqlite_where=_WAITING, postgresql_where=_WAITING),
)

# The access log: who looked at customer data. It stays when the data is erased. A hash chain for each dealer, like
# consent events. The oldest entries are deleted by age: the entry about a deletion has the number and the hash of the
# newest deleted entry (`deleted`, `deleted_head`).
accesses = Table(
    "accesses",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("access_id", String, primary_key=True),
    Column("at", UtcTime, nullable=False),
    Column("actor", Words, nullable=False),
    Column("action", Words, nullable=False),
    Column("lead_id", String),
    Column("leads", Integer, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("deleted", BigInteger),
    Column("deleted_head", LargeBinary),
    Column("hash", LargeBinary, nullable=False),
    Index(None, "dealer_id", "at"),
    Index(None, "dealer_id", "number", unique=True),
)

# `fingerprint` is a keyed hash of scope and key. `reply` also contains the hash of the payload, and the hash from which
# `fingerprint` is made: an unkeyed hash can be guessed.
idempotency = Table(
    "idempotency",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("fingerprint", LargeBinary, primary_key=True),
    Column("at", UtcTime, nullable=False),
    Column("lead_id", String),
    Column("reply", LargeBinary, nullable=False, comment="sealed"),
    Index(None, "dealer_id", "at"),
    Index(None, "dealer_id", "lead_id"),
)

refusals = Table(
    "refusals",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("refusal_id", String, primary_key=True),
    Column("at", UtcTime, nullable=False),
    Column("code", String, nullable=False),
    Index(None, "dealer_id", "at"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("dealer_id", String, primary_key=True),
    Column("token_id", String, primary_key=True),
    Column("purpose", String, nullable=False, server_default="skills"),
    Column("name", Words, nullable=False),
    Column("token_hash", LargeBinary, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("revoked_at", UtcTime),
    Index(None, "dealer_id", "token_hash", unique=True),
)
