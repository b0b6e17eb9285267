"""Databases that are fresh, current, older and newer than the program."""

import stat
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Dialect, Engine, MetaData, inspect, text
from tests.storage.calls import read
from tests.storage.samples import DEALER, MONDAY, VAULT, import_rows, row, stock_of
from tests.storage.schema_text import schema_text

import dealer_agent.storage
from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.database_url import database_url as parse
from dealer_agent.storage.errors import SchemaOutdated, SchemaTooNew, StorageError
from dealer_agent.storage.migrate import migrate, prepare_file
from dealer_agent.storage.schema import FIRST_REVISION, SCHEMA_REVISION, metadata
from dealer_agent.storage.stock import Revision, list_imports, read_revision
from dealer_agent.storage.store import Store

SCHEMAS = Path(__file__).with_name("schemas")


@pytest.fixture
def engine(database_url: str) -> Engine:
    return writer_engine(parse(database_url))


def test_a_fresh_database_is_brought_to_the_newest_schema(database_url: str) -> None:
    assert migrate(database_url) is None
    with Store.open(database_url, VAULT) as store:
        assert read(store, DEALER, read_revision) == Revision(0, 0)


def test_a_current_database_stays_as_it_is(database_url: str) -> None:
    migrate(database_url)
    with Store.open(database_url, VAULT) as store:
        import_rows(store, [row("V1")])
        assert migrate(database_url) == SCHEMA_REVISION
        assert len(stock_of(store, DEALER, remember_days=1, now=MONDAY).live) == 1


