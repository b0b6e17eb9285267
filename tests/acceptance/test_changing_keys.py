"""`dealer-agent keys rotate`, a service that changes its keys, and erasures that a destroyed key makes final."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from tests.acceptance.asking import asked
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.key_files import LEADS, all_there, entries, ids_in, key_file, printed_key, refused, used, wanted
from tests.acceptance.running import Running, command_here, environment, eventually, serving, succeed
from tests.soak import sqlite_first

from dealer_agent.config import load_settings
from dealer_agent.config.keys import KeyFile
from dealer_agent.encryption import Keyring, new_key, render
from dealer_agent.privacy import key_rotation
from dealer_agent.storage.privacy.reencryption import reencrypt
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("keys")


@pytest.fixture
def folder(with_leads: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A dealer's folder with leads."""
    return with_leads(tmp_path / "store")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No service runs that would have to take a changed key file up."""
    monkeypatch.setattr(key_rotation, "RELOAD_SECONDS", 0.0)
    monkeypatch.setattr(key_rotation, "PAUSE_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
def test_rotate_brings_everything_under_a_new_key_and_keeps_the_old_one(folder: Path) -> None:
    (old,) = ids_in(folder)
    before = used(folder)
    said = command_here("keys", "rotate", "--dir", folder)
    assert said.returncode == 0, said.stderr
    new, kept = ids_in(folder)
    assert kept == old
    assert used(folder) == {new: before[old]}
    assert new in said.stdout
    assert "Back up" in said.stdout
    assert key_file(folder).stat().st_mode & 0o777 == 0o600
    all_there(folder)


@pytest.mark.usefixtures("at_once")
def test_with_forget_old_only_the_new_key_is_left_and_the_old_one_opens_nothing(folder: Path) -> None:
    (old,) = ids_in(folder)
    backup = entries(folder)
    said = command_here("keys", "rotate", "--forget-old", "--dir", folder)
    assert said.returncode == 0, said.stderr
    assert f"Destroyed: {old}" in said.stdout
    (new,) = ids_in(folder)
    assert set(used(folder)) == {new}
    all_there(folder)
    refused(command_here("leads", "list", "--dir", folder, DEALER_AGENT_KEYS=backup), new)


@pytest.mark.usefixtures("at_once")
def test_what_a_stopped_change_left_to_do_is_done_by_the_next(folder: Path) -> None:
    (old,) = ids_in(folder)
    new = new_key()
    before = Keyring.parse(key_file(folder).read_text())
    key_file(folder).write_text(render(replace(before, keys=(new, *before.keys))))
    settings = load_settings(folder, {})
    with Store.open(settings.database_url, settings.cipher) as store:
        change = reencrypt(store, settings.dealer.id, 6)
        assert (next(change), next(change)) == (6, 6)
    assert used(folder)[new[0]] == 12
    all_there(folder)
    said = command_here("keys", "rotate", "--dir", folder)
    assert "completed an earlier change that was interrupted" in said.stdout
    assert set(used(folder)) == {new[0]}
    assert ids_in(folder) == (new[0], old), "a change that goes on makes no third key"
    all_there(folder)


def test_keys_of_the_environment_are_changed_by_the_operator_and_rotate_encrypts_anew(folder: Path) -> None:
    (old,) = ids_in(folder)
    first = entries(folder)
    key_file(folder).unlink()
    added = printed_key(first)
    new = added.partition(":")[0]
    env: dict[str, Any] = {"DEALER_AGENT_KEYS": f"{added},{first}"}
    said = command_here("keys", "rotate", "--dir", folder, **env)
    assert said.returncode == 0, said.stderr
    assert f"Nothing needs {old}" in said.stdout
    assert set(used(folder, **env)) == {new}
    all_there(folder, DEALER_AGENT_KEYS=f"{added},{first.partition(',')[2]}")
    assert not key_file(folder).exists()


STOPPED = """
import os, signal, sys
from dealer_agent.cli import main
from dealer_agent.config import keys as files
from dealer_agent.privacy import key_rotation as keys

keys.VALUES_PER_TRANSACTION, keys.RELOAD_SECONDS = 1, 0.0
times, name = int(sys.argv.pop(1)), sys.argv.pop(1)
module = files if name == "replace_key_file" else keys
real = getattr(module, name)

