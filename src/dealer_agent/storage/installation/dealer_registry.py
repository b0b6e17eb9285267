"""Stores the dealers of an installation: their settings with history, state and host names.

Every change increments the dealer's `settings_counter`, so that all processes notice it (`changed_dealers`).

A dealer can be copied from a folder into an installation, or the other way. Values stay encrypted as they are, so the
dealer's keys must be in both places.
"""

import tomllib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Delete,
    Row,
    Table,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    text,
    tuple_,
    update,
)

from dealer_agent.dealers.profile_checks import canonical_host
from dealer_agent.storage.errors import DealerExists, DealerUnknown, HostTaken, SettingsConflict
from dealer_agent.storage.installation.registration import not_registered, was_removed
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.jobs import SETTINGS, add_jobs
from dealer_agent.storage.privacy.accesses import verify_accesses
from dealer_agent.storage.privacy.consents import verify_chain
from dealer_agent.storage.privacy.dealer_keys import COUNT_CHANGE, create_keys
from dealer_agent.storage.privacy.event_chain import lock_dealer
from dealer_agent.storage.schema import (
    dealer_hosts,
    dealer_keys,
    dealer_settings,
    feed_files,
    imports,
    jobs,
    metadata,
    outbox,
    registered_dealers,
    replicas,
    revisions,
    unit_changes,
    units,
)
from dealer_agent.storage.statements import of_dealer, rows_of, upsert
from dealer_agent.storage.stock.reading import read_revision
from dealer_agent.storage.stock.record_tables import record_starts, recorded_replies, recorded_units
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import InstallationTransaction, Transaction

MOST_REMOVED = 1000
"""The most rows that one transaction of `remove_dealer` deletes: it bounds how long leads of other dealers wait."""


class RegisteredDealer(NamedTuple):
    """A dealer of the installation. `settings_number` is the number of its current settings, which have its `name`."""

    dealer_id: str
    enabled: bool
    listed: bool
    settings_number: int
    name: str


class SettingsRecord(NamedTuple):
    """An entry in the history of a dealer's settings."""

    number: int
    at: datetime
    actor: str
    note: str


class DealerChange(NamedTuple):
    """The counters of a dealer's changes. A dealer that is not registered any more was removed."""

    dealer_id: str
    stock: int
    tokens: int
    settings: int
    changed_at: datetime


ADD_DEALER = upsert(registered_dealers, "NOTHING").returning(registered_dealers.c.dealer_id)

ADD_SETTINGS = insert(dealer_settings)

NEXT_NUMBER = (
    update(registered_dealers)
    .where(of_dealer(registered_dealers, settings_number="expected"))
    .values(
        settings_number=registered_dealers.c.settings_number + 1, name=bindparam("new_name"), changed_at=bindparam("at")
    )
)

SET_STATE = (
    update(registered_dealers)
    .where(of_dealer(registered_dealers))
    .values(
        enabled=func.coalesce(bindparam("is_enabled", type_=Boolean), registered_dealers.c.enabled),
        listed=func.coalesce(bindparam("is_listed", type_=Boolean), registered_dealers.c.listed),
        changed_at=bindparam("at"),
    )
)

_DEALERS = select(*(registered_dealers.c[name] for name in RegisteredDealer._fields))

FIND_DEALER = _DEALERS.where(of_dealer(registered_dealers))

LIST_DEALERS = _DEALERS.order_by(registered_dealers.c.dealer_id)

DELETE_DEALER = delete(registered_dealers).where(of_dealer(registered_dealers))

READ_SETTINGS = select(dealer_settings.c.document).where(of_dealer(dealer_settings, number="sought"))

LIST_SETTINGS = rows_of(dealer_settings, SettingsRecord).order_by(dealer_settings.c.number.desc())

LIST_ALL_HOSTS = select(dealer_hosts.c.host, dealer_hosts.c.dealer_id).order_by(
    dealer_hosts.c.dealer_id, dealer_hosts.c.host
)

