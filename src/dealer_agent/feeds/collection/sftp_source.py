"""Fetches the newest file of a feed from somebody's SFTP server."""

import asyncio
import posixpath
import socket
import stat
from asyncio import sleep
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import asyncssh
from msgspec import UNSET

from dealer_agent.config.sftp import SftpSource, read_host_key
from dealer_agent.encryption.private_files import advice, is_open_to_others
from dealer_agent.feeds.collection.source import (
    Arrivals,
    FeedSourceError,
    FetchResult,
    Seen,
    is_temporary,
    store,
    time_limit,
)
from dealer_agent.outgoing.addresses import AddressRefused, AddressRule
from dealer_agent.outgoing.connections import connect

LOGIN_SECONDS = 30.0
"""How long the connection may take, and then the login."""
MOST_LISTED = 10_000
"""The most entries of a remote folder that are read."""
MOST_LOOKS = 6
"""How often the source looks at a file that grows, before the fetch ends."""
_PIECE = 256 * 1024
_LONGEST_SEEN = 900
_NEWEST = "newest"


class _RemoteFile(NamedTuple):
    """A file of the server. Newer files are greater."""

    modified: int
    path: str
    size: int

    def state(self) -> str:
        """Changes with the file."""
        return f"{self.modified} {self.size} {self.path}"[:_LONGEST_SEEN]


class SftpServer:
    """An SFTP server. `secrets` has the environment variables. `rule` says which addresses it may have."""

    def __init__(
        self, settings: SftpSource, dealer_folder: Path, secrets: Mapping[str, str], rule: AddressRule
    ) -> None:
        self._settings = settings
        self._dealer_folder = dealer_folder
        self._secrets = secrets
        self._rule = rule

    async def fetch(self, seen: Seen, arrivals: Arrivals) -> FetchResult:
        """Fetches the newest file if it is another one than last time. See FeedSource."""
        try:
            async with time_limit(self._settings.timeout_seconds), self._session() as client:
                return await self._fetch(client, seen, arrivals)
        except asyncssh.SFTPNoSuchFile:
            raise FeedSourceError(
                "the server has no such file or folder: check path of this feed in dealer.toml"
            ) from None
        except asyncssh.SFTPPermissionDenied:
            raise FeedSourceError(
                "the server refuses access to the file: check path of this feed in dealer.toml, or ask its owner"
            ) from None
        except (asyncssh.Error, EOFError) as error:
            # The message is from the server.
            raise FeedSourceError(
                f"the connection to the server failed ({type(error).__name__}): ask its owner if this goes on"
            ) from None

    async def _fetch(self, client: asyncssh.SFTPClient, seen: Seen, arrivals: Arrivals) -> FetchResult:
        """Stores the newest file of the server, unless it was fetched before. Raises FeedSourceError."""
        newest = await self._newest(client)
        if newest is None or newest.state() == seen.get(_NEWEST):
            return FetchResult(seen=seen)
        newest = await self._complete(client, newest)
        arrivals.check(newest.size)
        if newest.size == 0:
            raise FeedSourceError("the file is empty: ask the server's owner")
        file = await store(_content(client, newest), posixpath.basename(newest.path), arrivals)
        return FetchResult((file,), {_NEWEST: newest.state()})

    async def _newest(self, client: asyncssh.SFTPClient) -> _RemoteFile | None:
        """The newest file that fits the path; None if no file fits a pattern. Raises asyncssh.Error."""
        path = self._settings.path
        folder, pattern = posixpath.split(path)
        if not set(pattern) & set("*?["):
            return _remote(path, await client.stat(path))
        newest, listed = None, 0
        async for entry in client.scandir(folder or "."):
            listed += 1
            if listed > MOST_LISTED:
                raise FeedSourceError(f"the folder of the server has more than {MOST_LISTED:,} entries: clear it")
            name = entry.filename if isinstance(entry.filename, str) else entry.filename.decode(errors="replace")
            is_file = entry.attrs.permissions is None or stat.S_ISREG(entry.attrs.permissions)
            if is_file and fnmatchcase(name, pattern) and not is_temporary(name):
                candidate = _remote(posixpath.join(folder, name), entry.attrs)
                newest = candidate if newest is None else max(newest, candidate)
        return newest

    async def _complete(self, client: asyncssh.SFTPClient, file: _RemoteFile) -> _RemoteFile:
        """The file, as soon as it does not change between two looks. Raises FeedSourceError and asyncssh.Error."""
        for _ in range(MOST_LOOKS):
            await sleep(self._settings.settle_seconds)
            changed = _remote(file.path, await client.stat(file.path))
            if changed == file:
                return file
            file = changed
        raise FeedSourceError("somebody still writes the file: the next fetch tries again")

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[asyncssh.SFTPClient]:
        """A session in which the server has shown the right host key. Raises FeedSourceError and asyncssh.Error."""
        settings = self._settings
        password, key = self._login()
        checked = _HostKeyCheck(read_host_key(settings.host_key) if settings.host_key is not UNSET else None)
        try:
            connection = await asyncssh.connect(
                settings.host,
                settings.port,
                sock=await self._connected(),
                client_factory=lambda: checked,
                username=settings.user,
                password=password,
                client_keys=[key] if key is not None else None,
                # Nothing of the user's own configuration of SSH counts.
                config=None,
                agent_path=None,
                known_hosts=b"",
                gss_host=None,
                x509_trusted_certs=None,
                server_host_key_algs=checked.algorithms(),
                compression_algs=["none"],
                connect_timeout=LOGIN_SECONDS,
                login_timeout=LOGIN_SECONDS,
            )
        except asyncssh.HostKeyNotVerifiable:
            raise FeedSourceError(checked.problem()) from None
        except asyncssh.KeyExchangeFailed:
            raise FeedSourceError(
                "the server has no host key of the type in host_key, or offers only outdated encryption: ask its owner "
                "for the current host key"
            ) from None
        except asyncssh.PermissionDenied:
            raise FeedSourceError("the server refuses the login: check user, and password_env or key_file") from None
        async with connection, connection.start_sftp_client() as client:
            yield client

    async def _connected(self) -> socket.socket:
        """A connected socket. Raises FeedSourceError."""
        host = self._settings.host
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                return await connect(host, self._settings.port, self._rule)
        except AddressRefused as refused:
            raise FeedSourceError(str(refused)) from None
        except socket.gaierror:
            raise FeedSourceError(f"the host {host} is unknown: check host of this feed in dealer.toml") from None
        except OSError as error:
            reason = error.strerror or "no response"
            raise FeedSourceError(
                f"the server cannot be reached ({reason}): check host and port of this feed in dealer.toml"
            ) from None

    def _login(self) -> tuple[str | None, asyncssh.SSHKey | None]:
        """The password, or the private key. Raises FeedSourceError."""
        settings = self._settings
        if settings.password_env is not UNSET:
            password = self._secrets.get(settings.password_env)
            if not password:
                raise FeedSourceError(
                    f"the environment variable {settings.password_env} is not set: set it to the password"
                )
            return password, None
        assert settings.key_file is not UNSET, "the rules of the settings"
        path = self._dealer_folder / settings.key_file
        try:
            if is_open_to_others(path.stat().st_mode):
                raise FeedSourceError(f"key_file {advice('600', [path])}")
            return None, asyncssh.read_private_key(path)
        except OSError as error:
            raise FeedSourceError(
                f"key_file cannot be read: {error.strerror}; check key_file of this feed in dealer.toml"
            ) from None
        except asyncssh.KeyImportError:
            raise FeedSourceError("key_file has no private key without a passphrase: make another key") from None


