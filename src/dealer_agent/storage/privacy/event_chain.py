"""Protects the consent record and the access log from changes: in each, a hash binds a row to the row before.

The text of a consent event is in the chain as a salted hash only, the commitment. So the text can be erased, or
encrypted with another key, and the chain can still be verified. The dealer's row holds the end of each chain with a
MAC. Without the key nobody can remove the newest rows or rewrite the chain. The dealer's row is also the lock for
leads and for everything that belongs to a lead.

No chain can show that the whole database, or the dealer's row with its rows, was restored to an earlier state. A head
that is recorded outside the database can: the number of rows, and the hash of the last one. Its text is one line: the
dealer's id, the chain, the number of rows, the hash in hexadecimal digits, and the time in UTC.

    ridgeline consents 1204 9c56...64 digits... 2026-03-02T09:30:00Z
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple, Self

import msgspec
from sqlalchemy import Column, Select, Table, Update, bindparam, func, insert, select, update

from dealer_agent.encryption.errors import DecryptionFailed, UnknownKey
from dealer_agent.storage.columns import as_stored, microseconds
from dealer_agent.storage.errors import DealerUnknown, KeyMissing
from dealer_agent.storage.installation.registration import not_registered, registration_reads
from dealer_agent.storage.leads.prepared_statements import Prepared, Read, read_of_each
from dealer_agent.storage.schema import accesses, consent_events, dealers, vault_keys
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.transaction import Transaction

MOST_CHARACTERS = 512
"""The most characters of a head."""

_HEAD = re.compile(
    r"(?P<dealer>[a-z0-9-]{1,100}) (?P<chain>consents|accesses) (?P<count>[0-9]{1,18}) (?P<hash>[0-9a-f]{64}|-)"
    r" (?P<at>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"
)
_FORM = "%Y-%m-%dT%H:%M:%SZ"


class Head(NamedTuple):
    """The head of a chain at a time. The hash of a chain without rows is empty."""

    dealer_id: str
    chain: str
    rows: int
    hash: bytes
    at: datetime

    def __str__(self) -> str:
        """The head as one line of text."""
        return f"{self.dealer_id} {self.chain} {self.rows} {self.hash.hex() or '-'} {self.at.astimezone(UTC):{_FORM}}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses a line that `str` of a head returned. Raises ValueError."""
        match = _HEAD.fullmatch(text.strip())
        if match is None:
            raise ValueError("is not a head: write a line as `dealer-agent consent head` prints it")
        hexadecimal = "" if match["hash"] == "-" else match["hash"]
        at = datetime.strptime(match["at"], _FORM).replace(tzinfo=UTC)
        return cls(match["dealer"], match["chain"], int(match["count"]), bytes.fromhex(hexadecimal), at)


def by_chain(heads: Iterable[Head], dealer_id: str) -> dict[str, Mapping[int, bytes]]:
    """The hashes of a dealer's heads by chain and number of rows, for the checks of the chains.

    Raises ValueError for two heads with the same number and different hashes: the chain was rewritten.
    """
    hashes: dict[str, dict[int, bytes]] = {"consents": {}, "accesses": {}}
    for head in heads:
        if head.dealer_id != dealer_id or head.rows == 0:
            continue
        if hashes[head.chain].setdefault(head.rows, head.hash) != head.hash:
            raise ValueError(
                f"two recorded heads of {head.chain} have the same number of entries ({head.rows}) and different "
                "hashes: somebody rewrote the record between them"
            )
    return dict(hashes)


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
    def replace_end(self) -> Prepared:
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

READ_END = Prepared(CONSENTS.read_end)

LOCK_FREE_DEALER = Prepared(CONSENTS.read_end.with_for_update(key_share=True, skip_locked=True))

ADD_DEALER = upsert(dealers, "NOTHING")

FIND_KEY = select(vault_keys.c.key_id).where(of_dealer(vault_keys, key_id="key_id"))


class LockedDealer(NamedTuple):
    """A dealer that is locked: whether it is enabled, and the rows of what was read with the lock."""

    enabled: bool
    rows: list[list[Any]]


