"""Calls of `/mcp` as JSON-RPC, without the SDK: also those that no SDK sends."""

from typing import Any

import httpx
from tests.server.dealership import Dealership

OLD, NEW = "2025-11-25", "2026-07-28"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", OLD)
"""The revisions that begin with `initialize`."""
HOST = {"host": "127.0.0.1:8080"}
FORM: dict[str, Any] = {"elicitation": {"form": {}}}
"""The capabilities of a host that can show a form."""
JO = {"first_name": "Jo", "last_name": "Doe", "email": "jo.doe@example.com", "phone": "+12025550123"}
STATE_REFUSED = {"code": -32602, "message": "Invalid or expired requestState", "data": {"reason": "invalid_request_state"}}  # fmt: skip  # noqa: E501


def post(dealership: Dealership, document: object, revision: str | None = None, **more: Any) -> httpx.Response:
    """The response to a body. `headers` and `token` as in `Dealership.post`."""
    headers = HOST | {"accept": "application/json, text/event-stream"} | more.pop("headers", {})
    if revision is not None:
        headers["mcp-protocol-version"] = revision
    return dealership.post(document, more.pop("path", "/mcp"), headers=headers, **more)


def call(
    dealership: Dealership,
    method: str,
    params: dict[str, Any] | None = None,
    *,
    revision: str = NEW,
    capabilities: dict[str, Any] | None = None,
    host: str = "Test Host",
    **more: Any,
) -> dict[str, Any]:
    """The JSON-RPC response to one request of a revision."""
    params = dict(params or {})
    headers = dict(more.pop("headers", {}))
    if revision == NEW:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": NEW,
            "io.modelcontextprotocol/clientCapabilities": capabilities or {},
            "io.modelcontextprotocol/clientInfo": {"name": host, "version": "1"},
        }
        headers["mcp-method"] = method
        if "name" in params:
            headers["mcp-name"] = params["name"]
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    reply: dict[str, Any] = post(dealership, body, revision, headers=headers, **more).json()
    return reply


def use(dealership: Dealership, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The result of a tool. `answer` and `state` repeat a call with the person's answer."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments or {}}
    if "answer" in more:
        params["inputResponses"] = {"consent": more.pop("answer")}
    if "state" in more:
        params["requestState"] = more.pop("state")
    reply = call(dealership, "tools/call", params, **more)
    result: dict[str, Any] = reply.get("result") or reply["error"]
    return result


def text_of(result: dict[str, Any]) -> str:
    """The text of a tool's result."""
    (part,) = result["content"]
    words: str = part["text"]
    return words


def ticked(**channels: bool) -> dict[str, Any]:
    """The response of a person who accepts the form."""
    return {"action": "accept", "content": channels}
