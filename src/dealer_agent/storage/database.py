"""An open database: its connections, its transactions, and the keys to its customer data."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from sqlalchemy import Connection, Engine

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage import keys
from dealer_agent.storage.connections import database_url, reader_engine, require_private, writer_engine
from dealer_agent.storage.errors import KeyMissing, translating
from dealer_agent.storage.event_chain import lock_dealer
from dealer_agent.storage.migrate import check_schema


class Database:
    """Threads may share one. Processes may not: each opens its own, after a fork."""

    def __init__(self, writer: Engine, reader: Engine, cipher: Cipher | None) -> None:
        self._writer = writer
        self._reader = reader
        self._vault = cipher

    @classmethod
    def open(cls, url: str, cipher: Cipher | None = None) -> Self:
        """Opens the migrated database at `url`. Raises SchemaOutdated, SchemaTooNew, and any StorageError."""
        parsed = database_url(url)
        require_private(parsed)
        store = cls(writer_engine(parsed), reader_engine(parsed), cipher)
        try:
            with store._reading() as connection:
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

    def _keys(self, connection: Connection, dealer_id: str) -> Cipher:
        """The cipher, once its keys are known to be the dealer's."""
        cipher = self._cipher_given()
        keys.check_keys(connection, cipher, dealer_id)
        return cipher

    def _keys_to_seal(self, connection: Connection, dealer_id: str) -> Cipher:
        """The same for who seals with them. The dealer is locked."""
        cipher = self._keys(connection, dealer_id)
        keys.ready_to_seal(connection, cipher, dealer_id)
        return cipher

    def _cipher_given(self) -> Cipher:
        if self._vault is None:
            raise KeyMissing(
                "customer data is sealed and there is no key here: set DEALER_AGENT_KEYS, or put the key file "
                "dealer-agent.keys beside dealer.toml; where there never was one, `dealer-agent keys create` makes it"
            )
        return self._vault

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with translating(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def _locked(self, dealer_id: str) -> Iterator[Connection]:
        """Writes what belongs to the dealer's leads: no lead is taken meanwhile."""
        with self._writing() as connection:
            lock_dealer(connection, dealer_id)
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with translating(), self._writer.begin() as connection:
            yield connection
