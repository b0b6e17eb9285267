"""Encrypts the values of a dealer again with the active key, a few in each transaction.

Each transaction holds the dealer's lock, so nobody changes a value between its reading and its encryption.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Row, bindparam, delete, func, select, true, update

from dealer_agent.encryption.keyring import PERMANENT
from dealer_agent.storage.columns import is_sealed
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.leads.idempotency import DELETE_RESPONSE, decrypted_response, response_row
from dealer_agent.storage.leads.stored_leads import ADD_CONTACT, contact_rows
from dealer_agent.storage.privacy.dealer_keys import FIRST_KEY, encrypt_keys_again
from dealer_agent.storage.privacy.event_chain import CHAINS, Chain, chain_end, end_is_valid, end_mac
from dealer_agent.storage.privacy.keys import active_keys, check_keys, retire_others
from dealer_agent.storage.schema import dealer_keys, idempotency, lead_contacts, metadata, vault_key_uses, vault_keys
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction


class _Step(NamedTuple):
    """An encrypted column and the column that names its row."""

    column: Column[Any]
    row_id: Column[Any]


STEPS = tuple(
    # The primary key begins with the dealer's id and the id of the row.
    _Step(column, table.primary_key.columns.values()[1])
    for table in metadata.sorted_tables
    for column in table.columns
    # The vehicle of a contact is encrypted together with the contact, in the same step.
    if is_sealed(column) and column is not lead_contacts.c.vehicle
)
"""All encrypted columns."""

CONTACT_KEY = tuple(column.name for column in lead_contacts.primary_key if column.name != "dealer_id")
DELETE_CONTACT = delete(lead_contacts).where(
    of_dealer(lead_contacts), *(lead_contacts.c[name] == bindparam(f"the_{name}") for name in CONTACT_KEY)
)

# The same key may already have a response under the active key: that one is newer.
ADD_RESPONSE = upsert(idempotency, "NOTHING")


DELETE_OTHER_PROOFS = delete(vault_keys).where(
    of_dealer(vault_keys), vault_keys.c.key_id.not_in(bindparam("kept", expanding=True))
)

_OTHER_USES = (of_dealer(vault_key_uses), vault_key_uses.c.key_id.not_in(bindparam("kept", expanding=True)))

END_USES = (
    update(vault_key_uses)
    .where(*_OTHER_USES, vault_key_uses.c.state == "retired")
    .values(state="unused", since=bindparam("at"))
)

DELETE_OTHER_USES = delete(vault_key_uses).where(*_OTHER_USES)


def reencrypt(store: Store, dealer_id: str, most: int) -> Iterator[int]:
    """Encrypts all values with the active key. Yields the number of values after each transaction, at most `most`.

    The values of ALL_DEALERS are the keys of the dealers of an installation.

    It retires the other keys first, and ends their use after the last value. A caller that stops early leaves values
    under other keys, and another call continues. Leads wait for the encryption of `most` values only: slow reads lock
    nothing. Raises WrongKey for a value that cannot be decrypted. The message names the row; only erasing the lead
    helps.
    """
    with store.lock(dealer_id) as tx:
        check_keys(tx)
        retire_others(tx)
    values = _reencrypt_keys(store, most) if dealer_id == ALL_DEALERS else _reencrypt_values(store, dealer_id, most)
    # A transaction may find nothing to do: an erasure may have been faster.
    yield from filter(None, values)
    with store.read(dealer_id) as tx:
        used = values_by_key(tx)
    with store.lock(dealer_id) as tx:
        tx.execute(END_USES, {"kept": list(used), "at": tx.now})
        tx.execute(DELETE_OTHER_PROOFS, {"kept": [*used, *active_keys(tx), PERMANENT]})


def _reencrypt_keys(store: Store, most: int) -> Iterator[int]:
    """Encrypts the keys of all dealers again, some in each transaction. Yields how many."""
    after: tuple[str, str] | None = FIRST_KEY
    while after is not None:
        with store.lock(ALL_DEALERS) as tx:
            done, after = encrypt_keys_again(tx, after, most)
        yield done


def _reencrypt_values(store: Store, dealer_id: str, most: int) -> Iterator[int]:
    """Encrypts a dealer's values with the active key, some rows in each transaction. Yields their numbers."""
    for step in STEPS:
        first = None
        while True:
            with store.read(dealer_id) as tx:
                row_ids = _find_others(tx, step, first, most)
            if not row_ids:
                break
            first = row_ids[0]
            with store.lock(dealer_id) as tx:
                done = _reencrypt(tx, step, row_ids, most)
            yield done
    with store.lock(dealer_id) as tx:
        done = sum(_reencrypt_end(tx, chain) for chain in CHAINS.values())
    yield done


