"""Defects for the checks of signed requests: agents that verify signatures wrongly, or refuse what they must accept."""

from dealer_agent.self_test.changing import When, answers, calls, with_status
from dealer_agent.self_test.defect import Agent, AgentResponse, Call, broken

SIGNATURE = ("signature-input", "signature", "signature-agent", "content-digest")


def is_lead(call: Call) -> bool:
    """Requests of lead.submit."""
    return call.skill == "lead.submit"


def is_no_lead(call: Call) -> bool:
    """Requests of the other skills."""
    return not is_lead(call)


def ignores(requirement_id: str, reason: str, when: When = is_no_lead, *, signed: bool = False) -> None:
    """An agent that answers requests as if they had no signature, where a conforming one refuses it for this reason."""

    @broken(requirement_id, signed=signed)
    async def answer(call: Call, agent: Agent) -> AgentResponse:
        honest = await agent(call)
        details = (honest.error_payload or {}).get("details") or {}
        return await agent(_unsigned(call)) if details.get("reason") == reason and when(call) else honest


def _unsigned(call: Call) -> Call:
    """The request without its signature."""
    for name in SIGNATURE:
        call = call.with_header(name, None)
    return call


def of_agent(host: str) -> When:
    """Requests that name the key directory of this host."""
    return lambda call: host in (call.header("signature-agent") or "")


def is_unreadable(call: Call) -> bool:
    """Requests whose signature-input is malformed."""
    return "((" in (call.header("signature-input") or "")


def refuse(call: Call) -> Call:
    """A conforming agent refuses it."""
    return call.with_header("signature-input", '("web-bot-auth"')


answers("signed.failure", with_status(500), is_unreadable)
ignores("signed.malformed", "malformed")
ignores("signed.expired", "expired")
ignores("signed.early", "too_early")
ignores("signed.authority", "not_covered")
calls("signed.stranger", refuse, of_agent("agent.invalid"))
calls("signed.answered", refuse, of_agent("checker.invalid"), signed=True)
ignores("signed.wrong", "wrong_signature", signed=True)
ignores("signed.body", "wrong_digest", signed=True)
ignores("signed.replayed", "replayed", signed=True)
ignores("signed.lead-body", "wrong_digest", is_lead, signed=True)
ignores("signed.lead-digest", "not_covered", is_lead, signed=True)
