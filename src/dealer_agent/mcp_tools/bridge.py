"""The tools of any dealer agent over stdio: each tool call becomes a request of the client library."""

from typing import Any

from mcp.server.request_state import RequestStateSecurity
from mcp.server.stdio import stdio_server

from dealer_agent import __version__
from dealer_agent.client import DealerAgent, errors
from dealer_agent.client.leads import fitting_lead
from dealer_agent.mcp_tools.consent import ConsentTerms
from dealer_agent.mcp_tools.tool_server import STATE_SECONDS, ToolServer
from dealer_agent.mcp_tools.words import SkillData, SkillError
from dealer_agent.protocol.skill import Skill


async def serve_stdio(agent: DealerAgent, terms: ConsentTerms) -> None:
    """Answers one MCP host on stdin and stdout, until it closes stdin."""

    async def ask(_: Any, skill: Skill, payload: dict[str, Any]) -> SkillData | SkillError:
        members = {name: value for name, value in payload.items() if name != "type"}
        if "consent" in members:
            members = fitting_lead(members, agent.card)
        try:
            reply = await agent.ask(skill, members)
        except errors.Refused as refused:
            return SkillError(refused.code, refused.message, refused.details)
        except errors.DealerAgentError as failure:
            return _failure(skill, failure)
        return SkillData(reply.data, reply.message)

    tools = ToolServer("dealer-agent", __version__, terms, agent.card.skills, ask)
    server = tools.server(RequestStateSecurity.ephemeral(ttl=STATE_SECONDS))
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _failure(skill: Skill, failure: errors.DealerAgentError) -> SkillError:
    """No answer, or one that breaks the protocol."""
    words = str(failure)
    if skill.is_lead and failure.may_have_arrived:
        words += (
            " It is not known whether the dealer has the lead. Do not send it again; the person can ask the dealer."
        )
    return SkillError("NO_ANSWER", words)