class DealerLocks(NamedTuple):
    """The transactions whose dealer is locked, and the others: of removed dealers, of dealers without a row yet, and of
    dealers that another transaction has locked."""

    locked: list[tuple[Transaction, LockedDealer]]
    removed: list[Transaction]
    new: list[Transaction]
    taken: list[Transaction]


Wanted = tuple[Transaction, Sequence[Read]]
"""A transaction whose dealer is to be locked, and what is read with the lock."""


def lock_dealer(tx: Transaction, reads: Sequence[Read] = ()) -> LockedDealer:
    """Locks the dealer: leads of this dealer wait, in every process, until the transaction ends.

    The `reads` cost no round trip, and see everything that was committed before the lock. Raises DealerUnknown for a
    dealer that was removed from its installation.
    """
    [(end, locked)] = _lock_and_read(LOCK_DEALER, [(tx, reads)])
    if locked is None:
        raise not_registered(tx.dealer_id)
    if not end:
        tx.execute(ADD_DEALER)
        end = LOCK_DEALER.read(tx, {})
    tx.connection.info[_cache_key(tx)] = _stored_end(*end[0])
    return locked


def lock_dealers(wanted: Sequence[Wanted]) -> DealerLocks:
    """Locks the dealers of transactions that share a connection.

    It waits only for the lock of a single dealer. It passes over those of several dealers that others have locked, and
    adds no rows for them, because that may wait. On SQLite the caller has the lock of the database: nothing waits.
    """
    locks = DealerLocks([], [], [], [])
    if len(wanted) == 1 or wanted[0][0].connection.dialect.name == "sqlite":
        for tx, reads in wanted:
            try:
                locks.locked.append((tx, lock_dealer(tx, reads)))
            except DealerUnknown:
                locks.removed.append(tx)
        return locks
    others = []
    for (tx, _), (end, locked) in zip(wanted, _lock_and_read(LOCK_FREE_DEALER, wanted), strict=True):
        if locked is None:
            locks.removed.append(tx)
        elif end:
            tx.connection.info[_cache_key(tx)] = _stored_end(*end[0])
            locks.locked.append((tx, locked))
        else:
            others.append(tx)
    # Another transaction has locked the row of such a dealer, or there is no row yet.
    ends = read_of_each([(tx, [(READ_END, {})]) for tx in others]) if others else []
    for tx, (end,) in zip(others, ends, strict=True):
        (locks.taken if end else locks.new).append(tx)
    return locks


def _lock_and_read(lock: Prepared, wanted: Sequence[Wanted]) -> list[tuple[list[Any], LockedDealer | None]]:
    """For each dealer, in one round trip: the rows of `lock`, and the locked dealer. None for a removed dealer."""
    dealers = [(tx, reads, *registration_reads(tx)) for tx, reads in wanted]
    all_reads = [(tx, [*hold, (lock, {}), *enabled, *reads]) for tx, reads, hold, enabled in dealers]
    results: list[tuple[list[Any], LockedDealer | None]] = []
    for rows, (_, _, hold, enabled) in zip(read_of_each(all_reads), dealers, strict=True):
        end, *read = rows[len(hold) :]  # In the order of `all_reads`.
        if enabled and not (registered := read.pop(0)):
            results.append((end, None))
        else:
            results.append((end, LockedDealer(not enabled or bool(registered[0].enabled), read)))
    return results


