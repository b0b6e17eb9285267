"""`dealer-agent keys`, and what the service and the commands do with a key that is lost or wrong."""

import os
import re
import sqlite3
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
from tests.acceptance.asking import asked, lead
from tests.acceptance.dealers import HONDA_VIN, stock_of_three, stocked_dealer, write_feed
from tests.acceptance.running import Running, command, command_here, environment, eventually, serving, succeed

from dealer_agent.config import key_rotation, load_settings
from dealer_agent.config.keys import create_key_file
from dealer_agent.storage.store import Store
from dealer_agent.vault import Keyring, new_key, render

LEADS = 12
A_LEAD = "01KE7AQ2N0V5X3J8R6T4Y9W1ZA"
READING = [
    ("leads", "list"),
    ("leads", "show", A_LEAD),
    ("leads", "export"),
    ("leads", "erase", "--yes", "--email", "robin1@example.com"),
    ("leads", "dispose"),
    ("consent", "show", A_LEAD),
    ("consent", "revoke", A_LEAD),
    ("consent", "verify"),
    ("appointments", "list"),
    ("keys", "list"),
    ("keys", "rotate"),
]
"""Commands that read customer data, beside `serve`."""


def key_file(folder: Path) -> Path:
    return folder / "dealer-agent.keys"


def ids_in(folder: Path) -> tuple[str, ...]:
    return Keyring.parse(key_file(folder).read_text()).ids


def entries(folder: Path) -> str:
    """The file's keys as a variable holds them."""
    return render(Keyring.parse(key_file(folder).read_text())).strip().replace("\n", ",")


def printed_key(env: str) -> str:
    """A new key for an environment that holds these entries."""
    return command_here("keys", "create", "--print", DEALER_AGENT_KEYS=env).stdout.strip()


def used(folder: Path, **env: Any) -> dict[str, int]:
    """How many values each key seals."""
    settings = load_settings(folder, env)
    with Store.open(settings.database_url, settings.vault) as store:
        return {key_id: count for key_id, count in store.keys_in_use(settings.dealer.id).items() if count}


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No service runs that would have to take a changed key file up."""
    monkeypatch.setattr(key_rotation, "TAKEN_UP_SECONDS", 0.0)
    monkeypatch.setattr(key_rotation, "PAUSE_SECONDS", 0.0)


@pytest.fixture(scope="session")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Makes copies of a dealer's folder with some leads in its database."""
    original = stocked_dealer(tmp_path_factory.mktemp("keys") / "store")
    with serving(original) as running:
        for number in range(LEADS):
            asked(running.url, "lead.submit", **wanted(number))
    with sqlite3.connect(original / "dealer-agent.db") as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def copied(folder: Path) -> Path:
        folder.mkdir(mode=0o700)
        for name in ("dealer.toml", "dealer-agent.keys", "dealer-agent.db"):
            (folder / name).write_bytes((original / name).read_bytes())
            (folder / name).chmod(0o600)
        return folder

    return copied


