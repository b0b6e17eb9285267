"""The tools of MCP for quotes, holds and what follows a lead (docs/how-to/mcp.md#offers)."""

from typing import Any

import pytest
from tests.offering.conftest import Offered, Offering
from tests.server.dealership import ACCORD, LEAF
from tests.server.mcp_calls import FORM, JO, call, text_of, ticked, use

from dealer_agent.mcp_tools.tools import ALL_TOOLS, TOOLS

pytestmark = pytest.mark.outside_protocol("MCP")


def names_of(offering: Offering) -> list[str]:
    return [each["name"] for each in call(offering.dealership, "tools/list")["result"]["tools"]]


def data(result: dict[str, Any]) -> dict[str, Any]:
    assert not result.get("isError"), result
    found: dict[str, Any] = result["structuredContent"]
    return found


def sent(offering: Offering, arguments: dict[str, Any], token: str | None = None) -> dict[str, Any]:
    """The result of a lead to which the person has agreed."""
    more: dict[str, Any] = {"capabilities": FORM, "token": token}
    asked = use(offering.dealership, "lead_submit", arguments, **more)
    return use(
        offering.dealership, "lead_submit", arguments, answer=ticked(email=True), state=asked["requestState"], **more
    )


def test_the_tools_are_there_where_the_extension_is(offering: Offered) -> None:
    assert names_of(offering()) == [tool.name for tool in ALL_TOOLS]
    assert names_of(offering("", agents=0)) == [tool.name for tool in TOOLS]


def test_a_model_quotes_holds_and_sends_the_lead_of_a_hold(offering: Offered) -> None:
    shop = offering()
    token = shop.agents[0].token
    quoted = use(shop.dealership, "offer_quote", {"vin": ACCORD}, token=token)
    assert "Price: $28,500, firm until" in text_of(quoted)
    assert "without tax, title, registration" in text_of(quoted)
    held = use(shop.dealership, "offer_hold", {"quote_id": data(quoted)["quote_id"]}, token=token)
    assert "held until" in text_of(held)
    again = use(shop.dealership, "offer_hold", {"quote_id": data(quoted)["quote_id"]}, token=token)
    assert data(again) == data(held)
    named = {"hold_id": data(held)["hold_id"]}
    seen = use(shop.dealership, "inventory_vehicle", {"vin": ACCORD})
    assert data(seen)["held_until"] == data(held)["expires_at"]
    lead = data(sent(shop, {"customer": JO, "vehicle_of_interest": {"vin": ACCORD}, "offer": named}, token))
    assert data(use(shop.dealership, "offer_status", named, token=token))["status"] == "became_lead"
    state = use(shop.dealership, "lead_status", {"lead_id": lead["lead_id"]}, token=token)
    assert text_of(state) == "Status of the lead: received."


def test_a_released_vehicle_is_free(offering: Offered) -> None:
    shop = offering()
    token = shop.agents[0].token
    quote = data(use(shop.dealership, "offer_quote", {"vin": LEAF}, token=token))
    named = {
        "hold_id": data(use(shop.dealership, "offer_hold", {"quote_id": quote["quote_id"]}, token=token))["hold_id"]
    }
    released = use(shop.dealership, "offer_release", named, token=token)
    assert "not held: released" in text_of(released)


def test_a_stranger_learns_how_to_be_known(offering: Offered) -> None:
    shop = offering()
    quote = data(use(shop.dealership, "offer_quote", {"vin": ACCORD}))
    refused = use(shop.dealership, "offer_hold", {"quote_id": quote["quote_id"]})
    assert refused["isError"]
    assert "CALLER_NOT_KNOWN" in text_of(refused)
    assert "send a token of this dealer" in text_of(refused)


def test_an_anonymous_host_follows_its_lead_with_the_secret(offering: Offered) -> None:
    shop = offering()
    lead = data(sent(shop, {"customer": JO, "vehicle_of_interest": {"vin": ACCORD}}))
    named = {"lead_id": lead["lead_id"]}
    state = use(shop.dealership, "lead_status", named | {"secret": lead["lead_secret"]})
    assert data(state)["status"] == "received"
    assert "LEAD_NOT_FOUND" in text_of(use(shop.dealership, "lead_status", named | {"secret": "another"}))
    assert "VISIT_NOT_FOUND" in text_of(use(shop.dealership, "visit_cancel", named | {"secret": lead["lead_secret"]}))


def test_a_model_follows_and_cancels_a_visit(offering: Offered) -> None:
    shop = offering()
    token = shop.agents[0].token
    visit = {"appointment_type": "test_drive", "appointment_at": "2099-06-01T10:00:00-05:00"}
    lead = data(sent(shop, {"customer": JO, "vehicle_of_interest": {"vin": ACCORD}, "appointment": visit}, token))
    named = {"lead_id": lead["lead_id"]}
    refused = use(shop.dealership, "visit_move", named | {"appointment_at": "2099-06-02T10:00:00-05:00"}, token=token)
    assert "APPOINTMENT_TIME_UNAVAILABLE: This time is not free, and the visit stays as it was." in text_of(refused)
    state = use(shop.dealership, "lead_status", named, token=token)
    assert "Visit: requested, Test Motors North, id " in text_of(state)
    cancelled = use(shop.dealership, "visit_cancel", named | {"reason": "Bought another."}, token=token)
    assert data(cancelled)["visit"]["status"] == "cancelled"


def test_the_key_of_a_call_is_not_the_models(offering: Offered) -> None:
    shop = offering()
    token = shop.agents[0].token
    quote = data(use(shop.dealership, "offer_quote", {"vin": ACCORD}, token=token))
    for key in ("a", "b"):
        held = use(shop.dealership, "offer_hold", {"quote_id": quote["quote_id"], "idempotency_key": key}, token=token)
        assert data(held)["status"] == "active"
