"""Defines the tables, the same on SQLite and PostgreSQL. Primary keys begin with `dealer_id`, to allow partitions.

The migrations have what the statements of this package do not need: indexes, defaults, and which columns may be NULL.

JSON documents are UTF-8 bytes, as msgspec writes them. The databases must not rewrite the content of a buyer or a feed,
and text columns of PostgreSQL cannot store every JSON string.

Text from strangers, and data about people, is only in the `sealed` columns. The cipher encrypts each value
and binds it to its table, column and row. A keyed hash finds the value again. An erasure empties the encrypted columns
and the keyed hashes.
"""

from sqlalchemy import BigInteger, Boolean, Integer, LargeBinary, String

from dealer_agent.storage.columns import ExternalText, UtcTime, columns, dealer_table, sealed
from dealer_agent.storage.columns import metadata as metadata
from dealer_agent.storage.console import tables as _  # noqa: F401 - with them, `metadata` has all tables
from dealer_agent.storage.stock import record_tables as _record_tables  # noqa: F401

FIRST_SCHEMA_VERSION = "0024"
"""The schema version of the first migration. A database with an older one cannot be upgraded."""

SCHEMA_VERSION = "0027"
"""The schema version of the newest migration. All have four digits, so that they sort by age."""

# A dealer has a row in `dealers`, which is the lock for leads, and one in `revisions`, which is the lock for stock and
# tokens. So a long import never delays a lead.
# The dealer's row also has the ends of its two hash chains (`privacy.event_chain`), each with a MAC in the column named
# `seal`: removed rows at the end are detected too. `accesses` counts the entries that the access log ever had.
dealers = dealer_table(
    "dealers",
    columns(BigInteger, "consent_events", "accesses"),
    columns(LargeBinary, "consent_head", "consent_seal", "access_head", "access_seal"),
)

# The keys that encrypt the dealer's data. `proof` is a known text, encrypted with the key: it detects a wrong key.
vault_keys = dealer_table("vault_keys", columns(String, "key_id"), columns(LargeBinary, "proof"), key=("key_id",))

# The use of each key (`privacy.keys.KeyState`), since when, and the machine that does not have the next key. Rows stay:
# a destroyed key never encrypts again, even if an old copy of the key file is restored.
vault_key_uses = dealer_table(
    "vault_key_uses",
    columns(String, "key_id", "state"),
    columns(UtcTime, "since"),
    columns(ExternalText, "lacked_by"),
    key=("key_id",),
)

# `trusted_at` is the newest time at which a running service found its clock plausible (`storage.clock`).
clocks = dealer_table("clocks", columns(UtcTime, "trusted_at"))

# Counters of changes: `settings_counter` counts those of settings, hosts, keys and state. A trigger sets `changed_at`
# with the database's clock, in every statement that changes a counter. The row outlives a removed dealer, so that other
# processes notice the removal.
revisions = dealer_table(
    "revisions",
    columns(BigInteger, "stock_counter", "token_counter", "settings_counter"),
    columns(UtcTime, "changed_at"),
)

# The dealers of an installation (`installation.dealer_registry`). A single dealer with a folder of its own has no row.
# `settings_number` is the number of its current settings, and `name` is the name in them: the list of dealers reads no
# documents. `listed`: the dealer wants to be in that list.
registered_dealers = dealer_table(
    "registered_dealers",
    columns(Boolean, "enabled", "listed"),
    columns(ExternalText, "name"),
    columns(BigInteger, "settings_number"),
    columns(UtcTime, "added_at", "changed_at"),
)

# `document` is a validated dealer.toml, in UTF-8.
dealer_settings = dealer_table(
    "dealer_settings",
    columns(BigInteger, "number"),
    columns(UtcTime, "at"),
    columns(ExternalText, "actor", "note"),
    columns(LargeBinary, "document"),
    key=("number",),
)

# A host belongs to one dealer of the installation. The key does not say so, because every key begins with `dealer_id`:
# `dealer_registry.add_host` checks it under a lock. `host` is in canonical form (`dealers.profile_checks`).
dealer_hosts = dealer_table("dealer_hosts", columns(String, "host"), columns(UtcTime, "added_at"), key=("host",))

# A dealer's own keys, each encrypted with a key of the installation. The key with position 0 is the active one. The
# permanent secret has the id "lasting" and the position -1.
dealer_keys = dealer_table(
    "dealer_keys",
    columns(String, "key_id"),
    columns(Integer, "position"),
    columns(LargeBinary, "wrapped"),
    columns(UtcTime, "created_at"),
    key=("key_id",),
)

