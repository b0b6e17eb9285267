"""The JSON-RPC 2.0 binding: answers, ids, calls that are refused."""

import json
from collections.abc import Callable
from typing import Any

from dealer_agent.checker.check import check, expect
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.target import Refusal, Target

SKILL = "dealer.information"
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602


def call(target: Target, **members: Any) -> dict[str, Any]:
    """A valid call, with other members."""
    params = target.message(target.payload(SKILL))
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params, **members}


async def post(target: Target, document: object) -> Exchange:
    """The exchange of a call."""
    return await target.post(json.dumps(document, ensure_ascii=False).encode())


async def refused_skill(target: Target, **members: Any) -> Refusal:
    """The error of a skill: for an unknown member of the payload."""
    params = target.message(target.payload(SKILL, unknown="check"))
    return target.refusal(await post(target, call(target, params=params, **members)))


# Answers


def _answers(target: Target) -> list[tuple[Exchange, dict[str, Any]]]:
    """All answers of the interface that are JSON objects."""
    return [
        (each, each.json)
        for each in target.exchanges
        if each.method == "POST" and each.url == target.interface.endpoint and isinstance(each.json, dict)
    ]


@check("json-rpc.version", last=True)
async def answers_name_the_version(target: Target) -> None:
    """All answers."""
    await post(target, call(target))
    for exchange, answer in _answers(target):
        expect(answer.get("jsonrpc") == "2.0", f"jsonrpc is {answer.get('jsonrpc')!r}.", exchange)


@check("json-rpc.result-or-error", last=True)
async def answers_have_a_result_or_an_error(target: Target) -> None:
    """All answers."""
    await post(target, call(target))
    for exchange, answer in _answers(target):
        found = [name for name in ("result", "error") if name in answer]
        expect(len(found) == 1, f"The answer has {' and '.join(found) or 'neither result nor error'}.", exchange)


@check("json-rpc.members", last=True)
async def answers_have_no_other_members(target: Target) -> None:
    """All answers."""
    await post(target, call(target))
    for exchange, answer in _answers(target):
        others = sorted(answer.keys() - {"jsonrpc", "id", "result", "error"})
        expect(not others, f"The answer has the members {', '.join(others)}.", exchange)


@check("json-rpc.id-present", last=True)
async def answers_have_an_id(target: Target) -> None:
    """All answers."""
    await post(target, call(target))
    for exchange, answer in _answers(target):
        expect("id" in answer, "The answer has no id.", exchange)


@check("json-rpc.error-object")
async def errors_have_code_and_message(target: Target) -> None:
    """The members of `error`."""
    refusal = await refused_skill(target)
    error = refusal.exchange.json["error"]
    code, message = error.get("code"), error.get("message")
    expect(isinstance(code, int) and not isinstance(code, bool), f"The code is {code!r}.", refusal.exchange)
    expect(isinstance(message, str) and message, f"The message is {message!r}.", refusal.exchange)
    others = sorted(error.keys() - {"code", "message", "data"})
    expect(not others, f"The error has the members {', '.join(others)}.", refusal.exchange)


@check("json-rpc.error-data")
async def data_has_the_form_of_the_vocabulary(target: Target) -> None:
    """An array of details or the payload."""
    refusal = await refused_skill(target)
    form = target.revision.error_data
    if form == "of the vocabulary":
        form = "payload" if target.vendor == "autoagent" else "details"
    if form == "payload":
        expect(isinstance(refusal.data, dict), "error.data is no object.", refusal.exchange)
        expect("@type" not in refusal.data, "error.data has @type.", refusal.exchange)
        expect("error_id" in refusal.data, "error.data is no error payload.", refusal.exchange)
    else:
        expect(isinstance(refusal.data, list) and refusal.data, "error.data is no array.", refusal.exchange)
        typed = all(isinstance(each, dict) and isinstance(each.get("@type"), str) for each in refusal.data)
        expect(typed, "An entry of error.data has no @type.", refusal.exchange)


@check("json-rpc.http-status")
async def errors_have_status_200(target: Target) -> None:
    """An error of a skill."""
    refusal = await refused_skill(target)
    expect(refusal.status == 200, f"The HTTP status is {refusal.status}.", refusal.exchange)


