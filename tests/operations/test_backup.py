"""A backup is made while leads arrive, and a new folder serves it."""

import json
import os
import random
import signal
import sqlite3
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Connection, delete, select
from sqlalchemy.exc import ProgrammingError
from tests.acceptance.asking import asked, lead
from tests.acceptance.dealers import FORD_VIN, stocked_dealer
from tests.acceptance.running import COMMAND, PATIENCE_SECONDS, command_here, environment, serving, start, succeed_here
from tests.acceptance.senders import Senders
from tests.installation.platform import DEALERS, add, make_installation
from tests.operations.backups import PASSPHRASE, PASSPHRASE_VARIABLE, fresh_database, leads_in, units_in
from tests.operations.test_backup_file import at, row_of
from tests.storage.current import make_current
from tests.storage.service_role import admin_of, prepared_schema
from tests.storage.test_isolation import fill

from dealer_agent.config import load_settings
from dealer_agent.config.keys import KEY_FILE_NAME
from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.database_roles import inserting_only
from dealer_agent.storage.database_url import database_url as parsed
from dealer_agent.storage.schema import metadata, revisions

pytestmark = pytest.mark.outside_protocol("backups")

WITH_PASSPHRASE: dict[str, Any] = {PASSPHRASE_VARIABLE: PASSPHRASE}
KILLS = int(os.environ.get("SOAK_KILLS", "1"))
LEADS = 10


