"""The JSON-RPC 2.0 binding: answers, ids, calls that are refused."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each, each_of
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.outcome import expect, expect_status
from dealer_agent.checker.target import Refusal, Target

SKILL = "dealer.information"
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602


def call(target: Target, **members: Any) -> dict[str, Any]:
    """A valid call, with other members."""
    params = target.message(target.payload(SKILL))
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params, **members}


async def _post(target: Target, document: object) -> Exchange:
    """The exchange of a call."""
    return await target.post(json.dumps(document, ensure_ascii=False).encode())


async def _refused_skill(target: Target, **members: Any) -> Refusal:
    """The error of a skill: for an unknown member of the payload."""
    params = target.message(target.payload(SKILL, unknown="check"))
    return target.refusal(await _post(target, call(target, params=params, **members)))


# Answers


async def _answers(target: Target) -> list[tuple[dict[str, Any], Exchange]]:
    """All answers of the interface that are JSON objects."""
    await _post(target, call(target))
    return [
        (each.json, each)
        for each in target.exchanges
        if each.method == "POST" and each.url == target.interface.endpoint and isinstance(each.json, dict)
    ]


def _has_result_or_error(answer: dict[str, Any]) -> bool | str:
    found = [name for name in ("result", "error") if name in answer]
    return len(found) == 1 or f"The response has {' and '.join(found) or 'neither result nor error'}."


def _has_no_other_members(answer: dict[str, Any]) -> bool | str:
    others = sorted(answer.keys() - {"jsonrpc", "id", "result", "error"})
    return not others or f"The response has the members {', '.join(others)}."


each_of(
    _answers,
    {
        "json-rpc.version": lambda answer: answer.get("jsonrpc") == "2.0" or f"jsonrpc is {answer.get('jsonrpc')!r}.",
        "json-rpc.result-or-error": _has_result_or_error,
        "json-rpc.members": _has_no_other_members,
        "json-rpc.id-present": lambda answer: "id" in answer or "The response has no id.",
    },
    last=True,
)


@check("json-rpc.error-object")
async def _(target: Target) -> None:
    exchange = (await _refused_skill(target)).exchange
    error = exchange.json["error"]
    code, message = error.get("code"), error.get("message")
    expect(isinstance(code, int) and not isinstance(code, bool), f"The code is {code!r}.", exchange)
    expect(forms.name(message), f"The message is {message!r}.", exchange)
    others = sorted(error.keys() - {"code", "message", "data"})
    expect(not others, f"The error has the members {', '.join(others)}.", exchange)


@check("json-rpc.error-data")
async def _(target: Target) -> None:
    refusal = await _refused_skill(target)
    form, data = target.revision.error_data, refusal.data
    if form == "payload" or (form == "of the vocabulary" and target.vendor == "autoagent"):
        good = isinstance(data, dict) and "@type" not in data and "error_id" in data
        expect(good, "error.data is no error payload without @type.", refusal.exchange)
    else:
        good = isinstance(data, list) and data != [] and all(isinstance(each, dict) for each in data)
        expect(good, "error.data is no array of objects.", refusal.exchange)
        typed = all(isinstance(each.get("@type"), str) for each in data)
        expect(typed, "An entry of error.data has no @type.", refusal.exchange)


@check("json-rpc.http-status")
async def _(target: Target) -> None:
    expect_status((await _refused_skill(target)).exchange, 200)


# Ids

IDS: Mapping[str, Any] = {
    "json-rpc.id-string": "check-7f1f2a52",
    "json-rpc.id-empty": "",
    "json-rpc.id-unicode": 'é "quoted" \\ 車',
    "json-rpc.id-zero": 0,
    "json-rpc.id-negative": -7,
    "json-rpc.id-large": 9_007_199_254_740_993,
    "json-rpc.id-fraction": 1.5,
    "json-rpc.id-null": None,
}
"""An id that is repeated, by requirement. The large one is the first integer that a double cannot hold."""


@check_each(IDS)
async def _(target: Target, rpc_id: Any) -> None:
    exchange = await _post(target, call(target, id=rpc_id))
    target.answer(exchange)
    found = exchange.json.get("id", "absent")
    same = found == rpc_id and isinstance(found, type(rpc_id))
    expect(same, f"The call has the id {rpc_id!r}, the response {found!r}.", exchange)


@check("json-rpc.id-in-errors")
async def _(target: Target) -> None:
    refusal = await _refused_skill(target, id="check-error")
    found = refusal.exchange.json.get("id")
    expect(found == "check-error", f"The call has the id 'check-error', the error {found!r}.", refusal.exchange)


# Calls that are refused

Document = Callable[[Target], Any]


def _with(**members: Any) -> Document:
    return lambda target: call(target, **members)


def _without(name: str) -> Document:
    return lambda target: {member: value for member, value in call(target).items() if member != name}


NOT_JSON = b'{"jsonrpc": "2.0", "id": 1, "method": '

REFUSED: Mapping[str, tuple[Document, int]] = {
    "json-rpc.id-object": (_with(id={"check": 1}), INVALID_REQUEST),
    "json-rpc.id-boolean": (_with(id=True), INVALID_REQUEST),
    "json-rpc.not-an-object": (lambda _: "SendMessage", INVALID_REQUEST),
    "json-rpc.batch": (lambda target: [call(target)], INVALID_REQUEST),
    "json-rpc.notification": (_without("id"), INVALID_REQUEST),
    "json-rpc.version-missing": (_without("jsonrpc"), INVALID_REQUEST),
    "json-rpc.version-other": (_with(jsonrpc="1.0"), INVALID_REQUEST),
    "json-rpc.method-missing": (_without("method"), INVALID_REQUEST),
    "json-rpc.method-type": (_with(method=7), INVALID_REQUEST),
    "json-rpc.method-unknown": (_with(method="CheckNoSuchMethod"), METHOD_NOT_FOUND),
    "json-rpc.method-case": (_with(method="sendmessage"), METHOD_NOT_FOUND),
    "json-rpc.method-legacy": (_with(method="message/send"), METHOD_NOT_FOUND),
    "json-rpc.params-missing": (_without("params"), INVALID_PARAMS),
    "json-rpc.params-array": (lambda target: call(target, params=[call(target)["params"]]), INVALID_PARAMS),
    "json-rpc.not-json": (lambda _: NOT_JSON, PARSE_ERROR),
}
"""A call, or the bytes of a body, and the number that it gets."""


@check_each(REFUSED)
async def _(target: Target, document: Document, number: int) -> None:
    content = document(target)
    exchange = await (target.post(content) if isinstance(content, bytes) else _post(target, content))
    target.refusal(exchange).expect_number(number)


@check("json-rpc.method-legacy-explained")
async def _(target: Target) -> None:
    refusal = target.refusal(await _post(target, call(target, id="check-legacy", method="message/send")))
    expect("SendMessage" in refusal.message, f"The message is: {refusal.message[:200]}", refusal.exchange)


@check("json-rpc.not-json-id")
async def _(target: Target) -> None:
    exchange = await target.post(NOT_JSON)
    target.refusal(exchange)
    found = exchange.json.get("id", "absent")
    expect(found is None, f"The id is {found!r}.", exchange)
