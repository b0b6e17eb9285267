"""A service of three dealers: the real commands and the real process."""

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.acceptance.asking import ask, asked, lead
from tests.acceptance.dealers import stock_of_three
from tests.acceptance.running import (
    COMMAND,
    Running,
    command_here,
    environment,
    eventually,
    free_port,
    serving,
    succeed_here,
)
from tests.installation.platform import dealer_toml
from tests.storage.databases import fresh_schema
from tests.storage.service_role import admin_of, prepared_schema

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

DEALERS = ("east-motors", "north-motors", "south-motors")
URL = "https://agents.example.com"


@pytest.fixture
def platform(postgresql_server: str, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The folder of an installation with three dealers, and the DATABASE_URL of the role of `database prepare`."""
    folder = tmp_path / "platform"
    with prepared_schema(postgresql_server) as (_, url):
        succeed_here("init", folder, "--installation", "--public-url", URL)
        for number, dealer_id in enumerate(DEALERS):
            settings, feed = tmp_path / "dealer.toml", tmp_path / "feed.json"
            settings.write_text(dealer_toml(dealer_id))
            feed.write_text(json.dumps(stock_of_three()[: number + 1]))
            succeed_here(
                "dealers",
                "add",
                settings,
                "--listed",
                "--dir",
                folder,
                DATABASE_URL=url,
                DATABASE_ADMIN_URL=admin_of(url),
            )
            succeed_here("inventory", "import", feed, "--dealer", dealer_id, "--dir", folder, DATABASE_URL=url)
        yield folder, url


def names(running: Running) -> list[str]:
    entries = httpx.get(f"{running.url}/.well-known/ard.json").json()["entries"]
    return [entry["displayName"] for entry in entries]


def test_three_dealers_are_served_by_two_workers(platform: tuple[Path, str]) -> None:
    folder, url = platform
    with serving(folder, workers=2, DATABASE_URL=url) as running:
        assert f"3 dealers, listed at {URL}/" in running.said.read_text()
        assert names(running) == ["East Motors", "North Motors", "South Motors"]
        for number, dealer_id in enumerate(DEALERS):
            root = f"{running.url}/d/{dealer_id}"
            assert asked(root, "inventory.search")["total"] == number + 1
            assert asked(root, "lead.submit", **lead(number))["status"] == "received"
            leads = json.loads(
                succeed_here("leads", "list", "--json", "--dealer", dealer_id, "--dir", folder, DATABASE_URL=url)
            )
            assert len(leads) == 1

        east, north, _ = DEALERS
        succeed_here("dealers", "disable", east, "--dir", folder, DATABASE_URL=url, DATABASE_ADMIN_URL=admin_of(url))
        succeed_here(
            "dealers",
            "host",
            "add",
            north,
            "cars.north.example",
            "--dir",
            folder,
            DATABASE_URL=url,
            DATABASE_ADMIN_URL=admin_of(url),
        )
        eventually(
            "a disabled dealer is gone", lambda: ask(f"{running.url}/d/{east}", "inventory.search").status_code == 404
        )
        eventually("the list changes", lambda: names(running) == ["North Motors", "South Motors"])
        host = {"host": "cars.north.example"}
        eventually("the host answers", lambda: httpx.get(f"{running.url}/docs", headers=host).status_code == 200)
        # The other worker may notice the host a moment later.
        eventually("the list names the host", lambda: "cars.north.example" in httpx.get(f"{running.url}/").text)


def test_the_settings_file_says_where_the_service_listens(tmp_path: Path) -> None:
    folder = tmp_path / "platform"
    succeed_here("init", folder, "--installation")
    file = folder / "installation.toml"
    file.write_text(file.read_text().replace("port = 8080", 'port = "none"'))
    wrong = command_here("serve", "--dir", folder)
    assert (wrong.returncode, "installation.toml, line" in wrong.stderr) == (1, True)


def test_several_dealers_are_refused_if_the_database_does_not_isolate_them(
    tmp_path: Path, postgresql_server: str
) -> None:
    with fresh_schema(postgresql_server) as url:
        folder = tmp_path / "platform"
        succeed_here("init", folder, "--installation")
        for dealer_id in DEALERS[:2]:
            settings = tmp_path / "dealer.toml"
            settings.write_text(dealer_toml(dealer_id))
            succeed_here(
                "dealers", "add", settings, "--dir", folder, DATABASE_URL=url, DATABASE_ADMIN_URL=admin_of(url)
            )
        with socket.create_server(("127.0.0.1", 0)) as taken:  # A service that is not refused ends, too.
            port = str(taken.getsockname()[1])
            refused = command_here("serve", "--dir", folder, "--port", port, DATABASE_URL=url)
        assert (refused.returncode, "database prepare" in refused.stderr) == (1, True)
        succeed_here(
            "dealers", "disable", DEALERS[0], "--dir", folder, DATABASE_URL=url, DATABASE_ADMIN_URL=admin_of(url)
        )
        with serving(folder, DATABASE_URL=url) as running:
            assert "One dealer may be served like this" in running.stderr()


def test_the_demo_serves_many_invented_dealers(tmp_path: Path) -> None:
    port = free_port()
    arguments = [COMMAND, "demo", "--dealers", "3", "--dir", str(tmp_path / "demo"), "--port", str(port)]
    said = tmp_path / "said"
    with said.open("wb") as out:
        demo = subprocess.Popen(arguments, env=environment(), stdout=out, stderr=out)
    try:
        eventually("it says where the list is", lambda: "3 dealers, listed at" in said.read_text())
        catalog = httpx.get(f"http://127.0.0.1:{port}/.well-known/ard.json", timeout=60).json()
        assert len(catalog["entries"]) == 3
        for entry in catalog["entries"]:
            card = httpx.get(entry["url"], timeout=60).json()
            assert card["name"] == entry["displayName"]
            assert asked(entry["url"].removesuffix("/.well-known/agent-card.json"), "inventory.search")["total"] >= 40
    finally:
        demo.terminate()
        demo.wait(60)
