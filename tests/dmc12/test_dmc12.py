"""DMC-12: its tools, errors, scopes and manifest (docs/reference/dmc12.md)."""

import json
import re
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.dmc12.conftest import Shop
from tests.dmc12.published import ERROR, SCHEMAS, check, check_answer, schema_of
from tests.published_files import needs
from tests.server.dealership import run_dealership, set_up

from dealer_agent.callers.access_token import _SCOPES
from dealer_agent.config.installation import load_served
from dealer_agent.correctable import CorrectableError
from dealer_agent.dmc12.failures import CODE_OF, RETRYABLE, ToolError
from dealer_agent.dmc12.handoff import lead_payload
from dealer_agent.dmc12.records import estimate_of, masked
from dealer_agent.dmc12.searching import LONGEST_QUERY, search_payload
from dealer_agent.dmc12.tools import TOOLS
from dealer_agent.protocol.errors import ERRORS
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.skill import DMC12_SCOPES
from dealer_agent.self_test.dealer import make_dealer

pytestmark = pytest.mark.outside_protocol("DMC-12")

CONTACT = {"name": "Jane Q. Example", "phone": "+15555551234", "email": "jane@example.com"}


def handoff(reservation_token: str, **members: Any) -> dict[str, Any]:
    return {
        "reservation_token": reservation_token,
        "customer_contact": CONTACT,
        "financing_preference": "finance",
        "trade_in_disclosed": False,
        "customer_consent": True,
        **members,
    }


def some_vins(shop: Shop, count: int = 1) -> list[str]:
    """VINs of vehicles that no other test has taken."""
    offset = min(next(shop.untouched) for _ in range(count))
    listed = shop.call("list_inventory", {"limit": count, "offset": offset})
    return [each["vin"] for each in listed["items"]]


_taken = 0


async def _next(count: int) -> int:
    global _taken
    _taken += count
    return _taken - count


def reserved(shop: Shop, token: str) -> dict[str, Any]:
    (vin,) = some_vins(shop)
    quote = shop.call("request_quote", {"vin": vin}, token)
    reservation = shop.call("create_reservation", {"quote_id": quote["quote_id"]}, token)
    assert reservation["status"] == "active", reservation
    return reservation


def test_every_code_of_ours_has_one_of_dmc12() -> None:
    assert set(CODE_OF) == set(ERRORS)


def test_the_reference_has_the_errors_and_the_scopes() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "dmc12.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\S+)` \| `(\S+)` \|$", text, re.MULTILINE))
    assert rows == {**CODE_OF, "inventory:read": "inventory:read", **DMC12_SCOPES}


@needs(SCHEMAS)
@pytest.mark.parametrize("code", sorted(set(CODE_OF.values()) | {"RESERVATION_EXPIRED"}))
def test_an_error_is_as_published(code: str) -> None:
    document = ToolError(code, "In words.", {"status": "expired"}).document("err_1")
    check(document, ERROR, "")
    assert code in schema_of(ERROR)["$defs"]["ErrorCode"]["enum"]
    assert document["retryable"] is (code in RETRYABLE)


@needs(SCHEMAS)
def test_the_arguments_of_each_tool_are_those_that_are_published() -> None:
    published = {each["title"]: each for each in schema_of("inventory.json")["properties"]["input"]["oneOf"]}
    for name, file in (("request_quote", "quote.json"), ("list_stores", "stores.json")):
        published[name] = schema_of(file)["properties"]["input"]
    published["initiate_deal_handoff"] = schema_of("deal-handoff.json")["properties"]["input"]
    for each in schema_of("reservation.json")["properties"]["input"]["oneOf"]:
        published |= dict.fromkeys(each["title"].split(" | "), each)
    # DMC-12 publishes no schema of the arguments of this tool. Its document says that it takes a VIN.
    published["get_pricing_disclosure"] = published["get_vehicle_by_vin"]
    published["release_reservation"] = published["get_reservation_status"] = published.pop(
        "release_reservation", published.get("get_reservation_status")
    )

    def shape(schema: dict[str, Any]) -> Any:
        members = {name: shape(each) for name, each in schema.get("properties", {}).items() if name != "tool"}
        kept = {key: schema[key] for key in ("enum", "const", "minimum", "minLength", "default") if key in schema}
        if "enum" in kept:
            kept["enum"] = sorted(kept["enum"])
        required = sorted(set(schema.get("required", ())) - {"tool"})
        return members, kept, required, schema.get("additionalProperties")

    condition = schema_of("inventory.json")["$defs"]["ConditionFilter"]
    money = schema_of("common.json")["$defs"]["Money"]
    for tool in TOOLS:
        theirs = json.loads(
            json.dumps(published[tool.name])
            .replace('{"$ref": "#/$defs/ConditionFilter"}', json.dumps(condition))
            .replace('"$ref": "common.json#/$defs/Money"', json.dumps(money)[1:-1])
        )
        assert shape(tool.arguments) == shape(theirs), tool.name


