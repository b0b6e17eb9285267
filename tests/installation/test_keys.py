"""The keys of an installation and of its dealers are rotated and destroyed, by age and by command."""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.asking import lead as lead_members
from tests.acceptance.running import command_here, succeed_here
from tests.acceptance.searching import EMAIL, MARK, readable
from tests.forks import FORKS
from tests.installation.platform import DEALERS, add, make_installation, run_installation
from tests.logs import captured_logs
from tests.server.dealership import message
from tests.soak import SOAK, sqlite_first
from tests.storage.calls import read
from tests.storage.samples import consent, lead
from tests.storage.service_role import as_role, prepared_schema
from tests.storage.test_erasure import known

from dealer_agent.config import keys as key_files
from dealer_agent.config.installation import Installation, load_installation
from dealer_agent.config.keys import KEY_FILE_NAME, KeyFile
from dealer_agent.encryption import Keyring, new_key, render
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.privacy import key_rotation
from dealer_agent.privacy.key_rotation import InstallationKeys, KeyRotation, KeyTable, RotationStopped
from dealer_agent.storage.errors import KeysChanged
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.leads.stored_leads import get_lead, record_lead
from dealer_agent.storage.privacy.consents import verify_chain
from dealer_agent.storage.privacy.reencryption import values_by_key
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

NORTH, SOUTH = DEALERS
DAYS = 30