@pytest.fixture(params=["sqlite", "postgresql"])
def places(request: pytest.FixtureRequest) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The environments of a service and of its restored copy."""
    if request.param == "sqlite":
        yield {}, {}
        return
    server = request.getfixturevalue("postgresql_server")
    with fresh_database(server) as source, fresh_database(server) as target:
        yield (
            {"DATABASE_URL": source, "DATABASE_ADMIN_URL": source},
            {"DATABASE_URL": target, "DATABASE_ADMIN_URL": target},
        )


@pytest.mark.usefixtures("cheap_passphrase")
def test_a_backup_made_under_load_has_every_lead_that_was_answered_before_it_began(
    tmp_path: Path, places: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    here, there = places
    folder, file, copy = tmp_path / "store", tmp_path / "backup.tar", tmp_path / "copy"
    stocked_dealer(folder, **here)
    running = start(folder, **here)
    try:
        senders = Senders(running.url, 1)
        senders.wait_for(LEADS)
        before = set(senders.answered.values())
        succeed_here("backup", file, "--with-key", "--dir", folder, **here, **WITH_PASSPHRASE)
        senders.wait_for(len(senders.answered) + LEADS)
    finally:
        running.kill_all()
    senders.join()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    said = succeed_here("restore", file, "--dir", copy, **there, **WITH_PASSPHRASE)
    assert "All hashes agree" in said
    assert before <= leads_in(copy, **there) <= leads_in(folder, **here)
    assert (copy / "dealer.toml").read_bytes() == (folder / "dealer.toml").read_bytes()
    assert "whole" in succeed_here("consent", "verify", "--dir", copy, **there)
    assert units_in(copy, **there) == 3


def unfinished(folder: Path) -> list[str]:
    """The folders of unfinished backups."""
    return [path.name for path in folder.glob(".*.dealer-agent-backup")]


def test_a_killed_backup_leaves_no_file_or_a_whole_one(tmp_path: Path) -> None:
    """The next backup deletes what the killed one has left beside it."""
    folder = stocked_dealer(tmp_path / "store")
    for turn in range(KILLS):
        file = tmp_path / f"backup-{turn}.tar"
        backup = subprocess.Popen(
            [COMMAND, "backup", file, "--dir", folder], env=environment(), stdout=subprocess.DEVNULL
        )
        # From the moment at which it begins to write, up to its end.
        while not unfinished(tmp_path) and backup.poll() is None:
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.03))
        backup.send_signal(signal.SIGKILL)
        backup.wait(PATIENCE_SECONDS)
        next_file = tmp_path / f"next-{turn}.tar"
        succeed_here("backup", next_file, "--dir", folder)
        assert unfinished(tmp_path) == []
        for each in filter(Path.exists, (file, next_file)):
            succeed_here("restore", each, "--dir", tmp_path / f"copy-{each.stem}", "--keys", folder / KEY_FILE_NAME)


def test_a_backup_deletes_the_files_of_a_killed_one(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store")
    for name in ("backup.tar", "of-another-day.tar"):
        left = tmp_path / f".{name}.dealer-agent-backup"
        (left / "heads").mkdir(parents=True)
        (left / "backup.tar").write_bytes(b"half")
    succeed_here("backup", tmp_path / "backup.tar", "--dir", folder)
    assert unfinished(tmp_path) == []


def test_the_keys_are_in_a_backup_only_on_request_and_never_in_plain(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store")
    keys = (folder / "dealer-agent.keys").read_text()
    secrets = [line.partition(":")[2].encode() for line in keys.splitlines() if ":" in line and line[0] != "#"]
    plain, sealed = tmp_path / "plain.tar", tmp_path / "sealed.tar"
    said = command_here("backup", plain, "--dir", folder)
    assert "The keys are not in it" in said.stderr
    succeed_here("backup", sealed, "--with-key", "--dir", folder, **WITH_PASSPHRASE)
    for file in (plain, sealed):
        assert not [secret for secret in secrets if secret in file.read_bytes()]
    assert b'"sealed_keys": null' in plain.read_bytes()

    restored = command_here("restore", plain, "--unverified", "--dir", tmp_path / "without")
    assert restored.returncode == 0
    assert "Put dealer-agent.keys with the key k-" in restored.stderr
    assert not (tmp_path / "without" / "dealer-agent.keys").exists()
    other: dict[str, Any] = {PASSPHRASE_VARIABLE: "another passphrase"}
    wrong = command_here("restore", sealed, "--dir", tmp_path / "with", **other)
    assert (wrong.returncode, "the passphrase is wrong" in wrong.stderr) == (1, True)
    assert not (tmp_path / "with").exists()
    succeed_here("restore", sealed, "--dir", tmp_path / "with", **WITH_PASSPHRASE)
    assert (tmp_path / "with" / "dealer-agent.keys").read_text().partition("k-")[2] == keys.partition("k-")[2]
    assert stat.S_IMODE((tmp_path / "with" / "dealer-agent.keys").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("options", "env", "expected"),
    [
        (["--with-key"], {}, "there is no passphrase: set DEALER_AGENT_BACKUP_PASSPHRASE"),
        (["--with-key"], {PASSPHRASE_VARIABLE: "short"}, "the passphrase must have 12 to 1,024 characters"),
    ],
)
def test_a_backup_that_cannot_be_made_is_refused_with_advice(
    tmp_path: Path, options: list[str], env: dict[str, Any], expected: str
) -> None:
    folder = stocked_dealer(tmp_path / "store")
    refused = command_here("backup", tmp_path / "backup.tar", *options, "--dir", folder, **env)
    assert (refused.returncode, expected in refused.stderr) == (1, True), refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


def test_a_backup_replaces_no_file(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store")
    file = tmp_path / "backup.tar"
    file.write_text("of yesterday")
    refused = command_here("backup", file, "--dir", folder)
    assert (refused.returncode, "exists already" in refused.stderr) == (1, True)
    assert file.read_text() == "of yesterday"


def test_a_database_of_a_newer_version_is_not_copied_in_part(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store")
    with closing(sqlite3.connect(folder / "dealer-agent.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    refused = command_here("backup", tmp_path / "backup.tar", "--dir", folder)
    assert (refused.returncode, "the database has schema 9999" in refused.stderr) == (1, True), refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


@pytest.mark.usefixtures("cheap_passphrase")
def test_waiting_deliveries_are_held_on_request(tmp_path: Path) -> None:
    """Otherwise they are sent when the service starts."""
    channel = '\n[[rooftops.deliver.http]]\nname = "crm"\nurl = "http://127.0.0.1:9/"\nformat = "json"\n'
    folder, file = stocked_dealer(tmp_path / "store", channel), tmp_path / "backup.tar"
    with serving(folder) as running:
        asked(running.url, "lead.submit", **lead(1, vehicle_of_interest={"vin": FORD_VIN}))
        succeed_here("backup", file, "--with-key", "--dir", folder, **WITH_PASSPHRASE)

    def states(name: str, *options: str) -> set[tuple[str, str]]:
        succeed_here("restore", file, "--dir", tmp_path / name, *options, **WITH_PASSPHRASE)
        rows = json.loads(succeed_here("deliveries", "list", "--json", "--dir", tmp_path / name))
        return {(row["state"].replace("being sent", "waiting"), row["channel"]) for row in rows}

    assert states("as-it-was") == {("waiting", "crm")}
    assert states("held", "--hold-deliveries") == {("undeliverable", "crm")}
    assert "tried again" in succeed_here("deliveries", "retry", "--all", "--dir", tmp_path / "held")


@pytest.mark.usefixtures("cheap_passphrase")
def test_a_file_for_heads_that_is_still_empty_is_left_out(tmp_path: Path) -> None:
    """A service that has just started has made it. Restoring accepts no file of an unknown kind."""
    folder, file = stocked_dealer(tmp_path / "store"), tmp_path / "backup.tar"
    (folder / "consent-heads.log").touch()
    succeed_here("backup", file, "--with-key", "--dir", folder, **WITH_PASSPHRASE)
    succeed_here("restore", file, "--dir", tmp_path / "copy", **WITH_PASSPHRASE)
    assert not (tmp_path / "copy" / "consent-heads.log").exists()


@pytest.mark.usefixtures("cheap_passphrase")
def test_an_installation_is_restored_with_its_dealers_and_their_recorded_heads(tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "platform")
    for dealer_id in DEALERS:
        add(installation, dealer_id)
        folder = installation.folder_of(dealer_id)
        folder.mkdir(parents=True)
        heads = succeed_here("consent", "head", "--dealer", dealer_id, "--dir", installation.folder)
        (folder / "consent-heads.log").write_text(heads)
        (folder / "lead.xml").write_text("no heads: a file that a channel wrote")
    file, copy = tmp_path / "backup.tar", tmp_path / "copy"
    succeed_here("backup", file, "--with-key", "--dir", installation.folder, **WITH_PASSPHRASE)
    succeed_here("restore", file, "--dir", copy, **WITH_PASSPHRASE)
    listed = [succeed_here("dealers", "list", "--json", "--dir", each) for each in (installation.folder, copy)]
    assert listed[0] == listed[1]
    for dealer_id in DEALERS:
        assert [path.name for path in (copy / "dealers" / dealer_id).iterdir()] == ["consent-heads.log"]
        assert "whole" in succeed_here("consent", "verify", "--dealer", dealer_id, "--dir", copy)


def test_backup_and_restore_on_postgresql_need_the_admin_role_and_an_empty_target(
    tmp_path: Path, postgresql_server: str
) -> None:
    with prepared_schema(postgresql_server) as (admin, service):
        folder = stocked_dealer(tmp_path / "store", DATABASE_URL=service)
        file, keys = tmp_path / "backup.tar", ("--keys", folder / KEY_FILE_NAME)
        refused = command_here("backup", file, "--dir", folder, DATABASE_URL=service)
        assert (refused.returncode, "set DATABASE_ADMIN_URL" in refused.stderr) == (1, True), refused.stderr
        assert not file.exists()
        succeed_here("backup", file, "--dir", folder, DATABASE_URL=service, DATABASE_ADMIN_URL=admin_of(service))
        without_admin = command_here("restore", file, "--dir", tmp_path / "copy", *keys)
        assert (without_admin.returncode, "set DATABASE_ADMIN_URL to its URL" in without_admin.stderr) == (1, True)
        # The database of the source is not empty.
        full = command_here("restore", file, "--dir", tmp_path / "full", *keys, DATABASE_ADMIN_URL=admin)
        assert (full.returncode, "has tables already" in full.stderr) == (1, True), full.stderr
        assert not (tmp_path / "full").exists()


PROGRAM = """
    CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF current_setting('test.quiet', true) IS NULL THEN
            EXECUTE format('COPY (SELECT) TO PROGRAM %L', 'touch {mark}');
        END IF;
        RETURN NEW;
    END $$;
    CREATE TABLE evil (a integer);
    CREATE TRIGGER evil BEFORE INSERT ON evil FOR EACH ROW EXECUTE FUNCTION evil();
    CREATE TRIGGER evil BEFORE INSERT ON tokens FOR EACH ROW EXECUTE FUNCTION evil();
    SET test.quiet = 'yes';
    INSERT INTO evil VALUES (1);
    INSERT INTO tokens (dealer_id, token_id, purpose, name, token_hash, created_at)
    VALUES ('acceptance', 'T1', 'skills', 'any', 'x', 1);
