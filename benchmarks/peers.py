"""What the service is measured beside: a static reply on the same server, and the official SDK's server.

Run by path with uvicorn's factory form; the environment says what to serve.
"""

import json
import os
from pathlib import Path
from typing import Any

from a2a.helpers.proto_helpers import new_data_part, new_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_rest_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

REPLY_FILE = "BENCH_REPLY"
STOCK_FILE = "BENCH_STOCK"


def static() -> Any:
    """Reads the request and sends the same bytes to everybody: what the server alone can do."""
    body = Path(os.environ[REPLY_FILE]).read_bytes()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


class _Searching(AgentExecutor):
    """The same two skills over the same listings, as a straightforward user of the SDK would write them."""

    def __init__(self, stock: list[dict[str, Any]]) -> None:
        self._stock = sorted((unit for unit in stock if "price" in unit), key=lambda unit: unit["price"])
        self._by_vin = {unit["vin"]: unit for unit in stock}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        request = MessageToDict(context.message.parts[0].data)
        if request["type"] == "inventory.vehicle.request":
            data = self._by_vin[request["vin"]]
        else:
            filters = request["filters"]
            found = [
                unit
                for unit in self._stock
                if unit["condition"] in filters["condition"] and unit["price"] <= filters["price_max"]
            ]
            data = {"total": len(found), "skip": 0, "limit": 20, "vehicles": found[:20]}
        part = new_data_part({"type": request["type"].replace("request", "response"), "data": data})
        await event_queue.enqueue_event(new_message([part]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def sdk() -> Any:
    """The official SDK's server with the same stock."""
    card = AgentCard(
        name="peer",
        description="peer",
        version="1",
        capabilities=AgentCapabilities(),
        supported_interfaces=[AgentInterface(url="http://localhost", protocol_binding="HTTP+JSON")],
    )
    stock = json.loads(Path(os.environ[STOCK_FILE]).read_bytes())
    handler = DefaultRequestHandler(_Searching(stock), InMemoryTaskStore(), card)
    return Starlette(routes=create_rest_routes(handler))