@pytest.fixture(params=["sqlite", "postgresql"])
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    """Two dealers with a lead each, on each database."""
    with ExitStack() as closing_all:
        env = {}
        if request.param == "postgresql":
            schemas = prepared_schema(request.getfixturevalue("postgresql_server"))
            _, env["DATABASE_URL"] = closing_all.enter_context(schemas)
        made = make_installation(tmp_path / "installation", env=env)
        for dealer_id in DEALERS:
            add(made, dealer_id)
        with opened(made) as store, closing(store.lead_writer()) as writer:
            for dealer_id in DEALERS:
                store.check_keys(dealer_id)
                writer.submit(dealer_id, known("Sam", "L1")).result(60)
        yield made


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No service runs that would have to read the keys again."""
    monkeypatch.setattr(key_rotation, "RELOAD_SECONDS", 0.0)
    monkeypatch.setattr(key_rotation, "PAUSE_SECONDS", 0.0)


@contextmanager
def opened(installation: Installation) -> Iterator[Store]:
    found = load_installation(installation.folder, {"DATABASE_URL": installation.database_url})
    with Store.open(found.database_url, found.cipher, many_dealers=True) as store:
        yield store


def key_file(installation: Installation) -> Path:
    return installation.folder / KEY_FILE_NAME


def ids_in_file(installation: Installation) -> tuple[str, ...]:
    return Keyring.parse(key_file(installation).read_text()).ids


def ids_of(installation: Installation) -> dict[str, tuple[str, ...]]:
    """The ids of the keys of each dealer."""
    with opened(installation) as store:
        return {dealer_id: store.check_keys(dealer_id).keyring.ids for dealer_id in DEALERS}


def used(installation: Installation, dealer_id: str) -> set[str]:
    with opened(installation) as store:
        return set(read(store, dealer_id, values_by_key))


def all_is_there(installation: Installation) -> None:
    """Checks that a process that starts now reads everything of both dealers."""
    with opened(installation) as store:
        for dealer_id in DEALERS:
            found = read(store, dealer_id, get_lead, "L1")
            assert found is not None
            assert found.lead.customer is not None
            assert read(store, dealer_id, verify_chain).problem is None


def run_due_steps(
    installation: Installation, days: float, wait: Callable[[float], None] = lambda _: None
) -> list[tuple[str, str]]:
    """Runs the key rotation of a service that starts after these days. Returns the events and dealers that it logs."""
    with opened(installation) as store:
        cipher = store.check_keys(ALL_DEALERS)
        of_installation = KeyRotation(store, cipher, ALL_DEALERS, KeyFile(key_file(installation)), DAYS, wait=wait)
        keys = InstallationKeys(OpenInstallation(installation, store), of_installation)
        now = datetime.now(UTC) + timedelta(days=days)
        with captured_logs() as logged:
            of_installation.run_due_steps(now)
            for dealer_id in DEALERS:
                keys.of_dealer(dealer_id).run_due_steps(now)
        return [(each["event"], each.get("dealer", "")) for each in logged]


def test_all_keys_are_replaced_by_age_and_the_old_ones_destroyed(installation: Installation) -> None:
    before, (first,) = ids_of(installation), ids_in_file(installation)
    # At half the age, the next key is added, so that the key file can be backed up before it is used.
    assert run_due_steps(installation, DAYS / 2 - 1) == []
    assert run_due_steps(installation, DAYS / 2 + 1) == [("next key added: back up the key file", "")]
    assert run_due_steps(installation, DAYS + 1) == [
        ("key rotated: back up the key file", ALL_DEALERS),
        ("key rotated", NORTH),
        ("key rotated", SOUTH),
    ]
    after, (active,) = ids_of(installation), ids_in_file(installation)
    assert active != first
    assert used(installation, ALL_DEALERS) == {active}
    for dealer_id in DEALERS:
        assert len(after[dealer_id]) == 1
        assert after[dealer_id] != before[dealer_id]
        assert used(installation, dealer_id) == set(after[dealer_id])
    all_is_there(installation)
    assert run_due_steps(installation, 1) == []


@sqlite_first("installation")
def test_a_rotation_that_is_stopped_at_any_pause_loses_nothing_and_completes_later(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_rotation, "VALUES_PER_TRANSACTION", 2)
    before, (first,) = ids_of(installation), ids_in_file(installation)
    run_due_steps(installation, 16)
    # A short run stops at every third pause.
    for number in count(1, 1 if SOAK else 3):
        pauses = count(1)

        def wait(_: float, pauses: "count[int]" = pauses, number: int = number) -> None:
            if next(pauses) == number:
                raise RotationStopped

        with suppress(RotationStopped):
            run_due_steps(installation, 31, wait)
            break
        if number % 2 == 0:
            all_is_there(installation)
    assert number > 10
    assert first not in ids_in_file(installation)
    assert not {*before[NORTH], *before[SOUTH]} & {*ids_of(installation)[NORTH], *ids_of(installation)[SOUTH]}
    all_is_there(installation)


def kill_itself(database_url: str, times: int, name: str, words: Sequence[str]) -> None:
    """Runs the command with a transaction for each value. It ends by SIGKILL after some calls of a function, or steps.

    Only in a process of its own.
    """
    key_rotation.VALUES_PER_TRANSACTION = 1
    module = key_files if name == "replace_key_file" else key_rotation
    real = getattr(module, name)
    calls = count(1)

    def killing(*given: Any) -> Any:
        answer = real(*given)
        count_call()
        return answer

    def killing_in(*given: Any) -> Iterator[Any]:
        for done in real(*given):
            count_call()
            yield done

    def count_call() -> None:
        if next(calls) == times:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(module, name, killing_in if name == "reencrypt" else killing)
    done = command_here(*words, DATABASE_URL=database_url)
    print(done.stderr)


def killed(installation: Installation, times: int, name: str, *options: str) -> None:
    words = ["keys", "rotate", "--forget-old", *options, "--dir", str(installation.folder)]
    process = FORKS.Process(target=kill_itself, args=(installation.database_url, times, name, words))
    process.start()
    process.join(300)
    assert process.exitcode == -signal.SIGKILL


def rotate(installation: Installation, *options: str) -> str:
    words = ("keys", "rotate", "--forget-old", *options, "--dir", str(installation.folder))
    return succeed_here(*words, DATABASE_URL=installation.database_url)


@sqlite_first("installation")
@pytest.mark.usefixtures("at_once")
def test_a_rotation_of_the_installations_key_may_be_killed_at_each_step(installation: Installation) -> None:
    (first,), dealers = ids_in_file(installation), ids_of(installation)
    for times, name in ((1, "replace_key_file"), (1, "record_next_key"), (2, "replace_key_file"), (2, "reencrypt")):
        killed(installation, times, name)
        all_is_there(installation)
    assert len(used(installation, ALL_DEALERS)) == 2, "some of the dealers' keys are encrypted with the new key"
    assert "completed an earlier change" in rotate(installation)
    (active,) = ids_in_file(installation)
    assert active != first
    assert used(installation, ALL_DEALERS) == {active}
    assert ids_of(installation) == dealers, "the keys of the dealers are the same"
    all_is_there(installation)


@sqlite_first("installation")
@pytest.mark.usefixtures("at_once")
def test_a_rotation_of_one_dealers_key_may_be_killed_at_each_step_and_changes_no_other_key(
    installation: Installation,
) -> None:
    before, in_file = ids_of(installation), ids_in_file(installation)
    steps = ((1, "change_keyring"), (1, "record_next_key"), (2, "change_keyring"), (3, "reencrypt"))
    for times, name in steps:
        killed(installation, times, name, "--dealer", NORTH)
        all_is_there(installation)
    rotate(installation, "--dealer", NORTH)
    after = ids_of(installation)
    if before[NORTH][0] in after[NORTH] or len(after[NORTH]) > 1:
        rotate(installation, "--dealer", NORTH)
        after = ids_of(installation)
    assert len(after[NORTH]) == 1
    assert after[NORTH] != before[NORTH]
    assert used(installation, NORTH) == set(after[NORTH])
    assert after[SOUTH] == before[SOUTH]
    assert ids_in_file(installation) == in_file
    all_is_there(installation)


@sqlite_first("installation")
@pytest.mark.usefixtures("at_once")
def test_a_running_service_takes_leads_while_keys_are_replaced(installation: Installation) -> None:
    requests = [message("lead.submit", **lead_members(number, idempotency_key=f"key-{number}")) for number in range(5)]

    def submit(number: int) -> str:
        response = platform.post(requests[number], f"/d/{NORTH}/message:send")
        assert response.status_code == 200, response.text
        told: str = response.json()["message"]["parts"][0]["data"]["data"]["lead_id"]
        return told

    with run_installation(installation) as platform:
        lead_ids = [submit(1)]
        for number, options in enumerate((("--dealer", NORTH), (), ("--dealer", NORTH)), start=2):
            rotate(installation, *options)
            assert submit(number - 1) == lead_ids[-1], "the stored response is found with the new key"
            lead_ids.append(submit(number))
    assert len(set(lead_ids)) == 4
    assert used(installation, NORTH) == set(ids_of(installation)[NORTH])
    with opened(installation) as store:
        assert all(read(store, NORTH, get_lead, lead_id) for lead_id in lead_ids)
    all_is_there(installation)


def test_two_machines_that_rotate_a_dealers_key_at_once_lose_nothing(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lock holds on both. At each pause of the first, the second rotates the key too."""
    monkeypatch.setattr(key_rotation, "VALUES_PER_TRANSACTION", 10)
    folder = installation.folder_of(NORTH)
    now = datetime.now(UTC)
    with opened(installation) as here, opened(installation) as there:

        def rotation(store: Store, wait: Callable[[float], None]) -> KeyRotation:
            cipher, place = store.check_keys(NORTH), KeyTable(store, NORTH, folder)
            return KeyRotation(store, cipher, NORTH, place, DAYS, wait=wait)

        other = rotation(there, lambda _: None)

        def wait(_: float) -> None:
            with suppress(KeysChanged):
                other.rotate(now)
                other.destroy_unused()

        for _ in range(3):
            with suppress(KeysChanged):
                first = rotation(here, wait)
                first.rotate(now)
                first.destroy_unused()
            all_is_there(installation)
        other.rotate(now)
        other.destroy_unused()
    assert used(installation, NORTH) <= set(ids_of(installation)[NORTH])
    all_is_there(installation)


