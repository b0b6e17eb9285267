"""Changes the keys to customer data and destroys old ones, so that nobody can read erased data.

A new key is added to the key file as the next key, which only reads. Later it becomes the active key. Everything that
the old key encrypts is encrypted again, and the old key is removed from the file. Each step is finished in file and
database before the next one begins. The next call continues after a process was killed.
"""

import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from dealer_agent.config.keys import KEY_FILE_NAME, changing, from_environment, replace_key_file
from dealer_agent.encryption import Cipher, new_key
from dealer_agent.storage.keys import KeyUse, key_uses, record_missing_key, record_next_key
from dealer_agent.storage.reencryption import keys_in_use, reencrypt
from dealer_agent.storage.store import Store

TAKEN_UP_SECONDS = 3.0
"""The time within which every worker process reads a changed key file: they check it twice a second."""
VALUES_AT_ONCE = 50
"""The most values that one transaction encrypts again. New leads wait for it."""
PAUSE_SECONDS = 0.02
"""The time for other transactions between two of these."""
NOTICE = timedelta(hours=2)
"""The least time between noting the next key and using it: a machine without the key reports it meanwhile."""
MARGIN = timedelta(days=1)
"""A running service destroys the old key within this time after a change is due."""


class News(NamedTuple):
    """What an operator should know: an event of the log and its facts."""

    event: str
    facts: dict[str, Any]
    is_problem: bool = False


class RotationStopped(Exception):  # noqa: N818 - not an error: the next call continues
    """The service stops while keys change."""


