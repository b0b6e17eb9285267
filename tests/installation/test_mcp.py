"""MCP in an installation: each dealer has its own server below its root and at its hosts."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.installation.platform import DEALERS, add, make_installation, run_installation
from tests.server.dealership import Dealership
from tests.server.mcp_calls import FORM, JO, STATE_REFUSED, call, post, text_of, ticked, use

pytestmark = pytest.mark.outside_protocol("MCP")

NORTH, SOUTH = DEALERS
HOST = "cars.north.example"
AT_NORTH: dict[str, Any] = {"path": f"/d/{NORTH}/mcp", "headers": {"host": "agents.example.com"}}
AT_SOUTH: dict[str, Any] = {"path": f"/d/{SOUTH}/mcp", "headers": {"host": "agents.example.com"}}
AT_HOST: dict[str, Any] = {"path": "/mcp", "headers": {"host": HOST}}
LEAD = {"customer": JO}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dealership]:
    installation = make_installation(tmp_path_factory.mktemp("mcp") / "installation")
    for dealer_id, hosts in ((NORTH, (HOST,)), (SOUTH, ())):
        unit = {"stock": f"{dealer_id}-1", "year": 2020, "make": "Honda", "model": "Civic", "condition": "used"}
        add(installation, dealer_id, json.dumps([unit]).encode(), hosts=hosts)
    with run_installation(installation) as running:
        yield running


@pytest.mark.parametrize(("place", "dealer_id"), [(AT_NORTH, NORTH), (AT_HOST, NORTH), (AT_SOUTH, SOUTH)])
def test_each_address_reaches_its_dealer(platform: Dealership, place: dict[str, Any], dealer_id: str) -> None:
    name = dealer_id.replace("-", " ").title()
    assert name in call(platform, "server/discover", **place)["result"]["instructions"]
    assert f"stock {dealer_id}-1" in text_of(use(platform, "inventory_search", **place))


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/mcp", "agents.example.com", 404),
        ("/d/nobody/mcp", "agents.example.com", 404),
        (f"/d/{NORTH}/mcp", "evil.example.com", 421),
        (f"/d/{SOUTH}/mcp", HOST, 404),
    ],
)
def test_other_addresses_reach_no_dealer(platform: Dealership, path: str, host: str, status: int) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert post(platform, ping, path=path, headers={"host": host}).status_code == status


def test_the_state_of_another_dealer_is_refused(platform: Dealership) -> None:
    asked = use(platform, "lead_submit", LEAD, capabilities=FORM, **AT_NORTH)
    answer = {"capabilities": FORM, "state": asked["requestState"], "answer": ticked(email=True)}
    assert use(platform, "lead_submit", LEAD, **answer, **AT_SOUTH) == STATE_REFUSED
    # The same dealer at its other address takes it.
    assert use(platform, "lead_submit", LEAD, **answer, **AT_HOST)["structuredContent"]["status"] == "received"
