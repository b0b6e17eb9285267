"""Copies a dealer from one database to another: from a folder into an installation, or the other way.

Values stay encrypted as they are. So the dealer's keys must be in both places.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Row, Table, func, insert, literal, select

from dealer_agent.storage.accesses import verify_accesses
from dealer_agent.storage.consents import verify_chain
from dealer_agent.storage.errors import DealerExists
from dealer_agent.storage.jobs import SETTINGS
from dealer_agent.storage.registration import was_removed
from dealer_agent.storage.schema import (
    dealer_hosts,
    dealer_keys,
    dealer_settings,
    feed_files,
    imports,
    jobs,
    metadata,
    of_dealer,
    outbox,
    registered_dealers,
    replicas,
    revisions,
    unit_changes,
    upsert,
)
from dealer_agent.storage.stock import read_revision
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

ROWS = 500
"""The rows of one transaction: it bounds how long leads of other dealers wait."""

_NOT_COPIED = (registered_dealers, dealer_settings, dealer_hosts, dealer_keys, replicas, revisions)
"""Tables about the place of a dealer. The caller writes what the other place needs."""

# Deliveries are sent as soon as they are there, so they come last.
COPIED = (*(table for table in metadata.sorted_tables if table not in (*_NOT_COPIED, outbox)), outbox)


def _copied_rows(table: Table) -> ColumnElement[bool]:
    """The rows of the dealer. Each place has its own job for new settings."""
    return of_dealer(table) & (jobs.c.kind != literal(SETTINGS)) if table is jobs else of_dealer(table)


COUNTS = {
    table.name: select(func.count()).select_from(table).where(_copied_rows(table)) for table in metadata.sorted_tables
}

READS = {table.name: select(table).where(_copied_rows(table)).execution_options(yield_per=ROWS) for table in COPIED}

ADD_REVISION = upsert(
    revisions,
    "UPDATE SET stock_revision = revisions.stock_revision + excluded.stock_revision, "
    "token_revision = revisions.token_revision + excluded.token_revision, "
    "settings_revision = revisions.settings_revision + 1",
).values(settings_revision=1)


def count_rows(tx: Transaction) -> dict[str, int]:
    """The rows of the dealer, by table, without the counters of changes: these outlive a removed dealer."""
    return {
        name: int(tx.execute(statement).scalar_one()) for name, statement in COUNTS.items() if name != revisions.name
    }


def require_removed(tx: Transaction) -> None:
    """Raises DealerExists if a removal of the dealer did not end, and rows are left."""
    if any(count_rows(tx).values()) and was_removed(tx):
        raise DealerExists(
            f"the dealer {tx.dealer_id} was removed, and some of its data is still there: type dealer-agent dealers "
            f"remove {tx.dealer_id}, then try again"
        )


def damage(tx: Transaction) -> str | None:
    """What is wrong with the dealer's consent record or access log; None if both are whole. Raises KeyMissing."""
    record, log = verify_chain(tx), verify_accesses(tx)
    if record.first_broken is not None:
        return f"the consent record is broken at event {record.first_broken}: {record.problem}"
    if log.first_broken is not None:
        return f"the access log is broken at entry {log.first_broken}: {log.problem}"
    return None


def copy_dealer(
    source: Store, target: Store, dealer_id: str, on_progress: Callable[[int], object] = lambda _: None
) -> dict[str, int]:
    """Copies stock, leads, tokens and all other data of a dealer, as of one moment. Returns the rows by table.

    The target has no such data of the dealer. Each transaction writes at most ROWS rows, so after an error some are
    there. `on_progress` gets the number of rows after each transaction.
    """
    copied: dict[str, int] = {}
    with target.read(dealer_id) as tx:
        before = read_revision(tx)
    with source.read(dealer_id) as reading:
        revision = read_revision(reading)
        for table in COPIED:
            copied[table.name] = 0
            for rows in reading.execute(READS[table.name]).partitions():
                values = [_values(table, row, before.stock) for row in rows]
                with target.write(dealer_id) as writing:
                    writing.execute_each(insert(table), values)
                copied[table.name] += len(values)
                on_progress(len(values))
    with target.write(dealer_id) as writing:
        writing.execute(ADD_REVISION, {"stock_revision": revision.stock, "token_revision": revision.tokens})
    return copied


def _values(table: Table, row: Row[Any], stock_revision: int) -> Mapping[str, Any]:
    """The values of a row in the target, whose counter of stock changes may be ahead: a dealer was removed there."""
    values = row._asdict()
    if table in (imports, unit_changes, feed_files) and values["revision"] is not None:
        values["revision"] += stock_revision
    return values