class _HostKeyCheck(asyncssh.SSHClient):
    """Accepts the host key of the settings only."""

    def __init__(self, expected: str | None) -> None:
        self._expected = expected
        self._shown: asyncssh.SSHKey | None = None

    def algorithms(self) -> list[str] | str:
        """The kinds of host keys to ask the server for."""
        if self._expected is None or self._expected.startswith("SHA256:"):
            return "-*-cert-v*"
        kind = self._expected.split()[0]
        return ["rsa-sha2-512", "rsa-sha2-256"] if kind == "ssh-rsa" else [kind]

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        """Whether the server has shown the expected key."""
        self._shown = key
        line = " ".join(key.export_public_key().decode().split()[:2])
        return self._expected is not None and self._expected in (key.get_fingerprint(), line)

    def problem(self) -> str:
        """What to do about the key that the server has shown."""
        shown = f"{self._shown.get_algorithm()} {self._shown.get_fingerprint()}" if self._shown else "of another kind"
        if self._expected is None:
            return (
                f"the host key of the server is {shown}: ask its owner whether this is right, then write the part that "
                "begins with SHA256: as host_key"
            )
        return (
            f"the host key of the server is {shown}, and not that of host_key: another machine may pretend to be the "
            "server. Ask the "
            "server's owner; if the key has changed, write the new one as host_key"
        )


def _remote(path: str, attrs: asyncssh.SFTPAttrs) -> _RemoteFile:
    return _RemoteFile(int(attrs.mtime or 0), path, int(attrs.size or 0))


async def _content(client: asyncssh.SFTPClient, file: _RemoteFile) -> AsyncGenerator[bytes, None]:
    """The content of the file, in pieces. Raises FeedSourceError if it changes meanwhile, and asyncssh.Error."""
    size = 0
    async with client.open(file.path, "rb") as remote:
        while size <= file.size and (piece := await remote.read(_PIECE)):
            assert isinstance(piece, bytes), "opened in binary mode"
            size += len(piece)
            yield piece
    if size != file.size or _remote(file.path, await client.stat(file.path)) != file:
        raise FeedSourceError("the file changed while it was fetched: the next fetch tries again")
