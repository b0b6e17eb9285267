"""Replaces the keys of customer data by age, and destroys the old ones, so that erasures are final.

A new key is added to the key file as the next key, which only decrypts. Later it becomes the active key. All values of
the old key are encrypted again, and the old key is removed from the file. The next call continues after a kill.

The keys of an installation are rotated in the same way: their dealer id is ALL_DEALERS, and their values are the keys
of the dealers. Those are in a table. A dealer's old key is deleted from the database. Remains of it stay in the
database's files and backups, encrypted with the keys that the installation had then. So an erasure is final when those
are destroyed too.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from dealer_agent.config import Settings
from dealer_agent.config.keys import KEY_FILE_NAME, KeyFile, changing, from_environment
from dealer_agent.encryption import Cipher, Keyring, new_key
from dealer_agent.jobs.loop import MAINTENANCE_SECONDS, JobResult, Kind, maintenance_period
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.storage.errors import KeysChanged
from dealer_agent.storage.jobs import Job
from dealer_agent.storage.privacy.dealer_keys import change_keyring
from dealer_agent.storage.privacy.keys import KeyUse, key_uses, record_missing_key, record_next_key
from dealer_agent.storage.privacy.reencryption import reencrypt, values_by_key
from dealer_agent.storage.store import Store

if TYPE_CHECKING:
    from dealer_agent.server.repeated_steps import RepeatedSteps

log = structlog.get_logger()

FIRST_ROTATION_SECONDS = 5.0
"""When a service looks for due steps after its start."""
RELOAD_SECONDS = 3.0
"""Every worker process has read a changed key file after this time. They check it twice a second."""
VALUES_PER_TRANSACTION = 50
"""How many values one transaction encrypts again. New leads wait for it."""
PAUSE_SECONDS = 0.02
"""The time for other transactions between two of these."""
NOTICE = timedelta(hours=2)
"""The least time between recording the next key and using it. Machines without the key report it meanwhile."""
MARGIN = timedelta(days=1)
"""A running service destroys the old key within this time after the change is due."""


@dataclass(frozen=True)
class KeyTable:
    """The keys of a dealer of an installation. `folder` is the dealer's: its lock holds on this machine.

    Processes of other machines may rotate the same keys at once: then one of two writes fails.
    """

    store: Store
    dealer_id: str
    folder: Path

    def changing(self) -> AbstractContextManager[None]:
        """Keeps other processes of this machine from a rotation."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return changing(self.folder / KEY_FILE_NAME)

    def write(self, before: Keyring, keyring: Keyring) -> None:
        """Replaces the keys. Raises KeysChanged if the table has other keys than `before`."""
        with self.store.write(self.dealer_id) as tx:
            change_keyring(tx, before.ids, keyring)


KeyLocation = KeyFile | KeyTable
"""Where the keys of a rotation are.

Processes read the keys of a file again within RELOAD_SECONDS, and those of a table when they need them. The owner backs
a file up before its next key becomes active. The table is in the backup of the database.
"""


class RotationStopped(Exception):  # noqa: N818 - not an error: the next call continues
    """The service stops during a key rotation."""


