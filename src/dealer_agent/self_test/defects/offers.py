"""Defects for the checks of the offers extension: dealers that quote wrongly, or answer what they should refuse."""

from dealer_agent.self_test.defect import Agent, AgentResponse, Breaking, Call, Change, broken
from dealer_agent.self_test.reading import STOCK, anything, changes, reads

PRICED = next(row["vin"] for row in STOCK if row["status"] == "available" and row["price"])


def _quote(change: Change) -> Breaking:
    """Changes each quote."""
    return changes("offer.quote", anything, change)


def _refuses_as(skill: str, code: str) -> Breaking:
    """Refuses a skill with another code."""

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        honest = await agent(call)
        return honest.with_error_payload(lambda error: error.update(code=code)) if call.skill == skill else honest

    return answer


broken("offers.quote-members")(_quote(lambda quote: quote.pop("terms")))
broken("offers.quote-lines")(_quote(lambda quote: quote["lines"][0].pop("payee")))
broken("offers.quote-sum")(_quote(lambda quote: quote.update(total=quote["total"] + 1)))
broken("offers.quote-price")(_quote(lambda quote: quote.update(price=quote["price"] + 1)))
broken("offers.quote-valid")(_quote(lambda quote: quote.update(valid_until="2099-01-01T00:00:00Z")))
broken("offers.quote-complete")(_quote(lambda quote: quote.update(complete=not quote["complete"])))
broken("offers.quote-signature")(_quote(lambda quote: quote.update(terms="Other terms.")))
broken("offers.hold-anonymous")(_refuses_as("offer.hold", "VEHICLE_NOT_FOUND"))
broken("offers.lead-unknown")(_refuses_as("lead.status", "VEHICLE_NOT_FOUND"))
broken("offers.changes-whole")(changes("inventory.changes", anything, lambda page: page["changes"].pop()))
broken("offers.changes-cursor")(
    reads("inventory.changes", lambda asked: asked.get("cursor") == "not-a-cursor", lambda _: {})
)
broken("offers.quote-unknown")(
    reads("offer.quote", lambda asked: str(asked.get("vin")).endswith("X"), lambda _: {"vin": PRICED})
)
broken("offers.buyer-ref")(
    reads("offer.quote", lambda asked: "buyer_ref" in asked, lambda asked: {"vin": asked["vin"]})
)