@needs(SCHEMAS)
def test_an_agent_searches_quotes_reserves_and_hands_off(shop: Shop) -> None:
    token = shop.tokens[0]
    (vin,) = some_vins(shop)
    vehicle = shop.call("get_vehicle_by_vin", {"vin": vin})
    check_answer("get_vehicle_by_vin", vehicle)
    stores = shop.call("list_stores", {})
    check_answer("list_stores", stores)
    assert vehicle["store_code"] in {each["store_code"] for each in stores["stores"]}
    assert shop.call("check_availability", {"vins": [vin, "1HGCM82633A004352"]})["statuses"] == {
        vin: "available",
        "1HGCM82633A004352": "unknown",
    }
    disclosure = shop.call("get_pricing_disclosure", {"vin": vin})
    check_answer("get_pricing_disclosure", disclosure)
    quote = shop.call("request_quote", {"vin": vin, "buyer_ref": "s-1"}, token)
    check_answer("request_quote", quote)
    assert quote["quoted_price"] == vehicle["asking_price"]
    assert quote["out_the_door"]["price_lines"] == disclosure["price_lines"]
    reservation = shop.call("create_reservation", {"quote_id": quote["quote_id"]}, token)
    check_answer("create_reservation", reservation)
    assert (reservation["vin"], reservation["reserved_price"]) == (vin, vehicle["asking_price"])
    again = shop.call("create_reservation", {"quote_id": quote["quote_id"]}, token)
    assert again == reservation
    named = {"reservation_token": reservation["reservation_token"]}
    receipt = shop.call("initiate_deal_handoff", handoff(**named), token)
    check_answer("initiate_deal_handoff", receipt)
    assert "jane" not in json.dumps(receipt).lower()
    status = shop.call("get_reservation_status", named, token)
    check_answer("get_reservation_status", status)
    assert status["status"] == "converted"
    assert shop.call("initiate_deal_handoff", handoff(**named), token)["error_code"] == "RESERVATION_STATE"


@needs(SCHEMAS)
def test_a_released_reservation_is_released_again_without_an_error(shop: Shop) -> None:
    token = shop.tokens[0]
    named = {"reservation_token": reserved(shop, token)["reservation_token"]}
    for _ in range(2):
        released = shop.call("release_reservation", named, token)
        check_answer("release_reservation", released)
        assert (released["status"], released["released_by"]) == ("released", "agent")
    assert shop.call("initiate_deal_handoff", handoff(**named), token)["error_code"] == "RESERVATION_STATE"


def test_the_reservation_of_another_agent_is_not_there(shop: Shop) -> None:
    ours, theirs = shop.tokens
    named = {"reservation_token": reserved(shop, ours)["reservation_token"]}
    for tool, arguments in (
        ("get_reservation_status", named),
        ("release_reservation", named),
        ("initiate_deal_handoff", handoff(**named)),
    ):
        assert shop.call(tool, arguments, theirs)["error_code"] == "RESERVATION_NOT_FOUND"
        assert shop.call(tool, arguments)["error_code"] == "NOT_AUTHORIZED"
    assert shop.call("get_reservation_status", named, ours)["status"] == "active"


