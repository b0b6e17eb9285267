"""The HTTP+JSON routes of the official SDK around an agent, as its documentation shows."""

import os

from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.routing import BaseRoute

URL = "PEER_URL"
"""The variable with the address that the card names."""

SKILLS = ("dealer.information", "inventory.facets", "inventory.search", "inventory.vehicle", "lead.submit")


def agent_routes(agent: AgentExecutor) -> list[BaseRoute]:
    """The routes of an agent that responds with messages."""
    card = AgentCard(
        name="Peer",
        description="A dealer agent on the official SDK",
        version="1",
        capabilities=AgentCapabilities(),
        default_input_modes=["application/json"],
        default_output_modes=["application/json"],
        skills=[AgentSkill(id=skill, name=skill, description=skill, tags=["dealer"]) for skill in SKILLS],
        supported_interfaces=[
            AgentInterface(
                url=os.environ.get(URL, "http://127.0.0.1"), protocol_binding="HTTP+JSON", protocol_version="1.0"
            )
        ],
    )
    handler = DefaultRequestHandler(agent, InMemoryTaskStore(), card)
    return [*create_agent_card_routes(card), *create_rest_routes(handler)]
