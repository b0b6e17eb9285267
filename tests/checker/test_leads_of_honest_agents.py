"""The checks that submit leads: none fails on an honest dealer, and a run submits few leads that are stored."""

import re
from pathlib import Path

import pytest
from tests.checker.agents import HonestAgent, check_agent, running
from tests.checker.test_honest_agents import MINIMAL, ONE_UNIT, bad, outcomes
from tests.server.dealership import LISTENS_AT

from dealer_agent.checker.checks import lead_defects
from dealer_agent.checker.runner import Options
from dealer_agent.self_test.dealer import make_dealer
from dealer_agent.self_test.defect import Agent, AgentResponse, Call
from dealer_agent.self_test.defects.promises import OTHER_ROOFTOP

pytestmark = pytest.mark.outside_protocol("checker")

SUBJECTS = ("leads", "consent", "idempotency", "appointments")
WITH_LEADS = Options(only=SUBJECTS, leads=True, rate=1e9)
PHONE = "+12025550123"
"""The example of a phone number in an error message of the dealer."""
MOST_ACCEPTED = 10
"""Leads that one card's checks may have accepted. Dealers allow as many in a minute by default."""


def test_every_run_is_like_the_first(honest: HonestAgent) -> None:
    options = Options(only=SUBJECTS, leads=True, rate=1e9, revisions={"1.0.0"})
    for _ in range(11):
        assert outcomes(check_agent(honest, options)).keys() == {"pass"}


@pytest.mark.parametrize(
    ("dealer", "feed"),
    [
        pytest.param(MINIMAL, ONE_UNIT, id="no hours, no visits and no VIN"),
        pytest.param(None, None, id="empty stock"),
    ],
)
def test_no_check_fails_on_a_dealer_with_less(dealer: str | None, feed: bytes | None, tmp_path: Path) -> None:
    make_dealer(tmp_path / "dealer", dealer=dealer, feed=feed)
    with running(tmp_path / "dealer") as agent:
        verdicts = check_agent(agent, WITH_LEADS)
    assert bad(verdicts) == {}
    assert outcomes(verdicts)["pass"] > 100


def test_no_check_fails_on_a_dealer_that_asks_for_tokens(asking_for_tokens: HonestAgent) -> None:
    options = Options(only=SUBJECTS, leads=True, rate=1e9, token=asking_for_tokens.token, revisions={"0.1.0", "1.0.0"})
    assert bad(check_agent(asking_for_tokens, options)) == {}


def test_the_checks_of_a_card_have_few_leads_accepted(honest: HonestAgent) -> None:
    accepted: list[Call] = []

    async def counting(call: Call, agent: Agent) -> AgentResponse:
        answer = await agent(call)
        if call.skill == "lead.submit" and answer.data is not None:
            accepted.append(call)
        return answer

    check_agent(honest, WITH_LEADS, counting, LISTENS_AT + "/.well-known/agent-card.json")
    # A retry at the other interface has the key of its lead, so it is not stored again.
    different = {call.payload.get("idempotency_key") or call.body for call in accepted}
    assert 5 <= len(different) <= MOST_ACCEPTED
    customers = [call.payload["customer"] for call in accepted]
    assert {each["last_name"] for each in customers} == {"Lead (dealer-agent check)"}
    assert all(re.fullmatch(r"test-lead-[a-z]{8}@example\.com", each["email"]) for each in customers)
    assert all(re.fullmatch(r"\+1[0-9]{3}55501[0-9]{2}", each["phone"]) for each in customers)


def test_an_example_of_a_phone_number_in_a_refusal_is_no_customer_that_is_told_to_others(
    honest: HonestAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    customer_of = lead_defects.customer_of
    monkeypatch.setattr(lead_defects, "customer_of", lambda *of: customer_of(*of) | {"phone": PHONE})
    verdicts = check_agent(honest, Options(only=("leads",), leads=True, rate=1e9, revisions={"1.0.0"}))
    assert {each.outcome for each in verdicts if each.requirement.id == "leads.not-told-to-others"} == {"pass"}


def test_a_dealer_that_refuses_a_lead_with_a_vehicle_may_name_another_rooftop_for_one_without(
    honest: HonestAgent,
) -> None:
    rooftops: dict[str, str] = {}
    named: list[str] = []

    async def refusing(call: Call, agent: Agent) -> AgentResponse:
        if call.skill == "lead.submit" and "vehicle_of_interest" in call.payload:
            named.append(OTHER_ROOFTOP[rooftops[call.payload["vehicle_of_interest"]["vin"]]])
            return await agent(call.with_payload(lambda payload: payload.pop("customer")))
        answer = await agent(call)
        if call.skill == "lead.submit":
            return answer.with_data(lambda data: data.update(dealer={"name": named[-1]}))
        if call.skill == "inventory.search":
            rooftops.update({each["vin"]: each["rooftop"] for each in answer.data["vehicles"] if "vin" in each})
        return answer

    options = Options(only=("leads.reply-dealer-known",), leads=True, rate=1e9, revisions={"1.0.0"})
    assert outcomes(check_agent(honest, options, refusing)).keys() == {"pass"}
    assert named
