"""The form of a lead in each version of the protocol, and the answer to a lead. Pure."""

from typing import Any, Self

import msgspec

from dealer_agent.client.card import Card
from dealer_agent.protocol.skill import LeadReceipt


class SubmittedLead(LeadReceipt, frozen=True, kw_only=True):
    """What became of the lead, the dealer's sentence for the customer, and the key under which it was sent."""

    message: str | None = None
    idempotency_key: str = ""

    def sent_with(self, message: str | None, key: str) -> Self:
        """The same answer with what is not in its data."""
        return msgspec.structs.replace(self, message=message, idempotency_key=key)


def fitting_lead(members: dict[str, Any], card: Card) -> dict[str, Any]:
    """The members of a lead in the form of the card's version.

    From 1.1 on, `source_agent` is an object, and consent has none. In 1.0 and 0.1 both are the agent's name.
    """
    agent, consent = members["source_agent"], members["consent"]
    if card.source_agent_is_object:
        agent = agent if isinstance(agent, dict) else {"name": agent}
        consent = {name: value for name, value in consent.items() if name != "source_agent"}
    else:
        agent = agent.get("name", "") if isinstance(agent, dict) else agent
        consent = {"source_agent": agent, **consent}
    return {**members, "source_agent": agent, "consent": consent}