def test_a_held_vehicle_is_refused_to_another_agent_without_saying_who_holds_it(shop: Shop) -> None:
    ours, theirs = shop.tokens
    held = reserved(shop, ours)
    vin = held["vin"]
    quote = shop.call("request_quote", {"vin": vin}, theirs)
    refused = shop.call("create_reservation", {"quote_id": quote["quote_id"]}, theirs)
    assert refused["error_code"] == "RESERVATION_CONFLICT"
    assert refused["until"] == held["expires_at"]
    assert "token:" not in json.dumps(refused)


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"customer_consent": False}, "CONSENT_REQUIRED"),
        ({"customer_consent": None}, "CONSENT_REQUIRED"),
        ({"consent": {"allowed_channels": ["email"], "expires_at": "2026-01-01T00:00:00Z"}}, "CONSENT_INVALID"),
        ({"consent": {"allowed_channels": [], "expires_at": "2099-01-01T00:00:00Z"}}, "VALIDATION_FAILED"),
        ({"consent": {"allowed_channels": ["fax"], "expires_at": "2099-01-01T00:00:00Z"}}, "VALIDATION_FAILED"),
        ({"consent": {"allowed_channels": ["email"], "expires_at": "tomorrow"}}, "VALIDATION_FAILED"),
        ({"customer_contact": CONTACT | {"phone": "555-1234"}}, "VALIDATION_FAILED"),
        ({"customer_contact": CONTACT | {"ssn": "123-45-6789"}}, "VALIDATION_FAILED"),
    ],
)
def test_a_hand_off_without_a_valid_consent_reaches_nobody(shop: Shop, members: dict[str, Any], code: str) -> None:
    token = shop.tokens[0]
    arguments = handoff(reserved(shop, token)["reservation_token"], **members)
    refused = shop.call("initiate_deal_handoff", arguments, token)
    assert refused["error_code"] == code
    assert not any(each in json.dumps(refused) for each in ("Jane", "jane@", "5551234", "123-45-6789"))
    named = {"reservation_token": arguments["reservation_token"]}
    assert shop.call("get_reservation_status", named, token)["status"] == "active"


HOLD = {"hold_id": "h", "vehicle_id": "v"}
AS_OF = "2026-11-28T12:00:00Z"
NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


def test_a_hand_off_that_names_no_channels_allows_no_text_messages() -> None:
    lead = lead_payload(handoff("t" * 10), HOLD, "The dealer's text.", "token:1", NOW)
    assert lead["consent"]["allowed_channels"] == ["email", "phone"]
    assert lead["consent"]["consent_text"] == "The dealer's text."
    assert (lead["customer"]["first_name"], lead["customer"]["last_name"]) == ("Jane Q.", "Example")
    assert lead["offer"] == {"hold_id": "h"}


def test_the_consent_and_the_trade_in_of_a_hand_off_are_kept() -> None:
    consent = {"allowed_channels": ["sms"], "expires_at": "2027-01-01T00:00:00Z", "consent_text": "Yes."}
    trade_in = {"year": 2022, "appraised_value_partner": {"amount": 24500, "currency": "USD"}}
    arguments = handoff("t" * 10, consent=consent, trade_in=trade_in, notes="On Saturday.")
    arguments["customer_contact"] = CONTACT | {"name": "Cher"}
    lead = lead_payload(arguments, HOLD, "", "token:1", NOW)
    assert {name: lead["consent"][name] for name in consent} == consent
    assert lead["trade_in"] == {"year": 2022}
    assert lead["message"].splitlines() == [
        "Wants to finance.",
        "Has a vehicle to trade in.",
        "The agent's estimate of its value: 24500 USD.",
        "On Saturday.",
    ]
    assert (lead["customer"]["first_name"], lead["customer"]["last_name"]) == ("Cher", "-")


@pytest.mark.parametrize(
    ("arguments", "filters", "sort"),
    [
        ({}, {"year_min": 1990, "year_max": 2030, "price_min": 0}, ("price", "asc")),
        ({"query": "red suv"}, {"query": "red suv"}, None),
        ({"query": "red", "sort_by": "year", "sort_order": "desc"}, {"query": "red"}, ("year", "desc")),
        ({"min_price": 10.2, "max_price": 20.9}, {"price_min": 11, "price_max": 20}, ("price", "asc")),
        ({"condition": "certified"}, {"condition": ["cpo"]}, ("price", "asc")),
        ({"year": 2020, "min_year": 2018}, {"year_min": 2020, "year_max": 2020}, ("price", "asc")),
        ({"make": "Ford", "trim": " "}, {"make": ["Ford"]}, ("price", "asc")),
        ({"query": "word " * 90}, {"query": ("word " * 40).strip()}, None),
        ({"query": "w" * 300}, {"query": "w" * LONGEST_QUERY}, None),
    ],
)
def test_a_search_is_one_of_ours(
    arguments: dict[str, Any], filters: dict[str, Any], sort: tuple[str, str] | None
) -> None:
    payload = search_payload(arguments)
    assert payload is not None
    assert filters.items() <= payload["filters"].items()
    assert payload.get("sort") == (None if sort is None else {"field": sort[0], "order": sort[1]})


@pytest.mark.parametrize("arguments", [{"condition": "demo"}, {"year": 2020, "min_year": 2021}])
def test_what_no_unit_can_be_is_not_searched(shop: Shop, arguments: dict[str, Any]) -> None:
    assert search_payload(arguments) is None
    assert shop.call("list_inventory", arguments)["items"] == []


