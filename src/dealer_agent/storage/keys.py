"""Which keys customer data is sealed with, and how it is sealed with another one, as statements on a transaction.

A process that seals values anew holds the dealer's lock: nothing is emptied or written between reading a value and
sealing it.
"""

import hmac
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import Column, Connection, Row, bindparam, delete, func, insert, select, text, update

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.encryption.errors import DecryptionFailed, InvalidKeys, UnknownKey
from dealer_agent.encryption.keyring import LASTING
from dealer_agent.storage.contact_points import contact_context
from dealer_agent.storage.errors import KeyMissing, WrongKey
from dealer_agent.storage.event_chain import CHAINS, Chain, chain_end_of, end_is_sound, seal_end
from dealer_agent.storage.idempotency import open_reply, reply_row
from dealer_agent.storage.leads import ADD_CONTACT, contact_row
from dealer_agent.storage.prepared_statements import Prepared
from dealer_agent.storage.schema import (
    UtcTime,
    appointments,
    consent_events,
    consent_proofs,
    idempotency,
    lead_contacts,
    lead_events,
    leads,
    outbox,
    vault_key_uses,
    vault_keys,
)

PROOF = b"customer data of this dealer is sealed with this key"

KeyState = Literal["next", "active", "retired", "unused"]
"""`next`: every process has the key, and nothing is sealed with it yet. `active`: seals. `retired`: seals nothing any
more, values are left. `unused`: no value is left; the key may be destroyed and never seals again."""

READ_PROOFS = Prepared(
    select(vault_keys.c.key_id, vault_keys.c.proof).where(vault_keys.c.dealer_id == bindparam("dealer_id"))
)

_MINE = vault_key_uses.c.dealer_id == bindparam("in_dealer")

READ_ACTIVE = Prepared(select(vault_key_uses.c.key_id).where(_MINE, vault_key_uses.c.state == "active"))

READ_USES = (
    select(vault_key_uses.c.key_id, vault_key_uses.c.state, vault_key_uses.c.since, vault_key_uses.c.lacked_by)
    .where(_MINE)
    .order_by(vault_key_uses.c.since, vault_key_uses.c.key_id)
)

ADD_PROOF = text("""
    INSERT INTO vault_keys (dealer_id, key_id, proof) VALUES (:dealer_id, :key_id, :proof) ON CONFLICT DO NOTHING
""")

DROP_OTHER_PROOFS = delete(vault_keys).where(
    vault_keys.c.dealer_id == bindparam("in_dealer"), vault_keys.c.key_id.not_in(bindparam("kept", expanding=True))
)

# A key that was retired becomes active again only by the operator's own change of keys (`retire_others`).
START_USE = text("""
    INSERT INTO vault_key_uses (dealer_id, key_id, state, since) VALUES (:dealer_id, :key_id, 'active', :at)
    ON CONFLICT (dealer_id, key_id) DO UPDATE SET state = 'active', since = :at, lacked_by = NULL
    WHERE vault_key_uses.state = 'next'
""").bindparams(bindparam("at", type_=UtcTime))

TAKE_BACK = (
    update(vault_key_uses)
    .where(_MINE, vault_key_uses.c.key_id == bindparam("of_key"), vault_key_uses.c.state == "retired")
    .values(state="active")
)

RETIRE_OTHERS = (
    update(vault_key_uses)
    .where(_MINE, vault_key_uses.c.key_id != bindparam("of_key"), vault_key_uses.c.state == "active")
    .values(state="retired", since=bindparam("at"))
)

END_USES = (
    update(vault_key_uses)
    .where(
        _MINE, vault_key_uses.c.state == "retired", vault_key_uses.c.key_id.not_in(bindparam("kept", expanding=True))
    )
    .values(state="unused", since=bindparam("at"))
)

DROP_OTHER_USES = delete(vault_key_uses).where(_MINE, vault_key_uses.c.key_id.not_in(bindparam("kept", expanding=True)))

DROP_NEXT = delete(vault_key_uses).where(_MINE, vault_key_uses.c.state == "next")

ADD_NEXT = insert(vault_key_uses)

NOTE_LACKING = (
    update(vault_key_uses)
    .where(_MINE, vault_key_uses.c.key_id == bindparam("of_key"), vault_key_uses.c.state == "next")
    .values(lacked_by=bindparam("machine"))
)


