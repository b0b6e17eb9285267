"""The chain of a dealer's consent events: each is bound by hash to the one before, the last one is sealed with a key.

What names the person stands in the chain as a salted hash only (the commitment), so that it can be forgotten, or sealed
with another key, while the chain stays verifiable. The chain's end stands in the dealer's own row with a keyed seal:
without the key nobody can cut events off, or write the chain anew. That row is also the lock under which leads are
taken, and under which everything that belongs to a lead is changed.

What no chain can show is a whole database that was put back to an earlier state: keep the head that a check prints.
"""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, func, insert, select, text, update

from dealer_agent.storage.prepared import Prepared
from dealer_agent.storage.schema import as_kept, consent_events, dealers, microseconds
from dealer_agent.vault.errors import BrokenSeal, UnknownKey
from dealer_agent.vault.vault import Vault

NOTHING_BEFORE = b""
"""What stands for the hash before the first event."""


class ChainEnd(NamedTuple):
    """How many events there are, and the hash of the last."""

    events: int
    head: bytes


class KeptEnd(NamedTuple):
    """A chain's end as the dealer's row has it, with its keyed seal; None before the first event."""

    end: ChainEnd
    seal: bytes | None


READ_END = select(
    dealers.c.consent_events, func.coalesce(dealers.c.consent_head, NOTHING_BEFORE), dealers.c.consent_seal
).where(dealers.c.dealer_id == bindparam("dealer_id"))

# FOR NO KEY UPDATE on PostgreSQL; on SQLite the writer's transaction is the lock.
LOCK_DEALER = READ_END.with_for_update(key_share=True)

ADD_DEALER = text("INSERT INTO dealers (dealer_id) VALUES (:dealer_id) ON CONFLICT (dealer_id) DO NOTHING")

MOVE_END = Prepared(
    update(dealers)
    .where(
        dealers.c.dealer_id == bindparam("in_dealer"),
        dealers.c.consent_events == bindparam("events_before"),
        func.coalesce(dealers.c.consent_head, NOTHING_BEFORE) == bindparam("head_before"),
    )
    .values(consent_events=bindparam("events"), consent_head=bindparam("head"), consent_seal=bindparam("seal"))
)

ADD_EVENT = Prepared(insert(consent_events))


def lock_dealer(connection: Connection, dealer_id: str) -> None:
    """Holds back every other lead of this dealer until the transaction ends, in every process."""
    found = connection.execute(LOCK_DEALER, {"dealer_id": dealer_id}).one_or_none()
    if found is None:
        connection.execute(ADD_DEALER, {"dealer_id": dealer_id})
        found = connection.execute(LOCK_DEALER, {"dealer_id": dealer_id}).one()
    connection.info[_remembered(dealer_id)] = _kept(*found)


def append(
    connection: Connection, vault: Vault, dealer_id: str, event: Mapping[str, Any], body: bytes | None = None
) -> int:
    """Adds an event to the dealer's chain and returns its number. The dealer is locked.

    `event` has the clear columns but number and hashes; `body`, with a salt in it, is sealed and committed to. A chain
    whose end is not sound grows on, for no customer's consent is turned away, but its seal stays as it is: that
    somebody tampered with it goes on showing.
    """
    # The end as the lock showed it. A savepoint that was rolled back since then makes it a wrong guess, which MOVE_END
    # finds out.
    kept: KeptEnd = connection.info[_remembered(dealer_id)]
    while True:
        number = kept.end.events + 1
        row = {
            **event,
            "dealer_id": dealer_id,
            "number": number,
            "commitment": commitment(body),
            "body": None if body is None else vault.seal(body, *body_context(dealer_id, number)),
        }
        row["hash"] = event_hash(row, kept.end.head)
        end = ChainEnd(number, row["hash"])
        moved = KeptEnd(end, seal_end(vault, dealer_id, end) if end_is_sound(vault, dealer_id, kept) else kept.seal)
        before = {"in_dealer": dealer_id, "events_before": kept.end.events, "head_before": kept.end.head}
        after = {"events": end.events, "head": end.head, "seal": moved.seal}
        if MOVE_END.move(connection, dealer_id, before, after):
            break
        kept = _kept(*connection.execute(READ_END, {"dealer_id": dealer_id}).one())
    ADD_EVENT.add(connection, row)
    connection.info[_remembered(dealer_id)] = moved
    return number


def chain_end_of(connection: Connection, dealer_id: str) -> KeptEnd | None:
    """The chain's end as the dealer's row has it; None for a dealer without a row."""
    found = connection.execute(READ_END, {"dealer_id": dealer_id}).one_or_none()
    return None if found is None else _kept(*found)


def end_is_sound(vault: Vault, dealer_id: str, kept: KeptEnd) -> bool:
    """Whether a chain's end is the one that was sealed."""
    if kept.seal is None:
        return kept.end == ChainEnd(0, NOTHING_BEFORE)
    try:
        return vault.verify_mac(kept.seal, _sealed(kept.end), *_end_context(dealer_id))
    except (UnknownKey, BrokenSeal):
        return False


def commitment(body: bytes | None) -> bytes:
    """What the chain holds of a body. It begins with a random salt, so that nobody can guess at the rest."""
    return b"" if body is None else sha256(body).digest()


def body_context(dealer_id: str, number: int) -> tuple[str, ...]:
    """What the seal of a body is bound to."""
    return "consent_events", "body", dealer_id, str(number)


def event_hash(row: Mapping[str, Any], before: bytes) -> bytes:
    """The hash of an event (its columns) after the one with the hash `before`.

    A change of what is covered needs a migration that writes every chain anew.
    """
    covered = (
        "consent event 2",
        row["dealer_id"],
        row["number"],
        row["lead_id"],
        row["kind"],
        *(_instant(row[name]) for name in ("at", "granted_at", "expires_at")),
        row["channels"],
        as_kept(row["purpose"]),
        row["commitment"],
        before,
    )
    return sha256(msgspec.json.encode(covered)).digest()


def _instant(time: datetime | int | None) -> int | None:
    """Microseconds since 1970, as the column has it."""
    return microseconds(time) if isinstance(time, datetime) else time


def seal_end(vault: Vault, dealer_id: str, end: ChainEnd) -> bytes:
    """The keyed seal of a chain's end."""
    return vault.mac(_sealed(end), *_end_context(dealer_id))


def _sealed(end: ChainEnd) -> bytes:
    return msgspec.json.encode((end.events, end.head))


def _end_context(dealer_id: str) -> tuple[str, ...]:
    return "dealers", "consent_seal", dealer_id


def _kept(events: int, head: bytes, seal: bytes | None) -> KeptEnd:
    return KeptEnd(ChainEnd(events, head), seal)


def _remembered(dealer_id: str) -> tuple[str, str]:
    return "end of the consent chain", dealer_id
