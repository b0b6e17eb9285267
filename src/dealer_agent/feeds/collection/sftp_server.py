"""Our SFTP server, which receives the files of feeds (docs/reference/feeds.md#receive-feeds-by-sftp).

A client logs in to the account of one feed. `upload_sessions` has what it can do then. The bounds are in
docs/reference/feeds.md#bounds-of-an-upload.
"""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import asyncssh
import structlog

from dealer_agent.config.sftp import SftpSettings
from dealer_agent.encryption.passwords import NO_PASSWORD, is_password
from dealer_agent.feeds.collection.upload_limits import ConnectionLimits
from dealer_agent.feeds.collection.upload_sessions import UploadStream
from dealer_agent.feeds.collection.uploads import UploadFolder, UploadLimits

log = structlog.get_logger()

MOST_PASSWORDS = 3
MOST_KEYS = 10
"""Wrong attempts to log in on a connection."""
MOST_SESSIONS = 2
"""Open channels of a connection."""
MOST_CONNECTIONS_OF_ACCOUNT = 8
MOST_VARIABLES = 64
"""Environment variables that a client may send. They have no effect."""
REFUSAL_SECONDS = 1.0
"""A wrong password is answered after this time, so that the time does not tell whether the account exists."""
LOOKUP_SECONDS = 0.2
"""To look up an account takes at least this long, whether it exists or not."""
SWEEP_SECONDS = 1.0
LONGEST_PASSWORD = 1024
_PASSWORD_THREADS = 2

KEY_EXCHANGES = (
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group14-sha256",
)
"""The key exchanges, without those that cost the server much time before a client has logged in."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account of a feed. `public_keys` are lines of two words, as `config.sftp.read_public_key` returns them."""

    dealer_id: str
    feed: str
    incoming: Path
    limits: UploadLimits
    password_hash: str | None
    public_keys: frozenset[str]


FindAccount = Callable[[str], Account | None]
"""The account with this user name. It blocks. It logs its own failures and then returns None."""


@dataclass(eq=False)
class UploadServer:
    """The server, in the running event loop. The collector takes the complete files from their folders."""

    settings: SftpSettings
    key: asyncssh.SSHKey
    find_account: FindAccount
    limits: "ConnectionLimits[Client]" = field(init=False)
    clients: "set[Client]" = field(default_factory=set)
    # By the dealer id and the feed of an account: its folder, and the number of its connections.
    _folders: dict[tuple[str, str], UploadFolder] = field(default_factory=dict)
    _connections: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Prepares the threads. A password takes a tenth of a second and 64 MiB, so few are checked at once."""
        each = self.settings
        self.limits = ConnectionLimits(each.max_connections, each.max_connections_per_address, each.failed_logins)
        self._lookups = ThreadPoolExecutor(_PASSWORD_THREADS, "account")
        self._passwords = ThreadPoolExecutor(_PASSWORD_THREADS, "password")

    async def listen(self, listener: socket.socket) -> None:
        """Accepts clients on a listening socket."""
        asyncssh.set_log_level("CRITICAL")  # Its messages have addresses and names of users.
        self._acceptor = await asyncssh.listen(
            sock=listener,
            server_factory=lambda: Client(self),
            server_host_keys=[self.key],
            server_version="dealer-agent",
            kex_algs=KEY_EXCHANGES,
            compression_algs=["none"],
            encoding=None,
            login_timeout=self.settings.login_seconds,
            kbdint_auth=False,
            host_based_auth=False,
            gss_host=None,
            allow_pty=False,
            agent_forwarding=False,
            x11_forwarding=False,
            allow_scp=False,
        )
        self._sweeping = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """Stops at once. Files that are not complete are deleted, and their vendors send them again."""
        self._sweeping.cancel()
        self._acceptor.close()
        for client in list(self.clients):
            client.abort()
        await asyncio.gather(*(client.wait_closed() for client in list(self.clients)))
        for folder in self._folders.values():
            await asyncio.to_thread(folder.end)
        for threads in (self._lookups, self._passwords):
            threads.shutdown(cancel_futures=True)

    async def look_up(self, user: str) -> Account | None:
        """The account of this name, after a time that does not tell whether it exists."""
        loop = asyncio.get_running_loop()
        account, _ = await asyncio.gather(
            loop.run_in_executor(self._lookups, self.find_account, user), asyncio.sleep(LOOKUP_SECONDS)
        )
        return account

    async def is_password(self, account: Account | None, password: str) -> bool:
        """Whether this is the password of the account. Without an account or a password, the work is the same."""
        begin = time.monotonic()
        password_hash = account.password_hash if account is not None else None
        fits = await asyncio.get_running_loop().run_in_executor(
            self._passwords, is_password, password[:LONGEST_PASSWORD], password_hash or NO_PASSWORD
        )
        if fits and password_hash is not None and len(password) <= LONGEST_PASSWORD:
            return True
        await asyncio.sleep(begin + REFUSAL_SECONDS - time.monotonic())
        return False

    def enter(self, account: Account) -> UploadFolder | None:
        """The folder of an account, for one more connection. None if it has too many."""
        key = (account.dealer_id, account.feed)
        if self._connections[key] >= MOST_CONNECTIONS_OF_ACCOUNT:
            return None
        self._connections[key] += 1
        if key not in self._folders:
            self._folders[key] = UploadFolder(account.incoming, account.limits, partial(_log_upload, account))
        return self._folders[key]

    def leave(self, account: Account) -> None:
        """A connection of the account is closed."""
        key = (account.dealer_id, account.feed)
        self._connections[key] -= 1
        if not self._connections[key]:
            del self._connections[key]
            asyncio.get_running_loop().run_in_executor(None, self._folders.pop(key).end)

    async def _sweep(self) -> None:
        """Closes idle connections."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = time.monotonic()
            for client in list(self.clients):
                if client.has_to_go(now, self.settings.idle_seconds):
                    client.abort()


