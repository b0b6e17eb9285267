"""Tool calls whose response is a stream: a host of an older revision, without the SDK."""

import json
import queue
from collections.abc import MutableMapping
from typing import Any

import anyio
from tests.server.dealership import Dealership
from tests.server.mcp_calls import HOST, JO, OLD, post

LEAD: dict[str, Any] = {"customer": JO, "message": "Is it there?"}
PATIENCE_SECONDS = 120.0
ELICITATION: dict[str, Any] = {"elicitation": {}}


def initialize(revision: str = OLD, capabilities: dict[str, Any] = ELICITATION) -> dict[str, Any]:
    """The first message of a host."""
    params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {"name": "Host", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def session_at(dealership: Dealership, revision: str = OLD, **more: Any) -> str:
    """The id of a new session."""
    opened = post(dealership, initialize(revision), **more)
    assert opened.status_code == 200, opened.text
    return str(opened.headers["mcp-session-id"])


def lead_call(arguments: dict[str, Any] = LEAD) -> dict[str, Any]:
    """The call of a tool that asks the person."""
    params = {"name": "lead_submit", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": "call-7", "method": "tools/call", "params": params}


def answer_to(question: dict[str, Any], action: str = "accept", **ticks: bool) -> dict[str, Any]:
    """The response of a host to a question."""
    result = {"action": action} | ({"content": ticks} if action == "accept" else {})
    return {"jsonrpc": "2.0", "id": question["id"], "result": result}


class Stream:
    """A request whose response is read while it is sent. `status` is None until the response begins."""

    def __init__(
        self,
        dealership: Dealership,
        session: str | None,
        body: dict[str, Any] | None = None,
        path: str = "/mcp",
        address: str = "198.51.100.7",
        **headers: str,
    ) -> None:
        sent = {**HOST, "accept": "application/json, text/event-stream", "mcp-protocol-version": OLD}
        sent |= {"content-type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
        sent |= {} if session is None else {"mcp-session-id": session}
        content = b"" if body is None else json.dumps(body).encode()
        scope: dict[str, Any] = {
            "type": "http", "http_version": "1.1", "method": "GET" if body is None else "POST", "scheme": "http",
            "path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"",
            "headers": [(name.encode(), text.encode()) for name, text in sent.items()],
            "client": (address, 40_000), "server": ("127.0.0.1", 8080), "state": {},
        }  # fmt: skip
        self.status: int | None = None
        self._events: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._dealership, self._text = dealership, ""
        self._gone = dealership.portal.call(anyio.Event)
        unread = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if unread:
                return unread.pop()
            await self._gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                return
            *events, self._text = (self._text + message["body"].decode()).split("\n\n")
            for event in events:
                self._events.put(event)
            if not message.get("more_body"):
                self._events.put(None)

        self.done = dealership.portal.start_task_soon(dealership.app, scope, receive, send)

    def event(self) -> tuple[str, dict[str, Any]]:
        """The next event with a message: its id and its message."""
        while True:
            event = self._events.get(timeout=PATIENCE_SECONDS)
            assert event is not None, f"the response ended: {self.status} {self._text}"
            fields = dict(line.partition(": ")[::2] for line in event.splitlines())
            if "data" in fields:
                return fields.get("id", ""), json.loads(fields["data"])

    def whole(self) -> dict[str, Any]:
        """The body of a response that is no stream."""
        self.done.result(PATIENCE_SECONDS)
        document: dict[str, Any] = json.loads(self._text)
        return document

    def leave(self) -> None:
        """Closes the connection, and waits until the service has noticed."""
        self._dealership.portal.call(self._gone.set)
        self.done.result(PATIENCE_SECONDS)
