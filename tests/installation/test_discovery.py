"""Signatures and discovery in an installation: each dealer has its own (docs/protocol.md#discovery)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.running import eventually
from tests.installation.platform import DEALERS, PUBLIC_URL, add, dealer_toml, make_installation, run_installation
from tests.server.dealership import Dealership
from tests.server.verifying import KEYS_PATH, are_valid_in_javascript, is_valid_in_python, read

from dealer_agent.config.installation import load_installation
from dealer_agent.storage.installation.dealer_registry import change_settings
from dealer_agent.storage.store import Store

NORTH, SOUTH = DEALERS
HOST = "cars.north.example"
CARD = "/.well-known/agent-card.json"
SOUTH_BELOW = f"/d/{SOUTH}"
DOCUMENTS = ("/.well-known/ai-catalog.json", "/.well-known/ard.json", "/.well-known/mcp/server.json",
             "/mcp/server-card", "/llms.txt", CARD, "/cards/0.1.0.json")  # fmt: skip


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Dealership]:
    installation = make_installation(tmp_path / "installation")
    add(installation, NORTH, hosts=(HOST,))
    add(installation, SOUTH)
    with run_installation(installation) as running:
        yield running


@pytest.mark.requirement("card-signature-keys", "dealer-card")
def test_the_key_of_one_dealer_signs_no_card_of_another(platform: Dealership) -> None:
    north = read(platform, CARD, f"https://{HOST}", f"/d/{NORTH}")
    south = read(platform, CARD, PUBLIC_URL + SOUTH_BELOW, SOUTH_BELOW)
    swapped = [
        south._replace(keys=north.keys),
        south._replace(card=north.card),
        south._replace(card=south.card | {"signatures": north.card["signatures"]}),
        north._replace(card=north.card | {"signatures": south.card["signatures"]}),
    ]
    assert [is_valid_in_python(each) for each in (north, south, *swapped)] == [True] * 2 + [False] * 4
    assert are_valid_in_javascript([north, south, *swapped]) == [True] * 2 + [False] * 4


@pytest.mark.requirement("discovery-catalog", "discovery-mcp", "discovery-llms")
def test_every_document_of_a_dealer_has_its_own_address(platform: Dealership) -> None:
    for path in DOCUMENTS:
        at_host = platform.request("GET", path, headers={"host": HOST})
        below = platform.get(f"/d/{NORTH}{path}")
        assert at_host.content == below.content
        assert f"https://{HOST}/" in below.text
        assert PUBLIC_URL not in below.text
        assert f"{PUBLIC_URL}{SOUTH_BELOW}/" in platform.get(SOUTH_BELOW + path).text
    catalog = platform.get(SOUTH_BELOW + DOCUMENTS[0]).json()
    assert (
        platform.get("/.well-known/ai-catalog.json").json()["entries"][1]["identifier"]
        == (catalog["entries"][0]["identifier"])
    )
    server = platform.get(f"{SOUTH_BELOW}/.well-known/mcp/server.json").json()
    assert server["name"] == "com.example.agents/south-motors"


@pytest.mark.requirement("discovery-catalog", "discovery-mcp", "discovery-llms", "card-signatures")
def test_the_documents_follow_the_settings_while_the_service_runs(platform: Dealership) -> None:
    def all_of() -> list[str]:
        return [platform.get(SOUTH_BELOW + path).text for path in DOCUMENTS]

    assert all("South Motors" in text for text in all_of())
    keys = platform.get(SOUTH_BELOW + KEYS_PATH).content
    installation = load_installation(platform.folder, {})
    document = dealer_toml(SOUTH, '[service]\nskills_off = ["lead.submit"]\n').replace("South Motors", "Cars of Zoë", 1)
    with (
        Store.open(installation.database_url, installation.cipher, many_dealers=True) as store,
        store.write(SOUTH) as tx,
    ):
        change_settings(tx, document.encode(), expected=1, actor="test")
    eventually("the new name", lambda: all("Cars of Zoë" in text for text in all_of()))
    assert platform.get(SOUTH_BELOW + KEYS_PATH).content == keys
    assert "lead.submit" not in platform.get(f"{SOUTH_BELOW}/llms.txt").text
    assert is_valid_in_python(read(platform, CARD, PUBLIC_URL + SOUTH_BELOW, SOUTH_BELOW))