@dataclass(frozen=True, slots=True)
class _Sealed:
    """A sealed column and the column that names its row: its seal is bound to both."""

    column: Column[Any]
    row_id: Column[Any]

    def context(self, dealer_id: str, row_id: Any) -> tuple[str, ...]:
        return self.column.table.name, self.column.name, dealer_id, str(row_id)


SEALED = (
    _Sealed(leads.c.customer, leads.c.lead_id),
    _Sealed(leads.c.payload, leads.c.lead_id),
    _Sealed(leads.c.source_agent, leads.c.lead_id),
    _Sealed(lead_events.c.changes, lead_events.c.event_id),
    _Sealed(consent_events.c.body, consent_events.c.number),
    _Sealed(consent_proofs.c.body, consent_proofs.c.number),
    _Sealed(appointments.c.request, appointments.c.appointment_id),
    _Sealed(outbox.c.document, outbox.c.delivery_id),
)
"""All but the rows that a keyed hash identifies."""

STEPS = (
    *SEALED,
    _Sealed(idempotency.c.reply, idempotency.c.fingerprint),
    _Sealed(lead_contacts.c.contact, lead_contacts.c.contact_hash),
)
"""The columns that a change of keys goes through; the ends of the chains come last."""

CONTACT_KEY = tuple(column.name for column in lead_contacts.primary_key)
DROP_CONTACT = delete(lead_contacts).where(*(lead_contacts.c[name] == bindparam(f"the_{name}") for name in CONTACT_KEY))

DROP_REPLY = delete(idempotency).where(
    idempotency.c.dealer_id == bindparam("in_dealer"), idempotency.c.fingerprint == bindparam("of_key")
)

# The same key may have an answer under the active key already: that one is newer.
ADD_REPLY = text("""
    INSERT INTO idempotency (dealer_id, fingerprint, at, lead_id, reply)
    VALUES (:dealer_id, :fingerprint, :at, :lead_id, :reply)
    ON CONFLICT DO NOTHING
""").bindparams(bindparam("at", type_=UtcTime))


class KeyUse(NamedTuple):
    """The use of a key, since when, and the machine that does not have it; only the next key may be missing."""

    state: KeyState
    since: datetime
    lacked_by: str | None


def key_uses(connection: Connection, dealer_id: str) -> dict[str, KeyUse]:
    """All keys that ever sealed the dealer's data, and the next one; the key with the newest state comes last."""
    rows = connection.execute(READ_USES, {"in_dealer": dealer_id})
    return {row.key_id: KeyUse(row.state, row.since, row.lacked_by) for row in rows}


def check_keys(connection: Connection, cipher: Cipher, dealer_id: str) -> bool:
    """Whether the active key and the lasting secret are noted (`note_active_key`).

    Call it before customer data is read or written. Raises KeyMissing when a key is not here that the dealer's data is
    sealed with, and WrongKey when one of that name is another key.
    """
    noted = set()
    for key_id, proof in READ_PROOFS.read(connection, {"dealer_id": dealer_id}):
        noted.add(key_id)
        if key_id == LASTING:
            _check_lasting_secret(cipher, dealer_id, proof)
            continue
        try:
            cipher.open(proof, *_proof_context(dealer_id, key_id))
        except UnknownKey as problem:
            raise KeyMissing(str(problem)) from None
        except DecryptionFailed:
            raise WrongKey(
                f"the key {key_id} is not the one that customer data is sealed with: put the right one back from your "
                "backup, into dealer-agent.keys or DEALER_AGENT_KEYS"
            ) from None
    return cipher.keyring.active in noted and (cipher.keyring.lasting is None or LASTING in noted)


def note_active_key(connection: Connection, cipher: Cipher, dealer_id: str) -> None:
    """Stores a proof of the active key, with which data of the dealer is sealed from now on, and of the lasting secret.

    Migrations call it: it writes nothing but proofs.
    """
    key_id = cipher.keyring.active
    proofs = {key_id: cipher.seal(PROOF, *_proof_context(dealer_id, key_id))}
    if cipher.keyring.lasting is not None:
        proofs[LASTING] = cipher.lasting_key(_lasting_purpose(dealer_id))
    for name, proof in proofs.items():
        connection.execute(ADD_PROOF, {"dealer_id": dealer_id, "key_id": name, "proof": proof})