def values_by_key(tx: Transaction) -> dict[str, int]:
    """The number of the dealer's values that each key encrypts. Needs no key.

    For ALL_DEALERS: the number of keys of dealers that each key of the installation encrypts.
    """
    used: Counter[str] = Counter()
    columns = [*(step.column for step in STEPS), *(chain.mac for chain in CHAINS.values())]
    if is_installation := tx.dealer_id == ALL_DEALERS:
        columns = [dealer_keys.c.wrapped]
    for column in columns:
        counted_rows = true() if is_installation else of_dealer(column.table)
        # A value begins with a byte, the length of the key's id in one byte, and the id.
        length = func.substr(column, 2, 1)
        sizes = tx.execute(select(length).where(counted_rows, column.is_not(None)).distinct()).all()
        for (size,) in sizes:
            key_id = func.substr(column, 3, size[0])
            counted = select(key_id, func.count()).where(counted_rows, length == size).group_by(key_id)
            for used_id, count in tx.execute(counted):
                used[used_id.decode("ascii", "replace")] += count
    return dict(used)


def delete_unused_keys(tx: Transaction) -> None:
    """Deletes the records of all keys that encrypt no value, because no data needs them. Needs no key.

    The proof of the permanent secret is deleted with the last of them. The caller holds the dealer's lock.
    """
    used = list(values_by_key(tx))
    parameters = {"kept": [*used, PERMANENT] if used else []}
    tx.execute(DELETE_OTHER_PROOFS, parameters)
    tx.execute(DELETE_OTHER_USES, parameters)


def _find_others(tx: Transaction, step: _Step, first: Any, most: int) -> list[Any]:
    """The ids of up to `most` rows, from `first` on, that are not encrypted with the active key.

    It may read the whole table, so it locks nothing. It misses nothing: the other keys are retired.
    """
    statement = select(step.row_id).where(*_others(tx, step)).order_by(step.row_id).limit(most)
    if first is not None:
        statement = statement.where(step.row_id >= first)
    return list(tx.execute(statement).scalars())


def _others(tx: Transaction, step: _Step) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """The conditions for the dealer's rows that are not encrypted with the active key."""
    prefix = tx.cipher.header
    return of_dealer(step.column.table), func.substr(step.column, 1, len(prefix)) != prefix


def _reencrypt(tx: Transaction, step: _Step, row_ids: Sequence[Any], most: int) -> int:
    """Encrypts these rows with the active key. Returns their number."""
    statement = (
        select(step.column.table).where(*_others(tx, step), step.row_id.in_(row_ids)).order_by(step.row_id).limit(most)
    )
    rows = tx.execute(statement).all()
    if step.column is lead_contacts.c.contact:
        _reencrypt_contacts(tx, rows)
    elif step.column is idempotency.c.reply:
        _reencrypt_responses(tx, rows)
    elif rows:
        _reencrypt_column(tx, step, rows)
    return len(rows)


def _reencrypt_column(tx: Transaction, step: _Step, rows: Sequence[Row[Any]]) -> None:
    """Encrypts one column of these rows with the active key."""
    column = step.column
    renewed = []
    for row in rows:
        row_id = row._mapping[step.row_id]
        plain = tx.decrypt(row._mapping[column], column, str(row_id))
        renewed.append({"row_id_": row_id, "encrypted_": tx.encrypt(plain, column, str(row_id))})
    this_row = (of_dealer(column.table), step.row_id == bindparam("row_id_"))
    tx.execute_each(update(column.table).where(*this_row).values({column: bindparam("encrypted_")}), renewed)


def _reencrypt_contacts(tx: Transaction, rows: Sequence[Row[Any]]) -> None:
    """Inserts the contacts again: their hash, which is part of the primary key, changes."""
    for row in rows:
        contact = tx.decrypt(row.contact, lead_contacts.c.contact, row.lead_id).decode()
        vehicle = None
        if row.vehicle is not None:
            vehicle = tx.decrypt(row.vehicle, lead_contacts.c.vehicle, row.lead_id)
        tx.execute(DELETE_CONTACT, {f"the_{name}": row._mapping[name] for name in CONTACT_KEY})
        # A duplicate may have brought the same contact since the key changed: then its row exists.
        (renewed,) = contact_rows(tx, row.lead_id, [contact], vehicle, row.received_at)
        ADD_CONTACT.write(tx, renewed)


def _reencrypt_responses(tx: Transaction, rows: Sequence[Row[Any]]) -> None:
    """Inserts the stored responses again: their fingerprint, which is the primary key, changes."""
    for row in rows:
        content = decrypted_response(tx, row.reply)
        DELETE_RESPONSE.write(tx, {"of_key": row.fingerprint})
        tx.execute(ADD_RESPONSE, response_row(tx, content, row.at, row.lead_id))


def _reencrypt_end(tx: Transaction, chain: Chain) -> int:
    """Makes the MAC of a chain's end with the active key. Returns how many it made."""
    stored = chain_end(tx, chain)
    # An invalid end stays as it is: a new MAC would hide the tampering.
    if stored.mac is None or stored.mac.startswith(tx.cipher.header) or not end_is_valid(tx, stored, chain):
        return 0
    tx.execute(chain.set_mac, {"new_mac": end_mac(tx, stored.end, chain)})
    return 1
