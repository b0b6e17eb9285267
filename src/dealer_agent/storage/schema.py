"""The tables, the same on SQLite and PostgreSQL. Primary keys begin with `dealer_id`: tables can be partitioned by it.

The migrations have what the statements of this package do not need: indexes, defaults, and which columns may be NULL.

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
    Constraint,
    Dialect,
    ForeignKeyConstraint,
    FromClause,
    Insert,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    bindparam,
    insert,
    text,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

FIRST_REVISION = "0022"
"""The schema revision of the first migration. A database with an older one cannot be upgraded."""

SCHEMA_REVISION = "0022"
"""The schema revision of the newest migration. All have four digits, so that they sort by age."""

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
        """Converts a time to the stored number."""
        return None if value is None else microseconds(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Converts a stored number to a time."""
        return time_of(value)


def as_stored(words: str) -> str:
    """Text as it is stored: U+0000, which PostgreSQL cannot store, becomes U+FFFD."""
    return words.replace("\0", "\N{REPLACEMENT CHARACTER}")


class ExternalText(TypeDecorator[str]):
    """Text of another program or person. It is stored as `as_stored` changes it, so that both databases accept it."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Converts a text to its stored form."""
        return None if value is None else as_stored(value)


metadata = MetaData()


def of_dealer(table: FromClause) -> ColumnElement[bool]:
    """The condition that a row belongs to the dealer of the transaction: its parameter is `dealer`."""
    return table.c.dealer_id == bindparam("dealer")


def of_lead(table: FromClause) -> ColumnElement[bool]:
    """The condition that a row belongs to the lead with the parameter `of_lead`."""
    return of_dealer(table) & (table.c.lead_id == bindparam("of_lead"))


def of_leads(table: FromClause) -> ColumnElement[bool]:
    """The condition that a row belongs to one of several leads: the parameter is `lead_ids`."""
    return of_dealer(table) & table.c.lead_id.in_(bindparam("lead_ids", expanding=True))


def same_lead(table: FromClause, other: FromClause) -> ColumnElement[bool]:
    """The condition that two rows belong to one lead."""
    return (table.c.dealer_id == other.c.dealer_id) & (table.c.lead_id == other.c.lead_id)


def upsert(table: Table, action: str, *parameters: BindParameter[Any]) -> Insert:
    """An INSERT that does `action` if the primary key is already there. `action` is SQL, with these parameters.

    Both databases take the same SQL. SQLAlchemy has the clause for each of them, and importing both is slow.
    """
    key = ", ".join(table.primary_key.columns.keys())
    clause = text(f"ON CONFLICT ({key}) DO {action}").bindparams(*parameters)
    statement = insert(table)
    statement.apply_syntax_extension_point(lambda _: [clause], "post_values")
    return statement


_TYPES: dict[str, type[TypeEngine[Any]]] = {
    "text": String,
    "words": ExternalText,
    "times": UtcTime,
    "counts": Integer,
    "numbers": BigInteger,
    "flags": Boolean,
    "data": LargeBinary,
    "sealed": LargeBinary,
}


def _table(name: str, key: str, of: Table | None = None, **columns: str) -> Table:
    """A table with the column `dealer_id`, and with the columns of each type (`_TYPES`). All names are split at spaces.

    `key` is the rest of the primary key. `of` is the table to whose rows the rows belong.
    """
    described = [
        Column(column, _TYPES[kind], comment="sealed" if kind == "sealed" else None)
        for kind, names in columns.items()
        for column in names.split()
    ]
    constraints: list[Constraint] = [PrimaryKeyConstraint("dealer_id", *key.split())]
    if of is not None:
        owner = of.primary_key.columns
        constraints.append(ForeignKeyConstraint(owner.keys(), list(owner)))
    return Table(name, metadata, Column("dealer_id", String), *described, *constraints)