LIST_HOSTS = select(dealer_hosts.c.host).where(of_dealer(dealer_hosts)).order_by(dealer_hosts.c.host)

FIND_HOST = select(dealer_hosts.c.dealer_id).where(dealer_hosts.c.host == bindparam("sought"))

ADD_HOST = insert(dealer_hosts)

DELETE_HOST = delete(dealer_hosts).where(of_dealer(dealer_hosts, host="sought"))

LOCK_HOSTS = text("SELECT pg_advisory_xact_lock(4919150214103306)")
"""Any number works if it never changes. On SQLite the writer's transaction is the lock."""

COUNT_CHANGES = select(
    func.coalesce(func.sum(revisions.c.stock_counter + revisions.c.token_counter + revisions.c.settings_counter), 0)
)

FIND_CHANGED = (
    select(
        revisions.c.dealer_id,
        revisions.c.stock_counter,
        revisions.c.token_counter,
        revisions.c.settings_counter,
        revisions.c.changed_at,
    )
    .where(revisions.c.changed_at >= bindparam("since"))
    .order_by(revisions.c.changed_at)
)


def add_dealer(
    tx: Transaction, document: bytes, *, actor: str, note: str = "", enabled: bool = True, listed: bool = False
) -> None:
    """Registers the dealer of the transaction with its first settings, a valid `dealer.toml`. Raises DealerExists.

    The transaction comes from `Store.registration`: nothing else is written for the dealer meanwhile.
    """
    state = {"enabled": enabled, "listed": listed, "name": _name_in(document), "settings_number": 1}
    if tx.execute(ADD_DEALER, {**state, "added_at": tx.now, "changed_at": tx.now}).one_or_none() is None:
        raise DealerExists(f"the dealer {tx.dealer_id} is registered already")
    create_keys(tx)
    _add_settings(tx, 1, document, actor, note)


def change_settings(tx: Transaction, document: bytes, *, expected: int, actor: str, note: str = "") -> int:
    """Stores new settings, a valid `dealer.toml`, and returns their number.

    `expected` is the number of the settings that were edited. Raises SettingsConflict if these are not current any
    more, and DealerUnknown.
    """
    if tx.execute(NEXT_NUMBER, {"expected": expected, "new_name": _name_in(document), "at": tx.now}).rowcount == 0:
        current = find_dealer(tx).settings_number
        raise SettingsConflict(
            f"somebody has changed the settings of {tx.dealer_id} meanwhile: number {current} is current, and number "
            f"{expected} was edited"
        )
    _add_settings(tx, expected + 1, document, actor, note)
    return expected + 1


def _name_in(document: bytes) -> str:
    name: str = tomllib.loads(document.decode())["name"]
    return name


def _add_settings(tx: Transaction, number: int, document: bytes, actor: str, note: str) -> None:
    tx.execute(ADD_SETTINGS, {"number": number, "at": tx.now, "actor": actor, "note": note, "document": document})
    add_jobs(tx, SETTINGS)
    tx.execute(COUNT_CHANGE)


def set_state(tx: Transaction, *, enabled: bool | None = None, listed: bool | None = None) -> None:
    """Enables or disables a dealer, and lists or unlists it. None changes nothing. Raises DealerUnknown.

    `enabled` waits for the transactions that store leads of the dealer. So none is stored after it was disabled.
    """
    if enabled is not None:
        lock_dealer(tx)
    if tx.execute(SET_STATE, {"is_enabled": enabled, "is_listed": listed, "at": tx.now}).rowcount == 0:
        raise not_registered(tx.dealer_id)
    tx.execute(COUNT_CHANGE)


def find_dealer(tx: Transaction) -> RegisteredDealer:
    """The dealer of the transaction. Raises DealerUnknown."""
    row = tx.execute(FIND_DEALER).one_or_none()
    if row is None:
        raise not_registered(tx.dealer_id)
    return RegisteredDealer(*row)


