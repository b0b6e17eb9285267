"""The skills of a dealer agent as `dealer-agent mcp` reaches them: through the client library, by any card."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.server.dealership import ACCORD, LISTENS_AT, Dealership
from tests.server.mcp_calls import JO

from dealer_agent.client import DealerAgent
from dealer_agent.mcp_tools.bridge import skills_of
from dealer_agent.mcp_tools.tools import TOOLS
from dealer_agent.mcp_tools.words import SkillData, SkillError, error_text
from dealer_agent.protocol.skill import INVENTORY_SEARCH, INVENTORY_VEHICLE, LEAD_SUBMIT, Skill

pytestmark = pytest.mark.outside_protocol("MCP")

CARDS = pytest.mark.parametrize("card", ["", "/cards/0.1.0.json", "/aap/1.0", "/aap/1.1", "/aap/1.2", "/aap/1.3"])
Asked = SkillData | SkillError


def asked(dealership: Dealership, card: str, skill: Skill, payload: dict[str, Any]) -> Asked:
    """What a dealer agent answers whose card is at this path."""

    async def ask() -> Asked:
        async with DealerAgent.discover(LISTENS_AT + card, app=dealership.app) as agent:
            return await skills_of(agent)(None, skill, {"type": skill.request_type, **payload})

    call: Callable[[], Awaitable[Asked]] = ask
    return dealership.portal.call(call)


@CARDS
def test_every_reading_skill_answers(dealership: Dealership, card: str) -> None:
    for tool in TOOLS[:4]:
        payload = {"vin": ACCORD} if tool.skill is INVENTORY_VEHICLE else {}
        assert isinstance(asked(dealership, card, tool.skill, payload), SkillData)


@CARDS
def test_every_problem_of_an_error_has_its_pointer(dealership: Dealership, card: str) -> None:
    wrong = asked(dealership, card, INVENTORY_SEARCH, {"filters": {"mak": ["Honda"], "price_max": "cheap"}})
    assert isinstance(wrong, SkillError)
    words = error_text(wrong)
    assert "\n- /filters/mak: is not known here; did you mean make?" in words
    assert "\n- /filters/price_max: must be an integer" in words


@CARDS
def test_a_lead_has_the_form_of_the_version(dealership: Dealership, card: str) -> None:
    lead = {"customer": JO, "source_agent": "Host (MCP)"}
    unasked = asked(dealership, card, LEAD_SUBMIT, lead | {"customer": {"first_name": "Jo"}})
    assert isinstance(unasked, SkillError)
    assert [error["instancePath"] for error in unasked.details["errors"]] == ["/customer/email", "/customer/last_name"]
    consent = {
        "granted_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "allowed_channels": ["email"],
        "consent_text": "Call me.",
        "scope": ["lead_submission"],
        "source_agent": "Host (MCP)",
    }
    sent = asked(dealership, card, LEAD_SUBMIT, lead | {"consent": consent, "idempotency_key": f"bridge{card}"})
    assert isinstance(sent, SkillData), sent
    assert sent.data["status"] in ("received", "duplicate")