# A dealer has a row in `dealers`, which is the lock for leads, and one in `revisions`, which is the lock for stock and
# tokens. So a long import never delays a lead.
# The dealer's row also has the ends of its two hash chains (`storage.event_chain`), each with a MAC in the column named
# `seal`: removed rows at the end are detected too. `accesses` counts the entries that the access log ever had.
dealers = _table(
    "dealers",
    key="",
    numbers="consent_events accesses",
    data="consent_head consent_seal access_head access_seal",
)

# The keys that encrypt the dealer's data. `proof` is a known text, encrypted with the key: it detects a wrong key.
vault_keys = _table("vault_keys", key="key_id", text="key_id", data="proof")

# The use of each key (`storage.keys.KeyState`), since when, and the machine that does not have the next key. Rows stay:
# a destroyed key never encrypts again, even if an old copy of the key file is restored.
vault_key_uses = _table("vault_key_uses", key="key_id", text="key_id state", times="since", words="lacked_by")

# `trusted_at` is the newest time at which a running service found its clock plausible (`storage.clock`).
clocks = _table("clocks", key="", times="trusted_at")

# Counters of changes: `settings_revision` counts those of settings, hosts, keys and state. A trigger sets `changed_at`
# with the database's clock, in every statement that changes a counter. The row outlives a removed dealer, so that other
# processes notice the removal.
revisions = _table("revisions", key="", numbers="stock_revision token_revision settings_revision", times="changed_at")

# The dealers of an installation (`storage.dealer_registry`). A single dealer with a folder of its own has no row.
# `settings_number` is the number of its current settings, and `name` is the name in them: the list of dealers reads no
# documents. `listed`: the dealer wants to be in that list.
registered_dealers = _table(
    "registered_dealers",
    key="",
    flags="enabled listed",
    words="name",
    numbers="settings_number",
    times="added_at changed_at",
)

# `document` is a validated dealer.toml, in UTF-8.
dealer_settings = _table(
    "dealer_settings", key="number", numbers="number", times="at", words="actor note", data="document"
)

# A host belongs to one dealer of the installation. The key does not say so, because every key begins with `dealer_id`:
# `dealer_registry.add_host` checks it under a lock. `host` is in canonical form (`dealers.hosts`).
dealer_hosts = _table("dealer_hosts", key="host", text="host", times="added_at")

# A dealer's own keys, each encrypted with a key of the installation. The key with position 0 is the active one. The
# lasting secret has the id "lasting" and the position -1.
dealer_keys = _table("dealer_keys", key="key_id", text="key_id", counts="position", data="wrapped", times="created_at")

# What waits for a time (the package `jobs`). The process that has the `lease` works on the job. `attempts` counts since
# the job last succeeded, and `result` is what its last run left for the next one.
jobs = _table(
    "jobs",
    key="kind subject",
    text="kind subject lease",
    times="due_at leased_until",
    counts="attempts",
    words="result",
)

# The machines that serve the dealer or the installation. `settings` is a hash. A running service renews its record.
replicas = _table("replicas", key="machine", words="machine", text="version settings", times="seen_at")

# Every import changes these rows. The documents, which seldom change, have another table: PostgreSQL writes whole rows.
units = _table(
    "units",
    key="vehicle_id",
    words="vehicle_id vin stock",
    text="digest",
    data="document_hash",
    times="first_seen changed_at updated_at sold_at",
)

unit_documents = _table("unit_documents", key="vehicle_id", of=units, words="vehicle_id", data="unit")

# The units that an import adds, changes or sells, in full. An import writes them with the next stock revision, so no
# reader sees them before that revision is the current one. Afterwards they move into `units`. `unit` is the document of
# a unit for sale.
unit_changes = _table(
    "unit_changes",
    key="vehicle_id",
    words="vehicle_id vin stock",
    numbers="revision",
    text="digest",
    data="document_hash unit",
    times="first_seen changed_at updated_at sold_at",
)

# `rooftops` is the scope of the import, a JSON array: NULL for all rooftops. `findings` are those of the checks of the
# feed, a JSON array. `feed` is the feed that the file was part of.
imports = _table(
    "imports",
    key="revision",
    numbers="revision",
    times="at",
    words="source",
    text="layout feed",
    flags="full_file",
    counts="added changed unchanged sold back",
    data="rooftops findings",
)

