"""Opens a database: its connections, its transactions, and the changes that PostgreSQL announces."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Self

from sqlalchemy import Engine

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage import connections
from dealer_agent.storage.connections import CONNECT_SECONDS, READ_PROCESS, TCP, replace_connections
from dealer_agent.storage.database_url import database_url
from dealer_agent.storage.errors import NOT_PRIMARY, translated_driver_error, translating
from dealer_agent.storage.installation.registration import NEEDED, TAKE_ALONE
from dealer_agent.storage.isolation import ALL_DEALERS, isolation_problem
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.migrate import check_schema
from dealer_agent.storage.privacy.dealer_keys import DealerCiphers, create_keys
from dealer_agent.storage.privacy.event_chain import lock_dealer
from dealer_agent.storage.privacy.keys import check_keys, check_keys_to_encrypt, start_use
from dealer_agent.storage.transaction import Ciphers, InstallationTransaction, OneCipher, Transaction

CHANNEL = "dealer_agent_changes"

LISTENING_CONNECTIONS = 1
"""The connections of a listener. They are not in the pool of the store."""

CHECK_SECONDS = 10
"""How often the listener checks that its server is still the one that takes writes, and so makes announcements."""

READ_SECONDS = 0.1
"""How long the listener reads when there is something to read."""

READ_ONLY_STATE = "SHOW transaction_read_only"


async def listen(engine: Engine) -> AsyncIterator[None]:
    """Yields once when it listens, and then after each announced change.

    Ends at once on SQLite, and behind a pooler, which forwards no announcements. Raises DatabaseUnreachable when the
    connection breaks or its server takes no writes any more, and other StorageErrors.
    """
    if engine.dialect.name != "postgresql":
        return
    # Imported here: SQLite does not need the driver.
    import psycopg

    _, arguments = engine.dialect.create_connect_args(engine.url)
    options = {"connect_timeout": CONNECT_SECONDS, **TCP, **arguments}
    try:
        async with await psycopg.AsyncConnection.connect(autocommit=True, **options) as connection:
            process = await (await connection.execute(READ_PROCESS)).fetchone()
            if process != (connection.info.backend_pid,):
                # A pooler is between: the session is not ours.
                return
            await connection.execute(f"LISTEN {CHANNEL}")
            yield
            # As long as the server takes writes. It is asked every CHECK_SECONDS.
            while (await (await connection.execute(READ_ONLY_STATE)).fetchone()) == ("off",):
                ends = time.monotonic() + CHECK_SECONDS
                while await _readable(connection.fileno(), ends - time.monotonic()):
                    async for _ in connection.notifies(timeout=READ_SECONDS):
                        yield
            # Transactions that only read do not notice that the server is no longer the primary.
            replace_connections(engine)
            kind, words = NOT_PRIMARY
            raise kind(words)
    except psycopg.Error as error:
        raise translated_driver_error(error) from None


async def _readable(file: int, seconds: float) -> bool:
    """Waits until there is something to read, at most so long. psycopg itself would look ten times a second."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(file, readable.set)
    try:
        async with asyncio.timeout(seconds):
            await readable.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(file)
    return True


Begin = Callable[[str, datetime | None], AbstractContextManager[Transaction]]
"""`Store.read`, `Store.write` or `Store.lock`."""


