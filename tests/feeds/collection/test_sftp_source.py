"""A feed fetched from somebody's SFTP server: here, that of asyncssh, which serves a folder."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from msgspec import UNSET, convert, structs

from dealer_agent.config.sftp import SftpSource
from dealer_agent.feeds.collection import sftp_source
from dealer_agent.feeds.collection.sftp_source import SftpServer
from dealer_agent.feeds.collection.source import Arrivals, FeedSourceError, FetchResult, name_at_source
from dealer_agent.outgoing.addresses import ANY_ADDRESS, AddressRule

pytestmark = [pytest.mark.outside_protocol("feeds fetched by SFTP"), pytest.mark.anyio]

USER, PASSWORD = "dealer", "a long password"
FEED = b"vin,price\n1HGCY2F57RA000001,20000\n" * 10_000
MIB = 1 << 20


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine reaches no limit of time."""
    monkeypatch.setattr(sftp_source, "LOGIN_SECONDS", 600.0)


class _Vendor(asyncssh.SSHServer):
    def __init__(self, keys: asyncssh.SSHAuthorizedKeys) -> None:
        self._keys = keys

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        self._connection.set_authorized_keys(self._keys)
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (USER, PASSWORD)


@dataclass
class Vendor:
    """A vendor's server. `source` makes the source that fetches from it."""

    folder: Path
    port: int
    host_key: asyncssh.SSHKey
    own: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PASSWORD": PASSWORD})

    def put(self, name: str, content: bytes = FEED, modified: int = 1_700_000_000) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (modified, modified))
        return path

    def source(self, rule: AddressRule = ANY_ADDRESS, **changed: Any) -> SftpServer:
        written = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": USER,
            "password_env": "PASSWORD",
            "host_key": self.host_key.get_fingerprint(),
            "path": "/feed.csv",
            "settle_seconds": 1,
            "timeout_seconds": 3600,
        } | changed
        settings = convert({key: value for key, value in written.items() if value is not UNSET}, SftpSource)
        # A second is 50 ms here.
        settings = structs.replace(settings, settle_seconds=settings.settle_seconds / 20)
        return SftpServer(settings, self.own, self.environment, rule)

    async def fetch(self, source: SftpServer, seen: Any = (), most_bytes: int = MIB) -> FetchResult:
        incoming = self.own / "incoming"
        incoming.mkdir(exist_ok=True)
        return await source.fetch(dict(seen), Arrivals(incoming, most_bytes, room=1 << 50, least_free=0))

    async def problem(self, source: SftpServer, **more: Any) -> str:
        """Why nothing is fetched. Nothing is left in the incoming folder."""
        with pytest.raises(FeedSourceError) as caught:
            await self.fetch(source, **more)
        incoming = self.own / "incoming"
        assert not incoming.exists() or not list(incoming.iterdir())
        assert PASSWORD not in str(caught.value)
        return str(caught.value)


@asynccontextmanager
async def vendor(tmp_path: Path) -> AsyncIterator[Vendor]:
    folder, own = tmp_path / "vendor", tmp_path / "dealer"
    folder.mkdir()
    own.mkdir()
    key = asyncssh.generate_private_key("ssh-ed25519")
    (own / "key").touch(0o600)
    (own / "key").write_bytes(key.export_private_key())
    host_key = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    acceptor = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=lambda: _Vendor(asyncssh.import_authorized_keys(key.export_public_key().decode())),
        server_host_keys=[host_key],
        login_timeout=3600,
        sftp_factory=lambda chan: asyncssh.SFTPServer(chan, chroot=str(folder).encode()),
    )
    async with acceptor:
        yield Vendor(folder, acceptor.get_port(), host_key, own)


async def test_a_file_is_fetched_once_until_it_changes(tmp_path: Path) -> None:
    async with vendor(tmp_path) as server:
        server.put("feed.csv")
        fetched = await server.fetch(server.source())
        (file,) = fetched.files
        assert (name_at_source(file), file.read_bytes()) == ("feed.csv", FEED)
        assert await server.fetch(server.source(), fetched.seen) == FetchResult(seen=fetched.seen)
        server.put("feed.csv", FEED + FEED[:34], 1_700_000_001)
        (again,) = (await server.fetch(server.source(), fetched.seen)).files
        assert again.read_bytes() == FEED + FEED[:34]


