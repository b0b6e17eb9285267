"""Two hash chains for each dealer: its consent events, and its access log. A hash binds each row to the row before.

The text of a consent event is in the chain as a salted hash only, the commitment. So the text can be erased, or
encrypted with another key, and the chain can still be verified. The dealer's row holds the end of each chain with a
MAC. Without the key nobody can remove the newest rows or rewrite the chain. The dealer's row is also the lock for
leads and for everything that belongs to a lead.

No chain can show that the whole database, or the dealer's row with its rows, was restored to an earlier state. A head
that is recorded outside the database can (`storage.chain_heads`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Column, Row, Select, Table, Update, bindparam, func, insert, select, update

from dealer_agent.encryption.errors import DecryptionFailed, UnknownKey
from dealer_agent.storage.chain_heads import Head
from dealer_agent.storage.errors import KeyMissing
from dealer_agent.storage.prepared_statements import Prepared, Read, read_all
from dealer_agent.storage.registration import not_registered, registration_reads
from dealer_agent.storage.schema import (
    accesses,
    as_stored,
    consent_events,
    dealers,
    microseconds,
    of_dealer,
    upsert,
    vault_keys,
)
from dealer_agent.storage.transaction import Transaction

NO_HASH = b""
"""The hash before the first row."""


class ChainEnd(NamedTuple):
    """How many rows a chain has, and the hash of the last one."""

    rows: int
    head: bytes


EMPTY = ChainEnd(0, NO_HASH)


class StoredEnd(NamedTuple):
    """A chain's end in the dealer's row, with its MAC; None before the first row."""

    end: ChainEnd
    mac: bytes | None


@dataclass(frozen=True, eq=False)
class Chain:
    """The rows of a chain, the columns that their hashes cover, and the columns of its end in the dealer's row.

    `label` names the form of the hash. A change of `covered` needs a new label, and a migration that writes every chain
    anew.
    """

    label: str
    rows: Table
    covered: tuple[str, ...]
    count: Column[int]
    head: Column[Any]
    mac: Column[Any]

    @cached_property
    def read_end(self) -> Select[Any]:
        """Reads the end."""
        return select(self.count, func.coalesce(self.head, NO_HASH), self.mac).where(of_dealer(dealers))

    @cached_property
    def set_mac(self) -> Update:
        """Replaces the MAC of the end."""
        return update(dealers).where(of_dealer(dealers)).values({self.mac: bindparam("new_mac")})

    @cached_property
    def move_end(self) -> Prepared:
        """Moves the end if it is still the expected one."""
        unmoved = self.count == bindparam("count_before"), func.coalesce(self.head, NO_HASH) == bindparam("head_before")
        moved: dict[Any, Any] = {self.count: bindparam("new_count"), self.head: bindparam("new_head")}
        return Prepared(self.set_mac.where(*unmoved).values(moved))

    @cached_property
    def add_row(self) -> Prepared:
        """Adds a row."""
        return Prepared(insert(self.rows))


CONSENTS = Chain(
    "consent event 2",
    consent_events,
    ("dealer_id", "number", "lead_id", "kind", "at", "granted_at", "expires_at", "channels", "purpose", "commitment"),
    dealers.c.consent_events,
    dealers.c.consent_head,
    dealers.c.consent_seal,
)

ACCESSES = Chain(
    "access 1",
    accesses,
    ("dealer_id", "number", "access_id", "at", "actor", "action", "lead_id", "leads", "deleted", "deleted_head"),
    dealers.c.accesses,
    dealers.c.access_head,
    dealers.c.access_seal,
)

BODY = consent_events.c.body

CHAINS = {"consents": CONSENTS, "accesses": ACCESSES}
"""The chains by their names in recorded heads."""

# FOR NO KEY UPDATE on PostgreSQL; on SQLite the writer's transaction is the lock.
LOCK_DEALER = Prepared(CONSENTS.read_end.with_for_update(key_share=True))

ADD_DEALER = upsert(dealers, "NOTHING")

FIND_KEY = select(vault_keys.c.key_id).where(of_dealer(vault_keys), vault_keys.c.key_id == bindparam("key_id"))


class LockedDealer(NamedTuple):
    """A dealer that is locked: whether it is enabled, and the rows of what was read with the lock."""

    enabled: bool
    rows: list[list[Any]]


def lock_dealer(tx: Transaction, reads: Sequence[Read] = ()) -> LockedDealer:
    """Locks the dealer: leads of this dealer wait, in every process, until the transaction ends.

    The `reads` cost no round trip, and see everything that was committed before the lock. Raises DealerUnknown for a
    dealer that was removed from its installation.
    """
    hold, registration = registration_reads(tx)
    statements = [*hold, (LOCK_DEALER, {}), *registration, *reads]
    # A single statement is cheaper without a pipeline.
    rows = read_all(tx, statements)[len(hold) :] if len(statements) > 1 else [LOCK_DEALER.read(tx, {})]
    found, rows = rows[0], rows[1:]
    if registration and not rows[0]:
        raise not_registered(tx.dealer_id)
    if not found:
        tx.execute(ADD_DEALER)
        found = LOCK_DEALER.read(tx, {})
    tx.connection.info[_cache_key(tx)] = _stored_end(*found[0])
    enabled = bool(rows.pop(0)[0].enabled) if registration else True
    return LockedDealer(enabled, rows)


def append(tx: Transaction, event: Mapping[str, Any], body: bytes | None = None) -> int:
    """Adds a consent event to the chain. Returns its number. The caller holds the dealer's lock.

    `event` has the columns that are not encrypted, except number and hashes. `body` begins with a salt; it is
    encrypted, and its hash is the commitment. If the end of the chain is invalid, the event is still added, because no
    consent may be refused. But the end gets no new MAC, so the tampering stays visible.
    """
    # The end when the dealer was locked. After a rollback to a savepoint it may be wrong, which `move_end` detects.
    stored: StoredEnd = tx.connection.info[_cache_key(tx)]

    def row_of(number: int) -> dict[str, Any]:
        encrypted = None if body is None else tx.encrypt(body, BODY, str(number))
        return {**event, "commitment": commitment(body), "body": encrypted}

    moved = _extend(tx, CONSENTS, stored, row_of)
    tx.connection.info[_cache_key(tx)] = moved
    return moved.end.rows


def append_access(tx: Transaction, entry: Mapping[str, Any]) -> int:
    """Adds an entry (its columns except number and hash) to the access log. Returns its number.

    The caller holds the dealer's lock.
    """
    return _extend(tx, ACCESSES, chain_end(tx, ACCESSES), lambda _: dict(entry)).end.rows


def _extend(tx: Transaction, chain: Chain, stored: StoredEnd, row_of: Callable[[int], dict[str, Any]]) -> StoredEnd:
    """Adds the row that `row_of` makes for its number, and returns the new end."""
    while True:
        number = stored.end.rows + 1
        row = {**row_of(number), "dealer_id": tx.dealer_id, "number": number}
        row["hash"] = row_hash(row, stored.end.head, chain)
        end = ChainEnd(number, row["hash"])
        moved = StoredEnd(end, end_mac(tx, end, chain) if _may_be_extended(tx, stored, chain) else stored.mac)
        before = {"count_before": stored.end.rows, "head_before": stored.end.head}
        after = {"new_count": end.rows, "new_head": end.head, "new_mac": moved.mac}
        if chain.move_end.move(tx, before, after):
            break
        stored = chain_end(tx, chain)
    chain.add_row.add(tx, row)
    return moved


def chain_end(tx: Transaction, chain: Chain = CONSENTS) -> StoredEnd:
    """Reads the end of a chain from the dealer's row. EMPTY for a new dealer."""
    found = tx.execute(chain.read_end).one_or_none()
    return StoredEnd(EMPTY, None) if found is None else _stored_end(*found)


