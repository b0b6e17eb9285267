"""First answers to idempotency keys, as statements on the caller's transaction (contract, part 10)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, bindparam, delete, select, text

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.encryption.errors import DecryptionFailed
from dealer_agent.storage.prepared_statements import Prepared
from dealer_agent.storage.schema import UtcTime, idempotency

IDEMPOTENCY_KEPT = timedelta(days=30)
FINGERPRINT_CONTEXT = ("idempotency", "fingerprint")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRecord:
    """The first answer to a key. `scope` is the key's owner (`leads.intake.key_scope`); `reply` is the answer's bytes.

    Erasing the lead `lead_id` drops the answer too.
    """

    scope: str
    key: str
    payload_hash: bytes
    reply: bytes
    at: datetime
    lead_id: str | None = None


class StoredReply(NamedTuple):
    """The first answer to an idempotency key, and the hash of the payload that it answered."""

    payload_hash: bytes
    reply: bytes
    at: datetime


class KeptReply(Struct, array_like=True):
    """The sealed part of a first answer; `known_as` is the unkeyed hash of the key and its scope."""

    payload_hash: bytes
    reply: bytes
    known_as: bytes


FIND_REPLY = Prepared(
    select(idempotency.c.reply, idempotency.c.at).where(
        idempotency.c.dealer_id == bindparam("dealer_id"),
        idempotency.c.fingerprint == bindparam("fingerprint"),
        idempotency.c.at >= bindparam("since"),
    )
)

# Writes nothing where the key has an answer that is still valid.
KEEP_REPLY = Prepared(
    text("""
        INSERT INTO idempotency (dealer_id, fingerprint, at, lead_id, reply)
        VALUES (:dealer_id, :fingerprint, :at, :lead_id, :reply)
        ON CONFLICT (dealer_id, fingerprint)
        DO UPDATE SET at = excluded.at, lead_id = excluded.lead_id, reply = excluded.reply
        WHERE idempotency.at < :since
    """).bindparams(bindparam("at", type_=UtcTime), bindparam("since", type_=UtcTime)),
    idempotency,
)

DROP_REPLY = Prepared(
    delete(idempotency).where(
        idempotency.c.dealer_id == bindparam("dealer_id"), idempotency.c.fingerprint == bindparam("fingerprint")
    )
)


def find_idempotent(
    connection: Connection, cipher: Cipher, dealer_id: str, scope: str, key: str, now: datetime
) -> StoredReply | None:
    """The first answer to this key, for 30 days."""
    known_as = _known_as(scope, key)
    sought = {"dealer_id": dealer_id, "since": now - IDEMPOTENCY_KEPT}
    for fingerprint in cipher.hashes(known_as.hex(), *FINGERPRINT_CONTEXT, dealer_id):
        for sealed, at in FIND_REPLY.read(connection, sought | {"fingerprint": fingerprint}, [fingerprint]):
            kept = open_reply(cipher, dealer_id, sealed)
            if kept.known_as != known_as:
                raise DecryptionFailed(*reply_context(dealer_id))
            return StoredReply(kept.payload_hash, kept.reply, at)
    return None


def record_idempotency(connection: Connection, cipher: Cipher, dealer_id: str, record: IdempotencyRecord) -> None:
    """Keeps the first answer to a key. Raises AlreadyStored when the key has one that is younger than 30 days."""
    answer = KeptReply(record.payload_hash, record.reply, _known_as(record.scope, record.key))
    kept = reply_row(cipher, dealer_id, answer, record.at, record.lead_id) | {"since": record.at - IDEMPOTENCY_KEPT}
    KEEP_REPLY.add(connection, kept, key=kept["fingerprint"], conflict="this idempotency key has an answer")


def replace_idempotency(connection: Connection, cipher: Cipher, dealer_id: str, record: IdempotencyRecord) -> None:
    """Keeps another answer to a key than the one that is kept."""
    for fingerprint in cipher.hashes(_known_as(record.scope, record.key).hex(), *FINGERPRINT_CONTEXT, dealer_id):
        DROP_REPLY.write(connection, {"dealer_id": dealer_id, "fingerprint": fingerprint})
    record_idempotency(connection, cipher, dealer_id, record)


def reply_row(cipher: Cipher, dealer_id: str, answer: KeptReply, at: datetime, lead_id: str | None) -> dict[str, Any]:
    """A row of `idempotency`."""
    # Sealed before it is hashed, as a contact is.
    sealed = cipher.seal(msgspec.msgpack.encode(answer), *reply_context(dealer_id))
    return {
        "dealer_id": dealer_id,
        "fingerprint": cipher.hash(answer.known_as.hex(), *FINGERPRINT_CONTEXT, dealer_id),
        "at": at,
        "lead_id": lead_id,
        "reply": sealed,
    }


def open_reply(cipher: Cipher, dealer_id: str, sealed: bytes) -> KeptReply:
    """What is in the sealed column of `idempotency`."""
    return msgspec.msgpack.decode(cipher.open(sealed, *reply_context(dealer_id)), type=KeptReply)


def reply_context(dealer_id: str) -> tuple[str, ...]:
    """What the seal of a first answer is bound to; the answer itself says which key it belongs to."""
    return "idempotency", "reply", dealer_id


def _known_as(scope: str, key: str) -> bytes:
    # JSON keeps the two apart: ("ab", "c") and ("a", "bc") differ.
    return sha256(msgspec.json.encode((scope, key))).digest()