def start_use(connection: Connection, cipher: Cipher, dealer_id: str, at: datetime) -> None:
    """Notes that the active key is used from `at` on.

    A key that was retired or destroyed stays so, and gets no proof: every process would need it again.
    """
    connection.execute(START_USE, {"dealer_id": dealer_id, "key_id": cipher.keyring.active, "at": at})
    if cipher.keyring.active in _active(connection, dealer_id):
        note_active_key(connection, cipher, dealer_id)


def note_next_key(connection: Connection, dealer_id: str, key_id: str, at: datetime) -> None:
    """Notes the next key. It replaces another next key, with which nothing is sealed."""
    connection.execute(DROP_NEXT, {"in_dealer": dealer_id})
    connection.execute(ADD_NEXT, {"dealer_id": dealer_id, "key_id": key_id, "state": "next", "since": at})


def note_lacking(connection: Connection, dealer_id: str, key_id: str, machine: str | None) -> None:
    """Notes which machine does not have the next key, or None. Until then nothing is sealed with that key."""
    connection.execute(NOTE_LACKING, {"in_dealer": dealer_id, "of_key": key_id, "machine": machine})


def ready_to_seal(connection: Connection, cipher: Cipher, dealer_id: str) -> None:
    """Makes sure that the dealer's data may be sealed with the active key. The dealer is locked.

    Another process may have retired the key since this one last looked (`retire_others`): the key may be destroyed, so
    nothing is sealed with it any more. Then the keys' source says which key is active now. Raises KeyMissing where it
    does not say, or cannot.

    Nothing is looked up either before the keys are here that others use already: what they stored under a newer key
    would not be found, and a known customer would be a stranger.
    """
    noted = _active(connection, dealer_id)
    retired = cipher.keyring.active
    if retired in noted:
        if not noted.issubset(cipher.keyring.ids):
            with suppress(InvalidKeys):  # The refresher reports it; the keys at hand go on working.
                cipher.refresh()
            _require_key_of_end(connection, cipher, dealer_id, noted)
        return
    if noted:
        try:
            cipher.refresh()
        except InvalidKeys as problem:
            raise KeyMissing(f"the key {retired} was retired, and the new one cannot be read: {problem}") from None
        if cipher.keyring.active in noted:
            return
        if not cipher.follows_its_source:
            raise KeyMissing(
                f"the key {retired} was retired by dealer-agent keys rotate: restart this process with the keys that "
                "DEALER_AGENT_KEYS holds now"
            )
    start_use(connection, cipher, dealer_id, datetime.now(UTC))
    _require_active(connection, cipher, dealer_id)


def retire_others(connection: Connection, cipher: Cipher, dealer_id: str, at: datetime) -> None:
    """Retires all keys but the active one: nothing is sealed with them any more. The dealer is locked.

    Raises KeyMissing for an active key that was destroyed.
    """
    chosen = {"in_dealer": dealer_id, "of_key": cipher.keyring.active}
    connection.execute(TAKE_BACK, chosen)
    start_use(connection, cipher, dealer_id, at)
    _require_active(connection, cipher, dealer_id)
    connection.execute(RETIRE_OTHERS, chosen | {"at": at})


def end_unused(connection: Connection, dealer_id: str, used: Collection[str], at: datetime) -> None:
    """Ends the use of the retired keys that nothing is sealed with: they may be destroyed."""
    connection.execute(END_USES, {"in_dealer": dealer_id, "kept": list(used), "at": at})
    active = _active(connection, dealer_id)
    connection.execute(DROP_OTHER_PROOFS, {"in_dealer": dealer_id, "kept": [*used, *active, LASTING]})


def drop_unused_proofs(connection: Connection, dealer_id: str) -> None:
    """Drops the proofs of all keys that nothing is sealed with: losing one of them loses no data. The dealer is locked.

    The proof of the lasting secret goes with the last of them.
    """
    used = list(keys_in_use(connection, dealer_id))
    kept = [*used, LASTING] if used else []
    connection.execute(DROP_OTHER_PROOFS, {"in_dealer": dealer_id, "kept": kept})
    connection.execute(DROP_OTHER_USES, {"in_dealer": dealer_id, "kept": kept})


