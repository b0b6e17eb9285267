"""Defines the errors of storage: one tree, and the tables that translate the errors of the databases.

Messages are sentences for the dealer's log. They never contain a password, a statement, a path inside the program or a
value that was stored. Drivers quote the row, so the driver's error is not chained either.

    StorageError
        BadDatabaseUrl, DatabaseExposed, StoreClosed
        DatabaseFailure: DatabaseUnreachable, DiskFull, DatabaseReadOnly, DatabaseDamaged
            DatabaseBusy: DealerBlocked, QueueFull
        SchemaOutdated, SchemaTooNew
        KeyMissing, WrongKey, KeysChanged
        AlreadyStored, FeedRefused, NothingToUndo, LeaseLost, ClockUnreliable
        TokenRevoked, DealerUnknown, DealerExists, SettingsConflict, HostTaken, NotIsolated
        TooManyPolicies
"""

# ruff: noqa: N818 - the names say what happened, as in httpx

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, PendingRollbackError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dealer_agent.correctable import CorrectableError
from dealer_agent.encryption.errors import DecryptionFailed, UnknownKey
from dealer_agent.feeds.files.checks import FeedFinding, refusals


class StorageError(CorrectableError):
    """Any error of storage. An error that fits no subclass has this class."""


class BadDatabaseUrl(StorageError):
    """The URL is not that of a supported database."""


class DatabaseFailure(StorageError):
    """The database itself failed. The transaction is lost."""


class DatabaseUnreachable(DatabaseFailure):
    """No connection: the server is down, the name is wrong, or it rejects the user."""


class DatabaseBusy(DatabaseFailure):
    """Another process held the database for too long. The same call may succeed later."""


class DealerBlocked(DatabaseBusy):
    """Another transaction held a lock of one dealer for too long. Nothing is stored."""


class QueueFull(DatabaseBusy):
    """Too many jobs of the dealer, or of all dealers, wait for the database. Nothing is stored."""


class DiskFull(DatabaseFailure):
    """There is no space left."""


class DatabaseReadOnly(DatabaseFailure):
    """The database cannot be written."""


class DatabaseDamaged(DatabaseFailure):
    """The file is not a database, or its content is damaged."""


class AlreadyStored(StorageError):
    """A unique constraint says that another transaction was first."""


class DatabaseExposed(StorageError):
    """Other users may read the database file."""


class ClockUnreliable(StorageError):
    """The clock is far from the last time that the service ran. Nothing is deleted by age."""


class SchemaOutdated(StorageError):
    """The database is empty, or its schema is too old."""


class SchemaTooNew(StorageError):
    """The database was written by a newer version of this program."""


class StoreClosed(StorageError):
    """The store or its lead writer is closed."""


class KeyMissing(StorageError):
    """Customer data cannot be read or written: its key is missing."""


class WrongKey(StorageError):
    """Customer data cannot be decrypted: the key is a different one, or the data was changed."""


class KeysChanged(StorageError):
    """Another process has changed the keys of a dealer."""


class TokenRevoked(StorageError):
    """The token of a request was revoked before its lead was stored."""


class DealerUnknown(StorageError):
    """The installation does not have or serve such a dealer, or the dealer has no such settings."""


class DealerExists(StorageError):
    """The installation has a dealer with this id."""


class SettingsConflict(StorageError):
    """Somebody has changed the dealer's settings meanwhile."""


class HostTaken(StorageError):
    """The host name belongs to another dealer."""


class TooManyPolicies(StorageError):
    """So many agents have a policy that no other can get one."""


class NotIsolated(StorageError):
    """The database does not isolate the data of dealers from each other."""


class NothingToUndo(StorageError):
    """There is no import that can be taken back. The message says why and what to do."""


class LeaseLost(StorageError):
    """Another process works on the feed, or sends the delivery, now."""


class FeedRefused(StorageError):
    """Checks refuse a feed. `findings` has the refusals and the warnings."""

    def __init__(self, findings: tuple[FeedFinding, ...]) -> None:
        super().__init__(" ".join(finding.sentence for finding in refusals(findings)))
        self.findings = findings


_Meaning = tuple[type[StorageError], str]

CANNOT_BE_REACHED = "cannot be reached: check the host name and the port, and that the server runs"
"""Why a connection to a server failed, and what to do: for databases and receivers of leads."""

UNREACHABLE: _Meaning = (
    DatabaseUnreachable,
    f"the database {CANNOT_BE_REACHED}; then check the database's name, user and password",
)
BUSY: _Meaning = (DatabaseBusy, "the database is busy: another process holds it for too long; try again later")
IDLE: _Meaning = (
    DatabaseUnreachable,
    "the database ended a transaction in which this process did nothing for long; try again",
)
FULL: _Meaning = (DiskFull, "the disk or the quota of the database is full: free space there")
READ_ONLY: _Meaning = (
    DatabaseReadOnly,
    "the database is read-only, or this user may not write to it: check its rights",
)
NOT_PRIMARY: _Meaning = (
    DatabaseUnreachable,
    "the database server takes no writes: it is a standby, or its administrator made it read-only; DATABASE_URL must "
    "name the primary",
)
UNREPLICATED: _Meaning = (
    DatabaseFailure,
    "the data is stored on one database server only, because the wait for its standby was cancelled: check the standby",
)
DAMAGED: _Meaning = (
    DatabaseDamaged,
    "the database is damaged, or the file is not a database: restore your last backup",
)
TAKEN: _Meaning = (AlreadyStored, "this is already stored")
OUT_OF_MEMORY: _Meaning = (DatabaseFailure, "the database ran out of memory: give it more")
OTHER: _Meaning = (StorageError, "the database refused a statement")

