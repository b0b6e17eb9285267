"""Changes of a dealer's settings, with their history: of a file `dealer.toml`, or of a dealer of an installation.

The text is stored as a person wrote it, with its comments. It is checked as the service checks it when it starts.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from dealer_agent.config import Settings
from dealer_agent.config.installation import Installation
from dealer_agent.config.loading import FILE_NAME, read_dealer_file, read_text
from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.encryption.private_files import new_private_file, replaced_file, sync_folder
from dealer_agent.open_installation import OpenInstallation, open_for_changes
from dealer_agent.storage.errors import SettingsConflict
from dealer_agent.storage.installation.dealer_registry import (
    SettingsRecord,
    change_settings,
    find_dealer,
    list_settings,
    read_settings,
)
from dealer_agent.storage.privacy.dealer_keys import COUNT_CHANGE
from dealer_agent.storage.store import Store

HISTORY = "settings-history"
"""The folder, beside `dealer.toml`, with the settings that a page has replaced."""
MOST_KEPT = 200
OF_PROCESS = ("service", "rate_limits", "logs", "metrics", "traces", "sftp", "feed_files", "console")
"""The sections of `dealer.toml` that a running service reads only when it starts."""
_FILE = re.compile(r"(\d{6})\.toml")


class CurrentSettings(NamedTuple):
    """The current settings: their number in the history, and their text."""

    number: int
    text: str

    @property
    def version(self) -> str:
        """Differs for each number and each text."""
        return f"{self.number}-{sha256(self.text.encode()).hexdigest()[:16]}"

    def require(self, version: str) -> None:
        """Raises SettingsConflict unless these settings have this version."""
        if self.version != version:
            raise SettingsConflict("somebody has changed the settings meanwhile: look at them, then do it again")


def require_same_dealer(settings: Settings, dealer_id: str) -> Settings:
    """Raises SettingsError if a text has another id."""
    if settings.dealer.id != dealer_id:
        raise SettingsError(f"{FILE_NAME}: id: is {settings.dealer.id} and must stay {dealer_id}; an id never changes")
    return settings


@dataclass(frozen=True)
class RegisteredSettings:
    """The settings of a dealer of an installation. Its database has them all."""

    opened: OpenInstallation
    dealer_id: str

    def current(self) -> CurrentSettings:
        """The current settings."""
        with self.opened.store.read(self.dealer_id) as tx:
            number = find_dealer(tx).settings_number
            return CurrentSettings(number, read_settings(tx, number).decode())

    def check(self, text: str) -> Settings:
        """The settings of a text. Raises SettingsError with all problems."""
        return require_same_dealer(self.opened.installation.dealer_settings(text), self.dealer_id)

    def save(self, text: str, *, expected: str, actor: str, note: str) -> int:
        """Stores a text, and returns its number.

        `expected` is the version that was changed. Raises SettingsError, and SettingsConflict if it is not current.
        """
        self.check(text)
        current = self.current()
        current.require(expected)
        with open_for_changes(self.opened.installation) as store, store.write(self.dealer_id) as tx:
            return change_settings(tx, text.encode(), expected=current.number, actor=actor, note=note)

    def history(self) -> Sequence[SettingsRecord]:
        """What was stored, newest first."""
        with self.opened.store.read(self.dealer_id) as tx:
            return list_settings(tx)

    def read(self, number: int) -> str | None:
        """The text with this number."""
        with self.opened.store.read(self.dealer_id) as tx:
            known = {record.number for record in list_settings(tx)}
            return read_settings(tx, number).decode() if number in known else None


class _Header(msgspec.Struct):
    """The first line of a file of the history, behind `# `."""

    at: datetime
    actor: str
    note: str


@dataclass(frozen=True)
class FileSettings:
    """The settings of a folder with `dealer.toml`. The file is the one source: a person may edit it at any time.

    HISTORY has the texts that were saved here, and the one before the first of them.
    """

    folder: Path
    store: Store
    dealer_id: str

    def current(self) -> CurrentSettings:
        """The current settings. A text that was edited in the file has the number after the last one that was saved."""
        text = read_text(self.folder / FILE_NAME)
        newest = max(self._numbers(), default=0)
        return CurrentSettings(newest if newest and self.read(newest) == text else newest + 1, text)

    def check(self, text: str) -> Settings:
        """See RegisteredSettings."""
        file = read_dealer_file(text)
        settings = Settings.of(file, folder=self.folder, database_url="", service=file.service, cipher=None)
        return require_same_dealer(settings, self.dealer_id)

    def save(self, text: str, *, expected: str, actor: str, note: str) -> int:
        """See RegisteredSettings."""
        self.check(text)
        with self.store.write(self.dealer_id) as tx:
            # All processes read the file again when this counter changes. Its row is the lock, too.
            tx.execute(COUNT_CHANGE)
            current = self.current()
            current.require(expected)
            number, before = current
            if number not in self._numbers():
                self._keep(number, before, _Header(tx.now, "", "as it was in the file"))
            self._keep(number + 1, text, _Header(tx.now, actor, note))
            self._replace(text)
        return number + 1

    def history(self) -> Sequence[SettingsRecord]:
        """See RegisteredSettings."""
        headers = ((number, self._read_file(number)[0]) for number in sorted(self._numbers(), reverse=True))
        return [SettingsRecord(number, each.at, each.actor, each.note) for number, each in headers]

    def read(self, number: int) -> str | None:
        """See RegisteredSettings."""
        return self._read_file(number)[1] if number in self._numbers() else None

    def _numbers(self) -> list[int]:
        folder = self.folder / HISTORY
        names = (_FILE.fullmatch(path.name) for path in folder.iterdir()) if folder.is_dir() else ()
        return [int(found[1]) for found in names if found]

    def _read_file(self, number: int) -> tuple[_Header, str]:
        head, _, text = self._path(number).read_text("utf-8").partition("\n")
        return msgspec.json.decode(head.removeprefix("# "), type=_Header), text

    def _path(self, number: int) -> Path:
        return self.folder / HISTORY / f"{number:06}.toml"

    def _keep(self, number: int, text: str, header: _Header) -> None:
        self._path(number).parent.mkdir(mode=0o700, exist_ok=True)
        with new_private_file(self._path(number)) as file:
            file.write(b"# " + msgspec.json.encode(header) + b"\n" + text.encode())
        for old in sorted(self._numbers())[:-MOST_KEPT]:
            self._path(old).unlink(missing_ok=True)

    def _replace(self, text: str) -> None:
        """Replaces the file at once: a process that reads it meanwhile gets the old or the new text."""
        path = self.folder / FILE_NAME
        with replaced_file(path) as file:
            file.write(text.encode())
            os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
        sync_folder(self.folder)


DealerSettings = RegisteredSettings | FileSettings
"""The settings of one dealer."""


def settings_of(opened: OpenInstallation, dealer_id: str) -> DealerSettings:
    """The settings of a dealer, to read and to change."""
    if opened.installation.only is not None:
        return FileSettings(opened.installation.folder, opened.store, dealer_id)
    return RegisteredSettings(opened, dealer_id)


def sections_that_need_a_restart(installation: Installation, before: Settings, after: Settings) -> list[str]:
    """The sections that have changed, and that a running service of this folder reads only when it starts.

    None with many dealers: there, `installation.toml` has these sections, and a dealer's settings cannot change them.
    """
    if installation.only is None:
        return []
    return [name for name in OF_PROCESS if getattr(before, name) != getattr(after, name)]