def heads(tx: Transaction) -> list[Head]:
    """The heads of the dealer's chains at the time of the transaction. Needs no key."""
    ends = {name: chain_end(tx, chain).end for name, chain in CHAINS.items()}
    return [Head(tx.dealer_id, name, end.rows, end.head, tx.now) for name, end in ends.items()]


def end_is_valid(tx: Transaction, stored: StoredEnd, chain: Chain = CONSENTS) -> bool:
    """Whether a chain's end has the right MAC. False if the key of the MAC is missing."""
    try:
        return _has_its_mac(tx, stored, chain)
    except UnknownKey:
        return False


def _may_be_extended(tx: Transaction, stored: StoredEnd, chain: Chain) -> bool:
    """Whether a chain's end is valid: a new MAC on an invalid end would hide the tampering.

    Raises KeyMissing if one of the dealer's keys is missing here. Otherwise the MAC would not follow the chain, and the
    chain would look as if somebody had changed it.
    """
    try:
        return _has_its_mac(tx, stored, chain)
    except UnknownKey as problem:
        if tx.execute(FIND_KEY, {"key_id": problem.key_id}).one_or_none() is None:
            return False
        raise KeyMissing(key_of_another_process(problem.key_id)) from None


def key_of_another_process(key_id: str) -> str:
    """The error message about a key that another process uses and this one does not have."""
    return (
        f"another process uses the key {key_id}, which is not among the keys here: restart this process with the keys "
        "that DEALER_AGENT_KEYS holds now, or put the newest copy of dealer-agent.keys back"
    )