SQLITE_ERRORS: dict[int, _Meaning] = {
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
    sqlite3.SQLITE_CANTOPEN: (
        DatabaseUnreachable,
        "the database file cannot be opened: it and its folder must be there",
    ),
    sqlite3.SQLITE_PERM: READ_ONLY,
    sqlite3.SQLITE_READONLY: READ_ONLY,
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_IOERR: DAMAGED,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_NOMEM: OUT_OF_MEMORY,
    sqlite3.SQLITE_INTERRUPT: BUSY,
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: TAKEN,
    sqlite3.SQLITE_CONSTRAINT_UNIQUE: TAKEN,
}
"""The kinds of SQLite errors by extended result code, else by primary result code (its lowest byte)."""

POSTGRESQL_ERRORS: dict[str, _Meaning] = {
    "08": UNREACHABLE,
    "23505": TAKEN,
    "25006": NOT_PRIMARY,
    "25P03": IDLE,
    "40001": BUSY,
    "40P01": BUSY,
    "42501": READ_ONLY,
    "53100": FULL,
    "53200": OUT_OF_MEMORY,
    "55P03": BUSY,
    "57014": BUSY,
    "57P": UNREACHABLE,
    "58030": DAMAGED,
    "XX001": DAMAGED,
    "XX002": DAMAGED,
}
"""The kinds of PostgreSQL errors by SQLSTATE, or by the first characters of one."""


def translated(error: SQLAlchemyError) -> StorageError:
    """The StorageError for an error of SQLAlchemy."""
    if isinstance(error, PoolTimeout):
        return DatabaseBusy(
            "the database is busy: all connections of this process are in use for too long; allow more of them"
        )
    if isinstance(error, PendingRollbackError):
        return DatabaseUnreachable("the connection to the database broke")
    if isinstance(error, DBAPIError) and error.orig is not None:
        return translated_driver_error(error.orig, disconnected=error.connection_invalidated)
    kind, words = OTHER
    return kind(f"{words} ({type(error).__name__})")


def translated_driver_error(error: BaseException, *, disconnected: bool = False) -> StorageError:
    """The StorageError for an error of the driver of SQLite or PostgreSQL."""
    if isinstance(error, sqlite3.Error):
        kind, words, code = _of_sqlite(error)
    else:
        kind, words, code = _of_postgresql(error, disconnected=disconnected)
    return kind(f"{words} ({code})")


def _of_postgresql(error: BaseException, *, disconnected: bool) -> tuple[type[StorageError], str, str]:
    """The kind of an error of PostgreSQL, its message, and its SQLSTATE or class name."""
    # Imported here: a start with SQLite does not need the driver, which takes 0.07 s.
    import psycopg

    if not isinstance(error, psycopg.Error):
        return *OTHER, type(error).__name__
    state = error.sqlstate
    if state is None:
        # The error of a connection that fails has no SQLSTATE.
        meaning = UNREACHABLE if disconnected or isinstance(error, psycopg.OperationalError) else OTHER
        return *meaning, type(error).__name__
    for prefix in (state, state[:3], state[:2]):
        if prefix in POSTGRESQL_ERRORS:
            return *POSTGRESQL_ERRORS[prefix], state
    return *OTHER, state


def _of_sqlite(error: sqlite3.Error) -> tuple[type[StorageError], str, str]:
    """The class, the sentence and the name of an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", None)  # The driver's own errors, such as a closed connection, have none.
    if code is None:
        return *OTHER, type(error).__name__
    meaning = SQLITE_ERRORS.get(code) or SQLITE_ERRORS.get(code & 0xFF) or OTHER
    return *meaning, error.sqlite_errorname


@contextmanager
def translating() -> Iterator[None]:
    """Turns errors of the database and of the cipher in a `with` block into `StorageError`.

    An error that a column type of this project raised, such as ValueError for a naive time, is raised as it was.
    """
    try:
        yield
    except UnknownKey as error:
        raise KeyMissing(str(error)) from None
    except DecryptionFailed as error:
        raise WrongKey(str(error)) from None
    except SQLAlchemyError as error:
        # SQLAlchemy wraps an error of a column type in a StatementError, and one of the driver in a DBAPIError.
        if isinstance(error, StatementError) and not isinstance(error, DBAPIError) and error.orig is not None:
            failure: BaseException = error.orig
        else:
            failure = translated(error)
        raise failure from None
