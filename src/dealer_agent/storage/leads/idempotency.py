"""Stores the responses for idempotency keys (docs/protocol.md#idempotency)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import bindparam, delete, select

from dealer_agent.encryption.errors import DecryptionFailed
from dealer_agent.storage.columns import UtcTime
from dealer_agent.storage.leads.prepared_statements import Prepared
from dealer_agent.storage.schema import idempotency
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.transaction import Transaction

IDEMPOTENCY_KEPT = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRecord:
    """The response to store for an idempotency key. `scope` identifies its sender (`PreparedLead.key_scope`).

    `reply` are the bytes of the response. Erasing the lead `lead_id` deletes them too.
    """

    scope: str
    key: str
    payload_hash: bytes
    reply: bytes
    at: datetime
    lead_id: str | None = None


class StoredResponse(NamedTuple):
    """The response stored for an idempotency key, and the hash of the payload that it answered."""

    payload_hash: bytes
    reply: bytes
    at: datetime


class ResponseContent(Struct, array_like=True):
    """The encrypted part of a stored response. `key_hash` is the unkeyed hash of the idempotency key
    and its scope.
    """

    payload_hash: bytes
    reply: bytes
    key_hash: bytes


FINGERPRINT, REPLY = idempotency.c.fingerprint, idempotency.c.reply

FIND_RESPONSE = Prepared(
    select(idempotency.c.reply, idempotency.c.at).where(
        of_dealer(idempotency, fingerprint="fingerprint"),
        idempotency.c.at >= bindparam("since"),
    )
)

# Writes nothing if the key has a response that is still valid.
STORE_RESPONSE = Prepared(
    upsert(
        idempotency,
        "UPDATE SET at = excluded.at, lead_id = excluded.lead_id, reply = excluded.reply WHERE idempotency.at < :since",
        bindparam("since", type_=UtcTime),
    )
)

DELETE_RESPONSE = Prepared(delete(idempotency).where(of_dealer(idempotency, fingerprint="of_key")))


def fingerprints_of(tx: Transaction, scope: str, key: str) -> list[bytes]:
    """The fingerprint of an idempotency key under each key of the keyring."""
    return tx.hashes(_key_hash(scope, key).hex(), FINGERPRINT)


def find_idempotent(tx: Transaction, scope: str, key: str) -> StoredResponse | None:
    """The response that was stored for this idempotency key within the last 30 days."""
    key_hash = _key_hash(scope, key)
    since = tx.now - IDEMPOTENCY_KEPT
    for fingerprint in tx.hashes(key_hash.hex(), FINGERPRINT):
        for encrypted, at in FIND_RESPONSE.read(tx, {"fingerprint": fingerprint, "since": since}, [fingerprint]):
            content = decrypted_response(tx, encrypted)
            if content.key_hash != key_hash:
                raise DecryptionFailed("idempotency", "reply", tx.dealer_id)
            return StoredResponse(content.payload_hash, content.reply, at)
    return None


def record_idempotency(tx: Transaction, record: IdempotencyRecord) -> None:
    """Stores the response for a key. Raises AlreadyStored if the key has one that is younger than 30 days."""
    content = ResponseContent(record.payload_hash, record.reply, _key_hash(record.scope, record.key))
    row = response_row(tx, content, record.at, record.lead_id) | {"since": record.at - IDEMPOTENCY_KEPT}
    STORE_RESPONSE.add(tx, row, keys=[row["fingerprint"]], conflict="this idempotency key has an answer")


def replace_idempotency(tx: Transaction, record: IdempotencyRecord) -> None:
    """Replaces the response that is stored for a key."""
    for fingerprint in fingerprints_of(tx, record.scope, record.key):
        DELETE_RESPONSE.write(tx, {"of_key": fingerprint})
    record_idempotency(tx, record)


def response_row(tx: Transaction, content: ResponseContent, at: datetime, lead_id: str | None) -> dict[str, Any]:
    """A row of `idempotency`."""
    # Encrypted before it is hashed, like a contact.
    encrypted = tx.encrypt(msgspec.msgpack.encode(content), REPLY)
    return {
        "fingerprint": tx.hash(content.key_hash.hex(), FINGERPRINT),
        "at": at,
        "lead_id": lead_id,
        "reply": encrypted,
    }


def decrypted_response(tx: Transaction, encrypted: bytes) -> ResponseContent:
    """Decrypts a value of the column `reply`. Its encryption context names no row, because it has `key_hash`."""
    return msgspec.msgpack.decode(tx.decrypt(encrypted, REPLY), type=ResponseContent)


def _key_hash(scope: str, key: str) -> bytes:
    # JSON separates the two: ("ab", "c") and ("a", "bc") differ.
    return sha256(msgspec.json.encode((scope, key))).digest()
