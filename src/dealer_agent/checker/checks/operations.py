"""Checks the operations of A2A: those that a card declares must work, and others get errors of A2A. And its headers."""

import json
from collections.abc import Mapping
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each, judge_each
from dealer_agent.checker.exchange import Exchange, at
from dealer_agent.checker.outcome import conclude, expect, expect_status, has, skip_unless, status
from dealer_agent.checker.reply import Refusal, if_refused, message_of, number, refusal_of, refused
from dealer_agent.checker.target import Request, Target, rpc_call, with_headers
from dealer_agent.protocol.card import A2A_VERSION

TASK = "check-no-such-task"

NUMBERS = {
    "TASK_NOT_FOUND": (404, -32001),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (400, -32003),
    "UNSUPPORTED_OPERATION": (400, -32004),
}
"""HTTP status and JSON-RPC number of each error."""

NOT_OFFERED = (-32601, -32004)
"""JSON-RPC numbers of an operation that the agent does not have. Over HTTP+JSON, its route gets 404."""


def expect_a2a_error(target: Target, refusal: Refusal, reason: str) -> None:
    """Raises Failed unless the error is this one of A2A, or says that the agent does not have the operation.

    A dealer agent need not implement more than SendMessage.
    """
    status, number = NUMBERS[reason]
    if target.is_rpc:
        refusal.expect_number(number, *NOT_OFFERED)
    elif refusal.status != 404:
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
        return await target.post(json.dumps(rpc_call(params, method=rpc_method)).encode())
    content = json.dumps(params).encode() if method == "POST" else b""
    headers = with_headers({} if method == "POST" else {"Content-Type": ""})
    return await target.request(method, target.interface.url + path, content, headers)


async def _undeclared(
    target: Target, rpc_method: str, method: str, path: str, _reason: str, capability: str = ""
) -> Exchange | None:
    """The exchange of an operation; None if the card declares it.

    It gets parameters of its own form. So only the missing operation can be the reason of the refusal.
    """
    if at(target.card.camel, f"capabilities.{capability}"):
        return None
    is_message = "Message" in rpc_method
    params = target.message(target.payload("dealer.information")) if is_message else {"id": TASK}
    if capability == "pushNotifications":
        params = {"taskId": TASK, "id": "check", "url": "https://check.example/notifications"}
    return await _operate(target, rpc_method, method, path, params)


@check_each({name: (row,) for name, row in OPERATIONS.items()})
async def _(target: Target, row: tuple[str, ...]) -> None:
    exchange = skip_unless(await _undeclared(target, *row), f"The card declares {row[-1]}.")
    expect_a2a_error(target, refusal_of(exchange), row[3])


@check("operations.not-invented")
async def _(target: Target) -> None:
    """A page of HTML, which a web server may send for every path, is not an answer."""
    for row in OPERATIONS.values():
        exchange = await _undeclared(target, *row)
        if exchange is not None and not exchange.is_refusal:
            answered = isinstance(exchange.json, dict) or exchange.media_type == "text/event-stream"
            expect(not answered, f"{row[0]} is answered, and the agent does not offer it.", exchange)


NO_OPERATION = (-32003, -32004, -32601)
"""JSON-RPC numbers that say that an operation is not offered."""


@check("cards.capabilities-work")
async def _(target: Target) -> None:
    """Each declared capability is tried with its operation.

    The agent may fail in any way, except that the operation is unknown or not supported.
    """
    said = at(target.card.camel, "capabilities")
    names = {row[4]: row for row in OPERATIONS.values() if len(row) > 4 and row[0] != "SubscribeToTask"}
    declared = [name for name in names if at(said, name) is not None and at(said, name) is not False]
    for name in skip_unless(declared, "The card declares no capability."):
        expect(said[name] is True, f"The capability {name} is {said[name]!r}, which is neither true nor false.")
        rpc_method, method, path, *_ = names[name]
        params = target.message(target.payload("dealer.information")) if "Message" in rpc_method else {"id": TASK}
        exchange = await _operate(target, rpc_method, method, path, params)
        offered = exchange.status not in (404, 405, 501) and at(exchange.json, "error.code") not in NO_OPERATION
        offered = offered and b"UNSUPPORTED" not in exchange.body and b"NOT_SUPPORTED" not in exchange.body
        # A task that does not exist is 404, too.
        offered = offered or b"TASK_NOT_FOUND" in exchange.body or at(exchange.json, "error.code") == -32001
        expect(offered, f"The card declares {name}, and the agent refuses {rpc_method}.", exchange)


