"""The server of the official SDK with an agent that does nothing: the cost of the SDK itself.

    python -m uvicorn --factory benchmarks.peers.sdk_constant:app

`PUT /reply` sets the response: the message in a reply of `POST /message:send`. It is prepared once.
"""

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.types import Message, SendMessageResponse
from google.protobuf.json_format import Parse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.peers.sdk_agent import agent_routes


class Constant(AgentExecutor):
    """Sends one message to every caller."""

    message = Message()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:  # noqa: ARG002 - A2A's shape.
        """A2A."""
        await event_queue.enqueue_event(self.message)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """It has no tasks."""
        raise NotImplementedError


def app() -> Starlette:
    """The server."""
    agent = Constant()

    async def put_reply(request: Request) -> Response:
        agent.message = Parse(await request.body(), SendMessageResponse()).message
        return Response()

    return Starlette(routes=[Route("/reply", put_reply, methods=["PUT"]), *agent_routes(agent)])
