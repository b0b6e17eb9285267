"""The tools of any dealer agent over stdio: each tool call becomes a request of the client library."""

from typing import Any

from mcp.server.request_state import RequestStateSecurity
from mcp.server.stdio import stdio_server

from dealer_agent import __version__
from dealer_agent.client import DealerAgent, errors
from dealer_agent.client.responses import fitting_lead
from dealer_agent.mcp_tools.consent import ANSWER_SECONDS, ConsentTerms
from dealer_agent.mcp_tools.tool_server import AskSkill, ToolServer
from dealer_agent.mcp_tools.words import SkillData, SkillError
from dealer_agent.protocol.skill import Skill


async def serve_stdio(agent: DealerAgent, terms: ConsentTerms) -> None:
    """Answers one MCP host on stdin and stdout, until it closes stdin."""
    tools = ToolServer("dealer-agent", __version__, terms, agent.card.skills, skills_of(agent))
    server = tools.server(RequestStateSecurity.ephemeral(ttl=ANSWER_SECONDS))
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def skills_of(agent: DealerAgent) -> AskSkill:
    """The skills of a dealer agent, for a server of tools."""

    async def ask(_: Any, skill: Skill, payload: dict[str, Any]) -> SkillData | SkillError:
        """Sends the payload to the dealer agent, in the form of its version.

        Errors are results, so that the tool can say them.
        """
        members = {name: value for name, value in payload.items() if name != "type"}
        if skill.is_lead:
            members = _in_form_of_version(members, agent)
        try:
            response = await agent.ask(skill, members)
        except errors.Refused as refused:
            return _error_of(refused)
        except errors.DealerAgentError as failure:
            return _failure(skill, failure)
        return SkillData(response.data, response.message)

    return ask


def _in_form_of_version(lead: dict[str, Any], agent: DealerAgent) -> dict[str, Any]:
    """A lead in the form of the dealer's version.

    The server of tools asks nobody for consent to an invalid lead, so that the dealer explains what is wrong with it.
    `fitting_lead` changes the consent and needs one: an empty one is added for it, and removed again.
    """
    if "consent" in lead:
        return fitting_lead(lead, agent.card)
    fitted = fitting_lead({"consent": {}} | lead, agent.card)
    del fitted["consent"]
    return fitted


def _error_of(refused: errors.Refused) -> SkillError:
    """The problems of an error have other names in some versions. The client library knows them."""
    problems = [{"instancePath": problem.pointer, "message": problem.message} for problem in refused.problems]
    return SkillError(refused.code, refused.message, {**refused.details, "errors": problems})


def _failure(skill: Skill, failure: errors.DealerAgentError) -> SkillError:
    """No answer, or one that breaks the protocol."""
    words = str(failure)
    if skill.is_lead and failure.may_have_arrived:
        words += (
            " It is not known whether the dealer has the lead. Do not send it again; the person can ask the dealer."
        )
    return SkillError("NO_ANSWER", words)