def test_a_database_that_is_too_old_is_refused_with_the_way_to_upgrade_it(database_url: str, engine: Engine) -> None:
    migrate(database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0008'"))
    engine.dispose()
    for use in (Store.open, migrate):
        with pytest.raises(
            SchemaOutdated, match=r"schema 0008, .* too old .*: start the version of commit 61e4e78 once"
        ):
            use(database_url)


def test_a_database_of_a_newer_program_is_refused_in_plain_words(database_url: str, engine: Engine) -> None:
    migrate(database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(SchemaTooNew, match="schema 9999, written by a newer version"):
        Store.open(database_url, VAULT)
    with pytest.raises(SchemaTooNew, match="upgrade the program"):
        migrate(database_url)


def test_an_empty_database_is_not_opened(postgresql_url: str) -> None:
    with pytest.raises(SchemaOutdated, match="empty"):
        Store.open(postgresql_url, VAULT)


def test_a_migration_that_fails_leaves_nothing(database_url: str, engine: Engine) -> None:
    """It is one transaction, on SQLite too."""
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


def migrate_to(engine: Engine, revision: str) -> None:
    """Brings an empty database to a revision."""
    if engine.dialect.name == "sqlite":
        prepare_file(engine.url)
    with engine.begin() as connection:
        config = migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def test_the_first_migration_makes_the_schema_of_the_nine_migrations_that_it_replaced(
    database_url: str, engine: Engine
) -> None:
    """So a database that those made is upgraded: its revision is the same."""
    migrate_to(engine, FIRST_REVISION)
    made = schema_text(engine)
    engine.dispose()
    assert made == (SCHEMAS / f"{engine.dialect.name}.txt").read_text()


def migrations() -> Config:
    config = Config()
    config.set_main_option("path_separator", "os")
    config.set_main_option("script_location", str(Path(dealer_agent.storage.__file__).with_name("migrations")))
    return config


def test_the_newest_migration_is_the_one_the_program_needs() -> None:
    assert ScriptDirectory.from_config(migrations()).get_current_head() == SCHEMA_REVISION


OLD_ROWS = (
    "INSERT INTO revisions VALUES ('ridgeline', 1, 0)",
    "INSERT INTO imports VALUES ('ridgeline', 1, 1, 'a.csv', 'canonical', {true}, 1, 0, 0, 0, 0)",
    "INSERT INTO units VALUES ('ridgeline', 'vin-V1', 'V1', NULL, 'd', {empty}, 1, 1, 1, NULL)",
    "INSERT INTO unit_documents VALUES ('ridgeline', 'vin-V1', {document})",
)


def test_the_stock_of_an_older_database_stays(database_url: str, engine: Engine) -> None:
    migrate_to(engine, FIRST_REVISION)
    document = b'{"vin":"V1"}'.hex()
    literals = (
        {"true": "1", "empty": "x''", "document": f"x'{document}'"}
        if engine.dialect.name == "sqlite"
        else {"true": "true", "empty": "''", "document": f"'\\x{document}'"}
    )
    with engine.begin() as connection:
        for statement in OLD_ROWS:
            connection.exec_driver_sql(statement.format(**literals))
    engine.dispose()
    assert migrate(database_url) == FIRST_REVISION
    with Store.open(database_url, VAULT) as store:
        (unit,) = stock_of(store, DEALER, remember_days=1, now=MONDAY).live
        assert (unit.vehicle_id, unit.unit.vin) == ("vin-V1", "V1")
        assert read(store, DEALER, list_imports, 10)[0].rooftops is None


OLD_VISITS: dict[str, dict[str, str | int | bytes]] = {
    "leads": {"lead_id": "L{n}", "vehicle_id": "unit-9", "received_at": 1, "used_at": 1, "status": "received"},
    "appointments": {
        "appointment_id": "A{n}",
        "lead_id": "L{n}",
        "kind": "{kind}",
        "status": "confirmed",
        "created_at": "{n}",
        "reply": b"{}",
    },
}


def test_confirmed_test_drives_of_an_older_database_take_their_vehicles(database_url: str, engine: Engine) -> None:
    """If two have one vehicle at one time, the older one takes it. Another kind of visit takes none."""
    migrate_to(engine, "0019")
    with engine.begin() as connection:
        for number, kind, quarters in ((2, "test_drive", [4, 5]), (1, "test_drive", [5, 6]), (3, "sales", [8])):
            named = {"n": number, "kind": kind}
            for table, values in OLD_VISITS.items():
                row = {
                    name: value.format(**named) if isinstance(value, str) else value for name, value in values.items()
                }
                add_row(connection, table, row | {"rooftop": "North"})
            for quarter in quarters:
                place = {"rooftop": "North", "kind": kind, "place": number, "appointment_id": f"A{number}"}
                add_row(connection, "places", place | {"quarter": quarter})
    assert migrate(database_url) == "0019"
    with engine.connect() as connection:
        taken = connection.execute(text("SELECT rooftop, quarter, appointment_id FROM places WHERE kind = 'vehicle'"))
        assert sorted(map(tuple, taken)) == [("unit-9", 4, "A2"), ("unit-9", 5, "A1"), ("unit-9", 6, "A1")]
        visits = connection.execute(text("SELECT appointment_id, vehicle_id FROM appointments"))
        assert sorted(map(tuple, visits)) == [("A1", "unit-9"), ("A2", "unit-9"), ("A3", None)]
    engine.dispose()


def add_row(connection: Connection, table: str, values: Mapping[str, object]) -> None:
    """Adds a row of the dealer."""
    row = {"dealer_id": DEALER, **values}
    names = ", ".join(row)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES (:{', :'.join(row)})"), row)


def test_every_table_leads_with_the_dealer_in_its_key_and_its_indexes(database_url: str, engine: Engine) -> None:
    """Storage leads with `dealer_id` everywhere, so that the tables can be partitioned by it."""
    migrate(database_url)
    found = inspect(engine)
    for table in metadata.tables:
        assert found.get_pk_constraint(table)["constrained_columns"][0] == "dealer_id"
        for index in found.get_indexes(table):
            # The changes of all dealers are found by their time.
            assert index["column_names"][0] == "dealer_id" or index["name"] == "ix_revisions_changed_at_dealer_id"
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
    for turn in range(30):
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
