"""The client library for developers of buyer agents (docs/how-to/client-library.md)::

async with DealerAgent.discover("https://dealer.example") as agent:
    page = await agent.search(make=["Honda"], price_max=30000)

`SyncDealerAgent` is for programs without an event loop.
"""

from dealer_agent.client import arguments, errors, results
from dealer_agent.client.agent import DealerAgent
from dealer_agent.client.card import Card
from dealer_agent.client.errors import DealerAgentError
from dealer_agent.client.quotes import verify_quote
from dealer_agent.client.responses import SignedQuote, SkillResponse, SubmittedLead
from dealer_agent.client.signing import Signer
from dealer_agent.client.sync_agent import SyncDealerAgent
from dealer_agent.client.transport import HttpExchange, Retries

__all__ = [
    "Card",
    "DealerAgent",
    "DealerAgentError",
    "HttpExchange",
    "Retries",
    "SignedQuote",
    "Signer",
    "SkillResponse",
    "SubmittedLead",
    "SyncDealerAgent",
    "arguments",
    "errors",
    "results",
    "verify_quote",
]
