"""The demo dealer, with agents that it knows."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from tests.server.conftest import stocked as stocked
from tests.server.dealership import Dealership, run_dealership

from dealer_agent.demo import demo_dealer_toml, demo_inventory
from dealer_agent.self_test.dealer import make_dealer, make_token

NO_LIMITS = "".join(f'{name} = ""\n' for name in ("offer_quote", "offer_hold", "offer_release", "offer_status", "mcp"))


@dataclass
class Shop:
    """The running demo dealer. `tokens` are those of two agents. `untouched` are places of vehicles in the stock."""

    dealership: Dealership
    tokens: tuple[str, str]
    untouched: Iterator[int]
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    def call(self, tool: str, arguments: object, token: str | None = None) -> dict[str, Any]:
        """The `data` of a tool."""
        sent = {"name": tool, "arguments": arguments}
        response = self.rpc({"method": "tools/call", "params": sent}, token)
        assert response.keys() == {"jsonrpc", "id", "result"}, response
        about = response["result"]["_metadata"]
        assert (about["tool"], about["protocol"]) == (tool, "a2a")
        data: dict[str, Any] = response["result"]["data"]
        return data

    def rpc(self, members: dict[str, Any], token: str | None = None) -> dict[str, Any]:
        """The response to a call of JSON-RPC."""
        call = {"jsonrpc": "2.0", "id": next(self._ids), **members}
        response = self.dealership.post(call, "/dmc12/a2a", token=token)
        document: dict[str, Any] = response.json()
        assert document["id"] == call["id"]
        return document


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("dmc12") / "demo"
    dealer = demo_dealer_toml().replace(
        "enabled = true", "enabled = true\nholds_a_day = 1000\nmost_held_percent = 100", 1
    )
    make_dealer(folder, dealer=dealer, feed=demo_inventory(), tables="")
    settings = folder / "dealer.toml"
    text = settings.read_text("utf-8").replace("[rate_limits]\n", f"[rate_limits]\n{NO_LIMITS}")
    settings.write_text(text, "utf-8")
    tokens = make_token(folder), make_token(folder)
    with run_dealership(folder) as dealership:
        yield Shop(dealership, tokens, count())
