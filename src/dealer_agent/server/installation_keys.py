"""Rotates the keys of an installation and of its dealers by age.

A dealer's old key is deleted from the database. Remains of it stay in the database's files and backups, encrypted with
the keys that the installation had then. So an erasure is final when those are destroyed too.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from dealer_agent.jobs.loop import MAINTENANCE_SECONDS, Kind, Next, maintenance_period
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.server.key_rotation import FIRST_ROTATION_SECONDS, KeyRotation, KeyTable
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.storage.jobs import Job


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
        return Kind("keys", self._rotate, of_disabled=True, is_lasting=True)

    async def run(self, steps: RepeatedSteps) -> None:
        """Repeats the steps for the keys outside the database until it is cancelled."""

        async def rotate() -> None:
            await asyncio.to_thread(self.own.run_due_steps, datetime.now(UTC))

        await steps.repeat("key rotation", rotate, MAINTENANCE_SECONDS, first=FIRST_ROTATION_SECONDS)

    async def _rotate(self, job: Job) -> Next:
        await asyncio.to_thread(self._run_due_steps, job)
        return Next(job.now + maintenance_period(self.opened.count()))

    def _run_due_steps(self, job: Job) -> None:
        self.of_dealer(job.dealer_id).run_due_steps(job.now)

    def of_dealer(self, dealer_id: str) -> KeyRotation:
        """The rotation of the keys of an installation's dealer. Raises StorageError and SettingsError."""
        store, settings = self.opened.store, self.opened.settings_of(dealer_id)
        folder = settings.directory
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = KeyTable(store, dealer_id, folder)
        days = settings.dealer.privacy.rotate_keys_days
        return KeyRotation(store, store.check_keys(dealer_id), dealer_id, place, days, wait=self.own.wait)
