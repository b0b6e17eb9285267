"""A2A's own errors, and the operations of A2A that a card does not declare."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from dealer_agent.checker.check import check
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.outcome import expect
from dealer_agent.checker.target import JSON_HEADERS, Refusal, Target

TASK = "check-no-such-task"

NUMBERS = {
    "TASK_NOT_FOUND": (404, -32001),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (400, -32003),
    "UNSUPPORTED_OPERATION": (400, -32004),
}
"""HTTP status and JSON-RPC number of each error."""

NOT_OFFERED = {-32601, -32004}
"""What a published version does not offer: the first number up to 1.3 (over HTTP+JSON: 404), and later the second."""


def expect_a2a_error(target: Target, refusal: Refusal, reason: str) -> None:
    """Raises Failed unless the error has the HTTP status or number of this error of A2A."""
    status, number = NUMBERS[reason]
    if target.is_rpc:
        allowed = {number, *NOT_OFFERED} if target.revision.is_published else {number}
        found = f"The number of the error is {refusal.number!r}. Expected: {number} ({reason})."
        expect(refusal.number in allowed, found, refusal.exchange)
    elif not target.revision.is_published or refusal.status != 404:
        found = f"The status is {refusal.status}. Expected: {status} ({reason})."
        expect(refusal.status == status, found, refusal.exchange)
        name = refusal.info.get("reason") or refusal.code
        expect(name == reason, f"The reason of the error is {name!r}. Expected: {reason}.", refusal.exchange)


class Operation(NamedTuple):
    """JSON-RPC method, HTTP method, path, expected error, and the capability that would declare the operation."""

    rpc_method: str
    method: str
    path: str
    reason: str = ""
    capability: str | None = None


OPERATIONS: Mapping[str, Operation] = {
    "operations.get-task": Operation("GetTask", "GET", f"/tasks/{TASK}", "TASK_NOT_FOUND"),
    "operations.cancel-task": Operation("CancelTask", "POST", f"/tasks/{TASK}:cancel", "TASK_NOT_FOUND"),
    "operations.streaming": Operation(
        "SendStreamingMessage", "POST", "/message:stream", "UNSUPPORTED_OPERATION", "streaming"
    ),
    "operations.subscribe": Operation(
        "SubscribeToTask", "POST", f"/tasks/{TASK}:subscribe", "UNSUPPORTED_OPERATION", "streaming"
    ),
    "operations.push-notifications": Operation(
        "CreateTaskPushNotificationConfig",
        "POST",
        f"/tasks/{TASK}/pushNotificationConfigs",
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
        "pushNotifications",
    ),
    "operations.extended-card": Operation(
        "GetExtendedAgentCard", "GET", "/extendedAgentCard", "UNSUPPORTED_OPERATION", "extendedAgentCard"
    ),
}


async def _operate(target: Target, operation: Operation, params: dict[str, Any]) -> Exchange:
    """The exchange of an operation of A2A in either binding."""
    if target.is_rpc:
        document = {"jsonrpc": "2.0", "id": 1, "method": operation.rpc_method, "params": params}
        return await target.post(json.dumps(document).encode())
    is_post = operation.method == "POST"
    content = json.dumps(params).encode() if is_post else b""
    headers = JSON_HEADERS if is_post else JSON_HEADERS[1:]
    return await target.request(operation.method, target.interface.url + operation.path, content, headers)


def _refuses(requirement_id: str, operation: Operation) -> None:
    @check(requirement_id)
    async def _(target: Target) -> None:
        if operation.capability is not None:
            target.skip_if_declared(operation.capability)
        is_message = "Message" in operation.rpc_method
        params = target.message(target.payload("dealer.information")) if is_message else {"id": TASK}
        exchange = await _operate(target, operation, params)
        expect_a2a_error(target, target.refusal(exchange), operation.reason)


for _id, _operation in OPERATIONS.items():
    _refuses(_id, _operation)


@check("operations.list-tasks")
async def _(target: Target) -> None:
    exchange = await _operate(target, Operation("ListTasks", "GET", "/tasks"), {})
    document = exchange.json
    found = document.get("result") if target.is_rpc and isinstance(document, dict) else document
    page: dict[str, Any] = found if isinstance(found, dict) else {}
    for name, kind in {"tasks": list, "totalSize": int, "pageSize": int, "nextPageToken": str}.items():
        expect(isinstance(page.get(name), kind), f"{name} is {page.get(name)!r}.", exchange)