@dataclass
class KeyRotation:
    """The keys of one dealer. `location` is None if the operator changes them (`changeable_key_file`).

    `days` is the age at which the active key is replaced; 0 means never. `machine` is the name of this machine. `wait`
    sleeps, and raises RotationStopped to end early. `on_progress` gets the number of values of each transaction.
    """

    store: Store
    cipher: Cipher
    dealer_id: str
    location: KeyLocation | None
    days: int
    machine: str = field(default_factory=socket.gethostname)
    wait: Callable[[float], None] = time.sleep
    on_progress: Callable[[int], None] = field(default=lambda _: None)

    def run_due_steps(self, now: datetime) -> None:
        """Runs the steps that are due, and logs them. If several processes call it at once, one of them does the work.

        Raises StorageError and EncryptionError.
        """
        uses = self._uses()
        self._record_missing_keys(uses)
        if self.location is None:
            self._advise_operator(uses, now)
        elif self.days and (self._is_unfinished(uses) or self._due_at(uses, now, share=self._share) <= now):
            try:
                with self.location.changing():
                    self._run_due_steps(now)
            except (BlockingIOError, KeysChanged):
                pass
            except OSError as error:
                why = f"the key file cannot be replaced ({error.strerror})"
                log.warning("key not rotated", problem=f"{why}: the service's user must own it and its folder")

    def rotate(self, now: datetime) -> bool:
        """Makes a new key the active one, and encrypts all values with it. The caller holds `changing`.

        Returns False if it only completed an interrupted rotation. The old keys stay in the file until `destroy_unused`
        removes them. Raises StorageError, EncryptionError and OSError.
        """
        self._reload_keys()
        if self._is_unfinished(self._uses()) and self.reencrypt_all():
            return False
        self._add_next_key(now)
        self._activate_next_key()
        self.reencrypt_all()
        return True

    def reencrypt_all(self) -> int:
        """Encrypts all values of other keys with the active key. Returns their number."""
        total = 0
        for done in reencrypt(self.store, self.dealer_id, VALUES_PER_TRANSACTION):
            total += done
            self.on_progress(done)
            self.wait(PAUSE_SECONDS)
        return total

    def unused(self) -> list[str]:
        """The keys in the file that no value uses, and no new value will use."""
        with self.store.read(self.dealer_id) as tx:
            uses, value_counts = key_uses(tx), values_by_key(tx)
        needed = {key_id for key_id, use in uses.items() if use.state != "unused"}
        others = self.cipher.keyring.ids[1:]
        return [key_id for key_id in others if key_id not in needed and not value_counts.get(key_id)]

    def destroy_unused(self) -> list[str]:
        """Removes the unused keys from the file and returns their ids. The caller holds `changing`."""
        unused = self.unused()
        if unused:
            self.wait(RELOAD_SECONDS)  # A reader may still decrypt an old value.
            self._write(tuple(entry for entry in self.cipher.keyring.keys if entry[0] not in unused))
            self.cipher.refresh()
        return unused

    def final_by(self, now: datetime, at: datetime | None = None) -> datetime | None:
        """When a running service will have destroyed the keys of the time `at`, by default the current ones.

        None if it does not rotate them.
        """
        if self.location is None or not self.days:
            return None
        use = self._uses().get(self.cipher.keyring.active)
        since = now if use is None or use.state == "next" else use.since
        due = max(since + timedelta(days=self.days), now)
        # At a later time, the active key is at most that old.
        return (due if at is None or at <= due else at + timedelta(days=self.days)) + MARGIN

    def _run_due_steps(self, now: datetime) -> None:
        """Runs the steps that are due: add the next key, activate it after the notice, and remove old keys."""
        self._reload_keys()
        if self._is_unfinished(self._uses()):
            self._finish()
        uses = self._uses()
        due = self._due_at(uses, now)
        if self._due_at(uses, now, share=self._share) > now:
            return
        if not self._is_file:
            self._add_next_key(now)
            self._activate_next_key()
            self._finish()
            return
        if not self._next_keys(uses):
            key_id = self._add_next_key(now)
            before = f"{max(due, now + NOTICE):%Y-%m-%d %H:%M}"
            log.info("next key added: back up the key file", key=key_id, before=before)
            return
        use = uses[self._next_keys(uses)[0]]
        if due > now or use.since + NOTICE > now:
            return
        if use.missing_on:
            problem = f"{use.missing_on} has another key file: give all machines the same keys in DEALER_AGENT_KEYS"
            log.warning("key not rotated", problem=problem)
            return
        self._activate_next_key()
        self._finish()

    def _finish(self) -> None:
        """Encrypts everything with the active key, and destroys the keys that nothing needs any more."""
        values, destroyed = self.reencrypt_all(), ", ".join(self.destroy_unused())
        active = self.cipher.keyring.active
        event = "key rotated: back up the key file" if self._is_file else "key rotated"
        log.info(event, dealer=self.dealer_id, active=active, values=values, destroyed=destroyed)
        if retired := ", ".join(key_id for key_id, use in self._uses().items() if use.state == "retired"):
            problem = (
                f"the key {retired} is still needed, because a value cannot be encrypted with the new key: see "
                "dealer-agent consent verify"
            )
            log.warning("old key not destroyed", problem=problem)

    def _add_next_key(self, now: datetime) -> str:
        """Adds a new key as the next one, and returns its id. Removes the keys of an interrupted rotation."""
        key = new_key()
        dropped = {*self.unused(), *self._next_keys(self._uses())}
        self._write((*(entry for entry in self.cipher.keyring.keys if entry[0] not in dropped), key))
        # Every worker must know a key before a value is encrypted with it.
        self._wait_for_readers()
        self.cipher.refresh()
        with self.store.write(self.dealer_id, now) as tx:
            record_next_key(tx, key[0])
        return key[0]

    def _activate_next_key(self) -> None:
        """Makes the next key the active one, and waits until every process uses it."""
        added = self._next_keys(self._uses())
        if len(added) != 1:
            raise KeysChanged(f"another process has changed the keys of {self.dealer_id}: try again")
        (key_id,) = added
        self._write(tuple(sorted(self.cipher.keyring.keys, key=lambda entry: entry[0] != key_id)))
        self.cipher.refresh()
        self._wait_for_readers()

    def _wait_for_readers(self) -> None:
        if self._is_file:
            self.wait(RELOAD_SECONDS)

    def _reload_keys(self) -> None:
        """Reads the key file. Puts the active key first if an old copy of the file was restored."""
        self.cipher.refresh()
        uses = self._uses()
        ended = [key_id for key_id, use in uses.items() if use.state in ("retired", "unused")]
        if self.cipher.keyring.active in ended and any(use.state == "active" for use in uses.values()):
            old = {key_id: uses[key_id].state != "active" for key_id in self.cipher.keyring.ids if key_id in uses}
            self._write(tuple(sorted(self.cipher.keyring.keys, key=lambda entry: old.get(entry[0], True))))
            self.cipher.refresh()

    def _write(self, keys: tuple[tuple[str, bytes], ...]) -> None:
        assert self.location is not None
        before = self.cipher.keyring
        self.location.write(before, replace(before, keys=keys))

    @property
    def _is_file(self) -> bool:
        return isinstance(self.location, KeyFile)

    @property
    def _share(self) -> float:
        """The share of its life after which a key gets the next one."""
        return 0.5 if self._is_file else 1.0

    def _next_keys(self, uses: Mapping[str, KeyUse]) -> list[str]:
        return [key_id for key_id in self.cipher.keyring.ids if key_id in uses and uses[key_id].state == "next"]

    def _is_unfinished(self, uses: Mapping[str, KeyUse]) -> bool:
        """Whether an earlier rotation was interrupted."""
        first, *others = self.cipher.keyring.ids
        states = {key_id: use.state for key_id, use in uses.items()}
        return states.get(first, "active") != "active" or any(
            states.get(key_id) not in (None, "next") for key_id in others
        )

    def _due_at(self, uses: Mapping[str, KeyUse], now: datetime, share: float = 1.0) -> datetime:
        use = uses.get(self.cipher.keyring.active)
        return (now if use is None else use.since) + timedelta(days=self.days) * share

    def _record_missing_keys(self, uses: Mapping[str, KeyUse]) -> None:
        """Records in the database that this machine lacks the next key. Then no machine makes it the active key."""
        for key_id, use in uses.items():
            if use.state != "next":
                continue
            if key_id not in self.cipher.keyring.ids:
                self.cipher.refresh()
            lacks = key_id not in self.cipher.keyring.ids
            if use.missing_on == (None if lacks else self.machine):
                with self.store.write(self.dealer_id) as tx:
                    record_missing_key(tx, key_id, self.machine if lacks else None)

    def _uses(self) -> dict[str, KeyUse]:
        with self.store.read(self.dealer_id) as tx:
            return key_uses(tx)

    def _advise_operator(self, uses: Mapping[str, KeyUse], now: datetime) -> None:
        """Logs what the operator must do with keys that the service may not change."""
        ended = [key_id for key_id in self.cipher.keyring.ids if key_id in uses and uses[key_id].state == "unused"]
        if ended:
            advice = (
                f"remove the key {', '.join(ended)} from DEALER_AGENT_KEYS: it is no longer needed, and can still "
                "decrypt erased data"
            )
            log.warning("old key is still here", problem=advice)
        if self.days and self._due_at(uses, now) <= now:
            advice = "give the service a new key, as dealer-agent keys rotate --help says"
            log.warning("key rotation is due", problem=advice)