def read_settings(tx: Transaction, number: int) -> bytes:
    """The document with this number. Raises DealerUnknown if there is none."""
    document: bytes | None = tx.execute(READ_SETTINGS, {"sought": number}).scalar()
    if document is None:
        raise DealerUnknown(f"the dealer {tx.dealer_id} has no settings with the number {number}")
    return document


def list_settings(tx: Transaction) -> list[SettingsRecord]:
    """The history of the dealer's settings, newest first."""
    return [SettingsRecord(*row) for row in tx.execute(LIST_SETTINGS)]


def list_hosts(tx: Transaction) -> list[str]:
    """The dealer's host names."""
    return list(tx.execute(LIST_HOSTS).scalars())


def add_host(tx: Transaction, host: str) -> str:
    """Gives a host name to the dealer of the transaction, and returns it in canonical form.

    Nothing happens if the dealer has it. Raises HostTaken if another dealer has it, DealerUnknown, and ValueError for
    what is not a host name (`canonical_host`).
    """
    name = canonical_host(host)
    if tx.connection.dialect.name == "postgresql":
        tx.execute(LOCK_HOSTS)
    everything = Transaction(tx.connection, ALL_DEALERS, tx.now, tx.ciphers)
    owners = set(everything.execute(FIND_HOST, {"sought": name}).scalars())
    if owners - {tx.dealer_id}:
        raise HostTaken(f"the host {name} belongs to another dealer: {', '.join(sorted(owners))}")
    if not owners:
        find_dealer(tx)
        tx.execute(ADD_HOST, {"host": name, "added_at": tx.now})
        tx.execute(COUNT_CHANGE)
    return name


def remove_host(tx: Transaction, host: str) -> bool:
    """Removes a host name of the dealer. Returns False if the dealer does not have it."""
    removed = tx.execute(DELETE_HOST, {"sought": canonical_host(host)}).rowcount == 1
    if removed:
        tx.execute(COUNT_CHANGE)
    return removed


def all_dealers(tx: InstallationTransaction) -> list[RegisteredDealer]:
    """All dealers of the installation, by id."""
    return [RegisteredDealer(*row) for row in tx.execute(LIST_DEALERS)]


def all_hosts(tx: InstallationTransaction) -> dict[str, str]:
    """The dealer of each host name."""
    return {row.host: row.dealer_id for row in tx.execute(LIST_ALL_HOSTS)}


def count_changes(tx: InstallationTransaction) -> int:
    """The sum of the counters of all dealers. It grows with every change."""
    return int(tx.execute(COUNT_CHANGES).scalar_one())


def changed_dealers(tx: InstallationTransaction, since: datetime) -> list[DealerChange]:
    """The dealers with a change since a time of the database's clock, in the order of the changes.

    A transaction that takes long commits a change with an earlier time. So ask again for a time before the newest
    change that was seen, and compare the counters. A removed dealer has a change too.
    """
    return [DealerChange(*row) for row in tx.execute(FIND_CHANGED, {"since": since})]


def remove_dealer(
    store: Store, dealer_id: str, on_progress: Callable[[int], object] = lambda _: None
) -> dict[str, int]:
    """Deletes all rows of a dealer, customer data too. Returns how many of each table it deleted.

    The registration goes first: from then on, nobody writes for the dealer (`registration`). Each transaction
    deletes at most MOST_REMOVED rows. A call that was interrupted can be repeated. Only the counters of `revisions`
    stay: other processes read there that the dealer is gone. `on_progress` gets the number of rows after each
    transaction. Raises DealerUnknown, and DealerExists if the dealer is added again meanwhile.
    """
    with store.registration(dealer_id) as tx:
        removed = {registered_dealers.name: tx.execute(DELETE_DEALER).rowcount}
        if not removed[registered_dealers.name] and not was_removed(tx):
            raise not_registered(dealer_id)
        tx.execute(COUNT_CHANGE)
    for name, statement in REMOVALS.items():
        removed[name] = 0
        while True:
            with store.registration(dealer_id) as tx:
                if tx.execute(FIND_DEALER).one_or_none() is not None:
                    raise DealerExists(f"the dealer {dealer_id} was added again while it was being removed")
                count = tx.execute(statement).rowcount
            removed[name] += count
            on_progress(count)
            if count < MOST_REMOVED:
                break
    store.truncate_log()
    if not any(removed.values()):
        raise not_registered(dealer_id)
    return removed