def count():
    global times
    times -= 1
    if not times:
        os.kill(os.getpid(), signal.SIGSTOP)

def stopping(*given):
    answer = real(*given)
    count()
    return answer

def stopping_in(*given):
    for done in real(*given):
        count()
        yield done

setattr(module, name, stopping_in if name == "reencrypt" else stopping)
main()
"""
"""The command with a transaction for each value. It stops itself after some calls of a function, or steps of it."""


@contextmanager
def rotation_stopped_after(times: int, name: str, folder: Path, **env: Any) -> Iterator[None]:
    """A rotation that stands still for a block, and is then killed."""
    rotating = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(times), name, "keys", "rotate", "--dir", folder],
        env=environment(env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert os.WIFSTOPPED(os.waitpid(rotating.pid, os.WUNTRACED)[1]), "the command ended"
        yield
    finally:
        rotating.kill()
        rotating.wait(120)


@sqlite_first()
def test_a_rotation_that_is_killed_anywhere_loses_nothing_and_the_next_one_ends_it(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env: dict[str, Any] = {"DATABASE_URL": database_url}
    folder = stocked_dealer(tmp_path / "store", **env)
    with serving(folder, **env) as running:
        for number in range(LEADS):
            asked(running.url, "lead.submit", **wanted(number))
    (old,) = ids_in(folder)
    all_there(folder, **env)  # From its first entry on, the end of the access log is sealed.
    everything = used(folder, **env)[old]

    with rotation_stopped_after(1, "replace_key_file", folder, **env):
        assert len(ids_in(folder)) == 2
    assert ids_in(folder)[0] == old, "a new key only reads until every worker has it"
    all_there(folder, **env)

    with rotation_stopped_after(2, "replace_key_file", folder, **env):
        new = ids_in(folder)[0]
    assert new != old
    all_there(folder, **env)

    before = used(folder, **env).get(new, 0)
    with rotation_stopped_after(everything // 4, "reencrypt", folder, **env):
        assert used(folder, **env) == {new: before + everything // 4, old: everything - before - everything // 4}
    all_there(folder, **env)

    monkeypatch.setattr(key_rotation, "RELOAD_SECONDS", 0.0)
    done = command_here("keys", "rotate", "--forget-old", "--dir", folder, **env)
    assert done.returncode == 0, done.stderr
    assert ids_in(folder) == (new,)
    assert used(folder, **env) == {new: everything}
    all_there(folder, **env)
    assert {path.name for path in folder.glob("*keys*")} == {"dealer-agent.keys"}


def test_of_two_rotations_at_once_the_second_is_refused(folder: Path) -> None:
    with rotation_stopped_after(1, "replace_key_file", folder):
        refused(command_here("keys", "rotate", "--dir", folder), "Another process is rotating the keys")


class Buyers:
    """Sends every lead twice, without a key: the second is a duplicate of the first, whatever happens to the keys."""

    def __init__(self, running: Running) -> None:
        self.url = running.url
        self.leads: dict[int, str] = {}
        self.problems: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> "Buyers":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _send(self) -> None:
        number = 10_000
        try:
            while not self._stopped.wait(0.05):
                number += 1
                self.leads[number] = asked(self.url, "lead.submit", **wanted(number))["lead_id"]
                self.meets_again(number)
                self.meets_again(10_001 + 7 * number % len(self.leads))  # A lead can be added to 50 times.
        except (AssertionError, httpx.HTTPError) as problem:
            self.problems.append(repr(problem))

    def meets_again(self, number: int) -> None:
        if number not in self.leads:
            return
        receipt = asked(self.url, "lead.submit", **wanted(number))
        if (receipt["status"], receipt["lead_id"]) != ("duplicate", self.leads[number]):
            self.problems.append(f"buyer {number} of {len(self.leads)}: {receipt}")


def let_the_key_become_due(folder: Path, env: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The active key is old, and the next one is known."""
    monkeypatch.setattr(key_rotation, "RELOAD_SECONDS", 0.0)
    settings = load_settings(folder, env)
    cipher = settings.cipher
    assert cipher is not None
    with Store.open(settings.database_url, cipher) as store:
        store.check_keys(settings.dealer.id)
        with store.write(settings.dealer.id) as tx:
            tx.connection.execute(text("UPDATE vault_key_uses SET since = 0"))
        rotation = key_rotation.KeyRotation(store, cipher, settings.dealer.id, KeyFile(key_file(folder)), days=30)
        rotation.run_due_steps(datetime.now(UTC) - timedelta(days=1))
    assert len(ids_in(folder)) == 2


