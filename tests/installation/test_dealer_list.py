"""The list of dealers at the root of an installation, for people and for programs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.running import eventually
from tests.cost.asking import Sent
from tests.cost.measuring import cost
from tests.installation.platform import DEALERS, PUBLIC_URL, add, dealer_toml, make_installation, run_installation
from tests.server.dealership import Dealership

from dealer_agent.apidocs.discovery import MOST_LISTED, dealers_llms_text
from dealer_agent.config.installation import load_installation
from dealer_agent.server import installation_routes
from dealer_agent.storage.installation.dealer_registry import change_settings, set_state
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.requirement("dealer-list")

NORTH, SOUTH = DEALERS
HOST = "cars.north.example"
HOSTILE = "<script>alert(1)</script> & Sons"
MOST_MS = 5.0
CATALOGS = ("/.well-known/ard.json", "/.well-known/ai-catalog.json")


@contextmanager
def two_dealers(folder: Path) -> Iterator[Dealership]:
    installation = make_installation(folder)
    add(installation, NORTH, hosts=(HOST,))
    add(installation, SOUTH)
    with run_installation(installation) as running:
        yield running


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Dealership]:
    with two_dealers(tmp_path / "installation") as running:
        yield running


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dealership]:
    """The same, for all tests that change nothing."""
    with two_dealers(tmp_path_factory.mktemp("unchanged")) as running:
        yield running


def names(platform: Dealership) -> list[str]:
    return [entry["displayName"] for entry in platform.get(CATALOGS[0]).json()["entries"]]


def change(platform: Dealership, dealer_id: str, **state: bool) -> None:
    installation = load_installation(platform.folder, {})
    with (
        Store.open(installation.database_url, installation.cipher, many_dealers=True) as store,
        store.write(dealer_id) as tx,
    ):
        set_state(tx, **state)


def test_the_page_links_to_each_dealer_and_its_card(unchanged: Dealership) -> None:
    answer = unchanged.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for name, root in (("North Motors", f"https://{HOST}"), ("South Motors", f"{PUBLIC_URL}/d/{SOUTH}")):
        assert f'<a href="{root}/">{name}</a>' in answer.text
        assert f'<a href="{root}/.well-known/agent-card.json">' in answer.text
    stylesheet = re.search(r'rel="stylesheet" href="([^"]+)"', answer.text)
    assert stylesheet is not None
    assert unchanged.get(stylesheet[1]).headers["content-type"] == "text/css; charset=utf-8"
    assert f'<link rel="ard" type="application/json" title="Catalog of the agents" href="{CATALOGS[0]}">' in answer.text


@pytest.mark.parametrize("path", CATALOGS)
def test_the_catalog_has_an_entry_for_each_dealer(unchanged: Dealership, path: str) -> None:
    answer = unchanged.get(path)
    assert answer.headers["content-type"] == "application/ai-catalog+json"
    assert answer.headers["access-control-allow-origin"] == "*"
    catalog = answer.json()
    assert catalog["specVersion"] == "1.0"
    north, south = catalog["entries"]
    assert south["identifier"] == "urn:air:agents.example.com:dealer:south-motors"
    assert (south["displayName"], south["type"]) == ("South Motors", "application/a2a-agent-card+json")
    assert south["url"] == f"{PUBLIC_URL}/d/{SOUTH}/.well-known/agent-card.json"
    assert north["url"] == f"https://{HOST}/.well-known/agent-card.json"
    assert all(2 <= len(entry["representativeQueries"]) <= 5 for entry in (north, south))
    card = unchanged.get(f"/d/{SOUTH}/.well-known/agent-card.json").json()
    assert card["name"] == south["displayName"]


def test_an_unchanged_list_is_not_sent_again(unchanged: Dealership) -> None:
    for path in ("/", *CATALOGS):
        tag = unchanged.get(path).headers["etag"]
        assert unchanged.request("GET", path, headers={"if-none-match": tag}).status_code == 304


def test_disabled_and_unlisted_dealers_are_absent(platform: Dealership) -> None:
    change(platform, NORTH, enabled=False)
    eventually("the list", lambda: names(platform) == ["South Motors"])
    change(platform, SOUTH, listed=False)
    eventually("the list", lambda: names(platform) == [])
    assert "No dealer is listed here" in platform.get("/").text
    assert platform.get(f"/d/{SOUTH}/healthz").status_code == 200
    change(platform, NORTH, enabled=True)
    eventually("the list", lambda: names(platform) == ["North Motors"])


def test_the_list_shows_a_new_name_and_escapes_it(platform: Dealership) -> None:
    installation = load_installation(platform.folder, {})
    document = dealer_toml(NORTH).replace("North Motors", HOSTILE, 1).encode()
    with (
        Store.open(installation.database_url, installation.cipher, many_dealers=True) as store,
        store.write(NORTH) as tx,
    ):
        change_settings(tx, document, expected=1, actor="test")
    eventually("the list", lambda: HOSTILE in names(platform))
    page = platform.get("/").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; Sons" in page
    assert "<script>" not in page


def test_a_long_list_has_pages(platform: Dealership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation_routes, "DEALERS_ON_A_PAGE", 5)
    installation = load_installation(platform.folder, {})
    for number in range(5):
        add(installation, f"dealer-{number:03}")
    eventually("the list", lambda: len(names(platform)) == 7)
    first, second = platform.get("/").text, platform.get("/?page=2").text
    assert (first.count('<li class="card">'), second.count('<li class="card">')) == (5, 2)
    assert 'href="?page=2"' in first
    assert 'href="?page=1"' in second
    assert {platform.get(f"/?page={page}").status_code for page in ("0", "3", "x", "-1", "1.0", "9" * 30)} == {404}


@pytest.mark.requirement("request-cost")
@pytest.mark.parametrize("parameter", [b"a=1&", b"page&", b"%70age=2&"])
def test_a_long_query_costs_little(unchanged: Dealership, parameter: bytes) -> None:
    query = parameter * (64 * 1024 // len(parameter)) + b"page=1"
    took, _ = cost(unchanged, lambda _: Sent(b"", "/", query=query, method="GET"), repeats=5)
    assert took < MOST_MS, f"{took:.1f} ms"


@pytest.mark.parametrize("path", CATALOGS)
def test_a_dealers_own_catalog_has_no_other_dealer(unchanged: Dealership, path: str) -> None:
    below, at_host = unchanged.get(f"/d/{SOUTH}{path}"), unchanged.request("GET", path, headers={"host": HOST})
    assert {entry["displayName"].partition(",")[0] for entry in below.json()["entries"]} == {"South Motors"}
    assert {entry["displayName"].partition(",")[0] for entry in at_host.json()["entries"]} == {"North Motors"}


def test_a_text_for_language_models_names_the_first_dealers(unchanged: Dealership) -> None:
    answer = unchanged.get("/llms.txt")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text.startswith("# agents.example.com\n\n> Car dealers answer AI shopping agents here: 2 of them ")
    for name, address in (("North Motors", f"https://{HOST}"), ("South Motors", f"{PUBLIC_URL}/d/{SOUTH}")):
        assert f"- [{name}]({address}/llms.txt): " in answer.text
    assert unchanged.get(f"/d/{SOUTH}/llms.txt").text.startswith("# South Motors\n")
    many = [(f"Dealer {number}", f"{PUBLIC_URL}/d/{number}") for number in range(3000)]
    assert dealers_llms_text(PUBLIC_URL, "agents.example.com", many).count("/llms.txt)") == MOST_LISTED