def _delete_some(table: Table) -> Delete:
    """Deletes up to MOST_REMOVED rows of the dealer."""
    some = table.alias("some")
    chosen = select(*(some.c[column.name] for column in table.primary_key)).where(of_dealer(some)).limit(MOST_REMOVED)
    return delete(table).where(of_dealer(table), tuple_(*table.primary_key).in_(chosen))


# Rows that refer to others go first.
REMOVALS = {
    table.name: _delete_some(table)
    for table in reversed(metadata.sorted_tables)
    if table not in (registered_dealers, revisions)
}

MOST_COPIED = 500
"""The most rows of one transaction of `copy_dealer`: it bounds how long leads of other dealers wait."""

_NOT_COPIED = (registered_dealers, dealer_settings, dealer_hosts, dealer_keys, replicas, revisions)
"""Tables about a dealer's entry in its installation. The caller writes what the target needs."""

# Deliveries are sent as soon as they are there, so they come last.
COPIED = (*(table for table in metadata.sorted_tables if table not in (*_NOT_COPIED, outbox)), outbox)


def _copied_rows(table: Table) -> ColumnElement[bool]:
    """The rows of the dealer. Source and target each have their own job for new settings."""
    return of_dealer(table) & (jobs.c.kind != literal(SETTINGS)) if table is jobs else of_dealer(table)


COUNTS = {
    table.name: select(func.count()).select_from(table).where(_copied_rows(table)) for table in metadata.sorted_tables
}

READS = {
    table.name: select(table).where(_copied_rows(table)).execution_options(yield_per=MOST_COPIED) for table in COPIED
}

ADD_REVISION = upsert(
    revisions,
    "UPDATE SET stock_counter = revisions.stock_counter + excluded.stock_counter, "
    "token_counter = revisions.token_counter + excluded.token_counter, "
    "settings_counter = revisions.settings_counter + 1",
).values(settings_counter=1)


def count_rows(tx: Transaction) -> dict[str, int]:
    """The rows of the dealer, by table, without the counters of changes: these outlive a removed dealer."""
    return {
        name: int(tx.execute(statement).scalar_one()) for name, statement in COUNTS.items() if name != revisions.name
    }


def require_removed(tx: Transaction) -> None:
    """Raises DealerExists if a removal of the dealer did not end, and rows are left."""
    if was_removed(tx) and any(count_rows(tx).values()):
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
) -> None:
    """Copies stock, leads, tokens and all other data of a dealer, as of one moment.

    The target has no such data of the dealer. Each transaction writes at most MOST_COPIED rows, so after an error some
    are there. `on_progress` gets the number of rows after each transaction.
    """
    with target.read(dealer_id) as tx:
        before_copy = read_revision(tx)
    with source.read(dealer_id) as reading:
        revision = read_revision(reading)
        for table in COPIED:
            for rows in reading.execute(READS[table.name]).partitions():
                values = [_values(table, row, before_copy.stock) for row in rows]
                with target.write(dealer_id) as writing:
                    writing.execute_each(insert(table), values)
                on_progress(len(values))
    with target.write(dealer_id) as writing:
        writing.execute(ADD_REVISION, {"stock_counter": revision.stock, "token_counter": revision.tokens})


def _values(table: Table, row: Row[Any], stock_counter: int) -> Mapping[str, Any]:
    """The values of a row in the target, whose counter of stock changes may be ahead: a dealer was removed there."""
    values = row._asdict()
    if table in (imports, units, unit_changes, recorded_units, record_starts, recorded_replies, feed_files):
        for name in ("revision", "undoes", "until"):
            if values.get(name) is not None:
                values[name] += stock_counter
    return values