def _has_its_mac(tx: Transaction, stored: StoredEnd, chain: Chain) -> bool:
    """Raises UnknownKey."""
    if stored.mac is None:
        return stored.end == EMPTY
    try:
        return tx.cipher.verify_mac(stored.mac, _encoded(stored.end), *_mac_context(tx, chain))
    except DecryptionFailed:
        return False


def link_problem(row: Row[Any], before: ChainEnd, recorded: Mapping[int, bytes], chain: Chain = CONSENTS) -> str | None:
    """The problem with number or hash of the row after `before`; `recorded` are the hashes of heads by number."""
    if row.number != before.rows + 1:
        return "it is missing" if row.number > before.rows + 1 else "its number is no number of an event"
    if row.hash != row_hash(row._asdict(), before.head, chain):
        return "it was changed, or it does not follow the one before"
    if recorded.get(row.number, row.hash) != row.hash:
        return "it is not the one whose hash was recorded as a head: the record was written anew"
    return None


def end_problem(tx: Transaction, end: ChainEnd, recorded: Mapping[int, bytes], chain: Chain = CONSENTS) -> str | None:
    """The problem with the end of a chain whose rows are all valid."""
    stored = chain_end(tx, chain)
    if stored.end.rows > end.rows:
        return f"it is missing: there were {stored.end.rows} events"
    if stored.end.rows < end.rows:
        return f"the chain should end after event {stored.end.rows}"
    if stored.end.head != end.head or not end_is_valid(tx, stored, chain):
        return "the end of the chain is not the one that was written, or the key of its MAC is missing"
    if (most := max(recorded, default=0)) > end.rows:
        return (
            f"it is missing: a recorded head counts {most} events. The newest events were removed, or the database was "
            "put back to an earlier state"
        )
    return None


def commitment(body: bytes | None) -> bytes:
    """The commitment to a body in the chain. A body begins with a random salt, so nobody can guess the rest."""
    return b"" if body is None else sha256(body).digest()


def row_hash(row: Mapping[str, Any], before: bytes, chain: Chain = CONSENTS) -> bytes:
    """The hash of a row, made from its columns and from `before`, the hash of the row before it."""
    covered = (chain.label, *(_plain(row[name]) for name in chain.covered), before)
    return sha256(msgspec.json.encode(covered)).digest()


def _plain(value: Any) -> Any:
    """A value as it is stored: times in microseconds since 1970, and text that both databases can store."""
    if isinstance(value, datetime):
        return microseconds(value)
    return as_stored(value) if isinstance(value, str) else value


def end_mac(tx: Transaction, end: ChainEnd, chain: Chain) -> bytes:
    """The MAC of a chain's end."""
    return tx.cipher.mac(_encoded(end), *_mac_context(tx, chain))


def _mac_context(tx: Transaction, chain: Chain) -> tuple[str, str, str]:
    return chain.mac.table.name, chain.mac.name, tx.dealer_id


def _encoded(end: ChainEnd) -> bytes:
    return msgspec.json.encode((end.rows, end.head))


def _stored_end(rows: int, head: bytes, mac: bytes | None) -> StoredEnd:
    return StoredEnd(ChainEnd(rows, head), mac)


def _cache_key(tx: Transaction) -> tuple[str, str]:
    return "end of the consent chain", tx.dealer_id