@dataclass
class KeyRotation:
    """The keys of one dealer. `path` is their file; None where the operator changes them (`file_to_change`).

    `days` is the age at which the active key is replaced; 0: never. `machine` names where the keys
    are. `wait` sleeps, and raises Stopped to end early.
    """

    store: Store
    cipher: Cipher
    dealer_id: str
    path: Path | None
    days: int
    machine: str = field(default_factory=socket.gethostname)
    wait: Callable[[float], None] = time.sleep
    sealed: Callable[[int], None] = field(default=lambda _: None)

    def keep_up(self, now: datetime) -> list[News]:
        """Does what is due, and returns news for the operator. If several processes call it at once, one does the work.

        Raises StorageError and EncryptionError.
        """
        uses = self._uses()
        self._note_lacking(uses)
        if self.path is None:
            return self._news_for_operator(uses, now)
        if not self.days or not (self._is_unfinished(uses) or self._is_due(uses, now, share=0.5)):
            return []
        try:
            with changing(self.path):
                return self._keep_up(now)
        except BlockingIOError:
            return []
        except OSError as error:
            problem = (
                f"the key file cannot be replaced ({error.strerror}): the service's user must own it and its folder"
            )
            return [News("key not changed", {"problem": problem}, is_problem=True)]

    def rotate(self, now: datetime) -> bool:
        """Makes a new key the active one and seals everything with it. The caller holds `changing`.

        Returns False if it only completed a change that was interrupted. The old keys stay in the file;
        `destroy_unused` removes them. Raises StorageError, EncryptionError and OSError.
        """
        self._read_again()
        if self._is_unfinished(self._uses()) and self.reseal():
            return False
        self._prepare(now)
        self._promote()
        self.reseal()
        return True

    def reseal(self) -> int:
        """Seals with the active key every value that is sealed with another one. Returns their number."""
        total = 0
        for done in reencrypt(self.store, self.dealer_id, VALUES_AT_ONCE):
            total += done
            self.sealed(done)
            self.wait(PAUSE_SECONDS)
        return total

    def unused(self) -> list[str]:
        """The keys here with which nothing is sealed and nothing will be."""
        with self.store.read(self.dealer_id) as tx:
            uses, used = key_uses(tx), keys_in_use(tx)
        needed = {key_id for key_id, use in uses.items() if use.state != "unused"}
        return [key_id for key_id in self.cipher.keyring.ids[1:] if key_id not in needed and not used.get(key_id)]

    def destroy_unused(self) -> list[str]:
        """Removes the unused keys from the file and returns their ids. The caller holds `changing`."""
        unused = self.unused()
        if unused:
            self.wait(TAKEN_UP_SECONDS)  # A reader that fetched a value before it was sealed again needs the old key.
            self._write(tuple(entry for entry in self.cipher.keyring.keys if entry[0] not in unused))
            self.cipher.refresh()
        return unused

    def final_by(self, now: datetime) -> datetime | None:
        """The time until which a running service destroys the keys here; None if the service does not change them."""
        if self.path is None or not self.days:
            return None
        use = self._uses().get(self.cipher.keyring.active)
        since = now if use is None or use.state == "next" else use.since
        return max(since + timedelta(days=self.days), now) + MARGIN

    def _keep_up(self, now: datetime) -> list[News]:
        self._read_again()
        news = self._finish() if self._is_unfinished(self._uses()) else []
        uses = self._uses()
        if not self._is_due(uses, now, share=0.5):
            return news
        if not self._next(uses):
            by = self._due_at(uses, now)
            key_id = self._prepare(now)
            facts = {"key": key_id, "before": f"{max(by, now + NOTICE):%Y-%m-%d %H:%M}"}
            return [*news, News("next key added: back up the key file", facts)]
        use = uses[self._next(uses)[0]]
        if not self._is_due(uses, now) or use.since + NOTICE > now:
            return news
        if use.missing_on:
            problem = f"{use.missing_on} has another key file: give all machines the same keys by DEALER_AGENT_KEYS"
            return [*news, News("key not changed", {"problem": problem}, is_problem=True)]
        self._promote()
        return [*news, *self._finish()]

    def _finish(self) -> list[News]:
        values, destroyed = self.reseal(), self.destroy_unused()
        facts = {"active": self.cipher.keyring.active, "values": values, "destroyed": ", ".join(destroyed)}
        news = [News("key changed: back up the key file", facts)]
        uses = self._uses()
        if retired := [key_id for key_id, use in uses.items() if use.state == "retired"]:
            problem = f"{', '.join(retired)} seals what cannot be sealed anew: see dealer-agent consent verify"
            news.append(News("old key not destroyed", {"problem": problem}, is_problem=True))
        return news

    def _prepare(self, now: datetime) -> str:
        """Adds a new key as the next one and returns its id. Removes what a killed change may have left."""
        key = new_key()
        dropped = {*self.unused(), *self._next(self._uses())}
        self._write((*(entry for entry in self.cipher.keyring.keys if entry[0] not in dropped), key))
        # Every worker must have read a key before anything is sealed with it.
        self.wait(TAKEN_UP_SECONDS)
        self.cipher.refresh()
        with self.store.write(self.dealer_id, now) as tx:
            record_next_key(tx, key[0])
        return key[0]

    def _promote(self) -> None:
        """Makes the next key the active one."""
        (key_id,) = self._next(self._uses())
        self._write(tuple(sorted(self.cipher.keyring.keys, key=lambda entry: entry[0] != key_id)))
        self.cipher.refresh()
        self.wait(TAKEN_UP_SECONDS)

    def _read_again(self) -> None:
        """Reads the keys from the file. The active key comes first, also after an old copy of the file was restored."""
        self.cipher.refresh()
        uses = self._uses()
        ended = [key_id for key_id, use in uses.items() if use.state in ("retired", "unused")]
        if self.cipher.keyring.active in ended and any(use.state == "active" for use in uses.values()):
            old = {key_id: uses[key_id].state != "active" for key_id in self.cipher.keyring.ids if key_id in uses}
            self._write(tuple(sorted(self.cipher.keyring.keys, key=lambda entry: old.get(entry[0], True))))
            self.cipher.refresh()

    def _write(self, keys: tuple[tuple[str, bytes], ...]) -> None:
        assert self.path is not None
        replace_key_file(self.path, replace(self.cipher.keyring, keys=keys))

    def _next(self, uses: Mapping[str, KeyUse]) -> list[str]:
        """The next key, if it is noted in the database and present here."""
        return [key_id for key_id in self.cipher.keyring.ids if key_id in uses and uses[key_id].state == "next"]

    def _is_unfinished(self, uses: Mapping[str, KeyUse]) -> bool:
        """Whether a change was begun and not completed."""
        first, *others = self.cipher.keyring.ids
        states = {key_id: use.state for key_id, use in uses.items()}
        return states.get(first, "active") != "active" or any(
            states.get(key_id) not in (None, "next") for key_id in others
        )

    def _due_at(self, uses: Mapping[str, KeyUse], now: datetime, share: float = 1.0) -> datetime:
        use = uses.get(self.cipher.keyring.active)
        return (now if use is None else use.since) + timedelta(days=self.days) * share

    def _is_due(self, uses: Mapping[str, KeyUse], now: datetime, share: float = 1.0) -> bool:
        return self._due_at(uses, now, share) <= now

    def _note_lacking(self, uses: Mapping[str, KeyUse]) -> None:
        """Notes in the database that this machine does not have the next key: then no machine seals with it."""
        here = self.machine
        for key_id, use in uses.items():
            if use.state != "next":
                continue
            if key_id not in self.cipher.keyring.ids:
                self.cipher.refresh()
            lacks = key_id not in self.cipher.keyring.ids
            if lacks and use.missing_on is None:
                self._record_missing(key_id, here)
            elif not lacks and use.missing_on == here:
                self._record_missing(key_id, None)

    def _record_missing(self, key_id: str, machine: str | None) -> None:
        with self.store.write(self.dealer_id) as tx:
            record_missing_key(tx, key_id, machine)

    def _uses(self) -> dict[str, KeyUse]:
        with self.store.read(self.dealer_id) as tx:
            return key_uses(tx)

    def _news_for_operator(self, uses: Mapping[str, KeyUse], now: datetime) -> list[News]:
        ended = [key_id for key_id in self.cipher.keyring.ids if key_id in uses and uses[key_id].state == "unused"]
        news = []
        if ended:
            advice = f"remove {', '.join(ended)}: nothing needs it, and erased data stays readable with it"
            news.append(News("old key is still here", {"problem": advice}, is_problem=True))
        if self.days and self._is_due(uses, now):
            advice = "give the service a new key, as dealer-agent keys rotate --help says"
            news.append(News("change of keys is due", {"problem": advice}, is_problem=True))
        return news


def waiting_until(stopped: threading.Event) -> Callable[[float], None]:
    """A `KeyRotation.wait` that raises Stopped once the event is set."""

    def wait(seconds: float) -> None:
        if stopped.wait(seconds):
            raise RotationStopped

    return wait


def file_to_change(directory: Path, env: Mapping[str, str]) -> Path | None:
    """The key file if the service may change it; None for keys in the environment and for a symbolic link.

    The file behind a link may also have the keys of another dealer.
    """
    path = directory / KEY_FILE_NAME
    return None if from_environment(env) or path.is_symlink() else path
