"""The tests' own PostgreSQL server, where root starts it from a bare environment, and their databases."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import inspect, text
from tests.storage.calls import read
from tests.storage.current import Schemas, make_current
from tests.storage.databases import obstacle, url_of, with_system_folders
from tests.storage.samples import CIPHER, DEALER, import_rows, row
from tests.storage.service_role import prepared_schema, roles_of

from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.database_url import database_url as parsed
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.schema import SCHEMA_VERSION, metadata
from dealer_agent.storage.stock.reading import ChangeCounters, read_revision
from dealer_agent.storage.store import Store

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/bin", "/bin:/usr/local/sbin:/usr/sbin:/sbin"),
        ("/usr/sbin:/bin", "/usr/sbin:/bin:/usr/local/sbin:/sbin"),
        ("", "/usr/local/sbin:/usr/sbin:/sbin"),
    ],
)
def test_the_folders_of_the_system_are_on_the_path_once(path: str, found: str) -> None:
    assert with_system_folders(path) == found


def test_useradd_is_found_though_the_path_lacks_its_folder() -> None:
    """As in `env -i PATH=/usr/bin:/bin make test`."""
    program = "import os, shutil, tests.storage.databases as d\nclass Worker: workerinput = None\n"
    program += "d.pytest_configure(Worker); print(os.environ['PATH'])"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PATH": "/usr/bin:/bin"}, cwd=ROOT, check=True, capture_output=True
    )
    assert done.stdout.decode().strip() == "/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def test_the_message_says_what_to_do_without_useradd_and_without_the_servers_user(tmp_path: Path) -> None:
    problem = obstacle("nobody-has-this-name", str(tmp_path))
    assert problem is not None
    assert "\n" not in problem
    assert "useradd" in problem
    assert "TEST_DATABASE_URL" in problem
    (tmp_path / "useradd").touch(mode=0o755)
    assert obstacle("nobody-has-this-name", str(tmp_path)) is None
    assert obstacle("root", os.devnull) is None


def test_a_database_of_the_tests_is_what_the_migrations_make(database_url: str) -> None:
    make_current(database_url)
    assert migrate(database_url) == SCHEMA_VERSION


@pytest.mark.parametrize("change", [None, "ALTER TABLE units ADD COLUMN a INT", "DROP INDEX ix_units_dealer_id_vin"])
def test_a_schema_is_used_again_only_where_its_tables_are_unchanged_and_empty(
    postgresql_server: str, change: str | None
) -> None:
    first, second = (url_of(postgresql_server, name) for name in ("test_first", "test_second"))
    with closing(Schemas(postgresql_server)) as schemas:
        with schemas.lend(first, "test_first"):
            make_current(first)
            with Store.open(first, CIPHER) as store:
                import_rows(store, [row("V1")])
                assert read(store, DEALER, read_revision) != ChangeCounters()
            if change is not None:
                engine = writer_engine(parsed(first))
                with engine.begin() as connection:
                    connection.execute(text(change))
                engine.dispose()
        assert len(schemas.spare) == (change is None)
        with schemas.lend(second, "test_second"):
            make_current(second)
            assert schemas.spare == []
            with Store.open(second, CIPHER) as store:
                assert read(store, DEALER, read_revision) == ChangeCounters(0, 0)
                assert len(inspect(store._writer).get_columns("units")) == len(metadata.tables["units"].columns)


def test_a_prepared_schema_is_used_again_empty_unless_a_right_was_changed(postgresql_server: str) -> None:
    with prepared_schema(postgresql_server) as (first, service), Store.open(service, CIPHER) as store:
        import_rows(store, [row("V1")])
    with prepared_schema(postgresql_server) as (again, service):
        assert again == first
        with Store.open(service, CIPHER) as store:
            assert read(store, DEALER, read_revision) == ChangeCounters(0, 0)
        with psycopg.connect(first, autocommit=True) as connection:
            connection.execute(f'REVOKE SELECT ON units FROM "{roles_of(first).service}"'.encode())
    with prepared_schema(postgresql_server) as (other, _):
        assert other != first
