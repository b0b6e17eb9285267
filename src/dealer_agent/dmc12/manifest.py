"""The manifest at `/.well-known/ucp`: what of DMC-12 a dealer offers, and where. Pure.

UCP, the Universal Commerce Protocol, is for shops of any kind: an agent reads the manifest of a shop first, and learns
its services, their addresses and their capabilities. DMC-12 is an extension of UCP for car dealers, so a dealer of
DMC-12 is found in the same way. `capabilities` lists what of DMC-12 this dealer offers.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from dealer_agent.dmc12.tools import (
    DEAL_HANDOFF,
    LIST_STORES,
    PRICING_DISCLOSURE,
    REQUEST_QUOTE,
    RESERVATION_STATUS,
    SEARCH_INVENTORY,
    Dmc12Tool,
)
from dealer_agent.protocol.well_known import CARD_PATH

Json = dict[str, Any]

VERSION: Final = "0.6.0"
"""The version of DMC-12."""
_UCP_VERSION: Final = "2026-01-11"
_SITE: Final = "https://dmc12.ai"
_CAPABILITIES: Final = (
    ("inventory", "0.2.0", "inventory.json", SEARCH_INVENTORY),
    ("stores", "0.1.0", "stores.json", LIST_STORES),
    ("pricing_disclosure", "0.1.0", "pricing_disclosure.json", PRICING_DISCLOSURE),
    ("quote", "0.4.0", "quote.json", REQUEST_QUOTE),
    ("reservation", "0.1.0", "reservation.json", RESERVATION_STATUS),
    ("deal_handoff", "0.1.2", "deal-handoff.json", DEAL_HANDOFF),
    ("errors", "0.1.0", "error.json", SEARCH_INVENTORY),
)
"""Each capability, its version, its schema, and the tool without which it is not offered."""


class ManifestDealer(NamedTuple):
    """What a manifest says of a dealer. `root` is the URL of the service; times are in seconds."""

    name: str
    root: str
    website: str
    email: str | None
    stores: Sequence[Json]
    stock_seconds: int
    quote_seconds: int
    hold_seconds: int


def manifest(dealer: ManifestDealer, mcp_path: str, a2a_path: str, tools: Sequence[Dmc12Tool]) -> Json:
    """The manifest of a dealer with these tools."""
    rails = {"mcp": {"endpoint": dealer.root + mcp_path}, "a2a": {"endpoint": dealer.root + a2a_path}}
    card = {"a2a": rails["a2a"] | {"agent_card": dealer.root + CARD_PATH}}
    return {
        "ucp": {
            "version": _UCP_VERSION,
            "services": {
                "dev.ucp.shopping": {
                    "version": _UCP_VERSION,
                    "spec": "https://ucp.dev/specs/shopping",
                    **rails,
                    **card,
                },
                "ai.dmc12.automotive": {"version": VERSION, "spec": _SITE, **rails},
            },
            "capabilities": [
                {
                    "name": f"ai.dmc12.automotive.{name}",
                    "version": version,
                    "schema": f"{_SITE}/schemas/{schema}",
                }
                for name, version, schema, tool in _CAPABILITIES
                if tool in tools
            ],
        },
        "merchant": {
            "name": dealer.name,
            "locations": [
                {
                    "store_code": store["store_code"],
                    "display_name": store["name"],
                    "address": store["address"],
                    "website": store["website"],
                }
                for store in dealer.stores
            ],
            "contact": {"website": dealer.website, **({"support_email": dealer.email} if dealer.email else {})},
            "inventory_accuracy": {
                "freshness_sla_seconds": dealer.stock_seconds,
                "source": f"the dealer's inventory feeds, read by the service at {urlsplit(dealer.root).netloc}",
            },
        },
        "payment": {"handlers": []},
        "policies": {
            "negotiation": "not offered: the price is the dealer's price",
            "quote_ttl_seconds": dealer.quote_seconds,
            "reservation_ttl_seconds": dealer.hold_seconds,
            "pii": "only in initiate_deal_handoff, with the customer's consent",
        },
    }
