"""Every card of a service, and what a client sends to the addresses on it."""

import json
from typing import Any, NamedTuple

from tests.acceptance.asking import THING, lead
from tests.acceptance.dealers import HONDA_VIN

from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS

BOTH = ("JSONRPC", "HTTP+JSON")
WELL_KNOWN = "/.well-known/agent-card.json"


class Card(NamedTuple):
    """A card at a path, with its bindings in their order.

    `vendor` is the name in the media types of the requests. `agent` is the `source_agent` of a lead. `headers` are sent
    with each request.
    """

    path: str
    bindings: tuple[str, ...] = BOTH
    vendor: str = "proto"
    agent: Any = "Example Agent"
    headers: dict[str, str] = {}  # noqa: RUF012 - it is not changed

    def media_type(self, skill: str, way: str) -> str:
        return f"application/vnd.{self.vendor}.{THING[skill]}-{way}+json"

    def payload(self, skill: str, **members: Any) -> dict[str, Any]:
        """A valid payload for this card, with other members if they are given."""
        sent = REQUESTS[skill] if skill != "lead.submit" else self._lead()
        return {"type": f"{skill}.request", **sent, **members}

    def _lead(self) -> dict[str, Any]:
        members = lead(vehicle_of_interest={"vin": HONDA_VIN}, source_agent=self.agent)
        if isinstance(self.agent, str):
            members["consent"]["source_agent"] = self.agent
        return members


REQUESTS: dict[str, dict[str, Any]] = {
    "dealer.information": {},
    "inventory.facets": {"filters": {"condition": ["used"]}},
    "inventory.search": {"filters": {"year_min": 2024, "price_max": 30000}, "pagination": {"limit": 5}},
    "inventory.vehicle": {"vin": HONDA_VIN},
}
SKILLS = (*REQUESTS, "lead.submit")

AGENT = {"name": "Example Agent"}
"""The form of `source_agent` from version 1.1 on."""
NEXT = PUBLISHED_VERSIONS["next"].extension_uri
SERVED = f"\n[published_versions]\nserved = {json.dumps([*PUBLISHED_VERSIONS])}\n"
"""The settings of a dealer that serves all these cards."""

CARDS = (
    Card(WELL_KNOWN),
    Card("/cards/1.0.0.json"),
    Card("/cards/0.1.0.json"),
    Card(f"/aap/1.0{WELL_KNOWN}", vendor="autoagent"),
    *(Card(f"/aap/{version}{WELL_KNOWN}", ("JSONRPC",), "autoagent", AGENT) for version in ("1.1", "1.2", "1.3")),
    Card(f"/aap/next{WELL_KNOWN}", ("JSONRPC",), "autoagent", AGENT, {"A2A-Extensions": NEXT}),
)
INTERFACES = [(card, binding) for card in CARDS for binding in card.bindings]
"""Each card with each of its bindings."""