def _active(connection: Connection, dealer_id: str) -> set[str]:
    return {key_id for (key_id,) in READ_ACTIVE.read(connection, {"in_dealer": dealer_id})}


def _require_active(connection: Connection, cipher: Cipher, dealer_id: str) -> None:
    if cipher.keyring.active not in _active(connection, dealer_id):
        raise KeyMissing(
            f"the key {cipher.keyring.active} is an old one, which seals nothing any more: put the newest copy of "
            "dealer-agent.keys back, or put the newest key of DEALER_AGENT_KEYS in front"
        )


def _require_key_of_end(connection: Connection, cipher: Cipher, dealer_id: str, noted: Collection[str]) -> None:
    """Raises KeyMissing where the end of the chain of consents is sealed with a noted key that is not here.

    Without that key the next event would leave the seal behind. Then the chain looks as if somebody had changed it.
    """
    kept = chain_end_of(connection, dealer_id)
    with suppress(DecryptionFailed):
        if kept is None or kept.seal is None or (key_id := cipher.key_of(kept.seal)) in cipher.keyring.ids:
            return
        if key_id in noted:
            raise KeyMissing(
                f"another process uses the key {key_id}, which is not among the keys here: restart this process with "
                "the keys that DEALER_AGENT_KEYS holds now, or put the newest copy of dealer-agent.keys back"
            )


def _check_lasting_secret(cipher: Cipher, dealer_id: str, proof: bytes) -> None:
    expected = None if cipher.keyring.lasting is None else cipher.lasting_key(_lasting_purpose(dealer_id))
    if expected is None or not hmac.compare_digest(expected, proof):
        raise WrongKey(
            "the lasting secret is not the one that this database was used with: put the right one back from your "
            "backup, into dealer-agent.keys or DEALER_AGENT_KEYS"
        )


def keys_in_use(connection: Connection, dealer_id: str) -> dict[str, int]:
    """The number of the dealer's values that are sealed with each key. Needs no key."""
    used: Counter[str] = Counter()
    for column in (*(sealed.column for sealed in STEPS), *(chain.seal for chain in CHAINS.values())):
        dealer = column.table.c.dealer_id == dealer_id
        # A seal begins with a byte, the length of the key's id in one byte, and the id.
        length = func.substr(column, 2, 1)
        for (size,) in connection.execute(select(length).where(dealer, column.is_not(None)).distinct()).all():
            key_id = func.substr(column, 3, size[0])
            counted = select(key_id, func.count()).where(dealer, length == size).group_by(key_id)
            for found, count in connection.execute(counted):
                used[found.decode("ascii", "replace")] += count
    return dict(used)


@dataclass(slots=True)
class ResealProgress:
    """How far a change of keys has come: the step of `STEPS`, and the row of it from which to look on.

    It only saves time. A process that starts anew finds what is left all the same.
    """

    step: int = 0
    after: Any = None

    @property
    def at_start(self) -> bool:
        """Whether nothing was looked at yet."""
        return self.step == 0 and self.after is None


def find_others(
    connection: Connection, cipher: Cipher, dealer_id: str, limit: int, progress: ResealProgress
) -> list[Any]:
    """The names of up to `limit` rows of one step that are not sealed with the active key; empty at the end.

    It may read whole tables, so it locks nothing. It misses nothing: other keys were retired before
    (`retire_others`), and nothing is sealed with them any more.
    """
    header = _header(cipher)
    while progress.step < len(STEPS):
        sealed = STEPS[progress.step]
        column, row_id = sealed.column, sealed.row_id
        found = (
            select(row_id)
            .where(column.table.c.dealer_id == dealer_id, func.substr(column, 1, len(header)) != header)
            .order_by(row_id)
            .limit(limit)
        )
        if progress.after is not None:
            found = found.where(row_id >= progress.after)
        names = list(connection.execute(found).scalars())
        if names:
            progress.after = names[0]
            return names
        progress.step, progress.after = progress.step + 1, None
    return []


