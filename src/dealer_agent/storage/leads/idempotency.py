"""Stores the responses for idempotency keys (docs/protocol.md#idempotency)."""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

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


class StoredResponse(Struct, array_like=True):
    """What is stored, encrypted, for an idempotency key: the response, and the hash of the payload that it answered.

    `key_hash` is the unkeyed hash of the idempotency key and its scope.
    """

    payload_hash: bytes
    reply: bytes
    key_hash: bytes


FINGERPRINT, REPLY = idempotency.c.fingerprint, idempotency.c.reply

FIND_RESPONSE = Prepared(
    select(idempotency.c.reply).where(
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
        for (encrypted,) in FIND_RESPONSE.read(tx, {"fingerprint": fingerprint, "since": since}, [fingerprint]):
            response = decrypted_response(tx, encrypted)
            if response.key_hash != key_hash:
                raise DecryptionFailed("idempotency", "reply", tx.dealer_id)
            return response
    return None


def record_idempotency(
    tx: Transaction, scope: str, key: str, payload_hash: bytes, reply: bytes, lead_id: str | None
) -> None:
    """Stores the response for a key. Raises AlreadyStored if the key has one that is younger than 30 days.

    `scope` identifies the sender (`PreparedLead.key_scope`). Erasing the lead `lead_id` deletes the response too.
    """
    response = StoredResponse(payload_hash, reply, _key_hash(scope, key))
    row = response_row(tx, response, tx.now, lead_id) | {"since": tx.now - IDEMPOTENCY_KEPT}
    STORE_RESPONSE.add(tx, row, keys=[row["fingerprint"]], conflict="this idempotency key has an answer")


def delete_idempotency(tx: Transaction, scope: str, key: str) -> None:
    """Deletes the response that is stored for a key."""
    for fingerprint in fingerprints_of(tx, scope, key):
        DELETE_RESPONSE.write(tx, {"of_key": fingerprint})


def response_row(tx: Transaction, response: StoredResponse, at: datetime, lead_id: str | None) -> dict[str, Any]:
    """A row of `idempotency`."""
    # Encrypted before it is hashed, like a contact.
    encrypted = tx.encrypt(msgspec.msgpack.encode(response), REPLY)
    return {
        "fingerprint": tx.hash(response.key_hash.hex(), FINGERPRINT),
        "at": at,
        "lead_id": lead_id,
        "reply": encrypted,
    }


def decrypted_response(tx: Transaction, encrypted: bytes) -> StoredResponse:
    """Decrypts a value of the column `reply`. Its encryption context names no row, because it has `key_hash`."""
    return msgspec.msgpack.decode(tx.decrypt(encrypted, REPLY), type=StoredResponse)


def _key_hash(scope: str, key: str) -> bytes:
    # JSON separates the two: ("ab", "c") and ("a", "bc") differ.
    return sha256(msgspec.json.encode((scope, key))).digest()
