"""An open database: its connections, and its transactions."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Self

from sqlalchemy import Engine

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage import connections
from dealer_agent.storage.errors import translating
from dealer_agent.storage.event_chain import lock_dealer
from dealer_agent.storage.isolation import ALL_DEALERS, isolation_problem
from dealer_agent.storage.keys import check_keys, check_keys_to_encrypt, start_use
from dealer_agent.storage.lead_writer import LeadWriter
from dealer_agent.storage.migrate import check_schema
from dealer_agent.storage.transaction import InstallationTransaction, Transaction

Begin = Callable[[str, datetime | None], AbstractContextManager[Transaction]]
"""`Store.read`, `Store.write` or `Store.lock`."""


class Store:
    """A database. Threads may share a store. Processes may not: each opens its own, after a fork.

    `read`, `write` and `lock` give a transaction of one dealer to a `with` block. The block calls the functions of this
    package with it. `now` is the time of the transaction, by default the current time. The block commits at its end. If
    it raises an error, nothing is stored. Errors of the database and of the cipher become StorageError.

    Leads are written by the thread of `lead_writer`.
    """

    def __init__(self, writer: Engine, reader: Engine, cipher: Cipher | None) -> None:
        self._writer = writer
        self._reader = reader
        self._cipher = cipher

    @classmethod
    def open(
        cls, url: str, cipher: Cipher | None = None, *, most_connections: int = connections.MOST_CONNECTIONS
    ) -> Self:
        """Opens the migrated database at `url`. Raises SchemaOutdated, SchemaTooNew, and any StorageError.

        Without a cipher, a transaction that needs customer data raises KeyMissing. With PostgreSQL, the store has at
        most `most_connections`. A transaction that waits too long for one raises DatabaseBusy.
        """
        parsed = connections.database_url(url)
        connections.require_private(parsed)
        store = cls(*connections.open_engines(parsed, most_connections), cipher)
        try:
            with translating(), store._reader.begin() as connection:
                check_schema(connection)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Closes the idle connections. Close the lead writer first."""
        self._writer.dispose()
        self._reader.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def read(self, dealer_id: str, now: datetime | None = None) -> Iterator[Transaction]:
        """A transaction that sees one moment, and cannot write."""
        with translating(), connections.begin(self._reader, dealer_id) as connection:
            yield Transaction(connection, dealer_id, now or datetime.now(UTC), self._cipher, check_keys)

    @contextmanager
    def write(self, dealer_id: str, now: datetime | None = None) -> Iterator[Transaction]:
        """A transaction that writes data that does not belong to leads: leads are stored meanwhile on PostgreSQL."""
        with translating(), connections.begin(self._writer, dealer_id) as connection:
            yield Transaction(connection, dealer_id, now or datetime.now(UTC), self._cipher, check_keys)

    @contextmanager
    def lock(self, dealer_id: str, now: datetime | None = None) -> Iterator[Transaction]:
        """A transaction that writes data that belongs to leads. No lead of the dealer is stored meanwhile."""
        with translating(), connections.begin(self._writer, dealer_id) as connection:
            tx = Transaction(connection, dealer_id, now or datetime.now(UTC), self._cipher, check_keys_to_encrypt)
            lock_dealer(tx)
            yield tx
        if tx.erases:
            self.truncate_log()

    @contextmanager
    def import_lock(self, dealer_id: str) -> Iterator[None]:
        """Lets one import of a dealer run at a time, in all processes. Raises DatabaseBusy after a long wait."""
        with translating(), connections.import_lock(self._writer, dealer_id):
            yield

    @contextmanager
    def installation(self) -> Iterator[InstallationTransaction]:
        """A transaction that reads what concerns all dealers, as of one moment."""
        with translating(), connections.begin(self._reader, ALL_DEALERS) as connection:
            yield InstallationTransaction(connection, datetime.now(UTC))

    @contextmanager
    def write_installation(self) -> Iterator[InstallationTransaction]:
        """A transaction that writes what concerns several dealers."""
        with translating(), connections.begin(self._writer, ALL_DEALERS) as connection:
            yield InstallationTransaction(connection, datetime.now(UTC))

    def isolation_problem(self) -> str | None:
        """Why the database does not keep dealers apart, and what to do; None if it does."""
        with self.installation() as tx:
            return isolation_problem(tx.connection)

    def lead_writer(self) -> LeadWriter:
        """Starts the thread that stores leads. One for each process is enough, and best."""
        return LeadWriter(self._writer, self._cipher)

    def check_space(self) -> None:
        """Raises DiskFull if a SQLite database has no space for more leads."""
        connections.check_space(self._writer)

    def truncate_log(self) -> None:
        """Empties SQLite's write-ahead log, which still holds what was erased. Other processes may prevent it."""
        with translating():
            connections.truncate_log(self._writer)

    def check_keys(self, dealer_id: str) -> Cipher:
        """Checks that the keys are those of the dealer's customer data, and records the use of the active key.

        Returns the cipher. Raises KeyMissing and WrongKey.
        """
        with self.read(dealer_id) as tx:
            recorded = check_keys(tx)
        if not recorded:
            with self.write(dealer_id) as tx:
                start_use(tx)
        return tx.unchecked_cipher
