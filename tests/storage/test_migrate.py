"""Databases that are fresh, current, older and newer than the program."""

import shutil
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Dialect, Engine, MetaData, inspect, text
from tests.soak import SOAK, sqlite_first
from tests.storage.calls import read
from tests.storage.samples import CIPHER, DEALER, MONDAY, import_rows, row, stock_of

import dealer_agent.storage
from dealer_agent.storage import migrate as migrate_module
from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.database_url import database_url as parse
from dealer_agent.storage.errors import SchemaOutdated, SchemaTooNew, StorageError
from dealer_agent.storage.migrate import migrate, prepare_file
from dealer_agent.storage.schema import SCHEMA_VERSION, metadata
from dealer_agent.storage.stock.reading import ChangeCounters, read_revision
from dealer_agent.storage.store import Store


@pytest.fixture
def engine(database_url: str) -> Engine:
    return writer_engine(parse(database_url))


@sqlite_first()
def test_a_fresh_database_is_brought_to_the_newest_schema(database_url: str) -> None:
    assert migrate(database_url) is None
    with Store.open(database_url, CIPHER) as store:
        assert read(store, DEALER, read_revision) == ChangeCounters(0, 0)


@sqlite_first()
def test_a_current_database_stays_as_it_is(database_url: str) -> None:
    migrate(database_url)
    with Store.open(database_url, CIPHER) as store:
        import_rows(store, [row("V1")])
        assert migrate(database_url) == SCHEMA_VERSION
        assert len(stock_of(store, DEALER, remember_days=1, now=MONDAY).live) == 1