@sqlite_first("installation")
@pytest.mark.usefixtures("at_once")
def test_keys_list_shows_both_levels(installation: Installation) -> None:
    def listed(*options: str) -> list[dict[str, Any]]:
        words = ("keys", "list", "--json", *options, "--dir", str(installation.folder))
        found: list[dict[str, Any]] = json.loads(succeed_here(*words, DATABASE_URL=installation.database_url))
        return found

    (of_installation,) = ids_in_file(installation)
    (row,) = listed()
    assert (row["of"], row["id"], row["values"]) == ("the installation", of_installation, 4)
    (of_north,) = ids_of(installation)[NORTH]
    assert [(each["of"], each["id"]) for each in listed("--dealer", NORTH)] == [
        (NORTH, of_north),
        ("the installation", of_installation),
    ]


@sqlite_first("installation")
def test_keys_of_the_environment_are_changed_by_the_operator_and_a_dealers_key_by_command(
    installation: Installation, at_once: None
) -> None:
    first = Keyring.parse(key_file(installation).read_text())
    key_file(installation).unlink()
    new = new_key()
    both = Keyring((new, *first.keys), first.permanent)

    def run(keyring: Keyring, *words: str) -> str:
        keys = ",".join(render(keyring).split())
        env: dict[str, Any] = {"DATABASE_URL": installation.database_url, "DEALER_AGENT_KEYS": keys}
        return succeed_here(*words, "--dir", installation.folder, **env)

    assert f"Nothing needs {first.active}" in run(both, "keys", "rotate")
    only_new = Keyring((new,), first.permanent)
    assert "The new key is k-" in run(only_new, "keys", "rotate", "--dealer", NORTH, "--forget-old")
    assert "L1" in run(only_new, "leads", "list", "--dealer", SOUTH)
    done = run(only_new, "leads", "erase", "L1", "--dealer", SOUTH, "--yes")
    assert "when you have replaced the key in DEALER_AGENT_KEYS" in done