@pytest.fixture
def folder(taken: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A dealer's folder with leads."""
    return taken(tmp_path / "store")


def wanted(number: int, **members: Any) -> dict[str, Any]:
    return lead(number, vehicle_of_interest={"vin": HONDA_VIN}, **members)


def refused(done: subprocess.CompletedProcess[str], *told: str) -> None:
    """Exit code 1 and plain words: `command` and `command_here` see to it that there is no traceback."""
    assert done.returncode == 1, done.stdout
    assert done.stderr.startswith("Error: ")
    for word in told:
        assert word in done.stderr


def refused_by_everything_that_reads_customers(folder: Path, *told: str, **env: Any) -> None:
    refused(command("serve", "--dir", folder, "--port", "1", **env), *told)
    for words in READING:
        refused(command_here(*words, "--dir", folder, **env), *told)


def test_init_makes_a_key_for_the_owner_only_and_says_to_back_it_up(tmp_path: Path) -> None:
    said = command_here("init", tmp_path / "store").stdout
    made = key_file(tmp_path / "store")
    assert made.stat().st_mode & 0o777 == 0o600
    assert len(ids_in(made.parent)) == 1
    assert str(made) in said.replace("\n", "")
    assert "Back this file up" in said
    assert made.read_text().rstrip().rpartition(":")[2] not in said


def test_init_keeps_a_key_file_that_is_there(tmp_path: Path) -> None:
    before = create_key_file(tmp_path).read_text()
    assert command_here("init", tmp_path).returncode == 0
    assert key_file(tmp_path).read_text() == before


def test_init_makes_no_file_that_the_environment_would_hide(tmp_path: Path) -> None:
    made = command_here("keys", "create", "--print").stdout.strip()
    said = command_here("init", tmp_path / "store", DEALER_AGENT_KEYS=made).stdout
    assert "DEALER_AGENT_KEYS" in said
    assert not key_file(tmp_path / "store").exists()


def test_create_makes_the_file_of_a_dealer_who_has_none_and_never_another(tmp_path: Path) -> None:
    command_here("init", tmp_path / "store")
    key_file(tmp_path / "store").unlink()
    made = command_here("keys", "create", "--dir", tmp_path / "store")
    assert made.returncode == 0, made.stderr
    assert "Back this file up" in made.stdout
    before = key_file(tmp_path / "store").read_text()
    refused(command_here("keys", "create", "--dir", tmp_path / "store"), "there already", "keys rotate")
    assert key_file(tmp_path / "store").read_text() == before


def test_a_printed_key_is_one_for_the_environment(tmp_path: Path) -> None:
    first = command_here("keys", "create", "--print", cwd=tmp_path).stdout.strip()
    assert Keyring.parse(first).lasting is not None
    second = command_here("keys", "create", "--print", cwd=tmp_path, DEALER_AGENT_KEYS=first).stdout.strip()
    both = Keyring.parse(f"{second},{first}")
    assert len(both.ids) == 2
    assert both.lasting == Keyring.parse(first).lasting
    assert not list(tmp_path.iterdir())


def test_an_environment_without_the_databases_lasting_secret_is_refused(folder: Path) -> None:
    keyring = Keyring.parse(key_file(folder).read_text())
    old = render(replace(keyring, lasting=None)).strip()
    refused(command_here("leads", "list", "--dir", folder, DEALER_AGENT_KEYS=old), "lasting", "keys create --print")
    added = command_here("keys", "create", "--print").stdout.strip().partition(",")[2]
    assert added.startswith("lasting:")
    another = command_here("leads", "list", "--dir", folder, DEALER_AGENT_KEYS=f"{old},{added}")
    refused(another, "lasting secret is not the one", "backup")
    all_there(folder, DEALER_AGENT_KEYS=entries(folder))


def test_create_refuses_a_file_that_the_environment_would_hide(folder: Path) -> None:
    key_file(folder).unlink()
    done = command_here("keys", "create", "--dir", folder, DEALER_AGENT_KEYS=render(Keyring((new_key(),))))
    refused(done, "DEALER_AGENT_KEYS", "--print")
    assert not key_file(folder).exists()


def test_create_makes_no_second_key_beside_data_of_a_lost_one(folder: Path) -> None:
    (lost,) = ids_in(folder)
    key_file(folder).unlink()
    refused(command_here("keys", "create", "--dir", folder), lost, "backup")
    assert not key_file(folder).exists()


def test_a_lost_key_that_nothing_was_sealed_with_is_no_loss(tmp_path: Path) -> None:
    command_here("init", tmp_path / "store")
    assert command_here("keys", "list", "--dir", tmp_path / "store").returncode == 0
    key_file(tmp_path / "store").unlink()
    assert command_here("keys", "create", "--dir", tmp_path / "store").returncode == 0
    assert command_here("leads", "list", "--dir", tmp_path / "store").returncode == 0


def test_list_says_what_each_key_is_needed_for_and_shows_none(folder: Path) -> None:
    said = command_here("keys", "list", "--dir", folder).stdout
    (key_id,) = ids_in(folder)
    assert re.search(rf"{key_id} .*active.* \d+", said)
    assert str(key_file(folder)) in said.replace("\n", "")
    assert entries(folder).partition(":")[2][:8] not in said
    env: dict[str, Any] = {"DEALER_AGENT_KEYS": f"{entries(folder)},{printed_key(entries(folder))}"}
    said = command_here("keys", "list", "--dir", folder, **env).stdout
    assert "come from DEALER_AGENT_KEYS" in said
    assert re.search(r"k-\w+ +. reads +. +. +0", said)


def test_a_lost_key_is_refused_at_start_and_by_every_command_that_reads_customer_data(folder: Path) -> None:
    key_file(folder).unlink()
    refused_by_everything_that_reads_customers(folder, "DEALER_AGENT_KEYS", "dealer-agent.keys")


def test_another_key_is_refused_and_the_missing_one_named(folder: Path) -> None:
    (lost,) = ids_in(folder)
    key_file(folder).unlink()
    create_key_file(folder)
    refused_by_everything_that_reads_customers(folder, lost, "backup")


def test_another_key_of_the_same_name_is_refused(folder: Path) -> None:
    (key_id,) = ids_in(folder)
    impostor = render(replace(Keyring.parse(entries(folder)), keys=((key_id, new_key()[1]),)))
    refused_by_everything_that_reads_customers(folder, key_id, "backup", DEALER_AGENT_KEYS=impostor)
    key_file(folder).write_text(impostor)
    refused_by_everything_that_reads_customers(folder, key_id, "backup")


def test_a_key_file_that_others_may_read_is_refused_with_what_to_type(folder: Path) -> None:
    key_file(folder).chmod(0o644)
    refused_by_everything_that_reads_customers(folder, "chmod 600")


def test_no_refusal_quotes_a_key(folder: Path) -> None:
    cut = entries(folder)[:-2]
    key_file(folder).write_text(f"{cut}\n")
    for done in (command_here("leads", "list", "--dir", folder), command_here("keys", "list", "--dir", folder)):
        refused(done, "dealer-agent.keys, line 1")
        assert cut.partition(":")[2][:8] not in done.stderr


def test_the_stock_comes_in_without_a_key(folder: Path, tmp_path: Path) -> None:
    key_file(folder).unlink()
    feed = write_feed(tmp_path / "stock.json", stock_of_three())
    done = command_here("inventory", "import", feed, "--dir", folder)
    assert done.returncode == 0, done.stderr


def all_there(folder: Path, **env: Any) -> None:
    """Every lead is there, and can be read."""
    said = command_here("leads", "list", "--limit", "1000", "--dir", folder, **env)
    assert said.returncode == 0, said.stderr
    for number in range(LEADS):
        assert f"Example{number} " in said.stdout


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
    with Store.open(settings.database_url, settings.vault) as store:
        assert store.reseal(settings.dealer.id, 7) == 7
        assert store.reseal(settings.dealer.id, 5) == 5
    assert used(folder)[new[0]] == 12
    all_there(folder)
    said = command_here("keys", "rotate", "--dir", folder)
    assert "ended a change that was stopped" in said.stdout
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
from dealer_agent.config import key_rotation as keys

keys.VALUES_AT_ONCE, keys.TAKEN_UP_SECONDS = 1, 0.0
times, owner, name = int(sys.argv.pop(1)), keys.Store if sys.argv[1] == "reseal" else keys, sys.argv.pop(1)
real = getattr(owner, name)

def stopping(*given):
    global times
    answer = real(*given)
    times -= 1
    if not times:
        os.kill(os.getpid(), signal.SIGSTOP)
    return answer

setattr(owner, name, stopping)
main()
"""
"""The command with a transaction for each value, which stops itself when it has called something some times."""


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
    with rotation_stopped_after(everything // 4, "reseal", folder, **env):
        assert used(folder, **env) == {new: before + everything // 4, old: everything - before - everything // 4}
    all_there(folder, **env)

    monkeypatch.setattr(key_rotation, "TAKEN_UP_SECONDS", 0.0)
    done = command_here("keys", "rotate", "--forget-old", "--dir", folder, **env)
    assert done.returncode == 0, done.stderr
    assert ids_in(folder) == (new,)
    assert used(folder, **env) == {new: everything}
    all_there(folder, **env)
    assert {path.name for path in folder.glob("*keys*")} == {"dealer-agent.keys"}


def test_of_two_rotations_at_once_the_second_is_refused(folder: Path) -> None:
    with rotation_stopped_after(1, "replace_key_file", folder):
        refused(command_here("keys", "rotate", "--dir", folder), "under way")


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
            while not self._stopped.is_set():
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
    monkeypatch.setattr(key_rotation, "TAKEN_UP_SECONDS", 0.0)
    settings = load_settings(folder, env)
    vault = settings.vault
    assert vault is not None
    with Store.open(settings.database_url, vault) as store:
        store.check_keys(settings.dealer.id)
        with store._writing() as connection:
            connection.execute(text("UPDATE vault_key_uses SET since = 0"))
        rotation = key_rotation.KeyRotation(store, vault, settings.dealer.id, key_file(folder), days=30)
        assert rotation.keep_up(datetime.now(UTC) - timedelta(days=1))


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
            eventually("it says so", lambda: '"key changed: back up the key file"' in running.stderr())
            seen = len(buyers.leads)
            eventually("leads go on coming in", lambda: len(buyers.leads) > seen + 5)
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
    ("settings", "told"),
    [
        pytest.param("", "final by 20", id="the service changes keys"),
        pytest.param("\n[privacy]\nrotate_keys_days = 0\n", "leads erase --final", id="nobody does"),
    ],
)
def test_an_erasure_says_when_it_is_final(folder: Path, settings: str, told: str) -> None:
    with (folder / "dealer.toml").open("a") as toml:
        toml.write(settings)
    done = command_here("leads", "erase", "--yes", "--email", "robin1@example.com", "--dir", folder)
    assert done.returncode == 0, done.stderr
    assert told in " ".join(done.stdout.split())


def test_keys_of_the_environment_make_an_erasure_final_when_the_operator_removes_them(folder: Path) -> None:
    env: dict[str, Any] = {"DEALER_AGENT_KEYS": entries(folder)}
    erase = ("leads", "erase", "--yes", "--email", "robin1@example.com", "--dir", folder)
    refused(command_here(*erase, "--final", **env), "DEALER_AGENT_KEYS", "keys rotate --help")
    assert "Example1 " in command_here("leads", "list", "--dir", folder, **env).stdout
    done = command_here(*erase, **env)
    assert "replaced the key in DEALER_AGENT_KEYS" in " ".join(done.stdout.split())