@sqlite_first()
def test_a_database_that_is_too_old_is_refused_with_the_way_to_upgrade_it(database_url: str, engine: Engine) -> None:
    migrate(database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0008'"))
    engine.dispose()
    for use in (Store.open, migrate):
        with pytest.raises(
            SchemaOutdated, match=r"schema 0008, from before the first release, .*: start with a new database"
        ):
            use(database_url)


@sqlite_first()
def test_a_database_of_a_newer_program_is_refused_in_plain_words(database_url: str, engine: Engine) -> None:
    migrate(database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(SchemaTooNew, match="schema 9999, written by a newer version"):
        Store.open(database_url, CIPHER)
    with pytest.raises(SchemaTooNew, match="upgrade the program"):
        migrate(database_url)


def test_an_empty_database_is_not_opened(postgresql_url: str) -> None:
    with pytest.raises(SchemaOutdated, match="empty"):
        Store.open(postgresql_url, CIPHER)


def test_a_migration_that_fails_leaves_nothing(database_url: str, engine: Engine) -> None:
    """A migration is one transaction, on SQLite too."""
    if engine.dialect.name == "sqlite":
        prepare_file(engine.url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE imports (something_else INTEGER)"))  # In the way of the first migration.
    with pytest.raises(StorageError):
        migrate(database_url)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE imports"))
    engine.dispose()
    assert migrate(database_url) is None


def test_the_migrations_make_the_tables_that_the_program_uses(database_url: str, engine: Engine) -> None:
    migrate(database_url)
    made = MetaData()
    made.reflect(engine, only=lambda name, _: name != "alembic_version")
    engine.dispose()
    assert _described(made, engine.dialect) == _described(metadata, engine.dialect)


def _described(tables: MetaData, dialect: Dialect) -> dict[str, object]:
    """The keys and the columns of each table. Only PostgreSQL has comments."""
    return {
        table.name: (
            table.primary_key.columns.keys(),
            {(key.referred_table.name, *key.column_keys) for key in table.foreign_key_constraints},
            {
                column.name: (column.type.compile(dialect), column.comment if dialect.supports_comments else None)
                for column in table.columns
            },
        )
        for table in tables.tables.values()
    }


def migrations() -> Config:
    config = Config()
    config.set_main_option("path_separator", "os")
    config.set_main_option("script_location", str(Path(dealer_agent.storage.__file__).with_name("migrations")))
    return config


def test_the_newest_migration_is_the_one_the_program_needs() -> None:
    assert ScriptDirectory.from_config(migrations()).get_current_head() == SCHEMA_VERSION


NEXT_MIGRATION = """
from alembic import op
revision, down_revision = "9000", SCHEMA_VERSION
def upgrade():
    op.execute("ALTER TABLE imports ADD COLUMN note VARCHAR")
"""


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The migrations of the next version of the program, which has one more. Returns its file."""
    folder = shutil.copytree(migrate_module._MIGRATIONS, tmp_path / "migrations")
    added = folder / "versions" / "r9000_next.py"
    added.write_text(NEXT_MIGRATION.replace("SCHEMA_VERSION", repr(SCHEMA_VERSION)))
    monkeypatch.setattr(migrate_module, "_MIGRATIONS", folder)
    monkeypatch.setattr(migrate_module, "SCHEMA_VERSION", "9000")
    return added


def test_an_older_database_is_upgraded_by_the_migrations_that_it_lacks(
    database_url: str, engine: Engine, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of the database stay. The version before then refuses the database."""
    migrate(database_url)
    with Store.open(database_url, CIPHER) as store:
        import_rows(store, [row("V1")])
        request.getfixturevalue("next_version")
        with pytest.raises(SchemaOutdated, match=f"has schema {SCHEMA_VERSION}, this program needs 9000"):
            Store.open(database_url, CIPHER)
        assert migrate(database_url) == SCHEMA_VERSION
        assert migrate(database_url) == "9000"
        assert len(stock_of(store, DEALER, remember_days=1, now=MONDAY).live) == 1
    with engine.connect() as connection:
        assert connection.execute(text("SELECT note FROM imports")).scalar_one() is None
    engine.dispose()
    monkeypatch.undo()
    with pytest.raises(SchemaTooNew, match="schema 9000, written by a newer version"):
        migrate(database_url)


def test_an_upgrade_that_fails_changes_nothing(
    database_url: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(database_url)
    added: Path = request.getfixturevalue("next_version")
    added.write_text(added.read_text() + '    op.execute("ALTER TABLE nothing ADD COLUMN note VARCHAR")\n')
    with pytest.raises(StorageError):
        migrate(database_url)
    monkeypatch.undo()
    assert migrate(database_url) == SCHEMA_VERSION


@sqlite_first()
def test_every_table_leads_with_the_dealer_in_its_key_and_its_indexes(database_url: str, engine: Engine) -> None:
    """Storage leads with `dealer_id` everywhere, so that the tables can be partitioned by it."""
    migrate(database_url)
    found = inspect(engine)
    for table in metadata.tables:
        assert found.get_pk_constraint(table)["constrained_columns"][0] == "dealer_id"
        for index in found.get_indexes(table):
            # The changes and the jobs of all dealers are found by their time.
            of_all = ("ix_revisions_changed_at_dealer_id", "ix_jobs_kind_due_at")
            assert index["column_names"][0] == "dealer_id" or index["name"] in of_all
    engine.dispose()


def test_a_sqlite_file_is_made_for_its_owner_alone_and_in_wal_mode(sqlite_url: str, tmp_path: Path) -> None:
    migrate(sqlite_url)
    assert stat.S_IMODE((tmp_path / "dealer.db").stat().st_mode) == 0o600
    with writer_engine(parse(sqlite_url)).connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_many_who_prepare_one_fresh_file_at_once_all_get_it(tmp_path: Path) -> None:
    """SQLite does not always wait where two change a file to WAL mode: once in about 30 rounds one is refused."""
    for turn in range(60 if SOAK else 15):
        url = parse(f"sqlite:///{tmp_path}/dealer{turn}.db")
        start = threading.Barrier(8)

        def prepare(url: URL = url, start: threading.Barrier = start) -> None:
            start.wait(240)
            prepare_file(url)
            with writer_engine(url).begin() as connection:
                connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS anything (a)")

        with ThreadPoolExecutor(8) as threads:
            for prepared in [threads.submit(prepare) for _ in range(8)]:
                prepared.result(60)


def test_postgresql_writers_wait_for_the_disk_even_where_the_server_does_not(postgresql_url: str) -> None:
    engine = writer_engine(parse(postgresql_url.replace("options=", "options=-csynchronous_commit%3Doff%20")))
    with engine.begin() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    engine.dispose()
