"""The process of our SFTP server. It is not the process that answers buyers: a vendor's upload never delays a search.

It reads its job from the first line of stdin, and ends when stdin closes: the service is gone. The service starts it
without the environment variables that have secrets.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from dealer_agent.bootstrap import prepare_message_types
from dealer_agent.config import SettingsError
from dealer_agent.config.installation import load_served
from dealer_agent.core_dumps import forbid_core_dumps
from dealer_agent.encryption import EncryptionError
from dealer_agent.feeds.collection.accounts import Accounts
from dealer_agent.feeds.collection.host_key import host_key
from dealer_agent.feeds.collection.sftp_server import UploadServer
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.server.log import configure_logs
from dealer_agent.server.refresh import flush_logs
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.store import Store

MOST_DATABASE_CONNECTIONS = 2


class UploadJob(Struct, frozen=True):
    """The folder of the dealer or of the installation, and the file descriptor of the listening socket."""

    folder: str
    listener: int


def run() -> None:
    """Serves until stdin closes or SIGTERM."""
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=UploadJob)
    forbid_core_dumps()
    prepare_message_types(msgspec.Struct)
    gc.freeze()
    folder = Path(job.folder)
    try:
        with ExitStack() as closing:
            installation = load_served(folder, os.environ)
            opened = None
            if installation.only is None:
                url = installation.database_url
                store = Store.open(url, many_dealers=True, most_connections=MOST_DATABASE_CONNECTIONS)
                opened = OpenInstallation(installation, closing.enter_context(store))
            find_account = Accounts(installation, opened).find
            sftp, level = installation.file.sftp, installation.file.logs.level
            key = host_key(folder / sftp.host_key_file)
            listener = closing.enter_context(socket.socket(fileno=job.listener))
            asyncio.run(_serve(partial(UploadServer, sftp, key, find_account), listener, level))
    except (SettingsError, StorageError, EncryptionError) as problem:
        sys.exit(f"The SFTP server does not start: {problem}")


async def _serve(make_server: Callable[[], UploadServer], listener: socket.socket, level: str) -> None:
    """Serves until SIGTERM, or until the parent closes stdin."""
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