async def test_of_several_files_the_newest_is_fetched(tmp_path: Path) -> None:
    async with vendor(tmp_path) as server:
        server.put("out/feed-2.csv", b"older", 1_700_000_000)
        server.put("out/feed-1.csv", b"newer", 1_700_000_100)
        server.put("out/feed-3.csv.tmp", b"half", 1_700_000_200)
        server.put("out/.feed-4.csv", b"half", 1_700_000_200)
        server.put("out/other.txt", b"other", 1_700_000_200)
        (server.folder / "out" / "feed-5.csv").mkdir()
        (file,) = (await server.fetch(server.source(path="/out/feed-*"))).files
        assert file.read_bytes() == b"newer"
        assert await server.fetch(server.source(path="/out/nothing-*")) == FetchResult()


async def test_a_private_key_logs_in(tmp_path: Path) -> None:
    async with vendor(tmp_path) as server:
        server.put("feed.csv")
        source = server.source(password_env=UNSET, key_file="key")
        assert (await server.fetch(source)).files


HOST_KEYS = {
    "the fingerprint": lambda key: key.get_fingerprint(),
    "the key": lambda key: f"{key.export_public_key().decode().strip()} vendor@example.com",
}


@pytest.mark.parametrize("written", HOST_KEYS.values(), ids=HOST_KEYS)
async def test_the_host_key_may_be_written_as_a_fingerprint_or_as_a_key(tmp_path: Path, written: Any) -> None:
    async with vendor(tmp_path) as server:
        server.put("feed.csv")
        assert (await server.fetch(server.source(host_key=written(server.host_key)))).files


async def test_another_host_key_is_refused_with_its_fingerprint(tmp_path: Path) -> None:
    async with vendor(tmp_path) as server:
        server.put("feed.csv")
        other = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
        for expected in (UNSET, other.get_fingerprint(), " ".join(other.export_public_key().decode().split()[:2])):
            problem = await server.problem(server.source(host_key=expected))
            assert server.host_key.get_fingerprint() in problem
            assert "host_key" in problem
        kind = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
        assert "host key" in await server.problem(server.source(host_key=" ".join(kind.split()[:2])))


PROBLEMS: dict[str, tuple[dict[str, Any], str]] = {
    "no such file": ({"path": "/other.csv"}, "check path"),
    "no such folder": ({"path": "/other/*.csv"}, "check path"),
    "another user": ({"user": "somebody"}, "check user"),
    "no variable": ({"password_env": "OTHER"}, "variable OTHER is not set"),
    "a wrong password": ({"password_env": "WRONG"}, "check user"),
    "no key file": ({"password_env": UNSET, "key_file": "other"}, "check key_file"),
    "no key in the file": ({"password_env": UNSET, "key_file": "feed.csv"}, "no private key"),
    "a key file of others": ({"password_env": UNSET, "key_file": "open"}, "chmod 600"),
    "an unknown host": ({"host": "nobody.invalid"}, "check host"),
    "a closed port": ({"port": 1}, "check host and port"),
    "a private address": ({"rule": AddressRule()}, "private_networks"),
}


@pytest.mark.parametrize(("changed", "words"), PROBLEMS.values(), ids=PROBLEMS)
async def test_a_problem_says_what_to_do(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    async with vendor(tmp_path) as server:
        server.put("feed.csv")
        server.environment["WRONG"] = "another password"
        (server.own / "feed.csv").touch(0o600)
        (server.own / "open").touch(0o644)
        (server.own / "open").chmod(0o644)
        assert words in await server.problem(server.source(**changed))


async def test_a_file_over_the_bound_is_refused_before_it_is_fetched(tmp_path: Path) -> None:
    async with vendor(tmp_path) as server:
        with server.put("feed.csv").open("r+b") as file:
            file.truncate(1 << 40)
        assert "raise max_mib" in await server.problem(server.source())


async def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    async with vendor(tmp_path) as server:
        server.put("feed.csv", b"")
        assert "empty" in await server.problem(server.source())


async def test_a_file_that_somebody_writes_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with vendor(tmp_path) as server:
        path, looks = server.put("feed.csv"), 0

        async def write(_: float) -> None:
            nonlocal looks
            looks += 1
            with path.open("ab") as file:
                file.write(b"x")

        monkeypatch.setattr(sftp_source, "sleep", write)
        assert "still writes" in await server.problem(server.source())
        assert looks == sftp_source.MOST_LOOKS


async def test_a_server_that_says_nothing_is_left_after_the_timeout(tmp_path: Path) -> None:
    async with vendor(tmp_path) as server:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            source = server.source(port=silent.getsockname()[1], timeout_seconds=1)
            assert "within 1 seconds" in await server.problem(source)
