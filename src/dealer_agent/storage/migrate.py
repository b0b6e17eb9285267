"""Brings a database to this program's schema, and says when the two do not fit.

Several processes may start at once: the migration is one transaction under a lock (SQLite's write lock, an advisory
lock on PostgreSQL), so one of them does the work and the others find it done.
"""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL, Connection, inspect, text

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage.connections import BUSY_SECONDS, database_url, require_private, writer_engine
from dealer_agent.storage.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseReadOnly,
    DatabaseUnreachable,
    KeyMissing,
    SchemaOutdated,
    SchemaTooNew,
    translated_sqlite,
    translating,
)
from dealer_agent.storage.event_chain import ACCESSES, chain_end_of, seal_end
from dealer_agent.storage.keys import check_keys, note_active_key
from dealer_agent.storage.schema import SCHEMA_REVISION
from dealer_agent.storage.withdrawals import note_earlier_withdrawals

READ_REVISION = text("SELECT version_num FROM alembic_version")
SEALING = ("0003", "0006")
"""The revisions that encrypt values that were in the clear before."""
PROOF = "0009"
"""The revision that needs keys for what it adds: the seal of the access log, and the hashes of earlier withdrawals."""

READ_DEALERS = text("SELECT dealer_id FROM dealers ORDER BY dealer_id")
READ_LEFT = text("""
    SELECT EXISTS (SELECT 1 FROM accesses) OR EXISTS (SELECT 1 FROM consent_events WHERE kind = 'revoked')
""")

LOCK_SCHEMA = text("SELECT pg_advisory_xact_lock(4919150214103305)")
"""Any number does, as long as it stays: it names the lock within the PostgreSQL database."""


def migrate(url: str, cipher: Cipher | None = None, *, to: str = SCHEMA_REVISION) -> str | None:
    """Brings the database at `url` to revision `to`, and returns the revision it had (None: it was empty).

    Does nothing to a current database. `cipher` seals customer data of before 0003, and what else of an older database
    must be sealed or hashed. Raises KeyMissing where there is such data and no cipher,
    SchemaTooNew for a database that a newer program wrote, and any StorageError.
    """
    parsed = database_url(url)
    require_private(parsed)
    if parsed.get_backend_name() == "sqlite":
        prepare_file(parsed)
    engine = writer_engine(parsed)
    try:
        with translating(), engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(LOCK_SCHEMA)
            found = schema_revision(connection)
            if found is not None and found > SCHEMA_REVISION:
                raise _too_new(found)
            if found is None or found < to:
                _upgrade(connection, cipher, to)
                if (found or "") < PROOF <= to:
                    _complete_proof(connection, cipher)
                if found is None and connection.dialect.name == "sqlite":
                    connection.exec_driver_sql(f"PRAGMA user_version={clean_mark(to)}")
        if connection.dialect.name == "sqlite":
            clean_file(parsed, clean_mark(to))
        return found
    finally:
        engine.dispose()


def check_schema(connection: Connection) -> None:
    """Raises SchemaOutdated or SchemaTooNew unless the database has exactly this program's schema."""
    found = schema_revision(connection)
    if found is None:
        raise SchemaOutdated("the database is empty: it has to be migrated before it can be used")
    if found > SCHEMA_REVISION:
        raise _too_new(found)
    if found < SCHEMA_REVISION:
        raise SchemaOutdated(f"the database has schema {found}, this program needs {SCHEMA_REVISION}: migrate it")


def schema_revision(connection: Connection) -> str | None:
    """The revision of the schema that is there; None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(READ_REVISION).scalar()
    return revision


def _upgrade(connection: Connection, cipher: Cipher | None, to: str) -> None:
    # Imported here: Alembic takes a third of a second, and almost every start finds the schema current.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("path_separator", "os")
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["cipher"] = cipher
    command.upgrade(config, to)


def _complete_proof(connection: Connection, cipher: Cipher | None) -> None:
    """Does the part of 0009 that needs keys. Raises KeyMissing and WrongKey when there is such a part and no key."""
    if not connection.execute(READ_LEFT).scalar():
        return
    if cipher is None:
        raise KeyMissing(
            "this version seals the access log and keeps the withdrawals of consent, and there is no key: put the key "
            "file dealer-agent.keys beside dealer.toml, or set DEALER_AGENT_KEYS"
        )
    for dealer_id in connection.execute(READ_DEALERS).scalars().all():
        if not check_keys(connection, cipher, dealer_id):
            note_active_key(connection, cipher, dealer_id)
        note_earlier_withdrawals(connection, cipher, dealer_id)
        log = chain_end_of(connection, dealer_id, ACCESSES)
        if log is not None and log.end.events:
            sealed = {"in_dealer": dealer_id, "new_seal": seal_end(cipher, dealer_id, log.end, ACCESSES)}
            connection.execute(ACCESSES.set_seal, sealed)


def _too_new(found: str) -> SchemaTooNew:
    return SchemaTooNew(
        f"the database has schema {found}, written by a newer version; this version knows up to {SCHEMA_REVISION}: "
        "upgrade the program"
    )


def prepare_file(url: URL) -> None:
    """Makes the file, for its owner alone (it will hold customers' data), in WAL mode, which stays with it."""
    path = str(url.database)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except FileNotFoundError:
        raise DatabaseUnreachable("the database file cannot be made: its folder does not exist") from None
    except OSError as error:
        raise DatabaseReadOnly(f"the database file cannot be written ({error.strerror})") from None
    deadline = time.monotonic() + BUSY_SECONDS
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        while True:
            try:
                mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                # Changing the mode does not wait for others who change it too, whatever the timeout says.
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise DatabaseBusy("the database is busy: another process holds it for too long") from None
                time.sleep(0.02)
            except sqlite3.DatabaseError as error:
                raise DatabaseDamaged(f"the file is no SQLite database ({error.sqlite_errorname})") from None
            else:
                break
    if mode != "wal":
        raise DatabaseUnreachable("this file system does not support SQLite's WAL mode, which several processes need")


def clean_mark(revision: str) -> int:
    """The `user_version` of a SQLite file of this revision that holds no clear text of earlier ones."""
    return max((int(sealing) for sealing in SEALING if sealing <= revision), default=0)


def clean_file(url: URL, mark: int) -> None:
    """Rids a SQLite file of what dropped tables and deleted rows left behind in its free space and in its WAL.

    Once for each mark, and again where that was interrupted. Raises DatabaseBusy while others use it.
    """
    with closing(sqlite3.connect(str(url.database), timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] >= mark:
                return
            connection.execute("VACUUM")
            if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                raise DatabaseBusy("the database is busy: stop what else uses it, then start again")
            connection.execute(f"PRAGMA user_version={mark}")
        except sqlite3.Error as error:
            raise translated_sqlite(error) from None
