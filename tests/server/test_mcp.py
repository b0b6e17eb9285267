"""MCP at `/mcp`: every revision, the tools, and the guards that a tool call passes like any other request."""

import gc
import json
from typing import Any

import pytest
from tests.server.conftest import OpenDealership
from tests.server.dealership import ACCORD, NO_LIMITS, Dealership
from tests.server.mcp_calls import HANDSHAKE, NEW, call, post, text_of, use
from tests.soak import SOAK

from dealer_agent.mcp_tools.tools import compact_page

pytestmark = pytest.mark.outside_protocol("MCP")

TOOLS = ["dealer_information", "inventory_facets", "inventory_search", "inventory_vehicle", "lead_submit"]
REVISIONS = (*HANDSHAKE, NEW)


def initialize(revision: str) -> dict[str, Any]:
    client = {"name": "Test Host", "version": "1"}
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_a_handshake_keeps_the_revision_and_opens_no_session(dealership: Dealership, revision: str) -> None:
    answer = post(dealership, initialize(revision))
    result = answer.json()["result"]
    assert result["protocolVersion"] == revision
    assert "Test Motors" in result["instructions"]
    assert "mcp-session-id" not in answer.headers
    assert post(dealership, {"jsonrpc": "2.0", "method": "notifications/initialized"}, revision).status_code == 202


