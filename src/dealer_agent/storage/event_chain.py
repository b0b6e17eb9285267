"""Two chains for each dealer: its consent events, and its access log. A hash binds each row to the row before.

The text of a consent event is in the chain as a salted hash only (the commitment). So it can be erased, or sealed with
another key, and the chain stays verifiable. The dealer's row holds the end of each chain with a keyed seal: without the
key nobody can cut rows off, or write the chain anew. That row is also the lock under which leads are taken, and under
which everything that belongs to a lead is changed.

No chain can show that the whole database, or the dealer's row with its rows, was put back to an earlier state. A head
that is recorded outside the database does (`storage.heads`).
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Column, Connection, Row, Select, Table, bindparam, func, insert, select, text, update

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.encryption.errors import DecryptionFailed, UnknownKey
from dealer_agent.storage.errors import KeyMissing
from dealer_agent.storage.prepared_statements import Prepared
from dealer_agent.storage.schema import accesses, as_kept, consent_events, dealers, microseconds, vault_keys

NOTHING_BEFORE = b""
"""The hash before the first event."""


class ChainEnd(NamedTuple):
    """How many events there are, and the hash of the last."""

    events: int
    head: bytes


class KeptEnd(NamedTuple):
    """A chain's end as the dealer's row has it, with its keyed seal; None before the first event."""

    end: ChainEnd
    seal: bytes | None


class Chain:
    """The rows of a chain, what their hashes cover, and where its end is kept in the dealer's row.

    `label` names the form of the hash. A change of `covered` needs a new label, and a migration that writes every chain
    anew.
    """

    def __init__(
        self,
        label: str,
        rows: Table,
        covered: tuple[str, ...],
        count: Column[int],
        head: Column[Any],
        seal: Column[Any],
    ) -> None:
        self.label = label
        self.rows = rows
        self.covered = covered
        self.seal = seal
        self.read_end: Select[Any] = select(count, func.coalesce(head, NOTHING_BEFORE), seal).where(
            dealers.c.dealer_id == bindparam("dealer_id")
        )
        self.set_seal = (
            update(dealers).where(dealers.c.dealer_id == bindparam("in_dealer")).values({seal: bindparam("new_seal")})
        )
        self._count, self._head = count, head

    @cached_property
    def move_end(self) -> Prepared:
        """Moves the end if it is still the expected one."""
        return Prepared(
            update(dealers)
            .where(
                dealers.c.dealer_id == bindparam("in_dealer"),
                self._count == bindparam("count_before"),
                func.coalesce(self._head, NOTHING_BEFORE) == bindparam("head_before"),
            )
            .values(
                {
                    self._count: bindparam("new_count"),
                    self._head: bindparam("new_head"),
                    self.seal: bindparam("new_seal"),
                }
            )
        )

    @cached_property
    def add_row(self) -> Prepared:
        """Adds a row."""
        return Prepared(insert(self.rows))

    @property
    def seal_context(self) -> tuple[str, str]:
        """Table and column of the seal."""
        return self.seal.table.name, self.seal.name


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

CHAINS = {"consents": CONSENTS, "accesses": ACCESSES}
"""The chains by their names in recorded heads."""

# FOR NO KEY UPDATE on PostgreSQL; on SQLite the writer's transaction is the lock.
LOCK_DEALER = Prepared(CONSENTS.read_end.with_for_update(key_share=True))

ADD_DEALER = text("INSERT INTO dealers (dealer_id) VALUES (:dealer_id) ON CONFLICT (dealer_id) DO NOTHING")


FIND_KEY = select(vault_keys.c.key_id).where(
    vault_keys.c.dealer_id == bindparam("dealer_id"), vault_keys.c.key_id == bindparam("key_id")
)


def lock_dealer(connection: Connection, dealer_id: str) -> None:
    """Locks the dealer: leads of this dealer wait, in every process, until the transaction ends."""
    found = LOCK_DEALER.read(connection, {"dealer_id": dealer_id})
    if not found:
        connection.execute(ADD_DEALER, {"dealer_id": dealer_id})
        found = LOCK_DEALER.read(connection, {"dealer_id": dealer_id})
    connection.info[_remembered(dealer_id)] = _kept(*found[0])


def append(
    connection: Connection, cipher: Cipher, dealer_id: str, event: Mapping[str, Any], body: bytes | None = None
) -> int:
    """Adds an event to the dealer's chain and returns its number. The dealer is locked.

    `event` has the clear columns but number and hashes; `body`, with a salt in it, is sealed and committed to. A chain
    whose end is not sound grows on, for no customer's consent is turned away, but its seal stays as it is: that
    somebody tampered with it goes on showing.
    """
    # The end as the lock showed it. A savepoint that was rolled back since then makes it a wrong guess, which move_end
    # finds out.
    kept: KeptEnd = connection.info[_remembered(dealer_id)]

    def row_of(number: int) -> dict[str, Any]:
        sealed = None if body is None else cipher.seal(body, *body_context(dealer_id, number))
        return {**event, "commitment": commitment(body), "body": sealed}

    moved = _extend(connection, cipher, dealer_id, CONSENTS, kept, row_of)
    connection.info[_remembered(dealer_id)] = moved
    return moved.end.events


def append_access(connection: Connection, cipher: Cipher, dealer_id: str, entry: Mapping[str, Any]) -> int:
    """Adds an entry (its columns but number and hash) to the access log; its number. The dealer is locked."""
    kept = chain_end_of(connection, dealer_id, ACCESSES)
    assert kept is not None, "the dealer is locked"
    return _extend(connection, cipher, dealer_id, ACCESSES, kept, lambda _: dict(entry)).end.events


def _extend(
    connection: Connection,
    cipher: Cipher,
    dealer_id: str,
    chain: Chain,
    kept: KeptEnd,
    row_of: Callable[[int], dict[str, Any]],
) -> KeptEnd:
    """Adds the row that `row_of` makes for its number, and returns the new end."""
    while True:
        number = kept.end.events + 1
        row = {**row_of(number), "dealer_id": dealer_id, "number": number}
        row["hash"] = event_hash(row, kept.end.head, chain)
        end = ChainEnd(number, row["hash"])
        sound = _may_be_extended(connection, cipher, dealer_id, kept, chain)
        moved = KeptEnd(end, seal_end(cipher, dealer_id, end, chain) if sound else kept.seal)
        before = {"in_dealer": dealer_id, "count_before": kept.end.events, "head_before": kept.end.head}
        after = {"new_count": end.events, "new_head": end.head, "new_seal": moved.seal}
        if chain.move_end.move(connection, dealer_id, before, after):
            break
        kept = _kept(*connection.execute(chain.read_end, {"dealer_id": dealer_id}).one())
    chain.add_row.add(connection, row)
    return moved


def chain_end_of(connection: Connection, dealer_id: str, chain: Chain = CONSENTS) -> KeptEnd | None:
    """The chain's end as the dealer's row has it; None for a dealer without a row."""
    found = connection.execute(chain.read_end, {"dealer_id": dealer_id}).one_or_none()
    return None if found is None else _kept(*found)


def end_is_sound(cipher: Cipher, dealer_id: str, kept: KeptEnd, chain: Chain = CONSENTS) -> bool:
    """Whether a chain's end is the one that was sealed; False where the key to its seal is not here."""
    try:
        return _has_its_seal(cipher, dealer_id, kept, chain)
    except UnknownKey:
        return False


