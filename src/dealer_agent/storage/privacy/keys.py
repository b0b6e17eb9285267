"""Decides which keys encrypt a dealer's customer data, and checks them before data is read or written."""

import hmac
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from typing import Literal, NamedTuple

from sqlalchemy import bindparam, delete, insert, select, update

from dealer_agent.encryption.errors import DecryptionFailed, InvalidKeys, UnknownKey
from dealer_agent.encryption.keyring import PERMANENT
from dealer_agent.storage.errors import KeyMissing, WrongKey
from dealer_agent.storage.leads.prepared_statements import Prepared
from dealer_agent.storage.privacy.event_chain import chain_end, key_of_another_process
from dealer_agent.storage.schema import vault_key_uses, vault_keys
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.transaction import Transaction

PROOF = b"customer data of this dealer is sealed with this key"

KeyState = Literal["next", "active", "retired", "unused"]
"""`next`: every process has the key, and nothing is encrypted with it yet. `active`: it encrypts. `retired`: it only
decrypts values that are left. `unused`: no value is left; the key may be destroyed and never encrypts again."""

READ_PROOFS = Prepared(select(vault_keys.c.key_id, vault_keys.c.proof).where(of_dealer(vault_keys)))

_USES = of_dealer(vault_key_uses)

READ_ACTIVE = Prepared(select(vault_key_uses.c.key_id).where(_USES, vault_key_uses.c.state == "active"))

READ_USES = (
    select(vault_key_uses.c.key_id, vault_key_uses.c.state, vault_key_uses.c.since, vault_key_uses.c.lacked_by)
    .where(_USES)
    .order_by(vault_key_uses.c.since, vault_key_uses.c.key_id)
)

ADD_PROOF = upsert(vault_keys, "NOTHING")

# A retired key becomes active again only if the operator changes the keys back (`retire_others`).
START_USE = upsert(
    vault_key_uses,
    "UPDATE SET state = 'active', since = excluded.since, lacked_by = NULL WHERE vault_key_uses.state = 'next'",
)

TAKE_BACK = (
    update(vault_key_uses)
    .where(_USES, vault_key_uses.c.key_id == bindparam("of_key"), vault_key_uses.c.state == "retired")
    .values(state="active")
)

RETIRE_OTHERS = (
    update(vault_key_uses)
    .where(_USES, vault_key_uses.c.key_id != bindparam("of_key"), vault_key_uses.c.state == "active")
    .values(state="retired", since=bindparam("at"))
)

DELETE_NEXT = delete(vault_key_uses).where(_USES, vault_key_uses.c.state == "next")

ADD_USE = insert(vault_key_uses)

SET_MISSING_ON = (
    update(vault_key_uses)
    .where(_USES, vault_key_uses.c.key_id == bindparam("of_key"), vault_key_uses.c.state == "next")
    .values(lacked_by=bindparam("machine"))
)


class KeyUse(NamedTuple):
    """The use of a key, since when, and the machine that does not have it. Only the next key may be missing."""

    state: KeyState
    since: datetime
    missing_on: str | None


def key_uses(tx: Transaction) -> dict[str, KeyUse]:
    """All keys that ever encrypted the dealer's data, and the next one. The key with the newest state comes last.

    Needs no key.
    """
    return {row.key_id: KeyUse(row.state, row.since, row.lacked_by) for row in tx.execute(READ_USES)}


def check_keys(tx: Transaction) -> bool:
    """Checks the keys of the cipher. Returns whether the active key and the permanent secret are recorded.

    Raises KeyMissing if the cipher lacks a key that encrypts data of the dealer, and WrongKey if it has another key
    with that id.
    """
    proofs = dict(map(tuple, READ_PROOFS.read(tx, {})))
    for key_id, proof in proofs.items():
        _check_proof(tx, key_id, proof)
    keyring = tx.unchecked_cipher.keyring
    return keyring.active in proofs and (keyring.permanent is None or PERMANENT in proofs)


