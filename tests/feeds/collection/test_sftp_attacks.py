"""Attacks on our SFTP server. Its bounds are in docs/reference/feeds.md#bounds-of-an-upload."""

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import structlog
from asyncssh.packet import Byte, String, UInt32
from msgspec.structs import replace
from tests.feeds.collection.uploading import FEED, PASSWORD, USER, Uploading, eventually, other_address, uploading

from dealer_agent.feeds.collection import sftp_server, upload_sessions

pytestmark = [
    pytest.mark.outside_protocol("uploads of feeds by SFTP"),
    pytest.mark.anyio,
    pytest.mark.usefixtures("quick_logins"),
]

FXP_INIT, FXP_REALPATH = 1, 16


async def closed_by_server(reader: asyncio.StreamReader) -> None:
    """Waits until the server closes a connection."""
    with suppress(ConnectionError):
        async with asyncio.timeout(120):
            while await reader.read(65536):
                pass


async def works(running: Uploading) -> None:
    """A vendor can upload."""
    async with running.session() as client, client.open("feed.csv", "wb") as file:
        await file.write(FEED)
    assert running.files()["feed.csv"] == FEED


async def test_a_thousand_silent_connections_do_not_lock_a_vendor_out(tmp_path: Path) -> None:
    other_address()
    async with uploading(tmp_path) as running, AsyncExitStack() as closing:
        for number in range(1000):
            address = f"127.0.1.{number % 125 + 1}"
            with suppress(ConnectionError):
                _, writer = await asyncio.open_connection("127.0.0.1", running.port, local_addr=(address, 0))
                closing.callback(writer.close)
        assert len(running.server.limits) <= running.server.settings.max_connections
        await works(running)


async def test_an_address_has_few_connections(tmp_path: Path) -> None:
    async with uploading(tmp_path, max_connections_per_address=2) as running, AsyncExitStack() as closing:
        for _ in range(2):
            await closing.enter_async_context(await running.connect())
        with pytest.raises((asyncssh.Error, OSError)):
            await running.connect()
        await closing.enter_async_context(await running.connect(local_addr=(other_address(), 0)))


async def test_an_account_has_few_connections_and_a_connection_few_sessions(tmp_path: Path) -> None:
    async with uploading(tmp_path, max_connections_per_address=100) as running, AsyncExitStack() as closing:
        for _ in range(sftp_server.MOST_CONNECTIONS_OF_ACCOUNT):
            connection = await closing.enter_async_context(await running.connect())
        with pytest.raises((asyncssh.Error, OSError)):
            async with await running.connect() as one_more:
                await one_more.start_sftp_client()
        for _ in range(sftp_server.MOST_SESSIONS):
            await connection.start_sftp_client()
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.start_sftp_client()


@pytest.mark.parametrize(
    "sent",
    [b"", b"SSH-2.0-", b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n" + b"\xff" * 40, b"x" * 100_000, b"SSH-2.0-\xff\r\n"],
    ids=["nothing", "a slow version", "http", "a huge packet", "an endless line", "no text"],
)
async def test_a_client_that_does_not_log_in_is_gone_after_the_login_time(tmp_path: Path, sent: bytes) -> None:
    async with uploading(tmp_path, login_seconds=1) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(sent)
        await closed_by_server(reader)
        writer.close()
        await eventually("the connection is forgotten", lambda: not len(running.server.limits))


async def test_an_idle_client_is_closed_and_its_file_is_not_taken(tmp_path: Path) -> None:
    async with uploading(tmp_path) as running:
        connection = await running.connect()
        client = await connection.start_sftp_client()
        file = await client.open("feed.csv", "wb")
        await file.write(FEED)
        running.server.settings = replace(running.server.settings, idle_seconds=0)
        await connection.wait_closed()
        await eventually("the part is deleted", lambda: not running.leftovers())
        assert running.files() == {}


async def test_a_wrong_password_is_answered_after_the_same_time_for_every_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than the check of a password takes.
    monkeypatch.setattr(sftp_server, "REFUSAL_SECONDS", 0.5)
    async with uploading(tmp_path) as running:
        for user in (USER, "nobody"):
            begin = time.monotonic()
            with pytest.raises(asyncssh.PermissionDenied):
                await running.connect(user, password="another password")
            assert time.monotonic() - begin >= sftp_server.REFUSAL_SECONDS


class _Guessing(asyncssh.SSHClient):
    guesses = 0

    def password_auth_requested(self) -> str:
        self.guesses += 1
        return f"wrong password {self.guesses}"


async def test_a_connection_has_few_passwords_and_an_address_few_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sftp_server, "REFUSAL_SECONDS", 0.0)
    async with uploading(tmp_path, failed_logins=2 * sftp_server.MOST_PASSWORDS) as running:
        for _ in range(2):
            client = _Guessing()
            with pytest.raises(asyncssh.PermissionDenied):
                await running.connect(password=None, client_factory=lambda client=client: client)
            assert client.guesses == sftp_server.MOST_PASSWORDS + 1
        with pytest.raises((asyncssh.Error, OSError)):
            await running.connect()
        async with await running.connect(local_addr=(other_address(), 0)):
            pass


