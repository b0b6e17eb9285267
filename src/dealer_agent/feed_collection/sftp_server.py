"""Our SFTP server, which receives the files of feeds (docs/reference/feeds.md#receive-feeds-by-sftp).

A client logs in to the account of one feed. `upload_sessions` has what it can do then. The bounds are in
docs/reference/feeds.md#bounds-of-an-upload.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import asyncssh
import structlog

from dealer_agent.config.sftp import SftpSettings
from dealer_agent.encryption.passwords import NO_PASSWORD, is_password
from dealer_agent.feed_collection.upload_limits import ConnectionLimits
from dealer_agent.feed_collection.upload_sessions import UploadStream
from dealer_agent.feed_collection.uploads import UploadFolder, UploadLimits

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
HELD_SECONDS = 3600.0
"""How long a complete file with a temporary name waits for its final name after the last session of its account."""
SWEEP_SECONDS = 1.0
LONGEST_PASSWORD = 1024
_PASSWORD_THREADS = 2
_FILE_THREADS = 8

KEY_EXCHANGES = (
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group14-sha256",
)
"""Without the groups that cost the server much time before a client has logged in."""


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


@dataclass(slots=True)
class _Folder:
    folder: UploadFolder
    connections: int = 0
    expiry: asyncio.TimerHandle | None = None


@dataclass(eq=False)
class UploadServer:
    """The server, in the running event loop. The collector finds the complete files in the incoming folders."""

    settings: SftpSettings
    key: asyncssh.SSHKey
    find_account: FindAccount
    limits: "ConnectionLimits[Client]" = field(init=False)
    threads: ThreadPoolExecutor = field(init=False)
    _folders: dict[tuple[str, str], _Folder] = field(default_factory=dict)
    _clients: "set[Client]" = field(default_factory=set)

    def __post_init__(self) -> None:
        """Prepares the threads. A password takes a tenth of a second and 64 MiB, so few are checked at once."""
        each = self.settings
        self.limits = ConnectionLimits(each.max_connections, each.max_connections_per_address, each.failed_logins)
        self.threads = ThreadPoolExecutor(_FILE_THREADS, "upload")
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
        for client in list(self._clients):
            client.abort()
        await asyncio.gather(*(client.wait_closed() for client in list(self._clients)))
        for each in self._folders.values():
            await self._in_thread(each.folder.end)
        for threads in (self.threads, self._lookups, self._passwords):
            threads.shutdown(cancel_futures=True)

    def add(self, client: "Client") -> None:
        """Adds a new connection."""
        self._clients.add(client)

    def remove(self, client: "Client") -> None:
        """Removes a closed connection."""
        self._clients.discard(client)
        self.limits.remove(client)

    async def look_up(self, user: str) -> Account | None:
        """The account of this name, after a time that does not tell whether it exists."""
        loop = asyncio.get_running_loop()
        found, _ = await asyncio.gather(
            loop.run_in_executor(self._lookups, self.find_account, user), asyncio.sleep(LOOKUP_SECONDS)
        )
        return found

    async def is_password(self, account: Account | None, password: str) -> bool:
        """Whether this is the password of the account. Without an account or a password, the work is the same."""
        begin = time.monotonic()
        known = account.password_hash if account is not None else None
        loop = asyncio.get_running_loop()
        fits = await loop.run_in_executor(
            self._passwords, is_password, password[:LONGEST_PASSWORD], known or NO_PASSWORD
        )
        if fits and known is not None and len(password) <= LONGEST_PASSWORD:
            return True
        await asyncio.sleep(begin + REFUSAL_SECONDS - time.monotonic())
        return False

    def enter(self, account: Account) -> UploadFolder | None:
        """The folder of an account, for one more connection. None if it has too many."""
        key = (account.dealer_id, account.feed)
        found = self._folders.get(key)
        if found is None:
            found = self._folders[key] = _Folder(UploadFolder(account.incoming, account.limits, partial(_log, account)))
        if found.connections >= MOST_CONNECTIONS_OF_ACCOUNT:
            return None
        found.connections += 1
        if found.expiry is not None:
            found.expiry.cancel()
            found.expiry = None
        return found.folder

    def leave(self, account: Account) -> None:
        """A connection of the account is closed. After the last one, files wait a while for their final name."""
        found = self._folders[account.dealer_id, account.feed]
        found.connections -= 1
        if not found.connections:
            seconds = HELD_SECONDS if found.folder.has_unfinished else 0.0
            found.expiry = asyncio.get_running_loop().call_later(seconds, self._forget, account)

    def _forget(self, account: Account) -> None:
        found = self._folders.pop((account.dealer_id, account.feed))
        self.threads.submit(found.folder.end)

    async def _sweep(self) -> None:
        """Closes idle connections."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = time.monotonic()
            for client in list(self._clients):
                if client.has_to_go(now, self.settings.idle_seconds):
                    client.abort()

    async def _in_thread(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self.threads, work)


def _log(account: Account, size: int) -> None:
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
        self._server.add(self)
        peer = conn.get_extra_info("peername")
        closed = self._server.limits.admit(self, peer[0] if peer else "", time.monotonic())
        if closed is not None:
            closed.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - as the base has it
        """The connection is closed."""
        self._server.remove(self)
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

    def begin_auth(self, username: str) -> bool:  # noqa: ARG002
        """Every client must log in."""
        return True

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
            raise asyncssh.PermissionDenied("Too many passwords")
        account = await self._find(username)
        if await self._server.is_password(account, password):
            return True
        self._refuse("password")
        return False

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Whether the client may log in with this key. asyncssh checks the client's signature after it."""
        if self._keys >= MOST_KEYS:
            raise asyncssh.PermissionDenied("Too many keys")
        account = await self._find(username)
        offered = " ".join(key.export_public_key().decode().split()[:2])
        if account is not None and offered in account.public_keys:
            return True
        self._keys += 1
        if self._keys == MOST_KEYS:
            self._refuse("key")
        return False

    def auth_completed(self) -> None:
        """The client has logged in."""
        assert self._connection is not None
        assert self._lookup is not None
        user, found = self._lookup
        # The account of the name that asyncssh has seen proof for, whatever other names the client has tried.
        assert user == self._connection.get_extra_info("username")
        self._account = found.result()
        assert self._account is not None
        self._note_activity()
        self._server.limits.log_in(self)
        self._folder = self._server.enter(self._account)
        if self._folder is None:
            raise asyncssh.DisconnectError(asyncssh.DISC_TOO_MANY_CONNECTIONS, "The account has too many connections")
        log.info("upload login", dealer=self._account.dealer_id, feed=self._account.feed)

    def session_requested(self) -> UploadStream | bool:
        """A channel for an SFTP session; False at the bound."""
        if self._folder is None or len(self._streams) >= MOST_SESSIONS:
            return False
        stream = UploadStream(
            self._folder, self._server.threads, self._note_activity, lambda: self._streams.discard(stream)
        )
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