def check_owner(tx: Transaction) -> bool:
    """Checks that this folder is the one that uses the dealer's id on this database. Returns whether keys are recorded.

    One recorded key, or the permanent secret, is proof enough: an old copy of the keys may import. Without recorded
    keys any folder may, because nothing distinguishes them. So may a folder without keys on SQLite, whose file is
    normally in the folder: a lost key does not stop imports. Raises KeyMissing for a folder without keys on PostgreSQL,
    and WrongKey.
    """
    proofs = READ_PROOFS.read(tx, {})
    if proofs and tx.given_cipher is None:
        if tx.connection.dialect.name == "sqlite":
            return True
        raise KeyMissing(
            f"the dealer {tx.dealer_id} has keys on this database, and there is no key here: put its dealer-agent.keys "
            "beside dealer.toml, or set DEALER_AGENT_KEYS; if this is another dealer, give it another id in dealer.toml"
        )
    if proofs and not any(_has_key(tx, key_id, proof) for key_id, proof in proofs):
        raise WrongKey(
            f"another folder uses the id {tx.dealer_id} on this database, with other keys: give this dealer another id "
            "in dealer.toml, or another database; if it is the same dealer, put the right dealer-agent.keys back"
        )
    return bool(proofs)


def claim_dealer(tx: Transaction) -> None:
    """`check_owner`. The first folder with keys records them. Call it before a write of stock or tokens."""
    if not check_owner(tx) and tx.given_cipher is not None:
        start_use(tx)


def _check_proof(tx: Transaction, key_id: str, proof: bytes) -> None:
    """Raises KeyMissing if the cipher does not have a recorded key, and WrongKey if it has another with that id."""
    cipher = tx.unchecked_cipher
    if key_id == PERMANENT:
        expected = None if cipher.keyring.permanent is None else cipher.permanent_key(_permanent_purpose(tx))
        if expected is None or not hmac.compare_digest(expected, proof):
            raise WrongKey(
                "the permanent secret is not the one that this database was used with: put the right one back from "
                "your backup, into dealer-agent.keys or DEALER_AGENT_KEYS"
            )
        return
    try:
        cipher.decrypt(proof, *_proof_context(tx, key_id))
    except UnknownKey as problem:
        raise KeyMissing(str(problem)) from None
    except DecryptionFailed:
        raise WrongKey(
            f"the key {key_id} is not the one that encrypts customer data: put the right one back from your "
            "backup, into dealer-agent.keys or DEALER_AGENT_KEYS"
        ) from None


def _has_key(tx: Transaction, key_id: str, proof: bytes) -> bool:
    """Whether the cipher has the recorded key that made `proof`, and not another one with its id."""
    try:
        _check_proof(tx, key_id, proof)
    except (KeyMissing, WrongKey):
        return False
    return True


def check_keys_to_encrypt(tx: Transaction) -> None:
    """Checks the keys of the cipher, and that its active key may encrypt. The caller holds the dealer's lock."""
    check_keys(tx)
    prepare_to_encrypt(tx)


def start_use(tx: Transaction) -> None:
    """Records that the active key is used from now on, with a proof of it and of the permanent secret.

    A retired or destroyed key stays retired or destroyed. It gets no proof, because then every process would need it.
    """
    keyring = tx.unchecked_cipher.keyring
    tx.execute(START_USE, {"key_id": keyring.active, "state": "active", "since": tx.now})
    if keyring.active in active_keys(tx):
        proofs = {keyring.active: tx.unchecked_cipher.encrypt(PROOF, *_proof_context(tx, keyring.active))}
        if keyring.permanent is not None:
            proofs[PERMANENT] = tx.unchecked_cipher.permanent_key(_permanent_purpose(tx))
        for name, proof in proofs.items():
            tx.execute(ADD_PROOF, {"key_id": name, "proof": proof})


