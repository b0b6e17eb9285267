"""A real Prometheus for tests: a pytest plugin. PyPI has no wheel with its binary."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.running import eventually, free_port
from tests.servers.programs import ServerProcess, installed_program

StartPrometheus = Callable[[Sequence[int], Path], "Prometheus"]


class Prometheus(ServerProcess):
    """Reads the metrics of services on ports of 127.0.0.1 every two seconds, as the job `dealer-agent`."""

    def __init__(self, folder: Path, targets: Sequence[int], rules: Path) -> None:
        settings = folder / "prometheus.yml"
        settings.write_text(
            f"""
global:
  scrape_interval: 2s
  evaluation_interval: 2s
rule_files:
  - {rules}
scrape_configs:
  - job_name: dealer-agent
    static_configs:
      - targets: {[f"127.0.0.1:{port}" for port in targets]}
""",
            "utf-8",
        )
        port = free_port()
        options = {
            "config.file": settings,
            "storage.tsdb.path": folder / "data",
            "web.listen-address": f"127.0.0.1:{port}",
        }
        program = installed_program("prometheus", "prometheus")
        super().__init__([program, *(f"--{name}={value}" for name, value in options.items())], folder, port)
        # Prometheus answers 503 on the open port until it has read its own data.
        eventually(
            "it is ready", lambda: httpx.get(f"http://127.0.0.1:{port}/-/ready", verify=False).status_code == 200
        )

    def get(self, path: str, **parameters: str) -> Any:
        """The `data` of a response of its API."""
        answered = httpx.get(
            f"http://127.0.0.1:{self.port}/api/v1/{path}", params=parameters, timeout=120, verify=False
        )
        assert answered.status_code == 200, answered.text
        return answered.json()["data"]

    def query(self, expression: str) -> list[Any]:
        """The series that an expression has now."""
        found: list[Any] = self.get("query", query=expression)["result"]
        return found


@pytest.fixture
def start_prometheus(tmp_path: Path) -> Iterator[StartPrometheus]:
    """Starts a Prometheus that reads these ports, with the rules of this file."""
    with ExitStack() as stack:

        def start(targets: Sequence[int], rules: Path) -> Prometheus:
            folder = tmp_path / "prometheus"
            folder.mkdir()
            server = Prometheus(folder, targets, rules)
            stack.callback(server.kill)
            return server

        yield start
