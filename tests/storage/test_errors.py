"""Failures of the databases reach callers as one tree, in plain words, without secrets or personal data."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.storage.calls import list_leads, read
from tests.storage.samples import CIPHER, DEALER, lead, storing

from dealer_agent.storage import connections, errors
from dealer_agent.storage.connections import open_engines, writer_engine
from dealer_agent.storage.database_url import database_url as parse
from dealer_agent.storage.errors import (
    AlreadyStored,
    BadDatabaseUrl,
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseReadOnly,
    DatabaseUnreachable,
    SchemaOutdated,
    StorageError,
)
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.store import Store

SECRET = "hunter2hunter2"


def chain(error: BaseException | None) -> str:
    """All that a traceback would print of an error."""
    told = ""
    while error is not None:
        told += repr(error) + str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return told


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://dealer:{SECRET}@127.0.0.1:1/dealers",
        f"postgres://dealer:{SECRET}@127.0.0.1:1/dealers",
        f"postgresql+psycopg://127.0.0.1:1/dealers?user=dealer&password={SECRET}",
    ],
)
@pytest.mark.parametrize("call", [migrate, Store.open])
def test_a_server_that_is_down_is_unreachable_and_its_password_is_not_told(url: str, call: Any) -> None:
    with pytest.raises(DatabaseUnreachable, match="cannot be reached") as failure:
        call(url)
    assert SECRET not in chain(failure.value)


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://dealer:{SECRET}@localhost/dealers",
        f"postgresql+asyncpg://dealer:{SECRET}@localhost/dealers",
        f"postgresql://dealer:{SECRET}@localhost:port/dealers",
        f"{SECRET}",
        "",
        "sqlite://",
        "sqlite:///:memory:",
    ],
)
def test_a_url_that_names_no_usable_database_is_refused(url: str) -> None:
    with pytest.raises(BadDatabaseUrl) as failure:
        Store.open(url, CIPHER)
    assert SECRET not in chain(failure.value)


def test_a_missing_postgresql_database_is_unreachable(postgresql_server: str) -> None:
    with pytest.raises(DatabaseUnreachable, match="then check the database's name, user and password"):
        Store.open(parse(postgresql_server).set(database="no_such_database").render_as_string(hide_password=False))


def test_a_missing_sqlite_file_or_folder_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnreachable, match="folder"):
        migrate(f"sqlite:///{tmp_path}/none/dealer.db")
    with pytest.raises(DatabaseUnreachable, match="folder"):
        Store.open(f"sqlite:///{tmp_path}/none/dealer.db")
    with pytest.raises((SchemaOutdated, DatabaseUnreachable)):
        Store.open(f"sqlite:///{tmp_path}/dealer.db")


@pytest.mark.parametrize("call", [migrate, Store.open])
def test_a_file_that_is_no_database_is_damaged(tmp_path: Path, call: Any) -> None:
    (tmp_path / "dealer.db").write_bytes(b"This is not a database. " * 500)
    (tmp_path / "dealer.db").chmod(0o600)
    with pytest.raises(DatabaseDamaged):
        call(f"sqlite:///{tmp_path}/dealer.db")


def test_a_lock_that_is_held_for_too_long_is_busy(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(sqlite_url)
    engine = writer_engine(parse(sqlite_url))
    holder = sqlite3.connect(tmp_path / "dealer.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with monkeypatch.context() as impatient:
        impatient.setattr(connections, "BUSY_SECONDS", 0.1)
        with pytest.raises(DatabaseBusy), errors.translating(), engine.begin():
            pass
    holder.execute("ROLLBACK")
    with errors.translating(), engine.begin():
        pass
    holder.close()
    engine.dispose()


def test_readers_cannot_write(database_url: str) -> None:
    """PostgreSQL has the same error for the transaction of a reader and for a server that is no primary."""
    migrate(database_url)
    engine = open_engines(parse(database_url)).reader
    refused = (DatabaseReadOnly, DatabaseUnreachable)
    with pytest.raises(refused), errors.translating(), engine.begin() as connection:
        connection.execute(text("INSERT INTO dealers (dealer_id) VALUES ('ridgeline')"))
    engine.dispose()


def test_a_constraint_that_tells_the_row_does_not_reach_the_error(store: Store, writer: LeadWriter) -> None:
    """PostgreSQL quotes the row that is in the way, SQLAlchemy the statement and its values."""
    contact = "someone@example.com"

    def job(connection: Any) -> None:
        connection.execute(text(f"UPDATE dealers SET dealer_id = '{contact}'"))
        connection.execute(text("INSERT INTO dealers (dealer_id) VALUES (:contact)"), {"contact": contact})

    with pytest.raises(AlreadyStored) as failure:
        writer.submit(DEALER, job).result(60)
    told = chain(failure.value)
    assert contact not in told
    assert "INSERT" not in told


def test_every_verdict_of_the_tables_is_an_error_of_the_tree_with_words_of_its_own() -> None:
    verdicts = {*errors.SQLITE_ERRORS.values(), *errors.POSTGRESQL_ERRORS.values(), errors.OTHER}
    assert all(issubclass(kind, StorageError) for kind, _ in verdicts)
    assert len({words for _, words in verdicts}) == len(verdicts)


def test_every_kind_of_database_failure_is_in_both_tables() -> None:
    """Disk full, out of memory and the like cannot all be provoked here; they are looked up by the same code."""
    on_sqlite = {kind for kind, _ in errors.SQLITE_ERRORS.values()}
    on_postgresql = {kind for kind, _ in errors.POSTGRESQL_ERRORS.values()}
    assert on_sqlite == on_postgresql
    assert set(errors.DatabaseFailure.__subclasses__()) <= on_sqlite


def test_lead_ids_are_unique(store: Store, writer: LeadWriter) -> None:
    writer.submit(DEALER, storing("L1")).result(60)
    with pytest.raises(AlreadyStored):
        writer.submit(DEALER, storing("L1")).result(60)
    assert read(store, DEALER, list_leads, 10) == [lead("L1")]