@pytest.mark.parametrize(("tool", "code"), [("list_inventory", None), ("search_inventory", "VALIDATION_FAILED")])
def test_the_arguments_may_have_the_name_of_the_tool(shop: Shop, tool: str, code: str | None) -> None:
    assert shop.call("list_inventory", {"tool": tool}).get("error_code") == code


def test_pages_have_every_vehicle_that_is_shown_once(shop: Shop) -> None:
    found: list[str] = []
    while (page := shop.call("list_inventory", {"limit": 100, "offset": len(found)}))["items"]:
        found += [each["vin"] for each in page["items"]]
    assert len(found) == len(set(found)) == page["total"] > 200
    assert shop.call("search_inventory", {"query": "toyota"})["items"][0]["similarity"] is None


def test_prices_add_up(shop: Shop) -> None:
    for vin in some_vins(shop, 5):
        price = shop.call("get_pricing_disclosure", {"vin": vin})
        cents = [round(line["amount"]["amount"] * 100) for line in price["price_lines"]]
        taxes = [round(each["amount"]["amount"] * 100) for each in price["price_lines"] if each["kind"] == "tax"]
        total = round(price["out_the_door"]["amount"] * 100)
        assert sum(cents) == total
        assert round(price["subtotal"]["amount"] * 100) == total - sum(taxes)
        assert round(price["taxes_total"]["amount"] * 100) == sum(taxes)


def line(kind: str, amount: float, payee: str = "dealer") -> dict[str, Any]:
    return {"label": kind.title(), "kind": kind, "payee": payee, "amount": amount, "firm": True}


def price(*lines: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {
        "lines": lines,
        "complete": True,
        "jurisdiction": {"of": "rooftop", "state": "TN"},
        "currency": "USD",
    } | members


def test_what_is_subtracted_is_in_the_line_of_the_vehicle() -> None:
    made = estimate_of(
        price(line("vehicle_price", 100.5), line("discount", -20.25), line("doc", 5)), "2026-11-28T00:00:00Z"
    )
    assert made is not None
    assert made["price_lines"][0]["label"] == "Vehicle_Price, less Discount"
    assert made["price_lines"][0]["amount"]["amount"] == 80.25
    assert (made["amount"], made["fees_total"]["amount"]) == (85.25, 5)


@pytest.mark.parametrize(
    "unfit",
    [
        price(line("vehicle_price", 100), complete=False),
        price(line("vehicle_price", 100), jurisdiction={"of": "rooftop"}),
        price(line("vehicle_price", 100), line("rebate", -101)),
    ],
)
def test_an_estimate_that_is_not_whole_is_left_out(unfit: dict[str, Any]) -> None:
    assert estimate_of(unfit, AS_OF) is None


def test_an_address_is_masked() -> None:
    assert masked(["sales@dealer.example"]) == "sa****@dealer.example"


def test_the_scopes_of_dmc12_are_understood() -> None:
    assert {tool.scope for tool in TOOLS} <= set(_SCOPES)
    for tool in TOOLS:
        assert _SCOPES[tool.scope] == tool.skill.scope


@pytest.mark.parametrize(
    ("body", "status", "number"),
    [
        (b"{", 400, -32700),
        (b"[]", 400, -32600),
        (b'{"jsonrpc": "2.0", "method": "tools/list"}', 400, -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/run"}', 200, -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}', 200, -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "submit_offer"}}', 200, -32602),
    ],
)
def test_what_is_not_the_call_of_a_tool_is_an_error_of_json_rpc(
    shop: Shop, body: bytes, status: int, number: int
) -> None:
    response = shop.dealership.post(body, "/dmc12/a2a")
    assert (response.status_code, response.json()["error"]["code"]) == (status, number)


def test_a_wrong_token_is_refused_before_the_tool(shop: Shop) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    response = shop.dealership.post(call, "/dmc12/a2a", token="dat_wrong_token")
    assert (response.status_code, response.json()["error"]["code"]) == (401, -32001)
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/dmc12/a2a", "/dmc12/mcp"])
def test_a_rail_answers_only_posts(shop: Shop, path: str) -> None:
    assert shop.dealership.get(path).status_code == 405


def test_the_tools_are_listed_with_their_arguments(shop: Shop) -> None:
    listed = shop.rpc({"method": "tools/list"})["result"]["tools"]
    assert [each["name"] for each in listed] == [tool.name for tool in TOOLS]
    assert all(each["inputSchema"]["additionalProperties"] is False for each in listed)


def test_the_manifest_names_the_rails_and_what_is_offered(shop: Shop) -> None:
    document = shop.dealership.get("/.well-known/ucp").json()
    service = document["ucp"]["services"]["ai.dmc12.automotive"]
    assert service["mcp"]["endpoint"].endswith("/dmc12/mcp")
    assert service["a2a"]["endpoint"].endswith("/dmc12/a2a")
    names = {each["name"] for each in document["ucp"]["capabilities"]}
    assert "ai.dmc12.automotive.reservation" in names
    assert "ai.dmc12.automotive.negotiation" not in names
    assert document["merchant"]["inventory_accuracy"]["freshness_sla_seconds"] == 86_400
    assert document["payment"]["handlers"] == []
    assert [each["store_code"] for each in document["merchant"]["locations"]] == ["JHN", "JHK"]


def test_without_the_setting_nothing_of_it_is_there(tmp_path: Path, stocked: Path) -> None:
    set_up(tmp_path / "dealer", stocked=stocked)
    with run_dealership(tmp_path / "dealer") as dealership:
        for path in ("/dmc12/a2a", "/dmc12/mcp"):
            assert dealership.post({}, path).status_code == 404
        assert dealership.get("/.well-known/ucp").status_code == 404


STORE = """
store_code = "JHN"
website = "https://www.example.com"
address = {address_line_1 = "1 Main St", city = "Nashville", state = "TN", zip = "37203"}
"""


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("[dmc12]\nenabled = true\n", "needs quotes and holds; write enabled = true in [offers]"),
        ("[offers]\nenabled = true\n[dmc12]\nenabled = true\n", "cannot be a store of [dmc12]"),
    ],
)
def test_settings_say_what_is_missing(tmp_path: Path, stocked: Path, extra: str, said: str) -> None:
    set_up(tmp_path / "dealer", extra, stocked=stocked)
    with pytest.raises(CorrectableError, match=re.escape(said)):
        load_served(tmp_path / "dealer", {}, "http://127.0.0.1:8080")