@check("operations.list-tasks")
async def _(target: Target) -> None:
    """The page must have all four members that A2A requires, each with its type."""
    exchange = await _operate(target, "ListTasks", "GET", "/tasks", {})
    page = at(exchange.json, "result") if target.is_rpc else exchange.json
    for name, kind in {"tasks": list, "totalSize": int, "pageSize": int, "nextPageToken": str}.items():
        conclude(has(name, lambda value, kind=kind: isinstance(value, kind))(page), exchange)  # type: ignore[misc]


# The headers

VERSION, EXTENSIONS = "A2A-Version", "A2A-Extensions"
UNKNOWN_VERSION, WRONG_VERSION = "99.0", -32009
UNKNOWN_EXTENSION = "https://extension.example/never-published/v7"


def _with_header(name: str, value: str) -> Request:
    """A request that every agent can answer, with this header."""
    return lambda target: target.send(target.payload(target.reading_skills()[0]), with_headers({name: value}))


def _with_query(version: str) -> Request:
    async def send(target: Target) -> Exchange:
        content = target.body(target.message(target.payload("dealer.information")))
        url = f"{target.interface.endpoint}?{VERSION}={version}"
        return await target.request("POST", url, content, with_headers({VERSION: ""}))

    return send


def _is_answered(exchange: Exchange) -> bool:
    message_of(exchange)
    return True


def _is_not_refused_for_its_version(exchange: Exchange) -> bool | str:
    refused_for_it = exchange.is_refusal and (
        b"VERSION_NOT_SUPPORTED" in exchange.body or at(exchange.json, "error.code") == WRONG_VERSION
    )
    return not refused_for_it or "The version 1.0 is refused."


def _has_reason(exchange: Exchange) -> bool | str:
    return has("reason", forms.one_of("VERSION_NOT_SUPPORTED"))(refusal_of(exchange).info)


def _repeats_nothing(exchange: Exchange) -> bool | str:
    named = [uri.strip() for value in exchange.all_headers(EXTENSIONS) for uri in value.split(",")]
    return UNKNOWN_EXTENSION not in named or "The response names an extension that the agent cannot know."


judge_each(
    {
        "versions.current": (_with_header(VERSION, A2A_VERSION), _is_not_refused_for_its_version),
        "versions.absent": (_with_header(VERSION, ""), _is_answered),
        "versions.absent-published": (_with_header(VERSION, ""), _is_answered),
        "versions.later-minor": (_with_header(VERSION, "1.7"), _is_answered),
        "versions.patch": (_with_header(VERSION, "1.0.1"), _is_answered),
        "versions.unknown": (_with_header(VERSION, UNKNOWN_VERSION), refused),
        "versions.legacy": (_with_header(VERSION, "0.3"), refused),
        "versions.absent-next": (_with_header(VERSION, ""), number(-32009)),
        "versions.extension-absent-next": (_with_header(EXTENSIONS, ""), number(-32008)),
        "versions.unknown-status": (_with_header(VERSION, UNKNOWN_VERSION), if_refused(status(400))),
        "versions.unknown-number": (_with_header(VERSION, UNKNOWN_VERSION), if_refused(number(-32009))),
        "versions.unknown-reason": (_with_header(VERSION, UNKNOWN_VERSION), if_refused(_has_reason)),
        "versions.query": (_with_query(UNKNOWN_VERSION), refused),
        "versions.query-current": (_with_query("1.0"), _is_answered),
        "versions.extension-unknown-echo": (_with_header(EXTENSIONS, UNKNOWN_EXTENSION), _repeats_nothing),
    }
)