"""
"""Whoever inserts a row runs a program as the user of the server."""


def test_nothing_that_a_stranger_has_added_to_a_database_is_restored_or_run(
    tmp_path: Path, postgresql_server: str
) -> None:
    mark = Path(f"/tmp/dealer-agent-{uuid4().hex}")
    with fresh_database(postgresql_server) as source, fresh_database(postgresql_server) as target:
        folder, file = stocked_dealer(tmp_path / "store", DATABASE_URL=source), tmp_path / "backup.tar"
        with psycopg.connect(source, autocommit=True) as connection:
            connection.execute(PROGRAM.format(mark=mark).encode())
        succeed_here("backup", file, "--dir", folder, DATABASE_URL=source)
        options = ("--unverified", "--dir", tmp_path / "copy")
        succeed_here("restore", file, *options, DATABASE_ADMIN_URL=target)
        assert not mark.exists()
        with psycopg.connect(target) as connection:
            assert connection.execute("SELECT count(*) FROM tokens").fetchone() == (1,)
            assert connection.execute("SELECT count(*) FROM pg_trigger WHERE tgname = 'evil'").fetchone() == (0,)
            assert connection.execute("SELECT to_regclass('evil'), to_regproc('evil')").fetchone() == (None, None)


def test_a_restore_that_fails_leaves_a_postgresql_database_as_it_was(tmp_path: Path, postgresql_server: str) -> None:
    """The last row does not fit. The tables, rows and the role of the transaction are gone."""
    state = (
        "SELECT (SELECT count(*) FROM pg_tables), (SELECT count(*) FROM pg_policies), (SELECT count(*) FROM pg_roles"
    )
    state += (
        " WHERE rolname LIKE 'dealer_agent_restore%'), (SELECT nspacl::text FROM pg_namespace WHERE nspname = 'public')"
    )
    with fresh_database(postgresql_server) as source, fresh_database(postgresql_server) as target:
        folder, file = stocked_dealer(tmp_path / "store", DATABASE_URL=source), tmp_path / "backup.tar"
        succeed_here("backup", file, "--dir", folder, DATABASE_URL=source)
        row_of("unit_documents", at(1, "V-other"))(file)
        with psycopg.connect(target, autocommit=True) as connection:
            before = connection.execute(state.encode()).fetchone()
            options = ("--unverified", "--dir", tmp_path / "copy")
            refused = command_here("restore", file, *options, DATABASE_ADMIN_URL=target)
            assert (refused.returncode, "does not fit this table" in refused.stderr) == (1, True), refused.stderr
            assert connection.execute(state.encode()).fetchone() == before
        assert not (tmp_path / "copy").exists()


def test_rows_are_restored_by_a_role_that_may_do_nothing_else(postgresql_url: str) -> None:
    refused = (
        "CREATE FUNCTION evil() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TABLE evil (a int)",
        "COPY leads FROM PROGRAM 'id'",
        "SELECT * FROM clocks",
        "UPDATE clocks SET trusted_at = 0",
        "INSERT INTO alembic_version VALUES ('9999')",
    )
    make_current(postgresql_url)
    engine = writer_engine(parsed(postgresql_url))
    with engine.connect() as connection, connection.begin() as transaction:
        with inserting_only(connection, list(metadata.tables)):
            for statement in refused:
                tried = connection.begin_nested()
                with pytest.raises(ProgrammingError, match="InsufficientPrivilege"):
                    connection.exec_driver_sql(statement)
                tried.rollback()
            connection.exec_driver_sql("INSERT INTO clocks VALUES ('any', 1)")
        transaction.rollback()
    engine.dispose()


def test_all_rows_are_restored_as_they_were_on_each_database(
    tmp_path: Path, places: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    """Each table, with values of each type."""
    here, there = places
    folder = stocked_dealer(tmp_path / "store", **here)
    engine = writer_engine(parsed(load_settings(folder, here).database_url))
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(delete(table))
        for dealer_id in ("north", "south"):
            fill(connection, dealer_id)
        before = rows_in(connection)
    engine.dispose()
    assert all(before.values())
    file, keys = tmp_path / "backup.tar", ("--keys", folder / KEY_FILE_NAME)
    succeed_here("backup", file, "--dir", folder, **here)
    succeed_here("restore", file, "--dir", tmp_path / "copy", *keys, **there)
    engine = writer_engine(parsed(load_settings(tmp_path / "copy", there).database_url))
    with engine.begin() as connection:
        assert rows_in(connection) == before
    engine.dispose()


def rows_in(connection: Connection) -> dict[str, list[Any]]:
    """The rows of all tables. The time of a change is that of the restore."""
    found = {}
    for table in metadata.sorted_tables:
        columns = [column for column in table.columns if column is not revisions.c.changed_at]
        found[table.name] = list(connection.execute(select(*columns).order_by(*table.primary_key)))
    return found