def test_two_stores_have_two_codes(tmp_path: Path, stocked: Path) -> None:
    extra = "[offers]\nenabled = true\n[dmc12]\nenabled = true\n"
    set_up(tmp_path / "dealer", extra, stocked=stocked)
    file = tmp_path / "dealer" / "dealer.toml"
    text = file.read_text("utf-8").replace('timezone = "America/Chicago"', f'timezone = "America/Chicago"{STORE}')
    file.write_text(text, "utf-8")
    with pytest.raises(CorrectableError, match="is also that of another rooftop"):
        load_served(tmp_path / "dealer", {}, "http://127.0.0.1:8080")


def test_a_skill_that_is_off_takes_its_tools_away(tmp_path: Path) -> None:
    make_dealer(tmp_path / "dealer", tables='[service]\nskills_off = ["lead.submit", "offer.hold"]\n')
    with run_dealership(tmp_path / "dealer") as dealership:
        listed = dealership.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, "/dmc12/a2a").json()
        names = {each["name"] for each in listed["result"]["tools"]}
        assert {"initiate_deal_handoff", "create_reservation"}.isdisjoint(names)
        manifest = dealership.get("/.well-known/ucp").json()
        assert "ai.dmc12.automotive.deal_handoff" not in {each["name"] for each in manifest["ucp"]["capabilities"]}


def test_a_limit_is_an_error_of_the_tool(tmp_path: Path) -> None:
    make_dealer(tmp_path / "dealer")
    file = tmp_path / "dealer" / "dealer.toml"
    limit = '[rate_limits]\noffer_quote = "1/minute"\n'
    file.write_text(file.read_text("utf-8").replace("[rate_limits]\n", limit), "utf-8")
    with run_dealership(tmp_path / "dealer") as dealership:
        limited = Shop(dealership, ("", ""), count(1))
        vin = limited.call("list_inventory", {})["items"][0]["vin"]
        assert "quote_id" in limited.call("request_quote", {"vin": vin})
        refused = limited.call("request_quote", {"vin": vin})
        assert (refused["error_code"], refused["retryable"]) == ("RATE_LIMITED", True)


def test_an_unknown_id_is_not_found(shop: Shop) -> None:
    token = shop.tokens[0]
    for name in (new_ulid(), "rsv_01HZ9QK7M3V8P2S6", "é" * 20, "0" * 80):
        assert shop.call("get_reservation_status", {"reservation_token": name}, token)["error_code"] == (
            "RESERVATION_NOT_FOUND"
        )
