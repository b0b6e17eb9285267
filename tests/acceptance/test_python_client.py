"""The official Python client, `a2a-sdk`, through the service's own card (docs/protocol.md).

It carries payloads in protobuf's Struct, so every integer goes out as `2020.0`. It drops what an error says beyond its
message, so the same request goes out by hand too, and the raw answer is looked at.
"""

import asyncio
import json
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, A2AClientError, AuthInterceptor, ClientConfig, ClientFactory
from a2a.client.client import ClientCallContext
from a2a.types.a2a_pb2 import AgentCard, SendMessageRequest
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict, ParseDict
from tests.acceptance.asking import asked, body, error_payload, lead, response_type
from tests.acceptance.conftest import Guarded
from tests.acceptance.dealers import HONDA_VIN
from tests.acceptance.running import Running

BINDINGS = ("HTTP+JSON", "JSONRPC")

both_bindings = pytest.mark.parametrize("binding", BINDINGS)


class Wire:
    """What the client really sent and got."""

    def __init__(self) -> None:
        self.sent: list[httpx.Request] = []
        self.got: list[httpx.Response] = []

    async def note_request(self, request: httpx.Request) -> None:
        self.sent.append(request)

    async def note_response(self, response: httpx.Response) -> None:
        await response.aread()
        self.got.append(response)


class OneToken:
    """The client's credential service: one token for whatever scheme the card names."""

    def __init__(self, token: str) -> None:
        self.token = token

    async def get_credentials(self, scheme: str, context: ClientCallContext | None) -> str:
        return self.token


def through_the_card(
    url: str, binding: str, skill: str, *, token: str | None = None, **members: Any
) -> tuple[dict[str, Any], Wire]:
    """The response's message as the client hands it over, and what stood on the wire."""
    return asyncio.run(_through_the_card(url, binding, skill, token, members))


async def _through_the_card(
    url: str, binding: str, skill: str, token: str | None, members: dict[str, Any]
) -> tuple[dict[str, Any], Wire]:
    wire = Wire()
    hooks = {"request": [wire.note_request], "response": [wire.note_response]}
    async with httpx.AsyncClient(timeout=120) as plain:
        card = await A2ACardResolver(plain, url).get_agent_card()
    async with httpx.AsyncClient(timeout=120, event_hooks=hooks) as watched:  # type: ignore[arg-type]
        config = ClientConfig(
            httpx_client=watched,
            supported_protocol_bindings=[binding],
            accepted_output_modes=[response_type(skill)],
            streaming=False,
        )
        guards = [AuthInterceptor(OneToken(token))] if token else []  # type: ignore[arg-type]
        client = ClientFactory(config).create(card, guards)  # type: ignore[arg-type]
        request = ParseDict({"message": body(skill, **members)["message"]}, SendMessageRequest())
        try:
            replies = [MessageToDict(reply.message) async for reply in client.send_message(request)]
        except A2AError as error:
            error.add_note(json.dumps([response.text for response in wire.got]))
            error.wire = wire  # type: ignore[attr-defined]
            raise
    (message,) = replies
    return message, wire


def data_of(message: dict[str, Any], skill: str) -> dict[str, Any]:
    assert message["role"] == "ROLE_AGENT"
    (part,) = message["parts"]
    assert part["mediaType"] == response_type(skill)
    assert part["data"]["type"] == f"{skill}.response"
    data: dict[str, Any] = part["data"]["data"]
    return data


@pytest.mark.requirement("card-both-bindings")
@pytest.mark.requirement("card-http-json-entry")
@pytest.mark.requirement("card-interfaces-in-order")
@pytest.mark.requirement("undeclared-operations")
def test_the_client_finds_both_bindings_on_the_well_known_card_with_json_rpc_first(service: Running) -> None:
    """See docs/protocol.md#cards."""

    async def resolve() -> AgentCard:
        async with httpx.AsyncClient(timeout=120) as plain:
            return await A2ACardResolver(plain, service.url).get_agent_card()

    card = asyncio.run(resolve())
    assert [interface.protocol_binding for interface in card.supported_interfaces] == ["JSONRPC", "HTTP+JSON"]
    assert {interface.protocol_version for interface in card.supported_interfaces} == {"1.0"}
    assert len(card.skills) == 5
    assert not card.capabilities.streaming