def _log_upload(account: Account, size: int) -> None:
    log.info("feed file received", dealer=account.dealer_id, feed=account.feed, bytes=size)


class Client(asyncssh.SSHServer):
    """One connection."""

    def __init__(self, server: UploadServer) -> None:
        self._server = server
        self._connection: asyncssh.SSHServerConnection | None = None
        self._lookup: tuple[str, asyncio.Task[Account | None]] | None = None
        self._passwords = self._keys = 0
        self._account: Account | None = None
        self._folder: UploadFolder | None = None
        self._streams: set[UploadStream] = set()
        self._active = time.monotonic()

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Admits a connection, or closes it or another one."""
        self._connection = conn
        self._server.clients.add(self)
        peer = conn.get_extra_info("peername")
        closed = self._server.limits.admit(self, peer[0] if peer else "", time.monotonic())
        if closed is not None:
            closed.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - as the base has it
        """The connection is closed."""
        self._server.clients.discard(self)
        self._server.limits.remove(self)
        if self._lookup is not None:
            self._lookup[1].cancel()
        if self._folder is not None:
            assert self._account is not None
            self._server.leave(self._account)
            self._folder = None

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._connection is not None:
            self._connection.abort()

    async def wait_closed(self) -> None:
        """Waits until the connection is closed."""
        if self._connection is not None:
            await self._connection.wait_closed()

    def has_to_go(self, now: float, idle_seconds: float) -> bool:
        """Whether a client that has logged in is idle too long, or sends too many variables."""
        is_idle = self._folder is not None and now - self._active > idle_seconds
        return is_idle or any(stream.variables > MOST_VARIABLES for stream in self._streams)

    def password_auth_supported(self) -> bool:
        """Accounts may have a password."""
        return True

    def public_key_auth_supported(self) -> bool:
        """Accounts may have public keys."""
        return True

    async def validate_password(self, username: str, password: str) -> bool:
        """Whether the client may log in with this password."""
        # Counted before it is checked: a client may send several at once.
        self._passwords += 1
        if self._passwords > MOST_PASSWORDS:
            raise asyncssh.PermissionDenied("Too many passwords: connect again with the right one")
        account = await self._find(username)
        if await self._server.is_password(account, password):
            return True
        self._refuse("password")
        return False

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Whether the client may log in with this key. asyncssh checks the client's signature after it."""
        if self._keys >= MOST_KEYS:
            raise asyncssh.PermissionDenied("Too many keys: offer only the right one")
        account = await self._find(username)
        offered = " ".join(key.export_public_key().decode().split()[:2])
        if account is not None and offered in account.public_keys:
            return True
        self._keys += 1
        if self._keys == MOST_KEYS:
            self._refuse("key")
        return False

    def auth_completed(self) -> None:
        """Called by asyncssh when the client has logged in. Opens the folder of its account."""
        assert self._connection is not None
        assert self._lookup is not None
        user, lookup_task = self._lookup
        # The account of the name that asyncssh has seen proof for, whatever other names the client has tried.
        assert user == self._connection.get_extra_info("username")
        self._account = lookup_task.result()
        assert self._account is not None
        self._note_activity()
        self._server.limits.log_in(self)
        self._folder = self._server.enter(self._account)
        if self._folder is None:
            raise asyncssh.DisconnectError(
                asyncssh.DISC_TOO_MANY_CONNECTIONS, "The account has too many connections: close one, then try again"
            )
        log.info("upload login", dealer=self._account.dealer_id, feed=self._account.feed)

    def session_requested(self) -> UploadStream | bool:
        """A channel for an SFTP session; False at the bound."""
        if self._folder is None or len(self._streams) >= MOST_SESSIONS:
            return False
        stream = UploadStream(self._folder, self._note_activity, lambda: self._streams.discard(stream))
        self._streams.add(stream)
        return stream

    def _note_activity(self) -> None:
        self._active = time.monotonic()

    def _refuse(self, what: str) -> None:
        log.info("upload login refused", wrong=what)
        self._server.limits.fail(self, time.monotonic())

    async def _find(self, user: str) -> Account | None:
        """The account. It is looked up once for each name of a user."""
        if self._lookup is None or self._lookup[0] != user:
            self._lookup = user, asyncio.create_task(self._server.look_up(user))
        return await asyncio.shield(self._lookup[1])
