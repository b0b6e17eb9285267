"""A buyer program for DMC-12, written from its published schemas. It knows nothing of the service.

It begins with the manifest, and buys as far as an agent can: search, quote, reservation, hand-off.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import httpx2
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from tests.acceptance.running import PATIENCE_SECONDS
from tests.dmc12.published import check_answer

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


def endpoints(site: str) -> dict[str, str]:
    """The address of each rail, from the manifest."""
    document = httpx.get(f"{site}/.well-known/ucp", timeout=PATIENCE_SECONDS).raise_for_status().json()
    assert document["payment"]["handlers"] == []
    assert document["merchant"]["inventory_accuracy"]["freshness_sla_seconds"] > 0
    service = document["ucp"]["services"]["ai.dmc12.automotive"]
    return {rail: service[rail]["endpoint"] for rail in ("a2a", "mcp")}


async def over_a2a(endpoint: str, token: str) -> dict[str, Any]:
    """What the buyer gets over JSON-RPC."""
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE_SECONDS) as client:

        async def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
            params = {"name": tool, "arguments": arguments}
            body = {"jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": params}
            response = (await client.post(endpoint, json=body)).raise_for_status().json()
            data: dict[str, Any] = response["result"]["data"]
            return data

        return await buy(call)


async def over_mcp(endpoint: str, token: str) -> dict[str, Any]:
    """What the buyer gets over MCP, with the official client."""
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS) as client,
        streamable_http_client(endpoint, http_client=client) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()

        async def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
            result = await session.call_tool(tool, arguments)
            data: dict[str, Any] = result.structured_content
            return data

        return await buy(call)


async def buy(ask: Call) -> dict[str, Any]:
    """Searches, quotes, reserves, and hands the customer over. Returns the receipt."""

    async def call(tool: str, **arguments: Any) -> dict[str, Any]:
        data = await ask(tool, arguments)
        check_answer(tool, data)
        assert "error_code" not in data, data
        return data

    found = (await call("search_inventory", max_price=60_000, sort_by="price", sort_order="desc", limit=25))["items"]
    prices = [each["asking_price"] for each in found]
    assert prices == sorted(prices, reverse=True)
    stores = {each["store_code"] for each in (await call("list_stores"))["stores"]}
    assert {each["store_code"] for each in found} <= stores
    statuses = (await call("check_availability", vins=[each["vin"] for each in found]))["statuses"]
    for each in found:
        assert statuses[each["vin"]] == each["status"] == "available"
        quote = await call("request_quote", vin=each["vin"], buyer_ref="customer-7")
        assert quote["quoted_price"] == each["asking_price"]
        reserved = await ask("create_reservation", {"quote_id": quote["quote_id"]})
        check_answer("create_reservation", reserved)
        if reserved.get("error_code") != "RESERVATION_CONFLICT":
            break
    assert reserved["status"] == "active", reserved
    assert (await call("get_pricing_disclosure", vin=quote["vin"]))["out_the_door"]["amount"] > quote["quoted_price"]
    return await call(
        "initiate_deal_handoff",
        reservation_token=reserved["reservation_token"],
        customer_contact={"name": "Jane Example", "phone": "+15555551234", "email": "jane@example.com"},
        financing_preference="cash",
        trade_in_disclosed=False,
        customer_consent=True,
        consent={"allowed_channels": ["email"], "expires_at": "2099-01-01T00:00:00Z"},
    )