# Ids

IDS: dict[str, Any] = {
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


def _repeats(rpc_id: Any) -> Callable[[Target], Any]:
    async def is_repeated(target: Target) -> None:
        exchange = await post(target, call(target, id=rpc_id))
        target.answer(exchange)
        found = exchange.json.get("id", "absent")
        same = found == rpc_id and isinstance(found, type(rpc_id))
        expect(same, f"The call has the id {rpc_id!r}, the answer {found!r}.", exchange)

    return is_repeated


for _id, _value in IDS.items():
    check(_id)(_repeats(_value))


@check("json-rpc.id-in-errors")
async def errors_repeat_the_id(target: Target) -> None:
    """An error of a skill."""
    refusal = await refused_skill(target, id="check-error")
    found = refusal.exchange.json.get("id")
    expect(found == "check-error", f"The call has the id 'check-error', the error {found!r}.", refusal.exchange)


# Calls that are refused


def _without(target: Target, name: str) -> dict[str, Any]:
    return {member: value for member, value in call(target).items() if member != name}


REFUSED: dict[str, tuple[Callable[[Target], Any], int]] = {
    "json-rpc.id-object": (lambda target: call(target, id={"check": 1}), INVALID_REQUEST),
    "json-rpc.id-boolean": (lambda target: call(target, id=True), INVALID_REQUEST),
    "json-rpc.not-an-object": (lambda _: "SendMessage", INVALID_REQUEST),
    "json-rpc.batch": (lambda target: [call(target)], INVALID_REQUEST),
    "json-rpc.notification": (lambda target: _without(target, "id"), INVALID_REQUEST),
    "json-rpc.version-missing": (lambda target: _without(target, "jsonrpc"), INVALID_REQUEST),
    "json-rpc.version-other": (lambda target: call(target, jsonrpc="1.0"), INVALID_REQUEST),
    "json-rpc.method-missing": (lambda target: _without(target, "method"), INVALID_REQUEST),
    "json-rpc.method-type": (lambda target: call(target, method=7), INVALID_REQUEST),
    "json-rpc.method-unknown": (lambda target: call(target, method="CheckNoSuchMethod"), METHOD_NOT_FOUND),
    "json-rpc.method-case": (lambda target: call(target, method="sendmessage"), METHOD_NOT_FOUND),
    "json-rpc.method-legacy": (lambda target: call(target, method="message/send"), METHOD_NOT_FOUND),
    "json-rpc.params-missing": (lambda target: _without(target, "params"), INVALID_PARAMS),
    "json-rpc.params-array": (lambda target: call(target, params=[call(target)["params"]]), INVALID_PARAMS),
}
"""A call and the number that it gets, by requirement."""


def _refused(document: Callable[[Target], Any], number: int) -> Callable[[Target], Any]:
    async def is_refused(target: Target) -> None:
        exchange = await post(target, document(target))
        found = target.refusal(exchange).number
        expect(found == number, f"The number of the error is {found!r}. Expected: {number}.", exchange)

    return is_refused


for _id, (_document, _number) in REFUSED.items():
    check(_id)(_refused(_document, _number))


@check("json-rpc.method-legacy-explained")
async def legacy_method_is_explained(target: Target) -> None:
    """The message of the error."""
    refusal = target.refusal(await post(target, call(target, id="check-legacy", method="message/send")))
    expect("SendMessage" in refusal.message, f"The message is: {refusal.message[:200]}", refusal.exchange)


NOT_JSON = b'{"jsonrpc": "2.0", "id": 1, "method": '


@check("json-rpc.not-json")
async def broken_json_is_a_parse_error(target: Target) -> None:
    """The number."""
    exchange = await target.post(NOT_JSON)
    found = target.refusal(exchange).number
    expect(found == PARSE_ERROR, f"The number of the error is {found!r}. Expected: {PARSE_ERROR}.", exchange)


@check("json-rpc.not-json-id")
async def id_of_broken_json_is_null(target: Target) -> None:
    """The id."""
    exchange = await target.post(NOT_JSON)
    target.refusal(exchange)
    expect(exchange.json.get("id", "absent") is None, f"The id is {exchange.json.get('id', 'absent')!r}.", exchange)
