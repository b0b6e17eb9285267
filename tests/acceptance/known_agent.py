"""A service that knows an agent which signs its requests."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.acceptance.asking import body
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import Running, command_here, eventually, serving
from tests.servers.key_directory import KeyDirectory, key_directory

from dealer_agent.client import Signer, SyncDealerAgent
from dealer_agent.http_signatures.keys import PrivateKey

LOCAL_DIRECTORIES = """
[service]
private_networks = ["127.0.0.0/8", "::1"]
"""
"""Key directories of tests are on this machine."""


@dataclass
class Known:
    """A service that knows an agent. `file` has the key of the agent."""

    running: Running
    directory: KeyDirectory
    file: Path

    @property
    def url(self) -> str:
        return self.running.url

    @property
    def signer(self) -> Signer:
        return Signer.from_file(self.file, self.directory.origin)

    @property
    def options(self) -> tuple[str, ...]:
        return ("--sign", str(self.file), "--as", self.directory.origin)

    def caller_of(self, ask: Callable[[], object]) -> str | None:
        """The caller in the log line of the last request that a function makes."""
        ask()
        # The log is written late, and in the order of the requests.
        last = httpx.post(f"{self.url}/message:send", json=body("inventory.search")).json()["message"]["messageId"]
        eventually("the requests are in the log", lambda: last in self._callers())
        callers = self._callers()
        return [*callers.values()][[*callers].index(last) - 1]

    def _callers(self) -> dict[str, str | None]:
        """The callers of all requests to skills, by id."""
        lines = (json.loads(line) for line in self.running.stderr().splitlines() if line.startswith("{"))
        return {line["request_id"]: line.get("caller") for line in lines if "skill" in line}

    def lead(self, lead_id: str) -> dict[str, Any]:
        shown = command_here("leads", "show", lead_id, "--json", "--dir", self.running.folder, cwd=None)
        found: dict[str, Any] = json.loads(shown.stdout)
        return found


def write_key(key: PrivateKey, path: Path) -> Path:
    path.write_bytes(key.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


def is_known(known: Known) -> bool:
    with SyncDealerAgent.discover(known.url, signer=known.signer) as agent:
        return known.caller_of(agent.facets) == known.directory.origin


@contextmanager
def known_agent(folder: Path) -> Iterator[Known]:
    """Starts the service, and waits until it knows the agent."""
    with ExitStack() as opened:
        directory = opened.enter_context(key_directory(folder))
        dealer = stocked_dealer(folder / "dealer", LOCAL_DIRECTORIES, None)
        running = opened.enter_context(serving(dealer, SSL_CERT_FILE=str(directory.trusted)))
        made = Known(running, directory, write_key(directory.keys[0], folder / "agent.pem"))
        eventually("the service knows the agent", partial(is_known, made))
        yield made
