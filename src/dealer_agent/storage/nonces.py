"""Stores the nonces of signed requests, for installations whose machines share a PostgreSQL (`server.nonces`)."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import bindparam, delete

from dealer_agent.storage.schema import nonces
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.transaction import Transaction

# PostgreSQL counts no rows of an INSERT.
ADD_NONCE = upsert(nonces, "NOTHING").returning(nonces.c.nonce)

DELETE_EXPIRED = delete(nonces).where(of_dealer(nonces), nonces.c.expires_at < bindparam("at"))


def add_nonces(tx: Transaction, expiries: Mapping[bytes, datetime]) -> set[bytes]:
    """Adds nonces with the times until which they must be remembered. Returns those that were not there.

    A transaction waits for another one that adds the same nonce: exactly one of them gets it.
    """
    new = set()
    # In one order, so that two transactions never wait for each other.
    for nonce, expires_at in sorted(expiries.items()):
        if tx.execute(ADD_NONCE, {"nonce": nonce, "expires_at": expires_at}).one_or_none() is not None:
            new.add(nonce)
    return new


def delete_expired_nonces(tx: Transaction) -> None:
    """Deletes the nonces that nobody can use again."""
    tx.execute(DELETE_EXPIRED, {"at": tx.now})