# What the next import of the same rooftops is compared with (`inventory.feeds.counts.FeedShape`). `rooftops` are a JSON
# array, which is empty for all rooftops.
feed_shapes = _table("feed_shapes", key="rooftops", words="rooftops", data="shape")

# `layout` is NULL for a file that could not be read.
refused_imports = _table(
    "refused_imports",
    key="refusal_id",
    text="refusal_id layout feed",
    times="at",
    words="source",
    data="rooftops findings",
)

# The feeds of the dealer's settings, whose digest is `digest`. Each has a job. `seen` is what the source remembers
# (`feed_collection.source`, JSON), and `imported_hash` is the hash of the last imported file: both are only valid for
# these settings. `new_at` is the arrival of the newest file that was read.
feeds = _table(
    "feeds",
    key="name",
    text="name source",
    words="fetch_problem file_problem",
    times="since checked_at succeeded_at new_at imported_at",
    counts="late_hours",
    data="digest seen imported_hash",
)

# The files of feeds. `file_id` is the beginning of the file's name in its folder, `name` is its name at the source.
# `state` is waiting, imported, unchanged, refused or failed. `revision` is that of the import.
feed_files = _table(
    "feed_files",
    key="feed file_id",
    text="feed file_id state",
    words="name problem",
    times="received_at finished_at",
    numbers="size revision",
    counts="attempts",
    data="content_hash",
)

# `rooftop` is where the lead goes. `vehicle` is the listing at the time of the lead (JSON, nothing personal). `used_at`
# is the last use of the customer's data: disposal counts from it. `source_agent` is the name that the sender gave.
# `token_id` is the sender's token, if it sent one. `may_be_same_person_as` is an earlier lead of another sender, with
# the same vehicle and one of the same contact points; erasing either lead removes it.
leads = _table(
    "leads",
    key="lead_id",
    text="lead_id status token_id may_be_same_person_as",
    words="rooftop vehicle_id vin stock",
    times="received_at used_at erased_at",
    data="vehicle",
    sealed="source_agent customer payload",
)

lead_events = _table("lead_events", key="event_id", of=leads, text="event_id lead_id", times="at", sealed="changes")

# The contact points of a lead, and its sender together with them (`leads.received_lead`): they find the lead again.
# `contact_hash` and `vehicle_key` are keyed hashes. `vehicle_key` is empty if the lead names no vehicle, and after its
# disposal. `vehicle` is the hash from which `vehicle_key` is made: a key rotation needs it.
lead_contacts = _table(
    "lead_contacts",
    key="contact_hash vehicle_key received_at lead_id",
    of=leads,
    text="lead_id",
    times="received_at",
    data="contact_hash vehicle_key",
    sealed="contact vehicle",
)

# The channels that were withdrawn for a contact point, and the last time. `contact_hash` is made with a lasting key. A
# row outlives the customer's leads, so that an old consent that an agent sends again allows nothing. The rows are
# derived from `consent_events`.
withdrawals = _table("withdrawals", key="contact_hash channel", data="contact_hash", text="channel", times="at")

# The bodies of the consent events of erased customers. They prove the consent and serve nothing else. `last_at` is the
# time of the newest of the lead's events when it was erased: the age counts from it.
consent_proofs = _table(
    "consent_proofs", key="number", of=leads, numbers="number", text="lead_id", times="last_at", sealed="body"
)

# The contact points of erased customers, as hashes that are made with a lasting key: they find the proofs.
proof_contacts = _table("proof_contacts", key="contact_hash lead_id", of=leads, data="contact_hash", text="lead_id")

# A hash chain for each dealer. Rows are only added. `hash` covers the number, the columns that are not encrypted,
# `commitment` and the `hash` before. `commitment` is a salted hash of `body` (text as shown, scope, agent, hash of the
# request, the person); the salt is encrypted with it. So the chain stays valid after erasures and key rotations.
# The `purpose` of a withdrawal has the `contact_hash` of each contact point (`storage.withdrawals`).
consent_events = _table(
    "consent_events",
    key="number",
    of=leads,
    numbers="number",
    text="lead_id kind",
    words="purpose",
    times="at granted_at expires_at",
    data="channels commitment hash",
    sealed="body",
)