def _may_be_extended(connection: Connection, cipher: Cipher, dealer_id: str, kept: KeptEnd, chain: Chain) -> bool:
    """Whether a chain's end is sound: a new seal on an end that is not would hide that.

    Raises KeyMissing where a key of the dealer's is not here. The seal would stay behind, and the chain would look as
    if somebody had changed it.
    """
    try:
        return _has_its_seal(cipher, dealer_id, kept, chain)
    except UnknownKey as problem:
        key = {"dealer_id": dealer_id, "key_id": problem.key_id}
        if connection.execute(FIND_KEY, key).one_or_none() is None:
            return False
        raise KeyMissing(
            f"another process uses the key {problem.key_id}, which is not among the keys here: restart this process "
            "with the keys that DEALER_AGENT_KEYS holds now, or put the newest copy of dealer-agent.keys back"
        ) from None


def _has_its_seal(cipher: Cipher, dealer_id: str, kept: KeptEnd, chain: Chain) -> bool:
    """The same as `end_is_sound`. Raises UnknownKey."""
    if kept.seal is None:
        return kept.end == ChainEnd(0, NOTHING_BEFORE)
    try:
        return cipher.verify_mac(kept.seal, _sealed(kept.end), *chain.seal_context, dealer_id)
    except DecryptionFailed:
        return False


