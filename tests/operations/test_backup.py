"""A backup is made while leads arrive, and a new folder serves it."""

import json
import os
import random
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.asking import asked, lead
from tests.acceptance.dealers import FORD_VIN, stocked_dealer
from tests.acceptance.running import (
    COMMAND,
    PATIENCE_SECONDS,
    command_here,
    environment,
    serving,
    start,
    succeed_here,
)
from tests.acceptance.senders import Senders
from tests.installation.platform import DEALERS, add, make_installation
from tests.operations.backups import (
    PASSPHRASE,
    PASSPHRASE_VARIABLE,
    client_programs,
    fresh_database,
    leads_in,
    units_in,
)
from tests.storage.service_role import prepared_schema

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
    path = client_programs(server)
    with fresh_database(server) as source, fresh_database(server) as target:
        yield (
            {"DATABASE_URL": source, "DATABASE_ADMIN_URL": source, "PATH": path},
            {"DATABASE_URL": target, "DATABASE_ADMIN_URL": target, "PATH": path},
        )


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
            succeed_here("restore", each, "--dir", tmp_path / f"copy-{each.stem}")


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
    assert b"dealer-agent.keys.encrypted" not in plain.read_bytes()

    restored = command_here("restore", plain, "--dir", tmp_path / "without")
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
    ("options", "env", "told"),
    [
        (["--with-key"], {}, "there is no passphrase: set DEALER_AGENT_BACKUP_PASSPHRASE"),
        (["--with-key"], {PASSPHRASE_VARIABLE: "short"}, "the passphrase must have 12 to 1,024 characters"),
    ],
)
def test_a_backup_that_cannot_be_made_is_refused_with_advice(
    tmp_path: Path, options: list[str], env: dict[str, Any], told: str
) -> None:
    folder = stocked_dealer(tmp_path / "store")
    refused = command_here("backup", tmp_path / "backup.tar", *options, "--dir", folder, **env)
    assert (refused.returncode, told in refused.stderr) == (1, True), refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


def test_a_backup_replaces_no_file(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store")
    file = tmp_path / "backup.tar"
    file.write_text("of yesterday")
    refused = command_here("backup", file, "--dir", folder)
    assert (refused.returncode, "is there already" in refused.stderr) == (1, True)
    assert file.read_text() == "of yesterday"


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
    assert states("held", "--hold-deliveries") == {("parked", "crm")}
    assert "tried again" in succeed_here("deliveries", "retry", "--all", "--dir", tmp_path / "held")


def test_an_installation_is_restored_with_its_dealers_and_their_recorded_heads(tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "platform")
    for dealer_id in DEALERS:
        add(installation, dealer_id)
        folder = installation.folder_of(dealer_id)
        folder.mkdir(parents=True)
        heads = succeed_here("consent", "head", "--dealer", dealer_id, "--dir", installation.directory)
        (folder / "consent-heads.log").write_text(heads)
        (folder / "lead.xml").write_text("no heads: a file that a channel wrote")
    file, copy = tmp_path / "backup.tar", tmp_path / "copy"
    succeed_here("backup", file, "--with-key", "--dir", installation.directory, **WITH_PASSPHRASE)
    succeed_here("restore", file, "--dir", copy, **WITH_PASSPHRASE)
    listed = [succeed_here("dealers", "list", "--json", "--dir", each) for each in (installation.directory, copy)]
    assert listed[0] == listed[1]
    for dealer_id in DEALERS:
        assert [path.name for path in (copy / "dealers" / dealer_id).iterdir()] == ["consent-heads.log"]
        assert "whole" in succeed_here("consent", "verify", "--dealer", dealer_id, "--dir", copy)


def test_a_dump_needs_a_role_that_sees_all_rows(tmp_path: Path, postgresql_server: str) -> None:
    path = client_programs(postgresql_server)
    with prepared_schema(postgresql_server) as (admin, service):
        folder = stocked_dealer(tmp_path / "store", DATABASE_URL=service)
        file = tmp_path / "backup.tar"
        refused = command_here("backup", file, "--dir", folder, DATABASE_URL=service, PATH=path)
        assert (refused.returncode, "set DATABASE_ADMIN_URL" in refused.stderr) == (1, True), refused.stderr
        assert not file.exists()
        missing = command_here("backup", file, "--dir", folder, DATABASE_URL=service, PATH=str(tmp_path))
        assert "postgresql-client" in missing.stderr
        succeed_here("backup", file, "--dir", folder, DATABASE_URL=service, DATABASE_ADMIN_URL=admin, PATH=path)
        without = command_here("restore", file, "--dir", tmp_path / "copy")
        assert (without.returncode, "pg_restore --no-owner" in without.stderr) == (0, True), without.stderr
        assert (tmp_path / "copy" / "database.dump").exists()
        held = command_here("restore", file, "--dir", tmp_path / "held", "--hold-deliveries")
        assert (held.returncode, "set DATABASE_ADMIN_URL" in held.stderr) == (1, True)
        full = command_here("restore", file, "--dir", tmp_path / "full", DATABASE_ADMIN_URL=admin, PATH=path)
        assert (full.returncode, "has tables already" in full.stderr) == (1, True), full.stderr
        assert not (tmp_path / "full").exists()
