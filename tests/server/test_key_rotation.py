"""Keys change by age and old keys are destroyed. All data stays readable after kills, delays and restored files."""

from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.logs import captured_logs
from tests.soak import sqlite_first
from tests.storage.calls import read
from tests.storage.current import make_current
from tests.storage.samples import DEALER, KEYRING, MONDAY, storing
from tests.storage.test_erasure import VEHICLES, known

from dealer_agent.config.keys import KEY_FILE_NAME, KeyFile, changing, load_cipher
from dealer_agent.encryption import Cipher, Keyring, new_key, render
from dealer_agent.privacy import key_rotation
from dealer_agent.privacy.key_rotation import KeyRotation, RotationStopped, changeable_key_file
from dealer_agent.storage.errors import KeyMissing
from dealer_agent.storage.leads.idempotency import find_idempotent
from dealer_agent.storage.leads.persons import find_duplicate
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.leads.visits import visits_of
from dealer_agent.storage.privacy.consents import verify_chain
from dealer_agent.storage.privacy.reencryption import values_by_key
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("keys")

DAYS = 30
"""The age at which a key is replaced. The next key is added at half of it."""
LEADS = ("L1", "L2")


class Machine:
    """A service with its own key file, on a database with two leads."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.path = folder / KEY_FILE_NAME
        self.url = database_url
        self.path.write_text(render(KEYRING))
        self.path.chmod(0o600)

    def cipher(self) -> Cipher:
        cipher = load_cipher(self.path.parent, {})
        assert cipher is not None
        return cipher

    def ids(self) -> tuple[str, ...]:
        return Keyring.parse(self.path.read_text()).ids

    def run_due_steps(
        self, days: float, *, cipher: Cipher | None = None, wait: Callable[[float], None] = lambda _: None
    ) -> list[Any]:
        """Runs the key rotation of a process that starts after these days. Returns what it logs."""
        chosen = cipher or self.cipher()
        place = KeyFile(self.path) if cipher is None else None
        with Store.open(self.url, chosen) as store:
            rotation = KeyRotation(store, chosen, DEALER, place, DAYS, "here" if place else "elsewhere", wait)
            with captured_logs() as logged:
                rotation.run_due_steps(datetime.now(UTC) + timedelta(days=days))
            return logged

    def all_is_there(self) -> None:
        """Checks that the keys of the file read and find all data of both people, and that new leads are stored."""
        cipher = self.cipher()
        with Store.open(self.url, cipher) as store, closing(store.lead_writer()) as writer:
            store.check_keys(DEALER)
            for lead_id, person in zip(LEADS, ("Sam", "Pat"), strict=True):
                found = read(store, DEALER, get_lead, lead_id)
                assert found is not None
                assert found.lead.customer is not None
                assert None not in [event.changes for event in found.events]
                assert len(read(store, DEALER, visits_of, lead_id)) == 3
                contacts = [f"email:{person.lower()}.sample@example.com"]
                again = partial(find_duplicate, contacts=contacts)
                repeated = partial(again, vehicle_key=VEHICLES[person], since=MONDAY)
                assert writer.submit(DEALER, repeated).result(60) == lead_id
                answer = partial(find_idempotent, scope="token", key=lead_id)
                assert writer.submit(DEALER, answer, MONDAY).result(60) is not None
            assert read(store, DEALER, verify_chain).problem is None

    def used(self) -> set[str]:
        with Store.open(self.url) as store:
            return {key_id for key_id, values in read(store, DEALER, values_by_key).items() if values}


@pytest.fixture
def machine(tmp_path: Path, database_url: str) -> Machine:
    made = Machine(tmp_path, database_url)
    make_current(database_url)
    with Store.open(database_url, made.cipher()) as store:
        store.check_keys(DEALER)
        with closing(store.lead_writer()) as writer:
            for person, lead_id in (("Sam", "L1"), ("Pat", "L2")):
                writer.submit(DEALER, known(person, lead_id)).result(60)
    return made


def events(logged: list[Any]) -> list[str]:
    return [each["event"] for each in logged]


def test_a_key_is_replaced_by_age_and_the_old_one_destroyed(machine: Machine) -> None:
    assert machine.run_due_steps(14) == []
    assert machine.ids() == ("k-first",)
    (added,) = machine.run_due_steps(16)
    assert added["event"] == "next key added: back up the key file"
    first, following = machine.ids()
    assert (first, following) == ("k-first", added["key"])
    assert machine.run_due_steps(29) == []
    (changed,) = machine.run_due_steps(31)
    assert changed["event"] == "key rotated: back up the key file"
    assert changed["destroyed"] == "k-first"
    assert machine.ids() == (following,), "the backup from before the change has the new key"
    assert machine.used() == {following}
    machine.all_is_there()
    assert machine.run_due_steps(14) == [], "the age of the new key counts"
    with Store.open(machine.url, Cipher(KEYRING)) as store, pytest.raises(KeyMissing, match=following):
        store.check_keys(DEALER)


@sqlite_first()
def test_a_key_change_that_is_stopped_at_any_step_loses_nothing_and_completes_later(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped at its first pause, then at its second, and so on.

    At a pause, all that was done is committed, as after a kill. Each attempt is a day after the one before: the key is
    old enough, and a rotation that was stopped is due at once.
    """
    monkeypatch.setattr(key_rotation, "VALUES_PER_TRANSACTION", 3)
    stops = 0
    for number in count(1):
        pauses = count(1)

        def wait(_: float, pauses: "count[int]" = pauses, number: int = number) -> None:
            if next(pauses) == number:
                raise RotationStopped

        with suppress(RotationStopped):
            machine.run_due_steps(31 + number, wait=wait)
            if machine.ids()[0] != "k-first" and len(machine.ids()) == 1:
                break
        stops = number
        # The check takes long, so it follows each third stop only.
        if number % 3 == 0:
            machine.all_is_there()
    assert stops > 4
    assert machine.used() == set(machine.ids())
    machine.all_is_there()