def reseal(
    connection: Connection, cipher: Cipher, dealer_id: str, limit: int, progress: ResealProgress, names: Sequence[Any]
) -> int:
    """Seals these rows of the progress's step (`find_others`) with the active key, up to `limit`; how many they were.

    The dealer is locked. Raises DecryptionFailed for a value that does not open. Names the row, and erasing the lead is
    all that can be done with it.
    """
    header = _header(cipher)
    sealed = STEPS[progress.step]
    column, row_id = sealed.column, sealed.row_id
    found = (
        select(column.table)
        .where(
            column.table.c.dealer_id == dealer_id,
            row_id.in_(names),
            func.substr(column, 1, len(header)) != header,
        )
        .order_by(row_id)
        .limit(limit)
    )
    rows = connection.execute(found).all()
    if column is lead_contacts.c.contact:
        _reseal_contacts(connection, cipher, dealer_id, rows)
    elif column is idempotency.c.reply:
        _reseal_replies(connection, cipher, dealer_id, rows)
    elif rows:
        _reseal_column(connection, cipher, dealer_id, sealed, rows)
    return len(rows)


def reseal_end(connection: Connection, cipher: Cipher, dealer_id: str) -> int:
    """Seals the ends of the chains with the active key. Returns how many it changed. The dealer is locked."""
    return sum(_reseal_end(connection, cipher, dealer_id, chain) for chain in CHAINS.values())


def _reseal_end(connection: Connection, cipher: Cipher, dealer_id: str, chain: Chain) -> int:
    kept = chain_end_of(connection, dealer_id, chain)
    # An end that is not sound stays as it is: a new seal would hide that.
    if kept is None or kept.seal is None or kept.seal.startswith(_header(cipher)):
        return 0
    if not end_is_sound(cipher, dealer_id, kept, chain):
        return 0
    new_seal = seal_end(cipher, dealer_id, kept.end, chain)
    connection.execute(chain.set_seal, {"in_dealer": dealer_id, "new_seal": new_seal})
    return 1


def _header(cipher: Cipher) -> bytes:
    """The first bytes of every value that is sealed with the active key."""
    sealed = cipher.seal(b"")
    return sealed[: 2 + len(cipher.key_of(sealed))]


def _reseal_column(
    connection: Connection, cipher: Cipher, dealer_id: str, sealed: _Sealed, rows: Sequence[Row[Any]]
) -> None:
    column, row_id = sealed.column, sealed.row_id
    renewed = []
    for row in rows:
        named = row._mapping[row_id]
        context = sealed.context(dealer_id, named)
        value = cipher.seal(cipher.open(row._mapping[column], *context), *context)
        renewed.append({"row_id_": named, "sealed_": value})
    place = (column.table.c.dealer_id == dealer_id) & (row_id == bindparam("row_id_"))
    connection.execute(update(column.table).where(place).values({column: bindparam("sealed_")}), renewed)


def _reseal_contacts(connection: Connection, cipher: Cipher, dealer_id: str, rows: Sequence[Row[Any]]) -> None:
    """Inserts the contacts again: their hash, which is part of the primary key, changes."""
    for row in rows:
        contact = cipher.open(row.contact, *contact_context("contact", dealer_id, row.lead_id)).decode()
        vehicle = row.vehicle
        if vehicle is not None:
            vehicle = cipher.open(vehicle, *contact_context("vehicle", dealer_id, row.lead_id))
        connection.execute(DROP_CONTACT, {f"the_{name}": row._mapping[name] for name in CONTACT_KEY})
        # The same contact may have come with a duplicate since the key changed: then its row is there already.
        renewed = contact_row(cipher, dealer_id, row.lead_id, contact, vehicle, row.received_at)
        ADD_CONTACT.write(connection, renewed)


def _reseal_replies(connection: Connection, cipher: Cipher, dealer_id: str, rows: Sequence[Row[Any]]) -> None:
    """Inserts the stored responses again: their fingerprint, which is the primary key, changes."""
    for row in rows:
        answer = open_reply(cipher, dealer_id, row.reply)
        connection.execute(DROP_REPLY, {"in_dealer": dealer_id, "of_key": row.fingerprint})
        connection.execute(ADD_REPLY, reply_row(cipher, dealer_id, answer, row.at, row.lead_id))


def _proof_context(dealer_id: str, key_id: str) -> tuple[str, ...]:
    return "vault_keys", "proof", dealer_id, key_id


def _lasting_purpose(dealer_id: str) -> str:
    return f"proof of the lasting secret: {dealer_id}"
