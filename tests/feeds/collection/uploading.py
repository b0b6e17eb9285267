"""Our SFTP server in the event loop of a test, and its clients: that of asyncssh, and `sftp` of OpenSSH."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from tests.servers.programs import PATIENCE_SECONDS, installed_program

from dealer_agent.config.sftp import SftpSettings
from dealer_agent.feeds.collection.sftp_server import Account, UploadServer
from dealer_agent.feeds.collection.source import is_temporary, name_at_source
from dealer_agent.feeds.collection.uploads import UploadLimits

USER, OTHER_USER = "vendor", "rival"
PASSWORD = "a long password"
PASSWORD_HASH = "$argon2id$v=19$m=19456,t=1,p=1$c2FsdCBvZiB0aGUgdGVzdA$zRR3hXRe+pylQ3gOs5nB+suVUrJzPWM9UyiYyD2QdUw"
_CHEAP_HASH = "$argon2id$v=19$m=64,t=1,p=1$c2FsdCBvZiB0aGUgdGVzdA$PRliSdYjrNMDPCpX7ycs+TzGrPfKQttVIuTMywA4gVo"
"""Of the same password. The settings admit none that takes so little work."""
FEED = b"vin,price\n1HGCY2F57RA000001,20000\n" * 1000


@dataclass
class Uploading:
    """A server on a port of this machine, with the accounts USER and OTHER_USER."""

    folder: Path
    port: int
    server: UploadServer
    client_key: asyncssh.SSHKey

    def incoming(self, user: str = USER) -> Path:
        """The folder of an account."""
        return self.folder / "feeds" / user / "incoming"

    def uploads(self, user: str = USER) -> Path:
        """The folder that the clients of an account see."""
        return self.incoming(user).with_name("uploads")

    def received(self, user: str = USER) -> list[Path]:
        """The complete files of an account: first those that another one of the same name has replaced."""
        waiting = sorted(each for each in self.uploads(user).glob("*") if not is_temporary(each.name))
        return [*sorted(self.incoming(user).glob("[!.]*")), *waiting]

    def files(self, user: str = USER) -> dict[str, bytes]:
        """The complete files of an account, by the name that the client gave. Of several, the last one."""
        return {name_at_source(path): path.read_bytes() for path in self.received(user)}

    def leftovers(self, user: str = USER) -> list[Path]:
        """The files of an account that are not complete."""
        return sorted(self.incoming(user).glob(".*"))

    async def connect(self, user: str = USER, **more: Any) -> asyncssh.SSHClientConnection:
        """Logs in with the password, or with what `more` says."""
        login = {"password": PASSWORD, "client_keys": None, "login_timeout": 3600} | more
        return await asyncssh.connect(
            "127.0.0.1", self.port, username=user, known_hosts=None, config=None, agent_path=None, **login
        )

    @asynccontextmanager
    async def session(self, user: str = USER) -> AsyncIterator[asyncssh.SFTPClient]:
        """An SFTP session of an account."""
        async with await self.connect(user) as connection, connection.start_sftp_client() as client:
            yield client


@asynccontextmanager
async def uploading(folder: Path, *, limits: UploadLimits | None = None, **settings: Any) -> AsyncIterator[Uploading]:
    """Runs a server. `settings` are those of `[sftp]`. By default, a slow machine reaches no limit of time."""
    client_key = asyncssh.generate_private_key("ssh-ed25519")
    public_key = " ".join(client_key.export_public_key().decode().split()[:2])

    def find_account(user: str) -> Account | None:
        if user not in (USER, OTHER_USER):
            return None
        return Account(
            "test-motors",
            user,
            folder / "feeds" / user / "incoming",
            limits or UploadLimits(file_bytes=1 << 20, files=5, all_bytes=3 << 20, dealer_bytes=1 << 30, least_free=0),
            _CHEAP_HASH,
            frozenset({public_key}) if user == USER else frozenset(),
        )

    listener = socket.create_server(("127.0.0.1", 0))
    server = UploadServer(
        SftpSettings(**{"login_seconds": 3600, "idle_seconds": 3600} | settings),
        asyncssh.generate_private_key("ssh-ed25519"),
        find_account,
    )
    await server.listen(listener)
    try:
        yield Uploading(folder, listener.getsockname()[1], server, client_key)
    finally:
        await server.close()


def other_address() -> str:
    """Another address of this machine. Skips the test where there is none."""
    address = "127.0.0.2"
    try:
        socket.create_server((address, 0)).close()
    except OSError:
        pytest.skip(f"GAP: this machine has no address {address}")
    return address


async def openssh(running: Uploading, commands: Sequence[str], program: str = "sftp", *words: str) -> tuple[int, str]:
    """Runs `sftp -b` of OpenSSH with these commands. Returns its exit code and its messages."""
    path = installed_program(program, "openssh-client")
    key = running.folder / "client-key"
    if not key.exists():
        key.touch(0o600)
        key.write_bytes(running.client_key.export_private_key())
    options = {
        "StrictHostKeyChecking": "no",
        "UserKnownHostsFile": "/dev/null",
        "IdentitiesOnly": "yes",
        "IdentityFile": str(key),
        "BatchMode": "yes",
        "LogLevel": "ERROR",
    }
    arguments = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    place = [f"{USER}@127.0.0.1"] if program != "scp" else []
    port = "-P" if program in ("sftp", "scp") else "-p"
    batch = ["-b", "-"] if program == "sftp" else []
    process = await asyncio.create_subprocess_exec(
        path, "-F", os.devnull, *arguments, port, str(running.port), *batch, *place, *words,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await asyncio.wait_for(process.communicate("\n".join(commands).encode()), PATIENCE_SECONDS)
    assert process.returncode is not None
    return process.returncode, said.decode()


async def eventually(what: str, seen: Any) -> Any:
    """What `seen` returns as soon as it is true. Fails if it never is."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not (found := seen()):
        assert asyncio.get_running_loop().time() < deadline, what
        await asyncio.sleep(0.01)
    return found
