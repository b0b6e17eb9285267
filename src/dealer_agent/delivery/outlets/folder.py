"""The directory outlet: writes one file to a folder for each delivery."""

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dealer_agent.dealers.profile import FolderChannel
from dealer_agent.delivery.attempt import Lease, NotDelivered
from dealer_agent.delivery.outlet import FORMATS, Format, OutletParts
from dealer_agent.encryption.private_files import new_private_file, sync_folder
from dealer_agent.leads.lead_view import DeliveredMessage
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.deliveries.outbox import DueDelivery

UNFINISHED = ".unfinished"
"""The folder for unfinished files. It is hidden, so that a program that collects files skips it."""

LEFT_BEHIND_SECONDS = 24 * 3600
"""Files of killed attempts are deleted after this time. No attempt is that long. They hold customer data."""


@dataclass(frozen=True, slots=True)
class FolderOutlet:
    """Writes `<delivery id>.<suffix>`, readable by its owner only. A repeat replaces the file."""

    folder: Path
    format: Format

    def render(self, _: DueDelivery, message: DeliveredMessage) -> bytes:
        """The content of the file."""
        return self.format.render(message)

    async def send(self, delivery: DueDelivery, document: bytes, lease: Lease) -> None:
        """Returns when the file is durable. Raises NotDelivered, LeaseLost and StorageError."""
        file = self.folder / f"{delivery.delivery_id}.{self.format.suffix}"
        try:
            unfinished = await asyncio.to_thread(self._write, file, document)
            try:
                await lease.renew(0)
                await asyncio.to_thread(self._finish, unfinished, file, lease)
            except BaseException:
                with suppress(OSError):
                    unfinished.unlink(missing_ok=True)
                raise
        except OSError as error:
            problem = f"the folder cannot be written to: {os.strerror(error.errno or 0)}"
            raise NotDelivered(problem, may_have_arrived=file.exists()) from None

    def _finish(self, unfinished: Path, file: Path, lease: Lease) -> None:
        # All threads may have been waiting for slow disks.
        lease.check()
        unfinished.rename(file)
        sync_folder(self.folder)

    def _write(self, file: Path, document: bytes) -> Path:
        """Writes the unfinished file, and returns its path."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self.folder / UNFINISHED
        folder.mkdir(mode=0o700, exist_ok=True)
        # Delete the files of killed attempts. An attempt that still runs after its lease then fails at its end.
        oldest = time.time() - LEFT_BEHIND_SECONDS
        for earlier in folder.iterdir():
            with suppress(FileNotFoundError):
                if earlier.stem == file.stem or earlier.stat().st_mtime < oldest:
                    earlier.unlink()
        unfinished = folder / f"{file.stem}.{new_ulid()}"
        try:
            with new_private_file(unfinished) as opened:
                opened.write(document)
        except OSError:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise
        return unfinished


CHANNEL = FolderChannel


def make_outlet(channel: FolderChannel, parts: OutletParts) -> FolderOutlet:
    """The outlet of a channel with these settings."""
    return FolderOutlet(parts.folder / channel.path, FORMATS[channel.format])