def test_only_one_process_changes_the_keys(machine: Machine) -> None:
    with changing(machine.path):
        assert machine.run_due_steps(31) == []
    assert machine.ids() == ("k-first",)


def test_a_key_in_use_is_never_destroyed(machine: Machine) -> None:
    """This also holds for a value that another process has written after the change."""
    machine.run_due_steps(31)
    with Store.open(machine.url) as store, store.read(DEALER) as tx:
        old = tx.connection.execute(text("SELECT customer FROM leads WHERE lead_id = 'L1'")).scalar_one()

    def wait(seconds: float) -> None:
        if seconds == key_rotation.RELOAD_SECONDS and machine.ids()[0] != "k-first":
            with Store.open(machine.url) as store, store.write(DEALER) as tx:
                tx.connection.execute(text("UPDATE leads SET customer = :old WHERE lead_id = 'L1'"), {"old": old})

    with Store.open(machine.url, cipher := machine.cipher()) as store:
        rotation = KeyRotation(store, cipher, DEALER, KeyFile(machine.path), DAYS, wait=lambda _: None)
        rotation.rotate(datetime.now(UTC))
        wait(key_rotation.RELOAD_SECONDS)
        assert rotation.destroy_unused() == []
        assert "k-first" in machine.ids()
        assert rotation.reencrypt_all() == 1
        assert rotation.destroy_unused() == ["k-first"]
    machine.all_is_there()


def test_a_machine_with_other_keys_prevents_the_change_until_it_has_the_new_one(machine: Machine) -> None:
    machine.run_due_steps(16)
    assert machine.run_due_steps(16, cipher=Cipher(KEYRING)) == []
    (refused,) = machine.run_due_steps(31)
    assert refused["event"] == "key not rotated"
    assert refused["log_level"] == "warning"
    assert "DEALER_AGENT_KEYS" in refused["problem"]
    assert machine.ids()[0] == "k-first"
    machine.all_is_there()
    machine.run_due_steps(31, cipher=Cipher(Keyring.parse(machine.path.read_text())))
    assert events(machine.run_due_steps(31)) == ["key rotated: back up the key file"]


def test_an_old_copy_of_the_key_file_does_not_restore_a_destroyed_key(machine: Machine) -> None:
    machine.run_due_steps(DAYS // 2 + 1)
    backup = machine.path.read_text()
    machine.run_due_steps(DAYS + 1)
    (active,) = machine.ids()
    machine.path.write_text(backup)
    cipher = machine.cipher()
    with (
        Store.open(machine.url, cipher) as store,
        closing(store.lead_writer()) as writer,
        pytest.raises(KeyMissing, match="k-first is an old one"),
    ):
        writer.submit(DEALER, storing("L3")).result(60)
    # At any age: the database says that the key is an old one.
    assert events(machine.run_due_steps(1)) == ["key rotated: back up the key file"]
    assert machine.ids() == (active,)
    machine.all_is_there()


def test_a_service_with_keys_from_the_environment_says_when_a_change_is_due(machine: Machine) -> None:
    old, new = Cipher(KEYRING), new_key()
    both = Cipher(Keyring((new, *KEYRING.keys), KEYRING.permanent))
    assert machine.run_due_steps(29, cipher=old) == []
    (due,) = machine.run_due_steps(31, cipher=old)
    assert (due["event"], due["log_level"]) == ("key rotation is due", "warning")
    with Store.open(machine.url, both) as store:
        store.check_keys(DEALER)
        rotation = KeyRotation(store, both, DEALER, None, DAYS, wait=lambda _: None)
        assert rotation.reencrypt_all() > 0
        assert rotation.unused() == ["k-first"]
    (left,) = machine.run_due_steps(1, cipher=both)
    assert left["event"] == "old key is still here"
    assert "k-first" in left["problem"]
    assert machine.run_due_steps(1, cipher=Cipher(Keyring((new,), KEYRING.permanent))) == []


def test_the_service_changes_no_keys_of_the_environment_and_no_file_behind_a_link(tmp_path: Path) -> None:
    path = tmp_path / KEY_FILE_NAME
    path.write_text(render(KEYRING))
    assert changeable_key_file(tmp_path, {}) is not None
    assert changeable_key_file(tmp_path, {"DEALER_AGENT_KEYS": render(KEYRING)}) is None
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert changeable_key_file(tmp_path, {}) is None


def test_a_lead_that_is_stored_during_a_change_is_sealed_with_the_new_key(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has read the keys before the change, and reads them again only when it must."""
    monkeypatch.setattr(key_rotation, "VALUES_PER_TRANSACTION", 3)
    machine.run_due_steps(16)
    late = machine.cipher()
    taken: list[str] = []
    with Store.open(machine.url, late) as store, closing(store.lead_writer()) as writer:

        def wait(_: float) -> None:
            lead_id = f"D{len(taken)}"
            writer.submit(DEALER, _storing(lead_id, late)).result(60)
            taken.append(lead_id)

        machine.run_due_steps(31, wait=wait)
        (active,) = machine.ids()
        assert late.keyring.active == active
        assert machine.used() == {active}
        assert len(taken) > 4
        for lead_id in taken:
            assert read(store, DEALER, get_lead, lead_id) is not None
    machine.all_is_there()


def _storing(lead_id: str, cipher: Cipher) -> Callable[..., str]:
    return storing(lead_id, contacts=[f"email:{lead_id}@example.com"])