class Store:
    """A database. Threads may share a store. Processes may not: each opens its own, after a fork.

    `read`, `write` and `lock` give a transaction of one dealer to a `with` block. The block calls the functions of this
    package with it. `now` is the time of the transaction, by default the current time. The block commits at its end. If
    it raises an error, nothing is stored. Errors of the database and of the cipher become StorageError.

    Leads are written by the thread of `lead_writer`.
    """

    def __init__(self, engines: connections.Engines, ciphers: Ciphers) -> None:
        self._leads, self._writer, self._reader = engines
        self._ciphers = ciphers

    @classmethod
    def open(
        cls,
        url: str,
        cipher: Cipher | None = None,
        *,
        many_dealers: bool = False,
        most_connections: int = connections.MOST_CONNECTIONS,
    ) -> Self:
        """Opens the migrated database at `url`. Raises SchemaOutdated, SchemaTooNew, and any StorageError.

        With `many_dealers`, the cipher has the keys of the installation, and each dealer has keys of its own. Without a
        cipher, a transaction that needs customer data raises KeyMissing. With PostgreSQL, the store has at most
        `most_connections`. A transaction that waits too long for one raises DatabaseBusy.
        """
        parsed = database_url(url)
        connections.require_private(parsed)
        engines = connections.open_engines(parsed, most_connections)
        if many_dealers:
            needed = {NEEDED: True}
            leads, writer = engines.leads.execution_options(**needed), engines.writer.execution_options(**needed)
            engines = engines._replace(leads=leads, writer=writer)
        ciphers: Ciphers = DealerCiphers(engines.reader, cipher) if many_dealers else OneCipher(cipher)
        store = cls(engines, ciphers)
        try:
            with translating(), store._reader.begin() as connection:
                check_schema(connection)
        except BaseException:
            store.close()
            raise
        return store

    @property
    def is_shared(self) -> bool:
        """Whether several machines may have this database."""
        return self._reader.dialect.name == "postgresql"

    def close(self) -> None:
        """Closes the idle connections. Close the lead writer first."""
        for engine in (self._leads, self._writer, self._reader):
            engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def read(self, dealer_id: str, now: datetime | None = None) -> Iterator[Transaction]:
        """A read-only transaction on one snapshot of the database."""
        with translating(), connections.begin(self._reader, dealer_id) as connection:
            yield Transaction(connection, dealer_id, now or datetime.now(UTC), self._ciphers, check_keys)

    @contextmanager
    def write(self, dealer_id: str, now: datetime | None = None) -> Iterator[Transaction]:
        """A transaction for data that does not belong to leads. Meanwhile PostgreSQL can store leads.

        Raises DealerUnknown for a dealer that is not in the installation, as `lock` does: a process that went on after
        the removal of a dealer writes nothing for it.
        """
        with translating(), connections.begin(self._writer, dealer_id, registered=True) as connection:
            yield Transaction(connection, dealer_id, now or datetime.now(UTC), self._ciphers, check_keys)

    @contextmanager
    def lock(
        self, dealer_id: str, now: datetime | None = None, lock_seconds: float = connections.BUSY_SECONDS
    ) -> Iterator[Transaction]:
        """A transaction for data that belongs to leads. Meanwhile no lead of the dealer is stored.

        Raises DatabaseBusy if another transaction of PostgreSQL holds the dealer's lock for `lock_seconds`.
        """
        with translating(), connections.begin(self._writer, dealer_id, lock_seconds) as connection:
            tx = Transaction(connection, dealer_id, now or datetime.now(UTC), self._ciphers, check_keys_to_encrypt)
            lock_dealer(tx)
            yield tx
        if tx.erases:
            self.truncate_log()

    @contextmanager
    def registration(self, dealer_id: str) -> Iterator[Transaction]:
        """A transaction that adds or removes the dealer of an installation. Nothing else is written for it meanwhile.

        It waits for the other transactions that write for the dealer. Raises DatabaseBusy after a long wait.
        """
        with translating(), connections.begin(self._writer, dealer_id) as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(TAKE_ALONE)
            yield Transaction(connection, dealer_id, datetime.now(UTC), self._ciphers, check_keys)

    @contextmanager
    def import_lock(self, dealer_id: str) -> Iterator[None]:
        """Lets one import of a dealer run at a time, in all processes. Raises DatabaseBusy after a long wait."""
        with translating(), connections.import_lock(self._writer, dealer_id):
            yield

    @contextmanager
    def installation(self) -> Iterator[InstallationTransaction]:
        """A read-only transaction for all dealers, on one snapshot of the database."""
        with translating(), connections.begin(self._reader, ALL_DEALERS) as connection:
            yield InstallationTransaction(connection, datetime.now(UTC))

    def announcements(self) -> AsyncIterator[None]:
        """Yields once when it listens to changes, and then after each one. See `listen`, also for its errors."""
        return listen(self._reader)

    def isolation_problem(self) -> str | None:
        """Why the database does not isolate dealers, and what to do; None if it does."""
        with self.installation() as tx:
            return isolation_problem(tx.connection)

    def lead_writer(self) -> LeadWriter:
        """Starts the thread that stores leads. One for each process is enough, and best."""
        return LeadWriter(self._leads, self._ciphers)

    def check_space(self) -> None:
        """Raises DiskFull if a SQLite database has no space for more leads."""
        connections.check_space(self._writer)

    def truncate_log(self) -> None:
        """Empties SQLite's write-ahead log, which still holds what was erased. Other processes may prevent it."""
        with translating():
            connections.truncate_log(self._writer)

    def check_keys(self, dealer_id: str) -> Cipher:
        """Checks that the keys are those of the dealer's customer data, and records the use of the active key.

        A dealer of an installation without keys gets them. Returns the cipher. Raises KeyMissing and WrongKey.
        """
        if self._ciphers.installation is not None:
            with self.read(dealer_id) as tx:
                has_keys = tx.given_cipher is not None
            if not has_keys:
                with self.write(dealer_id) as tx:
                    create_keys(tx)
        with self.read(dealer_id) as tx:
            recorded, cipher = check_keys(tx), tx.given_cipher
        assert cipher is not None, "check_keys needs one"
        if not recorded:
            with self.write(dealer_id) as tx:
                start_use(tx)
        return cipher

    def forget_keys(self, dealer_id: str) -> None:
        """Reads the keys of a dealer of an installation again when they are needed next: they may have changed."""
        self._ciphers.forget(dealer_id)