def record_next_key(tx: Transaction, key_id: str) -> None:
    """Records the next key. It replaces another next key, with which nothing is encrypted."""
    tx.execute(DELETE_NEXT)
    tx.execute(ADD_USE, {"key_id": key_id, "state": "next", "since": tx.now})


def record_missing_key(tx: Transaction, key_id: str, machine: str | None) -> None:
    """Records the machine that does not have the next key, or None. Meanwhile nothing is encrypted with that key."""
    tx.execute(SET_MISSING_ON, {"of_key": key_id, "machine": machine})


def prepare_to_encrypt(tx: Transaction) -> None:
    """Makes sure that the cipher's active key may encrypt the dealer's data. The caller holds the dealer's lock.

    Another process may have retired the key since this process last checked (`retire_others`). The key may be
    destroyed, so nothing may be encrypted with it. Then the source of the keys names the active key. Raises KeyMissing
    if it does not name one.

    It also makes sure that the cipher has the keys that other processes use. Otherwise a search would not find what
    they stored under a newer key, and a known customer would look like a new one.
    """
    cipher = tx.unchecked_cipher
    recorded = active_keys(tx)
    retired = cipher.keyring.active
    if retired in recorded:
        if not recorded.issubset(cipher.keyring.ids):
            with suppress(InvalidKeys):  # The refresher reports it. The keys at hand continue to work.
                cipher.refresh()
            _require_key_of_end(tx, recorded)
        return
    if recorded:
        try:
            cipher.refresh()
        except InvalidKeys as problem:
            raise KeyMissing(f"the key {retired} was retired, and the new one cannot be read: {problem}") from None
        if cipher.keyring.active in recorded:
            return
        if not cipher.follows_its_source:
            raise KeyMissing(
                f"the key {retired} was retired by dealer-agent keys rotate: restart this process with the keys that "
                "DEALER_AGENT_KEYS holds now"
            )
    start_use(tx)
    _require_active(tx)


def retire_others(tx: Transaction) -> None:
    """Retires all keys but the active one: they encrypt nothing from now on.

    The caller holds the dealer's lock. Raises KeyMissing for an active key that was destroyed.
    """
    chosen = {"of_key": tx.unchecked_cipher.keyring.active}
    tx.execute(TAKE_BACK, chosen)
    start_use(tx)
    _require_active(tx)
    tx.execute(RETIRE_OTHERS, chosen | {"at": tx.now})


def active_keys(tx: Transaction) -> set[str]:
    """The keys that are recorded as active."""
    return {key_id for (key_id,) in READ_ACTIVE.read(tx, {})}


def _require_active(tx: Transaction) -> None:
    """Raises KeyMissing if this process would encrypt with an old key."""
    active = tx.unchecked_cipher.keyring.active
    if active not in active_keys(tx):
        raise KeyMissing(
            f"the key {active} is an old one, which encrypts nothing any more: put the newest copy of "
            "dealer-agent.keys back, or put the newest key of DEALER_AGENT_KEYS in front"
        )


def _require_key_of_end(tx: Transaction, recorded: Collection[str]) -> None:
    """Raises KeyMissing if the cipher lacks the recorded key of the MAC at the end of the chain of consents.

    Without that key the MAC would not follow the next event. Then the chain looks as if somebody had changed it.
    """
    cipher = tx.unchecked_cipher
    mac = chain_end(tx).mac
    with suppress(DecryptionFailed):
        if mac is not None and (key_id := cipher.key_of(mac)) not in cipher.keyring.ids and key_id in recorded:
            raise KeyMissing(key_of_another_process(key_id))


def _proof_context(tx: Transaction, key_id: str) -> tuple[str, ...]:
    return "vault_keys", "proof", tx.dealer_id, key_id


def _permanent_purpose(tx: Transaction) -> str:
    # Stored proofs are made with this text. It never changes.
    return f"proof of the lasting secret: {tx.dealer_id}"
