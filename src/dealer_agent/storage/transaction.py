"""Gives functions one database transaction of one dealer: its connection, its time, and its cipher.

Every function of this package that reads or writes takes a `Transaction`. The dealer of every statement comes from it:
a statement names the parameter `dealer`, and `execute` fills it in. `current_span` is empty unless traces are on
(`server.traces`).
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

from sqlalchemy import Column, Connection, CursorResult, Executable, Insert

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage.errors import KeyMissing
from dealer_agent.storage.isolation import set_dealer

Found = TypeVar("Found")


class OpenSpan(Protocol):
    """A span of a trace, such as a request, that other work belongs to."""

    @property
    def traceparent(self) -> str:
        """The header of W3C Trace Context that names this span: 55 characters."""

    def record(self, name: str, started: int, ended: int) -> None:
        """Adds a child span with these times, in nanoseconds since 1970. Threads may call it."""

    def end(self, attributes: Mapping[str, str | int], *, failed: bool) -> None:
        """Ends the span."""


current_span: ContextVar[OpenSpan | None] = ContextVar("current_span", default=None)
"""The span of the current task. A write that it gives to the lead writer belongs to it."""


def dealer_parameter(statement: Executable) -> str:
    """The name of a statement's parameter for the dealer's id. In an INSERT of values, it is the name of the column."""
    return "dealer_id" if isinstance(statement, Insert) and statement.select is None else "dealer"


class Ciphers(Protocol):
    """The ciphers of the dealers of a store. `installation` has the keys that encrypt the dealers' keys, if any do."""

    @property
    def installation(self) -> Cipher | None:
        """The cipher with the keys of the installation; None for the dealer of a folder."""

    def of(self, tx: "Transaction") -> Cipher | None:
        """The cipher of the transaction's dealer; None without keys. Raises KeyMissing and WrongKey."""

    def forget(self, dealer_id: str) -> None:
        """Reads the dealer's keys again when they are needed next."""


@dataclass(frozen=True, slots=True)
class OneCipher:
    """The cipher of the dealer of a folder."""

    cipher: Cipher | None
    installation: Cipher | None = None

    def of(self, _: "Transaction") -> Cipher | None:
        """The cipher, for every dealer."""
        return self.cipher

    def forget(self, dealer_id: str) -> None:
        """Nothing: the cipher reads its source again by itself."""


@dataclass(slots=True)
class Transaction:
    """A transaction. `now` (UTC) is the time that it writes into rows.

    `check_cipher` runs once, before the cipher is first used. None: the keys were checked before.
    """

    connection: Connection
    dealer_id: str
    now: datetime
    ciphers: Ciphers
    check_cipher: Callable[["Transaction"], object] | None = None
    erases: bool = field(default=False, init=False)
    """Whether it erases customer data. Then the store also empties SQLite's write-ahead log after the commit."""
    changes_keys: bool = field(default=False, init=False)
    """Whether it changes the dealer's own keys (`storage.privacy.dealer_keys`)."""
    trace: str | None = field(default=None, init=False)
    """The `traceparent` of the request that it belongs to. Its deliveries continue this trace."""
    _pinned: Cipher | None = field(default=None, init=False)
    _checked: Cipher | None = field(default=None, init=False)

    @property
    def cipher(self) -> Cipher:
        """The cipher, after its keys were checked against the database. Raises KeyMissing and WrongKey."""
        if self._checked is None:
            cipher = self.unchecked_cipher
            if self.check_cipher is not None:
                self.check_cipher(self)
            self._checked = cipher
        return self._checked

    @property
    def given_cipher(self) -> Cipher | None:
        """The cipher as it was given; None without keys."""
        return self.ciphers.of(self)

    @property
    def unchecked_cipher(self) -> Cipher:
        """The cipher, without a check of its keys. Raises KeyMissing without keys.

        Its keys stay the same during the transaction while another thread refreshes them. Otherwise the hashes of one
        row could be made with different keys.
        """
        if self._pinned is not None:
            return self._pinned
        cipher = self.given_cipher
        if cipher is None:
            raise KeyMissing(
                "customer data is encrypted and there is no key here: set DEALER_AGENT_KEYS, or put the key file "
                "dealer-agent.keys beside dealer.toml or installation.toml; if there never was one, `dealer-agent keys "
                "create` makes it"
            )
        self._pinned = cipher.pinned()
        return self._pinned

    def execute(self, statement: Executable, values: Mapping[str, Any] | None = None) -> CursorResult[*tuple[Any, ...]]:
        """Executes a statement for this dealer."""
        set_dealer(self.connection, self.dealer_id)
        return self.connection.execute(statement, {dealer_parameter(statement): self.dealer_id, **(values or {})})

    def find(
        self, kind: Callable[..., Found], statement: Executable, values: Mapping[str, Any] | None = None
    ) -> Found | None:
        """The only row of a SELECT, made into a named tuple. None without a row."""
        row = self.execute(statement, values).one_or_none()
        return None if row is None else kind(*row)

    def execute_each(self, statement: Executable, rows: Sequence[Mapping[str, Any]]) -> None:
        """Executes a statement once for each of `rows`."""
        set_dealer(self.connection, self.dealer_id)
        dealer = {dealer_parameter(statement): self.dealer_id}
        self.connection.execute(statement, [{**dealer, **row} for row in rows])

    def encrypt(self, plain: bytes, column: Column[Any], *row: str) -> bytes:
        """`plain` encrypted for a column of this dealer. It cannot be decrypted for another row than `row`."""
        return self.cipher.encrypt(plain, column.table.name, column.name, self.dealer_id, *row)

    def decrypt(self, encrypted: bytes, column: Column[Any], *row: str) -> bytes:
        """The plain bytes of a value. Raises UnknownKey and DecryptionFailed."""
        return self.cipher.decrypt(encrypted, column.table.name, column.name, self.dealer_id, *row)

    def hash(self, value: str, column: Column[Any]) -> bytes:
        """The keyed hash of a value for a column of this dealer, under the active key."""
        return self.cipher.hash(value, column.table.name, column.name, self.dealer_id)

    def hashes(self, value: str, column: Column[Any]) -> list[bytes]:
        """The keyed hash under each key, the active one first: a lookup needs all of them during a key rotation."""
        return self.cipher.hashes(value, column.table.name, column.name, self.dealer_id)


@dataclass(slots=True)
class InstallationTransaction:
    """A transaction about all dealers. On PostgreSQL it sees only the tables that `storage.isolation` lists."""

    connection: Connection
    now: datetime

    def execute(self, statement: Executable, values: Mapping[str, Any] | None = None) -> CursorResult[*tuple[Any, ...]]:
        """Executes a statement. No dealer is filled in."""
        return self.connection.execute(statement, values)