# What waits for a time (the package `jobs`). The process that has the `lease` works on the job. `attempts` counts since
# the job last succeeded, and `result` is what its last run left for the next one, or an answer that waits
# (`storage.mcp_answers`).
jobs = dealer_table(
    "jobs",
    columns(String, "kind", "subject", "lease"),
    columns(UtcTime, "due_at", "leased_until"),
    columns(Integer, "attempts"),
    columns(ExternalText, "result"),
    key=("kind", "subject"),
)

# The public keys of others, which are fetched in the background (the package `known_keys`): those of agents that sign
# their requests, and of issuers of access tokens. `source` says where they are. `document` is a JWK set; without one,
# the source has not answered yet. `version` counts the changes of the row. `asked_at` is when a request needed keys
# that were not there, and `used_at` about when one last used these. `problem` says why the last attempt failed.
key_sets = dealer_table(
    "key_sets",
    columns(String, "source"),
    columns(LargeBinary, "document"),
    columns(BigInteger, "version"),
    columns(UtcTime, "asked_at", "tried_at", "fetched_at", "expires_at", "used_at", "pinned_until"),
    columns(ExternalText, "problem"),
    key=("source",),
)

# The machines that serve the dealer or the installation. `settings` is a hash. A running service renews its record.
replicas = dealer_table(
    "replicas",
    columns(ExternalText, "machine", "forwarded_by"),
    columns(String, "version", "settings"),
    columns(UtcTime, "seen_at"),
    key=("machine",),
)

# Every import changes these rows. The documents, which seldom change, have another table: PostgreSQL writes whole rows.
# `revision` is the last one that wrote the row, and `action` is what it did: added, changed, sold or back.
units = dealer_table(
    "units",
    columns(ExternalText, "vehicle_id", "vin", "stock"),
    columns(String, "digest", "action"),
    columns(BigInteger, "revision"),
    columns(LargeBinary, "document_hash"),
    columns(UtcTime, "first_seen", "changed_at", "updated_at", "sold_at"),
    key=("vehicle_id",),
)

# `before` is the document that `unit` replaced: it can be undone.
unit_documents = dealer_table(
    "unit_documents",
    columns(ExternalText, "vehicle_id"),
    columns(LargeBinary, "unit", "before"),
    key=("vehicle_id",),
    of=units,
)

# The units that an import adds, changes or sells, in full. An import writes them with the next stock revision, so no
# reader sees them before that revision is the current one. Afterwards they move into `units`. `unit` is the document of
# a unit for sale.
unit_changes = dealer_table(
    "unit_changes",
    columns(ExternalText, "vehicle_id", "vin", "stock"),
    columns(BigInteger, "revision"),
    columns(String, "digest", "action"),
    columns(LargeBinary, "document_hash", "unit"),
    columns(UtcTime, "first_seen", "changed_at", "updated_at", "sold_at"),
    key=("vehicle_id",),
)

# The changes of the stock. `kind` is import, undo, or held: a person decided about a held unit, or its day has ended.
# `undoes` is the revision that an undo took back. `current_at` is when the revision became the current one; NULL before
# schema 0025. `good_since` has the last confirmation of the facts of each unit whose new facts are held back, a JSON
# object by vehicle id; NULL without any.
# `rooftops` is the scope of the import, a JSON array: NULL for all rooftops. `findings` are those of the
# checks of the feed, a JSON array. `feed` is the feed that the file was part of.
imports = dealer_table(
    "imports",
    columns(BigInteger, "revision", "undoes"),
    columns(UtcTime, "at", "current_at"),
    columns(ExternalText, "source"),
    columns(String, "kind", "layout", "feed"),
    columns(Boolean, "full_file"),
    columns(Integer, "added", "changed", "unchanged", "sold", "back"),
    columns(LargeBinary, "rooftops", "findings", "good_since"),
    key=("revision",),
)

# What the next import of the same rooftops is compared with (`feeds.files.counts.FeedShape`). `rooftops` are a JSON
# array, which is empty for all rooftops. `before` is the shape that `shape` replaced.
feed_shapes = dealer_table(
    "feed_shapes", columns(ExternalText, "rooftops"), columns(LargeBinary, "shape", "before"), key=("rooftops",)
)

