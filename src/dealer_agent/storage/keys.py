"""Which keys customer data is sealed with, and how it comes under another one, as statements on a transaction.

Whoever seals anew holds the dealer's lock: nothing is emptied, or written, between reading a value and sealing it.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Row, bindparam, delete, func, select, text, update

from dealer_agent.storage.chain import chain_end_of, end_is_sound, seal_end
from dealer_agent.storage.errors import KeyMissing, WrongKey
from dealer_agent.storage.idempotency import open_reply, reply_row
from dealer_agent.storage.leads import (
    ADD_CONTACT,
    contact_context,
    contact_row,
)
from dealer_agent.storage.prepared import Prepared
from dealer_agent.storage.schema import (
    UtcTime,
    appointments,
    consent_events,
    dealers,
    idempotency,
    lead_contacts,
    lead_events,
    leads,
    outbox,
    vault_keys,
)
from dealer_agent.vault.errors import BadKeys, BrokenSeal, UnknownKey
from dealer_agent.vault.vault import Vault

PROOF = b"customer data of this dealer is sealed with this key"

READ_PROOFS = select(vault_keys.c.key_id, vault_keys.c.proof).where(vault_keys.c.dealer_id == bindparam("dealer_id"))

READ_NOTED = Prepared(select(vault_keys.c.key_id).where(vault_keys.c.dealer_id == bindparam("dealer_id")))

ADD_PROOF = text("""
    INSERT INTO vault_keys (dealer_id, key_id, proof) VALUES (:dealer_id, :key_id, :proof) ON CONFLICT DO NOTHING
""")

DROP_OTHER_PROOFS = delete(vault_keys).where(
    vault_keys.c.dealer_id == bindparam("in_dealer"), vault_keys.c.key_id.not_in(bindparam("kept", expanding=True))
)

SEAL_END = update(dealers).where(dealers.c.dealer_id == bindparam("in_dealer")).values(consent_seal=bindparam("seal"))


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
    _Sealed(appointments.c.request, appointments.c.appointment_id),
    _Sealed(outbox.c.document, outbox.c.delivery_id),
)
"""All but the rows that a keyed hash identifies."""

STEPS = (
    *SEALED,
    _Sealed(idempotency.c.reply, idempotency.c.fingerprint),
    _Sealed(lead_contacts.c.contact, lead_contacts.c.contact_hash),
)
"""What a change of keys goes through; the end of the chain comes last."""

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


def check_keys(connection: Connection, vault: Vault, dealer_id: str) -> bool:
    """Whether the active key is noted (`note_active_key`); to be called before customer data is read or written.

    Raises KeyMissing when a key is not here that the dealer's data is sealed with, and WrongKey when one of that name
    is another key.
    """
    noted = set()
    for key_id, proof in connection.execute(READ_PROOFS, {"dealer_id": dealer_id}):
        noted.add(key_id)
        try:
            vault.open(proof, *_proof_context(dealer_id, key_id))
        except UnknownKey as problem:
            raise KeyMissing(str(problem)) from None
        except BrokenSeal:
            raise WrongKey(
                f"the key {key_id} is not the one that customer data is sealed with: put the right one back from your "
                "backup, into dealer-agent.keys or DEALER_AGENT_KEYS"
            ) from None
    return vault.keyring.active in noted


def note_active_key(connection: Connection, vault: Vault, dealer_id: str) -> None:
    """Notes that data of the dealer is sealed with the active key from now on, with a proof of which key it is."""
    key_id = vault.keyring.active
    proof = vault.seal(PROOF, *_proof_context(dealer_id, key_id))
    connection.execute(ADD_PROOF, {"dealer_id": dealer_id, "key_id": key_id, "proof": proof})


def ready_to_seal(connection: Connection, vault: Vault, dealer_id: str) -> None:
    """Sees to it that the active key is one that the dealer's data may be sealed with. The dealer is locked.

    The key may have been retired (`drop_unused_proofs`) since this process last looked: nothing is to be sealed with
    it any more, for it may be thrown away. The keys' source says which one is active now. Raises KeyMissing where it
    does not say, or cannot.

    Nor is anything looked for before the keys are here that others use already: what they stored under a newer one
    would not be found, and a customer who comes again would be a stranger.
    """
    noted = {key_id for (key_id,) in READ_NOTED.read(connection, {"dealer_id": dealer_id})}
    retired = vault.keyring.active
    if retired in noted:
        if not noted.issubset(vault.keyring.ids):
            with suppress(BadKeys):  # The refresher reports it; the keys at hand go on working.
                vault.refresh()
        return
    if not noted:
        note_active_key(connection, vault, dealer_id)
        return
    try:
        vault.refresh()
    except BadKeys as problem:
        raise KeyMissing(f"the key {retired} was retired, and the new one cannot be read: {problem}") from None
    if vault.keyring.active in noted:
        return
    if not vault.follows_its_source:
        raise KeyMissing(
            f"the key {retired} was retired by dealer-agent keys rotate: restart this process with the keys that "
            "DEALER_AGENT_KEYS holds now"
        )
    note_active_key(connection, vault, dealer_id)


def drop_unused_proofs(connection: Connection, dealer_id: str) -> None:
    """Lets go of the keys that nothing is sealed with: one that is lost is no loss then. The dealer is locked."""
    kept = list(keys_in_use(connection, dealer_id))
    connection.execute(DROP_OTHER_PROOFS, {"in_dealer": dealer_id, "kept": kept})


def keys_in_use(connection: Connection, dealer_id: str) -> dict[str, int]:
    """How many values of the dealer's are sealed with each key; needs no key itself."""
    used: Counter[str] = Counter()
    for column in (*(sealed.column for sealed in STEPS), dealers.c.consent_seal):
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
    """How far a change of keys has come: the step of `STEPS`, and the last row of it that was looked at.

    It only saves time. Whoever begins anew, in another process perhaps, finds what is left all the same.
    """

    step: int = 0
    after: Any = None