@pytest.mark.soak
def test_a_running_service_takes_leads_and_finds_duplicates_while_it_changes_its_key(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two workers and no restart; then a restart with the new key alone finds them still."""
    folder = stocked_dealer(tmp_path / "store", DATABASE_URL=database_url)
    env: dict[str, Any] = {"DATABASE_URL": database_url}
    let_the_key_become_due(folder, env, monkeypatch)
    old, new = ids_in(folder)
    with serving(folder, workers=2, **env) as running:
        kept = wanted(1, idempotency_key="first")
        first = asked(running.url, "lead.submit", **kept)
        with Buyers(running) as buyers:
            eventually("leads come in", lambda: len(buyers.leads) > 5)
            eventually("the old key is destroyed", lambda: ids_in(folder) == (new,))
            eventually("it says so", lambda: '"key rotated: back up the key file"' in running.stderr())
            seen = len(buyers.leads)
            eventually("leads go on coming in", lambda: len(buyers.leads) > seen + 5 or buyers.problems)
        assert not buyers.problems
        assert asked(running.url, "lead.submit", **kept) == first
        assert set(used(folder, **env)) == {new}
        assert f'"destroyed":"{old}"' in running.stderr()
    with serving(folder, **env) as running:
        for number in list(buyers.leads)[::5]:
            buyers.url = running.url
            buyers.meets_again(number)
        assert not buyers.problems
        assert asked(running.url, "lead.submit", **kept) == first
    assert succeed("consent", "verify", "--dir", folder, **env)


def test_a_running_service_says_that_its_key_file_broke_and_goes_on(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store")
    with serving(folder) as running:
        receipt = asked(running.url, "lead.submit", **wanted(1))
        key_file(folder).chmod(0o644)
        eventually("it says so", lambda: "chmod 600" in running.stderr())
        again = asked(running.url, "lead.submit", **wanted(1))
        assert (again["status"], again["lead_id"]) == ("duplicate", receipt["lead_id"])
        key_file(folder).chmod(0o600)
        eventually("it says so", lambda: '"refresh works again"' in running.stderr())


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param("", "final by 20", id="the service changes keys"),
        pytest.param("\n[privacy]\nrotate_keys_days = 0\n", "leads erase --final", id="nobody does"),
    ],
)
def test_an_erasure_says_when_it_is_final(folder: Path, settings: str, expected: str) -> None:
    with (folder / "dealer.toml").open("a") as toml:
        toml.write(settings)
    done = command_here("leads", "erase", "--yes", "--email", "robin1@example.com", "--dir", folder)
    assert done.returncode == 0, done.stderr
    assert expected in " ".join(done.stdout.split())


def test_keys_of_the_environment_make_an_erasure_final_when_the_operator_removes_them(folder: Path) -> None:
    env: dict[str, Any] = {"DEALER_AGENT_KEYS": entries(folder)}
    erase = ("leads", "erase", "--yes", "--email", "robin1@example.com", "--dir", folder)
    refused(command_here(*erase, "--final", **env), "DEALER_AGENT_KEYS", "dealer-agent keys rotate", "--help")
    assert "Example1 " in command_here("leads", "list", "--dir", folder, **env).stdout
    done = command_here(*erase, **env)
    assert "replaced the key in DEALER_AGENT_KEYS" in " ".join(done.stdout.split())


@pytest.mark.usefixtures("at_once")
def test_an_erasure_that_was_killed_before_it_was_final_is_made_final_by_the_same_command(folder: Path) -> None:
    (old,) = ids_in(folder)
    erase = ("leads", "erase", "--yes", "--email", "robin1@example.com", "--dir", folder)
    assert command_here(*erase).returncode == 0
    refused(command_here(*erase), "No lead has this e-mail address")
    done = command_here(*erase, "--final")
    assert done.returncode == 0, done.stderr
    assert "There is nothing to erase" in done.stdout
    assert "The erasure is final" in done.stdout
    assert old not in ids_in(folder)
