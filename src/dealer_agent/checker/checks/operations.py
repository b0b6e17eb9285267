"""Operations of A2A that a card does not declare."""

import json
from collections.abc import Callable
from typing import Any

from dealer_agent.checker.check import check, expect
from dealer_agent.checker.checks.a2a_errors import expect_a2a_error
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.target import JSON_HEADERS, Target

TASK = "check-no-such-task"

OPERATIONS: dict[str, tuple[str, str, str, str, str | None]] = {
    "operations.get-task": ("GetTask", "GET", f"/tasks/{TASK}", "TASK_NOT_FOUND", None),
    "operations.cancel-task": ("CancelTask", "POST", f"/tasks/{TASK}:cancel", "TASK_NOT_FOUND", None),
    "operations.streaming": (
        "SendStreamingMessage", "POST", "/message:stream", "UNSUPPORTED_OPERATION", "streaming",
    ),
    "operations.subscribe": (
        "SubscribeToTask", "POST", f"/tasks/{TASK}:subscribe", "UNSUPPORTED_OPERATION", "streaming",
    ),
    "operations.push-notifications": (
        "CreateTaskPushNotificationConfig", "POST", f"/tasks/{TASK}/pushNotificationConfigs",
        "PUSH_NOTIFICATION_NOT_SUPPORTED", "pushNotifications",
    ),
    "operations.extended-card": (
        "GetExtendedAgentCard", "GET", "/extendedAgentCard", "UNSUPPORTED_OPERATION", "extendedAgentCard",
    ),
}  # fmt: skip
"""JSON-RPC method, HTTP method, path, expected error, and the capability that would declare it, by requirement."""


async def operate(target: Target, rpc_method: str, method: str, path: str, params: dict[str, Any]) -> Exchange:
    """The exchange of an operation of A2A in either binding."""
    if target.is_rpc:
        document = {"jsonrpc": "2.0", "id": 1, "method": rpc_method, "params": params}
        return await target.post(json.dumps(document).encode())
    content = json.dumps(params).encode() if method == "POST" else b""
    headers = JSON_HEADERS if method == "POST" else JSON_HEADERS[1:]
    return await target.request(method, target.interface.url + path, content, headers)


def _refused(rpc_method: str, method: str, path: str, reason: str, capability: str | None) -> Callable[[Target], Any]:
    async def is_refused(target: Target) -> None:
        if capability is not None:
            target.skip_if_declared(capability)
        params = target.message(target.payload("dealer.information")) if "Message" in rpc_method else {"id": TASK}
        exchange = await operate(target, rpc_method, method, path, params)
        expect_a2a_error(target, target.refusal(exchange), reason)

    return is_refused


for _id, _operation in OPERATIONS.items():
    check(_id)(_refused(*_operation))


@check("operations.list-tasks")
async def list_of_tasks_is_empty(target: Target) -> None:
    """The page as A2A has it."""
    exchange = await operate(target, "ListTasks", "GET", "/tasks", {})
    document = exchange.json
    found = document.get("result") if target.is_rpc and isinstance(document, dict) else document
    page: dict[str, Any] = found if isinstance(found, dict) else {}
    expect(isinstance(page.get("tasks"), list), "The answer has no array tasks.", exchange)
    wanted = {"totalSize": int, "pageSize": int, "nextPageToken": str}
    for name, kind in wanted.items():
        expect(isinstance(page.get(name), kind), f"{name} is {page.get(name)!r}.", exchange)