@dataclass(frozen=True)
class InstallationKeys:
    """The rotation of all keys. `own` is that of the keys of the installation, or of a folder's only dealer.

    Those are outside the database: every machine has their file.
    """

    opened: OpenInstallation
    own: KeyRotation

    @property
    def kind(self) -> Kind:
        """The job that rotates the keys of a dealer when they are old. Those of a disabled dealer get old too."""
        return Kind("keys", self._rotate, of_disabled=True, is_recurring=True)

    async def run(self, steps: "RepeatedSteps") -> None:
        """Repeats the steps for the keys outside the database until it is cancelled."""

        async def rotate() -> None:
            await asyncio.to_thread(self.own.run_due_steps, datetime.now(UTC))

        await steps.repeat("key rotation", rotate, MAINTENANCE_SECONDS, first=FIRST_ROTATION_SECONDS)

    async def _rotate(self, job: Job) -> JobResult:
        await asyncio.to_thread(lambda: self.of_dealer(job.dealer_id).run_due_steps(job.now))
        return JobResult(job.now + maintenance_period(self.opened.count()))

    def of_dealer(self, dealer_id: str) -> KeyRotation:
        """The rotation of the keys of an installation's dealer. Raises StorageError and SettingsError."""
        return replace(rotation_of_dealer(self.opened.settings_of(dealer_id), self.opened.store), wait=self.own.wait)


def rotation_of_dealer(settings: Settings, store: Store) -> KeyRotation:
    """The rotation of the keys of an installation's dealer. Raises StorageError."""
    dealer_id, days = settings.dealer.id, settings.dealer.privacy.rotate_keys_days
    return KeyRotation(store, store.check_keys(dealer_id), dealer_id, KeyTable(store, dealer_id, settings.folder), days)


def wait_unless(stopped: threading.Event) -> Callable[[float], None]:
    """A function for `KeyRotation.wait`: it sleeps, and raises RotationStopped as soon as the event is set."""

    def wait(seconds: float) -> None:
        if stopped.wait(seconds):
            raise RotationStopped

    return wait


def changeable_key_file(folder: Path, env: Mapping[str, str]) -> KeyFile | None:
    """The key file; None if the service may not change it: for keys in the environment, and for a symbolic link.

    The file behind a link may also have the keys of another dealer.
    """
    path = folder / KEY_FILE_NAME
    return None if from_environment(env) or path.is_symlink() else KeyFile(path)
