"""Where agents find a dealer's cards: well-known paths (RFC 8615) below its root, and the type of a card. Pure."""

CARD_PATH = "/.well-known/agent-card.json"
CATALOG_PATH = "/.well-known/ai-catalog.json"
ARD_PATH = "/.well-known/ard.json"
"""The AI Catalog again, under the name of Agentic Resource Discovery."""
CARD_TYPE = "application/a2a-agent-card+json"
"""The media type of an agent card in a catalog."""
