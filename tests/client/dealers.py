"""Invented dealers for the tests of the client: their cards, and applications that answer as a test says."""

from collections.abc import Callable
from typing import Any

import msgspec

from dealer_agent.client import DealerAgent, Retries, arguments
from dealer_agent.client.transport import Transport
from dealer_agent.protocol.card import CardFacts, card_0_1_0, card_1_0_0
from dealer_agent.protocol.skill import SKILLS
from dealer_agent.protocol.vocabulary import proto, vocabularies_of


def impatient(agent: DealerAgent, timeout: float) -> DealerAgent:
    """A second client of the same dealer. Its own requests have this timeout, and the request for the card had not."""
    pool = Transport(
        None, token=None, token_origins=None, headers={}, user_agent=None, timeout=timeout, on_exchange=None
    )
    return DealerAgent(agent.card, pool, Retries(most=0))


CUSTOMER: arguments.Customer = {"first_name": "Robin", "last_name": "Example", "email": "robin@example.com"}
CONSENT: arguments.Consent = {
    "granted_at": "2026-11-20T15:00:00Z",
    "allowed_channels": ["email"],
    "consent_text": "Share my details with this dealer.",
    "scope": ["lead_submission"],
}
LEAD: dict[str, Any] = {"customer": CUSTOMER, "consent": CONSENT, "source_agent": "Test Agent"}

RECEIPT = {"lead_id": "01KE7AQQ3R5T7V9X2Z4B6D8F1H", "status": "received"}
VEHICLE = {
    "vehicle_id": "veh_1",
    "status": "available",
    "rooftop": "Test Motors",
    "updated_at": "2026-11-20T15:00:00Z",
    "price": 20000,
}
PAGE = {"total": 1, "skip": 0, "limit": 20, "vehicles": [VEHICLE]}
INFORMATION = {"name": "Test Motors", "rooftops": [{"name": "Test Motors"}]}


def card(url: str, *, vocabulary: str = "proto", revision: str = "1.0.0", **changes: Any) -> dict[str, Any]:
    """The card that the service makes, with other members in their place."""
    facts = CardFacts(
        name="Test Motors",
        description="Cars",
        version="1",
        organization="Test Motors",
        website="https://example.com",
        http_json_url=url,
        json_rpc_url=f"{url}/rpc",
        schemas_url=f"{url}/schemas",
        documentation_url=f"{url}/docs",
        skills=SKILLS,
        bearer_skills=frozenset(),
    )
    make = card_1_0_0 if revision == "1.0.0" else card_0_1_0
    return make(facts, vocabularies_of(vocabulary, proto())) | changes


def interfaces(*urls: str, binding: str = "JSONRPC", version: str = "1.0") -> list[dict[str, str]]:
    """The member `supportedInterfaces` of a card."""
    return [{"url": url, "protocolBinding": binding, "protocolVersion": version} for url in urls]


def result(call: bytes, data: object, message: str | None = None) -> dict[str, Any]:
    """A response with this data to a request of either binding, in the form of the service."""
    plain = msgspec.json.decode(call)
    request = plain.get("params", plain)
    (part,) = request["message"]["parts"]
    payload = {"type": part["data"]["type"].replace(".request", ".response"), "data": data}
    if message is not None:
        payload["message"] = message
    answer = {
        "message": {
            "messageId": "reply-1",
            "role": "ROLE_AGENT",
            "parts": [{"data": payload, "mediaType": part["mediaType"].replace("-request", "-response")}],
        }
    }
    return {"jsonrpc": "2.0", "id": plain["id"], "result": answer} if "jsonrpc" in plain else answer


def members_of(call: bytes) -> dict[str, Any]:
    """The members of the payload of a request of either binding."""
    plain = msgspec.json.decode(call)
    members: dict[str, Any] = plain.get("params", plain)["message"]["parts"][0]["data"]
    return members


Respond = Callable[[bytes], tuple[int, object, dict[str, str]]]


def application(document: object, respond: Respond) -> Any:
    """An ASGI application with a card at the well-known place, and with the response of `respond` to each POST."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            event = await receive()
            body += event.get("body", b"")
            more = event.get("more_body", False)
        if scope["method"] == "GET":
            is_card = scope["path"].endswith("agent-card.json")
            reply: tuple[int, object, dict[str, str]] = ((200 if is_card else 404), document, {})
        else:
            reply = respond(body)
        status, content, headers = reply
        payload = content if isinstance(content, bytes) else msgspec.json.encode(content)
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": payload})

    return app
