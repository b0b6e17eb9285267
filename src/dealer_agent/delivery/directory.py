"""A folder that gets one file a delivery, whole or not at all."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dealer_agent.delivery.outlet import DeliveryDocument, NotDelivered, OutgoingMessage
from dealer_agent.leads.lead_view import DeliveredMessage
from dealer_agent.protocol.ids import new_ulid

UNFINISHED = ".unfinished"
"""The folder inside of what is being written."""

LEFT_BEHIND_SECONDS = 24 * 3600
"""No attempt takes this long. A file that a killed attempt left holds customer data, and nothing else deletes it."""


@dataclass(frozen=True, slots=True)
class DirectoryOutlet:
    """Writes `<delivery id>.<suffix>`, readable by its owner alone. A repeat replaces the file of the same name."""

    folder: Path
    suffix: str
    render: Callable[[DeliveredMessage], bytes]

    def make(self, parcel: DeliveryDocument) -> bytes:
        """The content of the file."""
        return self.render(parcel.message)

    async def send(self, letter: OutgoingMessage) -> None:
        """Durable once this returns. Raises NotDelivered."""
        try:
            await asyncio.to_thread(self._write, letter)
        except OSError as error:
            words = f"the folder cannot be written to: {os.strerror(error.errno or 0)}"
            may_have_arrived = (self.folder / f"{letter.delivery_id}.{self.suffix}").exists()
            raise NotDelivered(words, may_have_arrived=may_have_arrived) from None

    def _write(self, letter: OutgoingMessage) -> None:
        delivery_id, content = letter.delivery_id, letter.content
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A hidden folder: a program that collects files must not take an unfinished one.
        unfinished = self.folder / UNFINISHED
        unfinished.mkdir(mode=0o700, exist_ok=True)
        # Delete the files of killed attempts. An attempt that still runs after its lease then fails at its end.
        oldest = time.time() - LEFT_BEHIND_SECONDS
        for left in unfinished.iterdir():
            with suppress(FileNotFoundError):
                if left.name.startswith(f"{delivery_id}.") or left.stat().st_mtime < oldest:
                    left.unlink()
        part = unfinished / f"{delivery_id}.{new_ulid()}"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.rename(self.folder / f"{delivery_id}.{self.suffix}")
        except OSError:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise
        _sync_folder(self.folder)


def _sync_folder(folder: Path) -> None:
    """The name is as durable as the content."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