@pytest.mark.requirement("types-dealer-information")
@pytest.mark.requirement("base-url-of-card")
@both_bindings
def test_the_client_learns_who_the_dealer_is(service: Running, binding: str) -> None:
    message, _ = through_the_card(service.url, binding, "dealer.information")
    data = data_of(message, "dealer.information")
    assert data["name"] == "Acceptance Motors"
    assert [rooftop["name"] for rooftop in data["rooftops"]] == ["Acceptance Motors North", "Acceptance Motors South"]


@pytest.mark.requirement("types-inventory-facets")
@both_bindings
def test_the_client_counts_the_stock(service: Running, binding: str) -> None:
    message, _ = through_the_card(service.url, binding, "inventory.facets", filters={"condition": ["used", "cpo"]})
    data = data_of(message, "inventory.facets")
    assert {entry["value"]: entry["count"] for entry in data["makes"]} == {"Honda": 1, "Tesla": 1}


@pytest.mark.requirement("types-inventory-search")
@pytest.mark.requirement("whole-doubles")
@pytest.mark.requirement("integers-sent-plain")
@both_bindings
def test_the_client_searches_with_integers_that_travel_as_doubles(service: Running, binding: str) -> None:
    """A number with a zero fraction is an integer; what the service sends has no fraction."""
    message, wire = through_the_card(
        service.url,
        binding,
        "inventory.search",
        filters={"year_min": 2020, "price_max": 30000},
        pagination={"skip": 0, "limit": 5},
        sort={"field": "price", "order": "asc"},
        privacy={"anonymous": True},
    )
    data = data_of(message, "inventory.search")
    assert [vehicle["vin"] for vehicle in data["vehicles"]] == [HONDA_VIN]
    assert b"2020.0" in wire.sent[0].content
    assert '"limit":5,' in wire.got[0].text.replace(" ", "")
    assert "28040.0" not in wire.got[0].text


@pytest.mark.requirement("types-inventory-vehicle")
@both_bindings
def test_the_client_sees_one_vehicle(service: Running, binding: str) -> None:
    message, _ = through_the_card(service.url, binding, "inventory.vehicle", vin=HONDA_VIN, zip="22301")
    data = data_of(message, "inventory.vehicle")
    assert data["price"] == 28040
    assert data["rooftop"] == "Acceptance Motors North"
    assert data["zip"] == "22301"


APPOINTMENTS: dict[str, dict[str, Any]] = {
    "revision 0.1.0": {
        "requested_windows": [{"start": "2027-01-11T09:00:00", "end": "2027-01-11T11:00:00"}],
        "timezone": "America/Chicago",
    },
    "revision 1.0.0": {"appointment_at": "2027-01-11T15:00:00Z", "duration_minutes": 30},
}


@both_bindings
@pytest.mark.parametrize("when", APPOINTMENTS)
@pytest.mark.requirement("types-lead-submit")
@pytest.mark.requirement("lead-any-combination")
@pytest.mark.requirement("both-appointment-forms-everywhere")
@pytest.mark.requirement("appointment-reply")
def test_the_client_submits_a_lead(service: Running, binding: str, when: str) -> None:
    """With vehicle, trade-in and an appointment in the form of either revision."""
    members = lead(
        1000 + 10 * list(APPOINTMENTS).index(when) + BINDINGS.index(binding),
        vehicle_of_interest={"vin": HONDA_VIN, "year": 2024, "condition": "used"},
        trade_in={"year": 2017, "make": "Mazda", "model": "CX-5", "condition": "good", "mileage": 81200},
        appointment={"appointment_type": "test_drive"} | APPOINTMENTS[when],
    )
    message, _ = through_the_card(service.url, binding, "lead.submit", **members)
    data = data_of(message, "lead.submit")
    assert data["status"] == "received"
    assert data["lead_id"]
    assert data["appointment"]["appointment_id"]
    assert data["appointment"]["status"] == "requested"


