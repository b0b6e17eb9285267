"""The machines (replicas) that serve a dealer, or an installation (ALL_DEALERS).

Each records its version and a hash of its settings while it runs. `doctor` compares them.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import bindparam, delete

from dealer_agent.storage.schema import of_dealer, replicas, rows_of, upsert
from dealer_agent.storage.transaction import Transaction

KEPT = timedelta(days=1)
"""A record that is older belongs to a machine that was killed."""


class Replica(NamedTuple):
    """A machine, its version of the program, and the hash of its settings."""

    machine: str
    version: str
    settings: str
    seen_at: datetime


RECORD = upsert(
    replicas, "UPDATE SET version = excluded.version, settings = excluded.settings, seen_at = excluded.seen_at"
)

READ = rows_of(replicas, Replica).order_by(replicas.c.machine)

DELETE_OLD = delete(replicas).where(of_dealer(replicas), replicas.c.seen_at < bindparam("before"))

DELETE = delete(replicas).where(of_dealer(replicas), replicas.c.machine == bindparam("of_machine"))


def record_replica(tx: Transaction, machine: str, version: str, settings: str) -> None:
    """Records that a machine serves at the time of the transaction. Deletes old records of others."""
    tx.execute(RECORD, {"machine": machine, "version": version, "settings": settings, "seen_at": tx.now})
    tx.execute(DELETE_OLD, {"before": tx.now - KEPT})


def forget_replica(tx: Transaction, machine: str) -> None:
    """Deletes the record of a machine that stops."""
    tx.execute(DELETE, {"of_machine": machine})


def list_replicas(tx: Transaction) -> list[Replica]:
    """All recorded machines."""
    return [Replica(*row) for row in tx.execute(READ)]
