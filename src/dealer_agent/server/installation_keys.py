"""Rotates the keys of an installation and of its dealers by age.

A dealer's old key is deleted from the database. Remains of it stay in the database's files and backups, encrypted with
the keys that the installation had then. So an erasure is final when those are destroyed too.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog

from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.encryption import EncryptionError
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.server.key_rotation import KeyRotation, KeyTable
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.server.upkeep import FIRST_UPKEEP_SECONDS, UPKEEP_SECONDS
from dealer_agent.storage.dealer_keys import list_ages
from dealer_agent.storage.dealer_registry import all_dealers
from dealer_agent.storage.errors import StorageError

log = structlog.get_logger()

MOST_READ = 200
"""The most settings that one run reads, to learn how often a dealer's key is replaced. They take a second."""


@dataclass
class InstallationKeys:
    """The rotation of all keys. `own` is that of the keys outside the database: of the installation, or of a folder."""

    opened: OpenInstallation
    own: KeyRotation
    _days: dict[str, tuple[int, int]] = field(default_factory=dict)

    def run_due_steps(self, now: datetime) -> None:
        """Runs the steps that are due, and logs them. The keys of one dealer cannot stop the rotation of others.

        Raises StorageError and EncryptionError.
        """
        self.own.run_due_steps(now)
        for dealer_id, days in self._due_dealers(now):
            try:
                self.of_dealer(dealer_id, days).run_due_steps(now)
            except (StorageError, EncryptionError) as error:
                log.warning("key not rotated", dealer=dealer_id, problem=str(error))

    async def run(self, steps: RepeatedSteps) -> None:
        """Repeats the steps that are due until it is cancelled."""
        await steps.repeat("key rotation", self._rotate_due_keys, UPKEEP_SECONDS, first=FIRST_UPKEEP_SECONDS)

    async def _rotate_due_keys(self) -> None:
        await asyncio.to_thread(self.run_due_steps, datetime.now(UTC))

    def of_dealer(self, dealer_id: str, days: int) -> KeyRotation:
        """The rotation of a dealer's keys. Raises StorageError."""
        store, folder = self.opened.store, self.opened.installation.folder_of(dealer_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        cipher = store.check_keys(dealer_id)
        place = KeyTable(store, dealer_id, folder)
        return KeyRotation(store, cipher, dealer_id, place, days, wait=self.own.wait)

    def _due_dealers(self, now: datetime) -> Iterator[tuple[str, int]]:
        """The dealers with a key that is due, or with an unfinished rotation, and the age at which a key is due."""
        if self.opened.installation.only is not None:
            return
        with self.opened.store.installation() as tx:
            ages = list_ages(tx)
            numbers = {dealer.dealer_id: dealer.settings_number for dealer in all_dealers(tx)}
        read = 0
        for age in ages:
            if age.dealer_id not in numbers:
                continue
            number, days = self._days.get(age.dealer_id, (0, 0))
            if number != numbers[age.dealer_id]:
                if read == MOST_READ:
                    continue
                read += 1
                try:
                    days = self.opened.settings_of(age.dealer_id).dealer.privacy.rotate_keys_days
                except (StorageError, SettingsError) as error:
                    log.warning("key not rotated", dealer=age.dealer_id, problem=str(error))
                    continue
                self._days[age.dealer_id] = numbers[age.dealer_id], days
            if days and (age.has_others or age.newest_at + timedelta(days=days) <= now):
                yield age.dealer_id, days