# The units whose facts in the feed are implausible, and the decisions of people about units (`stock.held_units`).
# `decision` is `none`, `released` or `hidden`. `doubts` is a JSON array of what is implausible, `released` of what a
# person released. `unit` is the document of the feed; NULL if nothing is held. A unit that is for sale keeps its last
# good facts, which an import confirmed at `good_at`, until `leaves_at`. `source` is the name of the file.
held_units = dealer_table(
    "held_units",
    columns(ExternalText, "vehicle_id", "vin", "stock", "rooftop", "source", "decided_by"),
    columns(String, "decision"),
    columns(UtcTime, "since", "good_at", "leaves_at", "decided_at"),
    columns(LargeBinary, "doubts", "released", "unit"),
    key=("vehicle_id",),
)

# `layout` is NULL for a file that could not be read.
refused_imports = dealer_table(
    "refused_imports",
    columns(String, "refusal_id", "layout", "feed"),
    columns(UtcTime, "at"),
    columns(ExternalText, "source"),
    columns(LargeBinary, "rooftops", "findings"),
    key=("refusal_id",),
)

# The feeds of the dealer's settings, whose digest is `digest`. Each has a job. `seen` is what the source remembers
# (`feeds.collection.source`, JSON), and `imported_hash` is the hash of the last imported file: both are only valid for
# these settings. `new_at` is the arrival of the newest file that was read.
feeds = dealer_table(
    "feeds",
    columns(String, "name", "source"),
    columns(ExternalText, "fetch_problem", "file_problem"),
    columns(UtcTime, "since", "checked_at", "succeeded_at", "new_at", "imported_at"),
    columns(Integer, "late_hours"),
    columns(LargeBinary, "digest", "seen", "imported_hash"),
    key=("name",),
)

# The files of feeds. `file_id` is the beginning of the file's name in its folder, `name` is its name at the source.
# `state` is waiting, imported, unchanged, refused or failed. `revision` is that of the import.
feed_files = dealer_table(
    "feed_files",
    columns(String, "feed", "file_id", "state"),
    columns(ExternalText, "name", "problem"),
    columns(UtcTime, "received_at", "finished_at"),
    columns(BigInteger, "size", "revision"),
    columns(Integer, "attempts"),
    columns(LargeBinary, "content_hash"),
    key=("feed", "file_id"),
)

# `rooftop` is where the lead goes. `vehicle` is the listing at the time of the lead (JSON, nothing personal). `used_at`
# is the last use of the customer's data: disposal counts from it. `source_agent` is the name that the sender gave.
# `caller` is the identity of a known sender (`callers.Caller`). `may_be_same_person_as` is an earlier lead of another
# sender, with the same vehicle and one of the same contact points; erasing either lead removes it. `quarantine` is
# waiting, released or refused; NULL for a lead that has not waited. It waits since `quarantined_at`. `decided_at`,
# `decided_by` and `decided_why` are about the release or the refusal. `mark` is what staff say of a lead: reached,
# wrong, spam or sold. At `bounced_at` a server refused a mail to the customer for good.
leads = dealer_table(
    "leads",
    columns(String, "lead_id", "status", "may_be_same_person_as", "quarantine", "mark"),
    columns(ExternalText, "caller", "rooftop", "vehicle_id", "vin", "stock", "decided_by", "decided_why", "marked_by"),
    columns(UtcTime, "received_at", "used_at", "erased_at", "quarantined_at", "decided_at", "marked_at", "bounced_at"),
    columns(LargeBinary, "vehicle"),
    sealed("source_agent", "customer", "payload"),
    key=("lead_id",),
)

lead_events = dealer_table(
    "lead_events",
    columns(String, "event_id", "lead_id"),
    columns(UtcTime, "at"),
    sealed("changes"),
    key=("event_id",),
    of=leads,
)

# The contact points of a lead, and its sender together with them (`leads.received_lead`): they find the lead again.
# `contact_hash` and `vehicle_key` are keyed hashes. `vehicle_key` is empty if the lead names no vehicle, and after its
# disposal. `vehicle` is the hash from which `vehicle_key` is made: a key rotation needs it.
lead_contacts = dealer_table(
    "lead_contacts",
    columns(String, "lead_id"),
    columns(UtcTime, "received_at"),
    columns(LargeBinary, "contact_hash", "vehicle_key"),
    sealed("contact", "vehicle"),
    key=("contact_hash", "vehicle_key", "received_at", "lead_id"),
    of=leads,
)

# The channels that were withdrawn for a contact point, and the last time. `contact_hash` is made with the permanent
# secret. A row outlives the customer's leads, so that an old consent that an agent sends again allows nothing. The rows
# are derived from `consent_events`.
withdrawals = dealer_table(
    "withdrawals",
    columns(LargeBinary, "contact_hash"),
    columns(String, "channel"),
    columns(UtcTime, "at"),
    key=("contact_hash", "channel"),
)