def reseal(connection: Connection, vault: Vault, dealer_id: str, limit: int, progress: ResealProgress) -> int:
    """Seals up to `limit` values with the active key that are sealed with others, and returns how many.

    0 says that all of them are: then the proofs of the other keys go, and the keys may. The dealer is locked. Raises
    BrokenSeal for a value that does not open, which names its row: erasing the lead is all that can be done with it.
    """
    from_the_start = (progress.step, progress.after) == (0, None)
    done = _go_on(connection, vault, dealer_id, limit, progress)
    if done == 0 and not from_the_start:
        # What came meanwhile from workers with the old key in front stands anywhere.
        done = _go_on(connection, vault, dealer_id, limit, progress)
    if done == 0:
        drop_unused_proofs(connection, dealer_id)
        note_active_key(connection, vault, dealer_id)
    return done


def _go_on(connection: Connection, vault: Vault, dealer_id: str, limit: int, progress: ResealProgress) -> int:
    """From `progress` to the end, or until `limit` values are done; from the end `progress` goes back to the start."""
    header = _header(vault)
    done = 0
    while progress.step < len(STEPS):
        sealed = STEPS[progress.step]
        column, row_id = sealed.column, sealed.row_id
        found = (
            select(column.table)
            .where(column.table.c.dealer_id == dealer_id, func.substr(column, 1, len(header)) != header)
            .order_by(row_id)
            .limit(limit - done)
        )
        if progress.after is not None:
            found = found.where(row_id >= progress.after)
        rows = connection.execute(found).all()
        if column is lead_contacts.c.contact:
            _reseal_contacts(connection, vault, dealer_id, rows)
        elif column is idempotency.c.reply:
            _reseal_replies(connection, vault, dealer_id, rows)
        elif rows:
            _reseal_column(connection, vault, dealer_id, sealed, rows)
        done += len(rows)
        if done == limit:
            progress.after = rows[-1]._mapping[row_id]
            return done
        progress.step, progress.after = progress.step + 1, None
    progress.step = 0
    return done + _reseal_end(connection, vault, dealer_id, header)


def _header(vault: Vault) -> bytes:
    """What everything begins with that is sealed with the active key."""
    sealed = vault.seal(b"")
    return sealed[: 2 + len(vault.key_of(sealed))]


def _reseal_column(
    connection: Connection, vault: Vault, dealer_id: str, sealed: _Sealed, rows: Sequence[Row[Any]]
) -> None:
    column, row_id = sealed.column, sealed.row_id
    renewed = []
    for row in rows:
        named = row._mapping[row_id]
        context = sealed.context(dealer_id, named)
        value = vault.seal(vault.open(row._mapping[column], *context), *context)
        renewed.append({"row_id_": named, "sealed_": value})
    place = (column.table.c.dealer_id == dealer_id) & (row_id == bindparam("row_id_"))
    connection.execute(update(column.table).where(place).values({column: bindparam("sealed_")}), renewed)


def _reseal_contacts(connection: Connection, vault: Vault, dealer_id: str, rows: Sequence[Row[Any]]) -> None:
    """Contacts get a new hash, which is in their key: so they are written anew."""
    for row in rows:
        contact = vault.open(row.contact, *contact_context("contact", dealer_id, row.lead_id)).decode()
        vehicle = row.vehicle
        if vehicle is not None:
            vehicle = vault.open(vehicle, *contact_context("vehicle", dealer_id, row.lead_id))
        connection.execute(DROP_CONTACT, {f"the_{name}": row._mapping[name] for name in CONTACT_KEY})
        # The same contact may have come with a duplicate since the key changed: then its row is there already.
        renewed = contact_row(vault, dealer_id, row.lead_id, contact, vehicle, row.received_at)
        ADD_CONTACT.write(connection, renewed)


def _reseal_replies(connection: Connection, vault: Vault, dealer_id: str, rows: Sequence[Row[Any]]) -> None:
    """Answers get a new fingerprint, which is their key: so they are written anew."""
    for row in rows:
        answer = open_reply(vault, dealer_id, row.reply)
        connection.execute(DROP_REPLY, {"in_dealer": dealer_id, "of_key": row.fingerprint})
        connection.execute(ADD_REPLY, reply_row(vault, dealer_id, answer, row.at, row.lead_id))


def _reseal_end(connection: Connection, vault: Vault, dealer_id: str, header: bytes) -> int:
    kept = chain_end_of(connection, dealer_id)
    # An end that is not sound stays as it is: a new seal would hide that.
    if kept is None or kept.seal is None or kept.seal.startswith(header) or not end_is_sound(vault, dealer_id, kept):
        return 0
    connection.execute(SEAL_END, {"in_dealer": dealer_id, "seal": seal_end(vault, dealer_id, kept.end)})
    return 1


def _proof_context(dealer_id: str, key_id: str) -> tuple[str, ...]:
    return "vault_keys", "proof", dealer_id, key_id
