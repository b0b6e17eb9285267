"""The servers that other tests use: each runs, and does what those tests rely on."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import psycopg
import pytest
import valkey
from tests.acceptance.running import eventually
from tests.servers.haproxy import StartBalancer
from tests.servers.pgbouncer import SERVER_CONNECTIONS, PgBouncer
from tests.servers.valkey import Valkey

pytestmark = pytest.mark.outside_protocol("the servers of other tests")


def test_valkey_keeps_values_until_it_is_killed(valkey_server: Valkey) -> None:
    with valkey.Valkey.from_url(valkey_server.url) as client:
        client.set("a", "1")
        assert client.get("a") == b"1"
        valkey_server.kill()
        with pytest.raises(valkey.ConnectionError):
            client.get("a")
        valkey_server.start()
        assert client.get("a") is None


def test_pgbouncer_shares_connections_between_clients(pgbouncer_server: PgBouncer) -> None:
    with ExitStack() as stack:
        clients = [
            stack.enter_context(psycopg.connect(pgbouncer_server.url, autocommit=True, prepare_threshold=None))
            for _ in range(4 * SERVER_CONNECTIONS)
        ]
        rows = [client.execute("SELECT pg_backend_pid()").fetchone() for client in clients]
    assert len({row[0] for row in rows if row}) <= SERVER_CONNECTIONS
    with psycopg.connect(pgbouncer_server.direct_url) as direct:
        assert direct.execute("SELECT 1").fetchone() == (1,)


@contextmanager
def answering(name: str) -> Iterator[int]:
    """A web server that answers every request with its name."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(name.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class.
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_the_load_balancer_uses_all_backends_that_live(load_balancer: StartBalancer) -> None:
    with answering("a") as a, ExitStack() as b_lives:
        b = b_lives.enter_context(answering("b"))
        balancer = load_balancer([a, b])

        def answers() -> Counter[str]:
            return Counter(httpx.get(balancer.url, verify=False).text for _ in range(20))

        eventually("both answer", lambda: answers() == {"a": 10, "b": 10})
        b_lives.close()
        assert eventually("one answers all", lambda: answers() == {"a": 20})
        with answering("c") as c:
            balancer.configure([a, c])
            eventually("the new one answers", lambda: answers() == {"a": 10, "c": 10})
