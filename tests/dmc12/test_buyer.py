"""A program that knows only the published schemas of DMC-12 buys from `dealer-agent demo`."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.acceptance.running import PATIENCE_SECONDS, command_here, eventually, free_port, started
from tests.dmc12.buyer import endpoints, over_a2a, over_mcp
from tests.dmc12.published import SCHEMAS
from tests.published_files import needs

pytestmark = [pytest.mark.outside_protocol("DMC-12"), needs(SCHEMAS)]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address and the folder of a running demo."""
    site, folder = f"http://127.0.0.1:{(port := free_port())}", tmp_path / "demo-store"
    running = started(["demo", "--dir", str(folder), "--port", str(port)], tmp_path / "out", tmp_path / "err")

    def is_ready() -> bool:
        try:
            return httpx.get(f"{site}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    try:
        eventually("it is ready", is_ready)
        yield site, folder
    finally:
        running.terminate()
        running.wait(PATIENCE_SECONDS)


def test_a_buyer_of_dmc12_buys_over_both_rails(demo: tuple[str, Path]) -> None:
    site, folder = demo
    said = command_here("tokens", "create", "--dir", folder, "Buyer").stdout
    token = re.search(r"dat_\S+", said)
    assert token is not None
    addresses = endpoints(site)
    eventually("the token is known", lambda: _is_known(addresses["a2a"], token[0]))
    receipts = [
        asyncio.run(over_a2a(addresses["a2a"], token[0])),
        asyncio.run(over_mcp(addresses["mcp"], token[0])),
    ]
    leads = command_here("leads", "list", "--dir", folder).stdout
    assert all(receipt["handoff_token"] in leads for receipt in receipts)


def _is_known(endpoint: str, token: str) -> bool:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    return httpx.post(endpoint, json=body, headers={"authorization": f"Bearer {token}"}).status_code == 200
