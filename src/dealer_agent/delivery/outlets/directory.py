"""The directory outlet: writes one file to a folder for each delivery."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dealer_agent.config.keys import sync_directory
from dealer_agent.dealers.profile import DirectoryChannel
from dealer_agent.delivery.failures import NotDelivered
from dealer_agent.delivery.outlet import FORMATS, DeliveryContent, OutgoingDocument, Outlet, OutletContext, make_outlet
from dealer_agent.leads.lead_view import DeliveredMessage
from dealer_agent.protocol.ids import new_ulid

UNFINISHED = ".unfinished"
"""The folder for unfinished files. It is hidden, so that a program that collects files skips it."""

LEFT_BEHIND_SECONDS = 24 * 3600
"""Files of killed attempts are deleted after this time, which no attempt takes. They hold customer data."""


@dataclass(frozen=True, slots=True)
class DirectoryOutlet:
    """Writes `<delivery id>.<suffix>`, readable by its owner only. A repeat replaces the file."""

    folder: Path
    suffix: str
    renderer: Callable[[DeliveredMessage], bytes]

    def render(self, delivery: DeliveryContent) -> bytes:
        """The content of the file."""
        return self.renderer(delivery.message)

    async def send(self, document: OutgoingDocument) -> None:
        """Returns when the file is durable. Raises NotDelivered."""
        try:
            await asyncio.to_thread(self._write, document)
        except OSError as error:
            problem = f"the folder cannot be written to: {os.strerror(error.errno or 0)}"
            raise NotDelivered(problem, may_have_arrived=self._file(document).exists()) from None

    def _file(self, document: OutgoingDocument) -> Path:
        return self.folder / f"{document.delivery_id}.{self.suffix}"

    def _write(self, document: OutgoingDocument) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self.folder / UNFINISHED
        folder.mkdir(mode=0o700, exist_ok=True)
        # Delete the files of killed attempts. An attempt that still runs after its lease then fails at its end.
        oldest = time.time() - LEFT_BEHIND_SECONDS
        for file in folder.iterdir():
            with suppress(FileNotFoundError):
                if file.name.startswith(f"{document.delivery_id}.") or file.stat().st_mtime < oldest:
                    file.unlink()
        unfinished = folder / f"{document.delivery_id}.{new_ulid()}"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(document.content)
                opened.flush()
                os.fsync(opened.fileno())
            unfinished.rename(self._file(document))
        except OSError:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise
        sync_directory(self.folder)


@make_outlet.register
def _(channel: DirectoryChannel, context: OutletContext) -> Outlet:
    document_format = FORMATS[channel.format]
    return DirectoryOutlet(context.directory / channel.path, document_format.suffix, document_format.render)