# The bodies of the consent events of erased customers. They prove the consent and serve nothing else. `last_at` is the
# time of the newest of the lead's events when it was erased: the age counts from it.
consent_proofs = dealer_table(
    "consent_proofs",
    columns(BigInteger, "number"),
    columns(String, "lead_id"),
    columns(UtcTime, "last_at"),
    sealed("body"),
    key=("number",),
    of=leads,
)

# The contact points of erased customers, as hashes that are made with the permanent secret: they find the proofs.
proof_contacts = dealer_table(
    "proof_contacts",
    columns(LargeBinary, "contact_hash"),
    columns(String, "lead_id"),
    key=("contact_hash", "lead_id"),
    of=leads,
)

# A hash chain for each dealer. Rows are only added. `hash` covers the number, the columns that are not encrypted,
# `commitment` and the `hash` before. `commitment` is a salted hash of `body` (text as shown, scope, agent, hash of the
# request, the person); the salt is encrypted with it. So the chain stays valid after erasures and key rotations.
# The `purpose` of a withdrawal has the `contact_hash` of each contact point (`storage.privacy.withdrawals`).
consent_events = dealer_table(
    "consent_events",
    columns(BigInteger, "number"),
    columns(String, "lead_id", "kind"),
    columns(ExternalText, "purpose"),
    columns(UtcTime, "at", "granted_at", "expires_at"),
    columns(LargeBinary, "channels", "commitment", "hash"),
    sealed("body"),
    key=("number",),
    of=leads,
)

# `reply` is the response to the request (JSON: ids, status and times). `shares` is the visit that it is part of.
# `vehicle_id` is the vehicle of a test drive, if the inventory had it.
appointments = dealer_table(
    "appointments",
    columns(String, "appointment_id", "lead_id", "kind", "status", "shares"),
    columns(ExternalText, "rooftop", "vehicle_id"),
    columns(UtcTime, "created_at", "starts_at", "ends_at", "cancelled_at"),
    columns(LargeBinary, "reply"),
    sealed("request"),
    key=("appointment_id",),
    of=leads,
)

# A visit occupies one of the rooftop's places for its kind in each quarter of an hour that it overlaps: the primary key
# decides between two buyers. A test drive also occupies its vehicle, the only place of the kind `vehicle`: the column
# `rooftop` then has the `vehicle_id`.
places = dealer_table(
    "places",
    columns(ExternalText, "rooftop"),
    columns(String, "kind", "appointment_id"),
    columns(UtcTime, "quarter"),
    columns(Integer, "place"),
    key=("rooftop", "kind", "quarter", "place"),
    of=appointments,
)

# One row for each delivery. `state` is waiting, sent, undeliverable or dropped. A waiting row with a lease is being
# sent. `event_id` is the reason of the delivery (`dealers.routing.NewDelivery`). `document` is what the first attempt
# sent; every later attempt sends the same bytes. It is empty before the first attempt and after the last. `unknown`
# counts the attempts that may have arrived. `follows` is an earlier delivery of the same lead to the same receiver:
# this one waits until that one is sent, undeliverable or dropped. `trace` is the header `traceparent` of the request,
# if traces are on.
outbox = dealer_table(
    "outbox",
    columns(String, "delivery_id", "lead_id", "event_id", "kind", "state", "lease", "follows", "trace"),
    columns(ExternalText, "rooftop", "channel", "problem"),
    columns(UtcTime, "created_at", "due_at", "leased_until", "settled_at"),
    columns(Integer, "attempts", "unknown"),
    sealed("document"),
    key=("delivery_id",),
    of=leads,
)

# The access log: who looked at customer data. It stays when the data is erased. A hash chain for each dealer, like
# consent events. The oldest entries are deleted by age: the entry about a deletion has the number and the hash of the
# newest deleted entry (`deleted`, `deleted_head`).
accesses = dealer_table(
    "accesses",
    columns(String, "access_id", "lead_id"),
    columns(ExternalText, "actor", "action"),
    columns(UtcTime, "at"),
    columns(Integer, "leads"),
    columns(BigInteger, "number", "deleted"),
    columns(LargeBinary, "deleted_head", "hash"),
    key=("access_id",),
)

