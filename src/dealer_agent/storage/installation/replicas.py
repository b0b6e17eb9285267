"""Stores which machines (replicas) serve a dealer, or an installation (ALL_DEALERS).

Each records its version and a hash of its settings while it runs. `doctor` compares them.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import bindparam, delete

from dealer_agent.storage.schema import replicas
from dealer_agent.storage.statements import of_dealer, rows_of, upsert
from dealer_agent.storage.transaction import Transaction

KEPT = timedelta(days=1)
"""A record that is older belongs to a machine that was killed."""


class Replica(NamedTuple):
    """A machine, its version of the program, and the hash of its settings.

    `forwarded_by` is the IP address of a proxy that these settings do not name, whose requests it got.
    """

    machine: str
    version: str
    settings: str
    seen_at: datetime
    forwarded_by: str | None = None


# What one process of the machine has seen counts until the settings change.
RECORD = upsert(
    replicas,
    "UPDATE SET version = excluded.version, settings = excluded.settings, seen_at = excluded.seen_at, "
    "forwarded_by = CASE WHEN replicas.settings = excluded.settings "
    "THEN COALESCE(excluded.forwarded_by, replicas.forwarded_by) ELSE excluded.forwarded_by END",
)

READ = rows_of(replicas, Replica).order_by(replicas.c.machine)

DELETE_OLD = delete(replicas).where(of_dealer(replicas), replicas.c.seen_at < bindparam("before"))

DELETE = delete(replicas).where(of_dealer(replicas, machine="of_machine"))


def record_replica(tx: Transaction, machine: str, version: str, settings: str, forwarded_by: str | None = None) -> None:
    """Records that a machine serves at the time of the transaction. Deletes old records of others."""
    values = {"machine": machine, "version": version, "settings": settings, "forwarded_by": forwarded_by}
    tx.execute(RECORD, values | {"seen_at": tx.now})
    tx.execute(DELETE_OLD, {"before": tx.now - KEPT})


def forget_replica(tx: Transaction, machine: str) -> None:
    """Deletes the record of a machine that stops."""
    tx.execute(DELETE, {"of_machine": machine})


def list_replicas(tx: Transaction) -> list[Replica]:
    """All recorded machines."""
    return [Replica(*row) for row in tx.execute(READ)]