def link_problem(row: Row[Any], before: ChainEnd, recorded: Mapping[int, bytes], chain: Chain = CONSENTS) -> str | None:
    """The problem with number or hash of the row after `before`; `recorded` are the hashes of heads by number."""
    if row.number != before.events + 1:
        return "it is missing" if row.number > before.events + 1 else "its number is no number of an event"
    if row.hash != event_hash(row._asdict(), before.head, chain):
        return "it was changed, or it does not follow the one before"
    if recorded.get(row.number, row.hash) != row.hash:
        return "it is not the one whose hash was recorded as a head: the record was written anew"
    return None


def end_problem(
    connection: Connection,
    cipher: Cipher,
    dealer_id: str,
    end: ChainEnd,
    recorded: Mapping[int, bytes],
    chain: Chain = CONSENTS,
) -> str | None:
    """The problem with the end of a chain whose rows are all valid."""
    kept = chain_end_of(connection, dealer_id, chain) or KeptEnd(ChainEnd(0, NOTHING_BEFORE), None)
    if kept.end.events > end.events:
        return f"it is missing: there were {kept.end.events} events"
    if kept.end.events < end.events:
        return f"the chain should end after event {kept.end.events}"
    if kept.end.head != end.head or not end_is_sound(cipher, dealer_id, kept, chain):
        return "the end of the chain is not the one that was sealed, or the key to its seal is not here"
    if (most := max(recorded, default=0)) > end.events:
        return (
            f"it is missing: a recorded head counts {most} events. The newest events were removed, or the database was "
            "put back to an earlier state"
        )
    return None


def commitment(body: bytes | None) -> bytes:
    """The commitment to a body in the chain. A body begins with a random salt, so nobody can guess the rest."""
    return b"" if body is None else sha256(body).digest()


def body_context(dealer_id: str, number: int) -> tuple[str, ...]:
    """What the seal of a body is bound to."""
    return "consent_events", "body", dealer_id, str(number)


def event_hash(row: Mapping[str, Any], before: bytes, chain: Chain = CONSENTS) -> bytes:
    """The hash of a row (its columns) after the one with the hash `before`."""
    covered = (chain.label, *(_plain(row[name]) for name in chain.covered), before)
    return sha256(msgspec.json.encode(covered)).digest()


def _plain(value: Any) -> Any:
    """A value as it is stored: times in microseconds since 1970, and text that both databases can store."""
    if isinstance(value, datetime):
        return microseconds(value)
    return as_kept(value) if isinstance(value, str) else value


def seal_end(cipher: Cipher, dealer_id: str, end: ChainEnd, chain: Chain = CONSENTS) -> bytes:
    """The keyed seal of a chain's end."""
    return cipher.mac(_sealed(end), *chain.seal_context, dealer_id)


def _sealed(end: ChainEnd) -> bytes:
    return msgspec.json.encode((end.events, end.head))


def _kept(events: int, head: bytes, seal: bytes | None) -> KeptEnd:
    return KeptEnd(ChainEnd(events, head), seal)


def _remembered(dealer_id: str) -> tuple[str, str]:
    return "end of the consent chain", dealer_id