async def test_a_connection_offers_few_keys(tmp_path: Path) -> None:
    keys = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(sftp_server.MOST_KEYS)]
    async with uploading(tmp_path) as running:
        async with await running.connect(password=None, client_keys=[*keys[1:], running.client_key]):
            pass
        with pytest.raises(asyncssh.PermissionDenied):
            await running.connect(password=None, client_keys=[*keys, running.client_key])


async def test_a_key_that_was_only_offered_opens_no_account(tmp_path: Path) -> None:
    """The key of a vendor is public. The client offers it and signs with another one."""

    class _Forged(asyncssh.SSHKeyPair):
        def __init__(self, shown: asyncssh.SSHKey, used: asyncssh.SSHKey) -> None:
            super().__init__(
                b"ssh-ed25519", b"ssh-ed25519", (b"ssh-ed25519",), (b"ssh-ed25519",), shown.public_data, b""
            )
            self._used = used

        def sign(self, data: bytes) -> bytes:
            return self._used.sign(data, b"ssh-ed25519")

    async with uploading(tmp_path) as running:
        forged = _Forged(running.client_key, asyncssh.generate_private_key("ssh-ed25519"))
        with pytest.raises(asyncssh.PermissionDenied):
            await running.connect(password=None, client_keys=[forged])


async def raw_session(running: Uploading, **more: Any) -> tuple[asyncssh.SSHClientConnection, Any, Any]:
    """A channel of a vendor that has logged in, to send any bytes to the subsystem `sftp`."""
    connection = await running.connect()
    writer, reader, _ = await connection.open_session(subsystem="sftp", encoding=None, **more)
    return connection, reader, writer


def message(kind: int, *parts: bytes) -> bytes:
    """A packet of SFTP."""
    content = Byte(kind) + b"".join(parts)
    return UInt32(len(content)) + content


@pytest.mark.parametrize(
    "sent",
    [
        UInt32(0xFFFFFFFF),
        UInt32(0),
        message(FXP_REALPATH, UInt32(1), String("/")),
        message(FXP_INIT, UInt32(3)) + UInt32(5 << 20),
        message(FXP_INIT, UInt32(3)) + UInt32(1) + b"\x10",
    ],
    ids=["a huge packet", "an empty packet", "no init", "a packet over the bound", "half a packet"],
)
async def test_a_broken_packet_ends_the_session(tmp_path: Path, sent: bytes) -> None:
    async with uploading(tmp_path) as running:
        connection, reader, writer = await raw_session(running)
        writer.write(sent)
        async with asyncio.timeout(120):
            await reader.read()
        connection.abort()
        await works(running)


async def test_a_client_that_reads_no_answers_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_sessions, "MOST_UNREAD_BYTES", 10_000)
    async with uploading(tmp_path) as running:
        connection, _, writer = await raw_session(running, window=1000)
        writer.write(message(FXP_INIT, UInt32(3)))
        for number in range(100):
            writer.write(message(FXP_REALPATH, UInt32(number), String(b"x" * 150)))
        async with asyncio.timeout(120):
            await connection.wait_closed()
        await works(running)


async def test_a_client_that_sends_many_variables_is_closed(tmp_path: Path) -> None:
    async with uploading(tmp_path) as running:
        names = {f"NAME{number}": "x" for number in range(sftp_server.MOST_VARIABLES + 1)}
        connection, _, _ = await raw_session(running, env=names)
        async with asyncio.timeout(120):
            await connection.wait_closed()
        await works(running)


async def test_requests_for_forwarding_are_refused(tmp_path: Path) -> None:
    async with uploading(tmp_path) as running, await running.connect() as connection:
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_connection("127.0.0.1", running.port)
        with pytest.raises(asyncssh.ChannelListenError):
            await connection.forward_remote_port("", 0, "127.0.0.1", running.port)
        for refused in ({"command": "id"}, {"subsystem": "shell"}, {}):
            with pytest.raises(asyncssh.ChannelOpenError):
                await connection.create_process(**refused)


async def test_the_logs_have_no_user_and_no_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    structlog.reset_defaults()  # Another test may have sent the logs elsewhere.
    async with uploading(tmp_path) as running:
        with pytest.raises(asyncssh.PermissionDenied):
            await running.connect("a password by mistake", password=f"{PASSWORD}!")
        await works(running)
    said = "".join(capsys.readouterr())
    assert "feed file received" in said
    assert "mistake" not in said
    assert "127.0.0" not in said
    assert PASSWORD not in said