REFUSED: dict[str, tuple[str, dict[str, Any], int, int, str]] = {
    "dealer.information": (
        "dealer.information",
        {"rooftop": "North"},
        422,
        -32602,
        "SCHEMA_VALIDATION_FAILED",
    ),
    "inventory.facets": (
        "inventory.facets",
        {"filters": {"condition": ["mint"]}},
        422,
        -32602,
        "SCHEMA_VALIDATION_FAILED",
    ),
    "inventory.search": (
        "inventory.search",
        {"filters": {"year_min": 2020.5}},
        422,
        -32602,
        "SCHEMA_VALIDATION_FAILED",
    ),
    "inventory.vehicle": ("inventory.vehicle", {"vin": "1HGCY2F57RA999999"}, 404, -32000, "VEHICLE_NOT_FOUND"),
    "lead.submit": (
        "lead.submit",
        {name: value for name, value in lead().items() if name != "consent"},
        403,
        -32000,
        "CONTACT_CONSENT_REQUIRED",
    ),
}


@pytest.mark.requirement("failure-is-not-2xx")
@pytest.mark.requirement("error-info-members")
@both_bindings
@pytest.mark.parametrize(("skill", "members", "status", "number", "code"), REFUSED.values(), ids=REFUSED)
def test_the_client_raises_the_error_of_a_refused_request(
    service: Running, binding: str, skill: str, members: dict[str, Any], status: int, number: int, code: str
) -> None:
    """The error has the form of the binding. `members` are those of the refused payload."""
    with pytest.raises(A2AError) as caught:
        through_the_card(service.url, binding, skill, **members)
    (raw,) = caught.value.wire.got  # type: ignore[attr-defined]
    if binding == "HTTP+JSON":
        assert raw.status_code == status
        assert error_payload(raw)["code"] == code
    else:
        assert raw.status_code == 200
        error = raw.json()["error"]
        assert error["code"] == number
        info, payload = error["data"]
        assert info["reason"] == payload["code"] == code


@pytest.mark.requirement("bearer-required")
@pytest.mark.requirement("card-security")
@both_bindings
def test_the_client_shows_the_token_that_the_card_asks_for(guarded: Guarded, binding: str) -> None:
    """The client reads the scheme from the card, and sends the token because of it."""
    message, wire = through_the_card(guarded.url, binding, "inventory.vehicle", token=guarded.token, vin=HONDA_VIN)
    assert data_of(message, "inventory.vehicle")["vin"] == HONDA_VIN
    assert wire.sent[0].headers["authorization"] == f"Bearer {guarded.token}"


@pytest.mark.requirement("token-missing")
@pytest.mark.requirement("token-invalid")
@pytest.mark.requirement("www-authenticate")
@pytest.mark.requirement("auth-required-on-every-card")
@both_bindings
@pytest.mark.parametrize("token", [None, "dat_01KE7AQ2N0V5X3J8R6T4Y9W1ZA_wrong"])
def test_the_client_is_refused_without_the_token(guarded: Guarded, binding: str, token: str | None) -> None:
    """401 with AUTH_REQUIRED and WWW-Authenticate, over JSON-RPC too."""
    with pytest.raises(A2AClientError) as caught:
        through_the_card(guarded.url, binding, "inventory.vehicle", token=token, vin=HONDA_VIN)
    (raw,) = caught.value.wire.got  # type: ignore[attr-defined]
    assert raw.status_code == 401
    assert raw.headers["www-authenticate"].startswith("Bearer")
    payload = error_payload(raw) if binding == "HTTP+JSON" else raw.json()["error"]["data"][1]
    assert payload["code"] == "AUTH_REQUIRED"


def test_a_token_opens_what_is_shut_without_one(guarded: Guarded) -> None:
    assert asked(guarded.url, "inventory.search", token=guarded.token)["total"] == 3