# `fingerprint` is a keyed hash of scope and key. `reply` also contains the hash of the payload, and the hash from which
# `fingerprint` is made: an unkeyed hash can be guessed.
idempotency = dealer_table(
    "idempotency",
    columns(LargeBinary, "fingerprint"),
    columns(UtcTime, "at"),
    columns(String, "lead_id"),
    sealed("reply"),
    key=("fingerprint",),
)

refusals = dealer_table("refusals", columns(String, "refusal_id", "code"), columns(UtcTime, "at"), key=("refusal_id",))

# `scopes` are those of the skills that it opens, with spaces between them; NULL opens all. `used_at` is written with
# the daily counts, about once a minute.
tokens = dealer_table(
    "tokens",
    columns(String, "token_id", "purpose", "scopes"),
    columns(ExternalText, "name"),
    columns(LargeBinary, "token_hash"),
    columns(UtcTime, "created_at", "revoked_at", "expires_at", "used_at"),
    key=("token_id",),
)

# What works once, as hashes, until it has expired (`storage.nonces`): the challenges of passkeys, and on PostgreSQL the
# nonces of signed requests, which machines then share. The rows belong to the installation.
nonces = dealer_table("nonces", columns(LargeBinary, "nonce"), columns(UtcTime, "expires_at"), key=("nonce",))

# The policies of agents (`callers.policy`), one row for each change: the one with the highest number holds. `agent` is
# an identity or a class of callers. The dealer ALL_DEALERS is the installation. `skills` and `rates` are JSON. The
# state `none` has removed the policy.
agent_policies = dealer_table(
    "agent_policies",
    columns(ExternalText, "agent", "reason", "set_by"),
    columns(BigInteger, "number"),
    columns(String, "state"),
    columns(LargeBinary, "skills", "rates"),
    columns(Integer, "leads_a_day"),
    columns(UtcTime, "set_at"),
    key=("agent", "number"),
)

# What agents asked on one day of the dealer's time zone (`storage.daily_counts`): a number for each item of a subject.
daily_counts = dealer_table(
    "daily_counts",
    columns(String, "day", "subject"),
    columns(ExternalText, "item"),
    columns(BigInteger, "number"),
    key=("day", "subject", "item"),
)

# When the last digest of a dealer was made. The leads that failed since the last quiet day, and when the last one did.
alert_checks = dealer_table(
    "alert_checks", columns(UtcTime, "digest_at", "lead_failed_at"), columns(Integer, "failed_leads")
)

# A condition of a subject, such as a channel (`alerts.rules.AlertState`).
alerts = dealer_table(
    "alerts",
    columns(String, "condition"),
    columns(ExternalText, "subject", "detail"),
    columns(UtcTime, "seen_at", "cleared_at", "started_at", "ended_at", "reported_at", "since"),
    columns(Boolean, "start_reported"),
    columns(Integer, "unreported", "amount"),
    key=("condition", "subject"),
)

# A message about alerts, one row for each receiver: mail or webhook. `state` is waiting, sent or failed. While it waits
# it has a job. `document` has no customer data.
alert_messages = dealer_table(
    "alert_messages",
    columns(String, "message_id", "receiver", "kind", "state"),
    columns(UtcTime, "created_at", "settled_at"),
    columns(Integer, "attempts"),
    columns(ExternalText, "problem"),
    columns(LargeBinary, "document"),
    key=("message_id", "receiver"),
)

# The keys of which a person has confirmed a copy.
key_copies = dealer_table("key_copies", columns(String, "key_id"), columns(UtcTime, "confirmed_at"), key=("key_id",))

# What staff write about a lead. It is erased with the lead's customer.
lead_notes = dealer_table(
    "lead_notes",
    columns(String, "note_id", "lead_id"),
    columns(ExternalText, "written_by"),
    columns(UtcTime, "at"),
    sealed("text"),
    key=("note_id",),
    of=leads,
)

# The quotes of `offer.quote`, with their signatures, and the holds of `offer.hold` (docs/protocol.md#offers,
# `storage.offers`). A unique index allows one hold of a vehicle whose `ended_at` is not set.
quotes = dealer_table(
    "quotes",
    columns(String, "quote_id"),
    columns(ExternalText, "vehicle_id", "caller"),
    columns(UtcTime, "created_at", "valid_until"),
    columns(LargeBinary, "document"),
    key=("quote_id",),
)

holds = dealer_table(
    "holds",
    columns(String, "hold_id", "quote_id", "status"),
    columns(ExternalText, "vehicle_id", "caller", "ended_why"),
    columns(LargeBinary, "key_hash", "request_hash"),
    columns(UtcTime, "created_at", "expires_at", "ended_at"),
    key=("hold_id",),
)