# `reply` is the reply to the request (JSON: ids, status and times). `shares` is the visit that it is part of.
# `vehicle_id` is the vehicle of a test drive, if the inventory had it.
appointments = _table(
    "appointments",
    key="appointment_id",
    of=leads,
    text="appointment_id lead_id kind status shares",
    words="rooftop vehicle_id",
    times="created_at starts_at ends_at cancelled_at",
    data="reply",
    sealed="request",
)

# A visit occupies one of the rooftop's places for its kind in each quarter of an hour that it overlaps: the primary key
# decides between two buyers. A test drive also occupies its vehicle, the only place of the kind `vehicle`: the column
# `rooftop` then has the `vehicle_id`.
places = _table(
    "places",
    key="rooftop kind quarter place",
    of=appointments,
    words="rooftop",
    text="kind appointment_id",
    times="quarter",
    counts="place",
)

# One row for each delivery. `state` is waiting, sent, parked or dropped; a waiting row with a lease is being sent.
# `event_id` is the reason of the delivery (`dealers.routing.NewDelivery`). `document` is what the first attempt sent;
# every later attempt sends the same bytes. It is empty before the first attempt and after the last. `unknown` counts
# the attempts that may have arrived. `follows` is an earlier delivery of the same lead to the same receiver: this one
# waits until that one is sent, parked or dropped. `trace` is the header `traceparent` of the request, if traces are on.
outbox = _table(
    "outbox",
    key="delivery_id",
    of=leads,
    text="delivery_id lead_id event_id kind state lease follows trace",
    words="rooftop channel problem",
    times="created_at due_at leased_until settled_at",
    counts="attempts unknown",
    sealed="document",
)

# The access log: who looked at customer data. It stays when the data is erased. A hash chain for each dealer, like
# consent events. The oldest entries are deleted by age: the entry about a deletion has the number and the hash of the
# newest deleted entry (`deleted`, `deleted_head`).
accesses = _table(
    "accesses",
    key="access_id",
    text="access_id lead_id",
    words="actor action",
    times="at",
    counts="leads",
    numbers="number deleted",
    data="deleted_head hash",
)

# `fingerprint` is a keyed hash of scope and key. `reply` also contains the hash of the payload, and the hash from which
# `fingerprint` is made: an unkeyed hash can be guessed.
idempotency = _table("idempotency", key="fingerprint", data="fingerprint", times="at", text="lead_id", sealed="reply")

refusals = _table("refusals", key="refusal_id", text="refusal_id code", times="at")

tokens = _table(
    "tokens",
    key="token_id",
    text="token_id purpose",
    words="name",
    data="token_hash",
    times="created_at revoked_at",
)

# What agents asked on one day of the dealer's time zone (`storage.daily_counts`): a number for each item of a subject.
daily_counts = _table("daily_counts", key="day subject item", text="day subject", words="item", numbers="number")

# When the last digest of a dealer was made. The leads that failed since the last quiet day, and when the last one did.
alert_checks = _table("alert_checks", key="", times="digest_at lead_failed_at", counts="failed_leads")

# A condition of a subject, such as a channel (`alerts.rules.AlertState`).
alerts = _table(
    "alerts",
    key="condition subject",
    text="condition",
    words="subject",
    times="seen_at cleared_at started_at ended_at reported_at since",
    flags="start_reported",
    counts="unreported amount",
)

# A message about alerts, one row for each receiver: mail or webhook. `state` is waiting, sent or failed. While it waits
# it has a job. `document` has no customer data.
alert_messages = _table(
    "alert_messages",
    key="message_id receiver",
    text="message_id receiver kind state",
    times="created_at settled_at",
    counts="attempts",
    words="problem",
    data="document",
)

# The keys of which a person has confirmed a copy.
key_copies = _table("key_copies", key="key_id", text="key_id", times="confirmed_at")
