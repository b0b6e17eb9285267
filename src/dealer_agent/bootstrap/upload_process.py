"""The process of our SFTP server. It is not the process that answers buyers: a vendor's upload never delays a search.

It reads its job from the first line of stdin, and ends when stdin closes: the service is gone. The service starts it
without the environment variables that have secrets.
"""

import asyncio
import gc
import os
import re
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import structlog
from msgspec import UNSET, Struct

from dealer_agent.bootstrap import prepare_message_types
from dealer_agent.config import SettingsError
from dealer_agent.config.feeds import Feeds, FeedSettings
from dealer_agent.config.installation import Installation, load_served
from dealer_agent.config.settings import Sections
from dealer_agent.config.sftp import read_public_key
from dealer_agent.core_dumps import forbid_core_dumps
from dealer_agent.encryption import EncryptionError
from dealer_agent.feed_collection.host_key import host_key
from dealer_agent.feed_collection.sftp_server import Account, UploadServer
from dealer_agent.feed_collection.source import incoming_folder
from dealer_agent.feed_collection.uploads import UploadLimits
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.server.log import configure_logs
from dealer_agent.server.refresh import flush_logs
from dealer_agent.storage.dealer_registry import find_dealer
from dealer_agent.storage.errors import DealerUnknown, StorageError
from dealer_agent.storage.store import Store

log = structlog.get_logger()

MOST_DATABASE_CONNECTIONS = 2
_USER = re.compile(r"([a-z0-9-]{1,63})@([a-z0-9-]{1,63})")


class UploadJob(Struct, frozen=True):
    """The folder of the dealer or of the installation, and the file descriptor of the listening socket."""

    directory: str
    listener: int


def account_of(feed: FeedSettings, dealer_id: str, directory: Path, shared: Sections) -> Account | None:
    """The account of a feed; None if nobody uploads its files. The bounds are those of the installation (`shared`)."""
    if feed.upload is UNSET:
        return None
    return Account(
        dealer_id,
        feed.name,
        incoming_folder(directory, feed.name),
        UploadLimits(
            feed.most_bytes,
            shared.sftp.max_waiting_files,
            shared.sftp.max_waiting_mib << 20,
            shared.feed_files.dealer_mib << 20,
            shared.feed_files.least_free_mib << 20,
        ),
        feed.upload.password_hash or None,
        frozenset(map(read_public_key, feed.upload.public_keys)),
    )


@dataclass(frozen=True)
class Accounts:
    """The accounts of all dealers. The name of a user is `feed@dealer`; of the only dealer of a folder, it is `feed`.

    The settings of an only dealer are not in the database: without it (`opened` is None), its vendors can upload too.
    Threads may share it.
    """

    installation: Installation
    opened: OpenInstallation | None

    def find(self, user: str) -> Account | None:
        """The account of a user; None for an unknown name. Blocks for the database."""
        only = self.installation.only
        if only is not None:
            return self._of(only.dealer.id, only.directory, only.feeds, user)
        words = _USER.fullmatch(user)
        if words is None:
            return None
        name, dealer_id = words.groups()
        try:
            assert self.opened is not None, "the settings are in the database"
            with self.opened.store.read(dealer_id) as tx:
                if not find_dealer(tx).enabled:
                    return None
            settings = self.opened.settings_of(dealer_id)
            return self._of(dealer_id, settings.directory, settings.feeds, name)
        except DealerUnknown:
            return None
        except (StorageError, SettingsError, EncryptionError) as fault:
            log.error("upload account not read", dealer=dealer_id, error=type(fault).__qualname__)
            return None

    def _of(self, dealer_id: str, directory: Path, feeds: Feeds, name: str) -> Account | None:
        feed = next((feed for feed in feeds if feed.name == name), None)
        return None if feed is None else account_of(feed, dealer_id, directory, self.installation.file)


def run() -> None:
    """Serves until stdin closes or SIGTERM."""
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=UploadJob)
    forbid_core_dumps()
    prepare_message_types(msgspec.Struct)
    gc.freeze()
    directory = Path(job.directory)
    try:
        with ExitStack() as closing:
            installation = load_served(directory, os.environ)
            opened = None
            if installation.only is None:
                url = installation.database_url
                store = Store.open(url, many_dealers=True, most_connections=MOST_DATABASE_CONNECTIONS)
                opened = OpenInstallation(installation, closing.enter_context(store))
            find_account = Accounts(installation, opened).find
            sftp, level = installation.file.sftp, installation.file.logs.level
            key = host_key(directory / sftp.host_key_file)
            listener = closing.enter_context(socket.socket(fileno=job.listener))
            asyncio.run(_serve(partial(UploadServer, sftp, key, find_account), listener, level))
    except (SettingsError, StorageError, EncryptionError) as problem:
        sys.exit(f"The SFTP server does not start: {problem}")


async def _serve(make_server: Callable[[], UploadServer], listener: socket.socket, level: str) -> None:
    lines = configure_logs(level)
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)

    def watch() -> None:
        if not os.read(0, 1024):
            stopped.set()

    loop.add_reader(0, watch)
    server = make_server()
    flushing = asyncio.create_task(flush_logs(lines))
    await server.listen(listener)
    await stopped.wait()
    await server.close()
    loop.remove_reader(0)
    flushing.cancel()
    lines.flush()


if __name__ == "__main__":
    run()