@sqlite_first("installation")
def test_a_wrong_key_of_the_installation_is_refused_and_the_error_says_what_to_do(installation: Installation) -> None:
    before = Keyring.parse(key_file(installation).read_text())
    key_file(installation).write_text(render(Keyring((new_key(),), before.permanent)))
    for words in (("keys", "list"), ("leads", "list", "--dealer", NORTH), ("serve",)):
        done = command_here(*words, "--dir", installation.folder, DATABASE_URL=installation.database_url)
        assert done.returncode == 1
        said = " ".join(done.stderr.split())
        assert before.active in said
        assert "put it back from your backup, into dealer-agent.keys or DEALER_AGENT_KEYS" in said


@sqlite_first("installation")
def test_a_lost_key_of_the_installation_is_not_replaced_by_a_new_one(installation: Installation) -> None:
    (lost,) = ids_in_file(installation)
    key_file(installation).unlink()
    done = command_here("keys", "create", "--dir", installation.folder, DATABASE_URL=installation.database_url)
    assert done.returncode == 1
    assert lost in done.stderr
    assert not key_file(installation).exists()


def store_marked(installation: Installation, lead_id: str) -> None:
    """Stores a lead of a customer that a search can find."""
    customer = {"first_name": f"{MARK}first", "last_name": "Sample", "email": EMAIL}

    def job(tx: Transaction) -> None:
        record = lead(lead_id, tx.now, customer=json.dumps(customer).encode(), rooftop="North Motors")
        agreed = consent(tx.now, consent_text=f"{MARK}consent")
        record_lead(tx, record, agreed, contacts=[f"email:{EMAIL.lower()}"], vehicle_key=None)

    with opened(installation) as store, closing(store.lead_writer()) as writer:
        store.check_keys(NORTH)
        writer.submit(NORTH, job, datetime.now(UTC)).result(60)


@sqlite_first("installation")
@pytest.mark.usefixtures("at_once")
@pytest.mark.skipif("TEST_DATABASE_URL" in os.environ, reason="the files of that server are not ours")
def test_no_key_that_still_exists_reads_an_erased_person_in_any_file_of_the_database(
    installation: Installation,
) -> None:
    """Remains of a dealer's key are in pages and WAL too. So the key of the installation is destroyed as well."""
    store_marked(installation, "L9")
    url = installation.database_url
    # The service role may not write a checkpoint.
    place = installation.folder, url if url.startswith("sqlite") else as_role(url, "postgres")
    before = ids_of(installation)
    assert readable(*place), "the search finds the lead by the keys in the database"

    def erase(*options: str) -> str:
        words = ("leads", "erase", "--email", EMAIL, "--yes", "--consent-too", *options, "--dealer", NORTH)
        return succeed_here(*words, "--dir", installation.folder, DATABASE_URL=installation.database_url)

    told = erase()
    by = re.search(r"becomes\s+final\s+by\s+(\d{4}-\d\d-\d\d)", told)
    assert by is not None, told
    # The dealer's key, and then the next one of the installation.
    assert timedelta(days=58) < date.fromisoformat(by[1]) - datetime.now(UTC).date() < timedelta(days=64)
    rotate(installation, "--dealer", NORTH)
    if not url.startswith("sqlite"):
        assert readable(*place), "the key of the installation decrypts remains of the dealer's destroyed key"
    assert "The erasure is final" in erase("--final")
    assert readable(*place) == []
    after = ids_of(installation)
    assert after[NORTH] != before[NORTH]
    assert after[SOUTH] == before[SOUTH]
    all_is_there(installation)
