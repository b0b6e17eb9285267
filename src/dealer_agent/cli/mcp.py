"""`dealer-agent mcp`: a dealer agent as an MCP server on stdin and stdout."""

from typing import Annotated

import typer

from dealer_agent.cli.signer_options import AsOption, SignOption, read_signer
from dealer_agent.client.signing import Signer

LONGEST_CONSENT_TEXT = 4000
"""Characters of a text on a card. A longer one is not used."""


def mcp(
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of a dealer agent, or of its agent card.")],
    token: Annotated[
        str | None,
        typer.Option(envvar="DEALER_AGENT_TOKEN", help="The bearer token, if the dealer requires one."),
    ] = None,
    sign: SignOption = None,
    origin: AsOption = None,
) -> None:
    """Give an AI assistant the tools of a dealer agent, over stdio.

    Put this command into the settings of an MCP host, such as a desktop assistant. It works with any dealer agent. A
    lead is sent only after the host has shown the dealer's consent text to the person.
    """
    # Imported here: `--help` does not need them.
    import asyncio

    asyncio.run(_serve(url, token, read_signer(sign, origin)))


async def _serve(url: str, token: str | None, signer: Signer | None) -> None:
    """Finds the dealer agent at a URL, and answers an MCP host on stdin and stdout with its skills as tools."""
    import msgspec

    from dealer_agent.client import DealerAgent
    from dealer_agent.client.errors import Refused
    from dealer_agent.leads.consent import consent_terms
    from dealer_agent.mcp_tools.bridge import serve_stdio
    from dealer_agent.mcp_tools.consent import CONSENT_TEXT, consent_text

    async with DealerAgent.discover(url, token=token, signer=signer, user_agent="dealer-agent mcp") as agent:
        try:
            about = msgspec.to_builtins(await agent.information())
        except Refused:
            # The dealer wants a token, or does not offer this skill. The card has its name.
            about = {"name": agent.card.name, "rooftops": []}
        text = _published_text(agent.card.document) or consent_text(CONSENT_TEXT, about["name"])
        await serve_stdio(agent, consent_terms(about, text, url))


def _published_text(card: dict[str, object]) -> str | None:
    """The dealer's own consent text in the `params` of an extension of the card."""
    match card:
        case {"capabilities": {"extensions": [*extensions]}}:
            for extension in extensions:
                match extension:
                    case {"params": {"consent_text": str(text)}} if text.strip() and len(text) <= LONGEST_CONSENT_TEXT:
                        return text
    return None