def append(tx: Transaction, event: Mapping[Any, Any], body: bytes | None = None, chain: Chain = CONSENTS) -> int:
    """Adds a row to a chain. Returns its number. The caller holds the dealer's lock.

    `event` has the columns that are not encrypted, except number and hashes. The `body` of a consent event begins with
    a salt; it is encrypted, and its hash is the commitment. If the end of the chain is invalid, the row is still added,
    because no consent may be refused. But the end gets no new MAC, so the tampering stays visible.
    """
    # The end when the dealer was locked. After a rollback to a savepoint it may be wrong, which `replace_end` detects.
    stored: StoredEnd = tx.connection.info[_cache_key(tx)] if chain is CONSENTS else chain_end(tx, chain)
    while True:
        number = stored.end.rows + 1
        row = {**event, "dealer_id": tx.dealer_id, "number": number}
        if chain is CONSENTS:
            row["commitment"] = commitment(body)
            row["body"] = None if body is None else tx.encrypt(body, BODY, str(number))
        row["hash"] = row_hash(row, stored.end.head, chain)
        end = ChainEnd(number, row["hash"])
        moved = StoredEnd(end, end_mac(tx, end, chain) if _may_be_extended(tx, stored, chain) else stored.mac)
        before = {"count_before": stored.end.rows, "head_before": stored.end.head}
        after = {"new_count": end.rows, "new_head": end.head, "new_mac": moved.mac}
        if chain.replace_end.replace_if_unchanged(tx, before, after):
            break
        stored = chain_end(tx, chain)
    chain.add_row.add(tx, row)
    if chain is CONSENTS:
        tx.connection.info[_cache_key(tx)] = moved
    return number


def chain_end(tx: Transaction, chain: Chain = CONSENTS) -> StoredEnd:
    """Reads the end of a chain from the dealer's row. EMPTY for a new dealer."""
    row = tx.execute(chain.read_end).one_or_none()
    return StoredEnd(EMPTY, None) if row is None else _stored_end(*row)


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

    Raises KeyMissing if only this process lacks the key. With False, the old MAC would stay, and the valid chain would
    look as if somebody had changed it.
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


class ChainReport(NamedTuple):
    """What a check of a chain found: how many rows it has, and how many of them are erased.

    The text of an erased consent event is gone. An erased entry of the access log was deleted by age. `first_broken` is
    the number of the first row that was changed, and `problem` says what is wrong with it. Both are None for a valid
    chain.
    """

    rows: int
    erased: int
    first_broken: int | None
    problem: str | None


def check_rows(
    rows: Iterable[Mapping[Any, Any]],
    chain: Chain,
    recorded: Mapping[int, bytes],
    start: ChainEnd = EMPTY,
    content_problem: Callable[[Any], str | None] = lambda _: None,
) -> tuple[ChainEnd, str | None]:
    """Checks number and hash of each row after `start`, then its content. `recorded` maps the
    number of a row to its hash, which was recorded as a head outside the database.

    Returns the end of the valid rows, and the problem with the row after it; None if all rows are valid.
    """
    end = start
    for row in rows:
        number, computed = row["number"], row_hash(row, end.head, chain)
        problem: str | None
        if number != end.rows + 1:
            problem = "it is missing" if number > end.rows + 1 else "its number is less than 1 or repeated"
        elif row["hash"] != computed:
            problem = "it was changed, or it does not follow the one before"
        elif recorded.get(number, computed) != computed:
            problem = "it is not the one whose hash was recorded as a head: the record was written anew"
        else:
            problem = content_problem(row)
        if problem is not None:
            return end, problem
        end = ChainEnd(number, computed)
    return end, None


def end_problem(tx: Transaction, end: ChainEnd, recorded: Mapping[int, bytes], chain: Chain = CONSENTS) -> str | None:
    """The problem after the last row of a chain whose rows are all valid. None if the chain is complete.

    `end` was computed from these rows, and is compared with the stored end. `recorded` is as in `check_rows`.
    """
    stored = chain_end(tx, chain)
    if stored.end.rows > end.rows:
        return f"it is missing: there were {stored.end.rows} events"
    if stored.end.rows < end.rows:
        return f"the chain should end after event {stored.end.rows}"
    if stored.end.head != end.head or not end_is_valid(tx, stored, chain):
        return "the end of the chain is not the one that was written, or the key of its MAC is missing"
    if (newest := max(recorded, default=0)) > end.rows:
        return (
            f"it is missing: a recorded head counts {newest} events. The newest events were removed, or the database "
            "was put back to an earlier state"
        )
    return None


def commitment(body: bytes | None) -> bytes:
    """The commitment to a body in the chain. A body begins with a random salt, so nobody can guess the rest."""
    return b"" if body is None else sha256(body).digest()


def row_hash(row: Mapping[Any, Any], before: bytes, chain: Chain = CONSENTS) -> bytes:
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
