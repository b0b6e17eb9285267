"""How a dealer asks a person for consent before a tool sends a lead (docs/how-to/mcp.md#consent). Pure."""

from collections.abc import Mapping
from typing import Any

from dealer_agent.leads.consent import CHANNELS
from dealer_agent.mcp_tools.consent import ConsentTerms, one_line
from dealer_agent.protocol.published_versions import SCOPE

LONGEST_NAME = 100
"""Characters of a dealer's name in texts for a model."""


def consent_terms(about: Mapping[str, Any], text: str, page: str) -> ConsentTerms:
    """How a dealer asks. `about` is the `data` of dealer.information. `page` is a URL that a person can open."""
    # A foreign dealer agent may send any name. Models read it.
    dealer = one_line(about["name"], LONGEST_NAME)
    ways = [f"call {each['value']}" for each in _contacts(about, "phones")[:1]]
    ways += [f"write to {each['value']}" for each in _contacts(about, "emails")[:1]]
    ways.append(f"open {next((each['website'] for each in about['rooftops'] if 'website' in each), page)}")
    return ConsentTerms(
        dealer=dealer,
        text=text,
        channels={channel: words.label for channel, words in CHANNELS.items()},
        scope=SCOPE,
        other_ways=f"The person can reach {dealer} directly: {', or '.join(ways)}.",
    )


def _contacts(about: Mapping[str, Any], kind: str) -> list[Mapping[str, str]]:
    """The phone numbers or e-mail addresses of all rooftops; those of the sales department come first."""
    found = [each for rooftop in about["rooftops"] for each in rooftop.get(kind, ())]
    return sorted(found, key=lambda each: each["name"] != "sales")