def test_the_newest_revision_describes_the_server_without_a_handshake(dealership: Dealership) -> None:
    result = call(dealership, "server/discover")["result"]
    info = result["_meta"]["io.modelcontextprotocol/serverInfo"]
    assert info["name"] == dealership.get("/.well-known/mcp/server.json").json()["name"]
    assert NEW in result["supportedVersions"]
    assert "Test Motors" in result["instructions"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_revision_lists_and_calls_the_tools(dealership: Dealership, revision: str) -> None:
    listed = call(dealership, "tools/list", revision=revision)["result"]["tools"]
    assert [tool["name"] for tool in listed] == TOOLS
    found = use(dealership, "inventory_search", {"filters": {"make": ["Honda"]}}, revision=revision)
    assert not found.get("isError")
    assert text_of(found).startswith("1 vehicles match. Here are 1 to 1:\n1. 2024 Honda Accord, used, $28,500")
    if revision >= "2025-06-18":
        assert found["structuredContent"] == compact_page(
            dealership.ask("inventory.search", filters={"make": ["Honda"]})
        )


@pytest.mark.parametrize(
    ("tool", "skill", "arguments"),
    [
        ("dealer_information", "dealer.information", {}),
        ("inventory_facets", "inventory.facets", {"filters": {"make": ["Honda"]}}),
        ("inventory_vehicle", "inventory.vehicle", {"vin": ACCORD, "zip": "37203"}),
    ],
)
def test_a_tool_returns_the_data_of_its_skill(
    dealership: Dealership, tool: str, skill: str, arguments: dict[str, Any]
) -> None:
    result = use(dealership, tool, arguments)
    assert result["structuredContent"] == dealership.ask(skill, **arguments)
    assert text_of(result)


def test_a_page_is_short_and_has_everything_on_request(dealership: Dealership) -> None:
    pages = {"pagination": {"limit": 20}}
    short = use(dealership, "inventory_search", pages)
    assert len(short["structuredContent"]["vehicles"]) == 20
    assert len(json.dumps(short["structuredContent"])) + len(text_of(short)) < 8_000
    full = dealership.ask("inventory.search", **pages)
    assert short["structuredContent"] == compact_page(full)
    assert use(dealership, "inventory_search", pages | {"details": False}) == short
    assert use(dealership, "inventory_search", pages | {"details": True})["structuredContent"] == full
    assert use(dealership, "inventory_search", pages | {"details": "yes"})["isError"]


def test_an_error_names_code_pointer_and_every_problem(dealership: Dealership) -> None:
    result = use(dealership, "inventory_search", {"filters": {"mak": ["Honda"], "price_max": "cheap"}, "sort": {}})
    assert result["isError"]
    words = text_of(result)
    assert words.startswith("SCHEMA_VALIDATION_FAILED: ")
    for problem in (
        "- /filters/mak: is not known here; did you mean /filters/make?",
        "- /filters/price_max: must be an integer (received cheap)",
        "- /sort/field: is required",
        "- /sort/order: is required",
    ):
        assert problem in words


@pytest.mark.parametrize("arguments", [{"vin": "1HGCY2F57RA999999"}, {"stock": "N-1"}])
def test_a_vehicle_that_is_not_there_is_an_error_with_advice(dealership: Dealership, arguments: dict[str, Any]) -> None:
    result = use(dealership, "inventory_vehicle", arguments)
    assert result["isError"]
    assert text_of(result).startswith(("VEHICLE_NOT_FOUND: ", "VEHICLE_UNAVAILABLE: "))
    assert "\nWhat to do: " in text_of(result)


def test_an_unknown_tool_is_refused_with_the_names_of_all(dealership: Dealership) -> None:
    error = use(dealership, "inventory.search")
    assert error["code"] == -32602
    assert all(name in error["message"] for name in TOOLS)


def test_a_skill_that_is_off_has_no_tool(open_dealership: OpenDealership) -> None:
    opened = open_dealership('[service]\nskills_off = ["inventory.facets"]\n' + NO_LIMITS)
    names = [tool["name"] for tool in call(opened, "tools/list")["result"]["tools"]]
    assert names == [name for name in TOOLS if name != "inventory_facets"]
    assert use(opened, "inventory_facets")["code"] == -32602


def test_without_the_setting_there_is_no_mcp_and_no_document_names_it(open_dealership: OpenDealership) -> None:
    opened = open_dealership("[mcp]\nenabled = false\n" + NO_LIMITS)
    assert post(opened, initialize("2025-11-25")).status_code == 404
    for path in ("/mcp/server-card", "/.well-known/mcp/server.json"):
        assert opened.get(path).status_code == 404
    for path in ("/.well-known/ai-catalog.json", "/llms.txt"):
        assert "/mcp" not in opened.get(path).text


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_only_post_is_answered(dealership: Dealership, method: str) -> None:
    answer = dealership.request(method, "/mcp", headers={"host": "localhost", "accept": "text/event-stream"})
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("method", ["subscriptions/listen", "resources/list", "prompts/list", "completion/complete"])
def test_what_is_not_declared_is_answered_at_once(dealership: Dealership, method: str) -> None:
    assert call(dealership, method, {"notifications": {}})["error"]["code"] in (-32601, -32602)


def test_a_tool_call_needs_the_token_that_its_skill_needs(open_dealership: OpenDealership) -> None:
    opened = open_dealership('[auth]\nmode = "bearer"\nskills = ["inventory.search"]\n' + NO_LIMITS)
    _, token = opened.new_token()
    opened.app.dealers.opened.clear()
    assert text_of(use(opened, "inventory_search")).startswith("AUTH_REQUIRED: ")
    assert use(opened, "inventory_search", token="wrong")["message"].startswith("AUTH_REQUIRED: ")
    assert not use(opened, "inventory_search", token=token).get("isError")
    assert not use(opened, "inventory_facets").get("isError")


def test_a_tool_call_counts_against_the_rate_of_its_skill(open_dealership: OpenDealership) -> None:
    opened = open_dealership(NO_LIMITS.replace('inventory_search = ""', 'inventory_search = "2/hour"'))
    results = [use(opened, "inventory_search") for _ in range(3)]
    assert [bool(result.get("isError")) for result in results] == [False, False, True]
    assert "RATE_LIMITED: Too many requests. Try again in " in text_of(results[2])
    assert opened.post({}, "/message:send").status_code == 422, "requests of the other skills are still answered"
    assert not use(opened, "inventory_search", address="198.51.100.8").get("isError"), "each client has its own rate"


def test_every_request_counts_against_the_rates_of_mcp_and_of_the_address(open_dealership: OpenDealership) -> None:
    opened = open_dealership(NO_LIMITS + 'mcp = "2/hour"\n')
    statuses = [post(opened, initialize(NEW)).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    opened = open_dealership(NO_LIMITS.replace('address = ""', 'address = "3/hour"'))
    assert text_of(use(opened, "inventory_search")).startswith("122 vehicles match.")
    # The request and the tool call in it have counted, each once.
    assert text_of(use(opened, "inventory_search")).startswith("RATE_LIMITED")


def test_a_large_body_counts_more_than_once(open_dealership: OpenDealership) -> None:
    opened = open_dealership(NO_LIMITS + 'mcp = "20/hour"\n')
    assert post(opened, initialize(NEW) | {"more": "x" * 150_000}).status_code == 200
    assert post(opened, initialize(NEW)).status_code == 200
    assert post(opened, initialize(NEW)).status_code == 429


def test_a_tool_call_is_counted_as_a_request_of_its_skill(open_dealership: OpenDealership) -> None:
    opened = open_dealership('[reports]\nagents = ["TestHost"]\n' + NO_LIMITS)
    opened.service.counts.take()
    use(opened, "inventory_search", headers={"user-agent": "TestHost/1"})
    use(opened, "inventory_vehicle", {"stock": "nothing"})
    call(opened, "tools/list")
    assert opened.service.counts.take().requests == {
        ("inventory.search", "OK", "TestHost"): 1,
        ("inventory.vehicle", "VEHICLE_NOT_FOUND", "other"): 1,
    }


def test_requests_leave_nothing_behind(dealership: Dealership) -> None:
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http import StreamableHTTPServerTransport

    for _ in range(5_000 if SOAK else 30):
        post(dealership, initialize("2025-11-25"))
        call(dealership, "server/discover")
    gc.collect()
    left = [each for each in gc.get_objects() if isinstance(each, Server | StreamableHTTPServerTransport)]
    assert left == []


@pytest.mark.parametrize(
    ("body", "revision", "status"),
    [
        (b"", None, 400),
        (b"[]", None, 400),
        (json.dumps([initialize("2025-03-26")] * 2).encode(), None, 400),
        (json.dumps([initialize("2025-03-26")] * 2).encode(), "2025-03-26", 400),
        (json.dumps([initialize(NEW)]).encode(), NEW, 400),
        (b"{" * 3000, None, 400),
        (b"[" * 100_000, NEW, 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}' + b" " * 300_000, None, 413),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","x":NaN}', None, 400),
        (json.dumps(initialize(NEW) | {"more": [0] * 4000}).encode(), NEW, 400),
        (json.dumps(initialize(NEW) | {"more": "\ud800"}).encode(), None, 400),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', NEW, 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', "2031-01-01", 400),
    ],
    ids=range(13),
)
def test_what_is_no_request_is_refused(dealership: Dealership, body: bytes, revision: str | None, status: int) -> None:
    assert post(dealership, body, revision).status_code == status


@pytest.mark.parametrize(
    "query",
    ["x" * 500, "\0", 1e308, [[[[]]]], None],
    ids=["long", "NUL", "number", "nested", "null"],
)
def test_odd_arguments_are_answered(dealership: Dealership, query: Any) -> None:
    result = use(dealership, "inventory_search", {"filters": {"query": query}})
    assert text_of(result)
