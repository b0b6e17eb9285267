"""A2A's own errors, its operations that a card does not declare, and its headers: version and extensions."""

import json
from collections.abc import Mapping
from typing import Any

from dealer_agent.checker.check import check, check_each, each_of
from dealer_agent.checker.exchange import Exchange, Headers
from dealer_agent.checker.outcome import expect, expect_status, skip_if_failed
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
        refusal.expect_number(*allowed)
    elif not target.revision.is_published or refusal.status != 404:
        expect_status(refusal.exchange, status)
        name = refusal.info.get("reason") or refusal.code
        expect(name == reason, f"The reason of the error is {name!r}. Expected: {reason}.", refusal.exchange)


OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "operations.get-task": ("GetTask", "GET", f"/tasks/{TASK}", "TASK_NOT_FOUND"),
    "operations.cancel-task": ("CancelTask", "POST", f"/tasks/{TASK}:cancel", "TASK_NOT_FOUND"),
    "operations.streaming": ("SendStreamingMessage", "POST", "/message:stream", "UNSUPPORTED_OPERATION", "streaming"),
    "operations.subscribe": (
        "SubscribeToTask",
        "POST",
        f"/tasks/{TASK}:subscribe",
        "UNSUPPORTED_OPERATION",
        "streaming",
    ),
    "operations.push-notifications": (
        "CreateTaskPushNotificationConfig",
        "POST",
        f"/tasks/{TASK}/pushNotificationConfigs",
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
        "pushNotifications",
    ),
    "operations.extended-card": (
        "GetExtendedAgentCard",
        "GET",
        "/extendedAgentCard",
        "UNSUPPORTED_OPERATION",
        "extendedAgentCard",
    ),
}
"""JSON-RPC method, HTTP method, path, expected error, and the capability that would declare the operation."""


async def _operate(target: Target, rpc_method: str, method: str, path: str, params: dict[str, Any]) -> Exchange:
    """The exchange of an operation of A2A in either binding."""
    if target.is_rpc:
        document = {"jsonrpc": "2.0", "id": 1, "method": rpc_method, "params": params}
        return await target.post(json.dumps(document).encode())
    is_post = method == "POST"
    content = json.dumps(params).encode() if is_post else b""
    headers = JSON_HEADERS if is_post else JSON_HEADERS[1:]
    return await target.request(method, target.interface.url + path, content, headers)


@check_each(OPERATIONS)
async def _(target: Target, rpc_method: str, method: str, path: str, reason: str, capability: str = "") -> None:
    if capability:
        target.skip_if_declared(capability)
    is_message = "Message" in rpc_method
    params = target.message(target.payload("dealer.information")) if is_message else {"id": TASK}
    exchange = await _operate(target, rpc_method, method, path, params)
    expect_a2a_error(target, target.refusal(exchange), reason)


@check("operations.list-tasks")
async def _(target: Target) -> None:
    exchange = await _operate(target, "ListTasks", "GET", "/tasks", {})
    document = exchange.json
    found = document.get("result") if target.is_rpc and isinstance(document, dict) else document
    page: dict[str, Any] = found if isinstance(found, dict) else {}
    for name, kind in {"tasks": list, "totalSize": int, "pageSize": int, "nextPageToken": str}.items():
        expect(isinstance(page.get(name), kind), f"{name} is {page.get(name)!r}.", exchange)


# The headers

VERSION, EXTENSIONS = "A2A-Version", "A2A-Extensions"
UNKNOWN_VERSION = "99.0"
UNKNOWN_EXTENSION = "https://extension.example/never-published/v7"


async def _send(target: Target, version: str = "1.0", extensions: str | None = None) -> Exchange:
    """The exchange of a request that every agent can answer. An empty value leaves a header out."""
    found = [("Content-Type", "application/json"), ("Accept", "application/json"), (VERSION, version)]
    if extensions is not None:
        found.append((EXTENSIONS, extensions))
    # `Target.request` adds what the revision requires and is absent, and removes what is empty.
    sent: Headers = found if target.revision.needs_version_header else [each for each in found if each[1]]
    return await target.send(target.payload(target.reading_skills()[0]), sent)


async def _send_with_query(target: Target, version: str) -> Exchange:
    content = target.body(target.message(target.payload("dealer.information")))
    sent: Headers = [("Content-Type", "application/json"), ("Accept", "application/json"), (VERSION, "")]
    if not target.revision.needs_version_header:
        sent = sent[:2]
    return await target.request("POST", f"{target.interface.endpoint}?{VERSION}={version}", content, sent)


@check_each({"versions.absent": "", "versions.later-minor": "1.7"})
async def _(target: Target, version: str) -> None:
    target.reply_message(await _send(target, version))


@check_each({"versions.unknown": UNKNOWN_VERSION, "versions.legacy": "0.3"})
async def _(target: Target, version: str) -> None:
    target.refusal(await _send(target, version))


@check_each({"versions.absent-next": (-32009, "", None), "versions.extension-absent-next": (-32008, "1.0", "")})
async def _(target: Target, number: int, version: str, extensions: str | None) -> None:
    target.refusal(await _send(target, version, extensions)).expect_number(number)


async def _refusal_of_version(target: Target) -> list[tuple[Refusal, Exchange]]:
    """The error of an unknown version. Skips the check if the request is answered: another check fails for that."""
    with skip_if_failed():
        error = target.refusal(await _send(target, UNKNOWN_VERSION))
    return [(error, error.exchange)]


each_of(
    _refusal_of_version,
    {
        "versions.unknown-status": lambda error: error.status == 400 or f"The status is {error.status}, not 400.",
        "versions.unknown-number": lambda error: (
            error.number == -32009 or f"`error.code` is {error.number!r}, not -32009."
        ),
        "versions.unknown-reason": lambda error: (
            error.info.get("reason") == "VERSION_NOT_SUPPORTED"
            or f"`reason` is {error.info.get('reason')!r}, not VERSION_NOT_SUPPORTED."
        ),
    },
)


@check("versions.query")
async def _(target: Target) -> None:
    target.refusal(await _send_with_query(target, UNKNOWN_VERSION))


@check("versions.query-current")
async def _(target: Target) -> None:
    target.reply_message(await _send_with_query(target, "1.0"))


@check("versions.extension-unknown-echo")
async def _(target: Target) -> None:
    exchange = await _send(target, extensions=UNKNOWN_EXTENSION)
    named = [uri.strip() for value in exchange.all_headers(EXTENSIONS) for uri in value.split(",")]
    expect(UNKNOWN_EXTENSION not in named, "The response names an extension that it cannot know.", exchange)
