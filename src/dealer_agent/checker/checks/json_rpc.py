"""Checks the JSON-RPC 2.0 binding: its answers, its ids, and the calls that it refuses."""

import json
from collections.abc import Callable
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each, each_of, judge_each
from dealer_agent.checker.checks.errors import errors_of_run
from dealer_agent.checker.exchange import Exchange, at
from dealer_agent.checker.outcome import Judgement, expect, has, skip_unless, status
from dealer_agent.checker.reply import data_of, is_answered, number, refusal_of, refused
from dealer_agent.checker.target import Change, Request, Target, drop, put, rpc_call

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
NO_SKILL = {"type": "dealer.weather.request"}
NOT_JSON = b'{"jsonrpc": "2.0", "id": 1, "method": '


def _calling(change: Callable[[dict[str, Any]], Any] = dict, *, unknown: bool = False) -> Request:
    """A call for the dealer's information. `change` returns another document, or changes the call in place.

    `unknown` asks for a skill that does not exist, which is refused. Unknown members need not be.
    """

    async def send(target: Target) -> Exchange:
        call = rpc_call(target.message(target.payload("dealer.information") | (NO_SKILL if unknown else {})))
        document = change(call)
        document = call if document is None else document
        return await target.post(
            document if isinstance(document, bytes) else json.dumps(document, ensure_ascii=False).encode()
        )

    return send


# Answers


async def _answers(target: Target) -> list[Exchange]:
    """All answers of the interface that are JSON objects.

    HTTP may refuse a call before JSON-RPC reads it, for example with 401 or 413. Such a refusal is not JSON-RPC.
    """
    await _calling()(target)
    return [each for each in target.posted if isinstance(each.json, dict) and each.status < 400]


def _has_only_members(*names: str) -> Judgement:
    """The members of an object are among these."""
    return lambda node: node.keys() <= {*names} or f"There are the members {', '.join(sorted(node.keys() - {*names}))}."


each_of(
    _answers,
    {
        "json-rpc.version": lambda exchange: has("jsonrpc", forms.one_of("2.0"))(exchange.json),
        "json-rpc.result-or-error": lambda exchange: (
            len(exchange.json.keys() & {"result", "error"}) == 1
            or "The response has neither or both of result and error."
        ),
        "json-rpc.members": lambda exchange: _has_only_members("jsonrpc", "id", "result", "error")(exchange.json),
        "json-rpc.id-present": lambda exchange: "id" in exchange.json or "The response has no id.",
    },
    last=True,
)


def _repeats_id(exchange: Exchange) -> bool | str:
    sent, returned = at(exchange.request_json, "id"), exchange.json.get("id")
    # Ids of other types, and documents that are not calls, have checks of their own. JSON has one number for 1 and 1.0.
    good = type(sent) not in (str, int) or (returned == sent and isinstance(returned, str) == isinstance(sent, str))
    # Without an id, the agent says that it could not read the call, or not even the message of HTTP.
    unread = exchange.status != 200 or at(exchange.json, "error.code") in (PARSE_ERROR, INVALID_REQUEST)
    good = good or (returned is None and ("id" not in exchange.json or unread))
    return good or f"The call has the id {sent!r:.100}, the response {returned!r:.100}."


each_of(_answers, {"json-rpc.id-everywhere": _repeats_id}, last=True)


async def _error_of_a_skill(target: Target) -> Exchange:
    """The exchange of a call for an unknown skill. Skips the check if it is answered: others fail for that."""
    exchange = await _calling(unknown=True)(target)
    skip_unless(not is_answered(exchange), "The unknown skill is answered.")
    return exchange


def _error(judgement: Judgement) -> Judgement:
    """A judgement of the member `error` of a response."""
    return lambda exchange: judgement(refusal_of(exchange).exchange.json["error"])


async def _errors_of_skills(target: Target) -> list[Exchange]:
    """The exchange of a call for an unknown skill, and of all calls of skills that were refused."""
    return [await _error_of_a_skill(target), *(each.exchange for each in await errors_of_run(target))]


judge_each(
    {
        "json-rpc.error-object": (
            _errors_of_skills,
            _error(has("code", lambda value: isinstance(value, int) and not isinstance(value, bool))),
            _error(has("message", forms.name)),
            _error(_has_only_members("code", "message", "data")),
        ),
    },
    last=True,
)
judge_each({"json-rpc.http-status": (_error_of_a_skill, refused, status(200))})


@check("json-rpc.error-data", last=True)
async def _(target: Target) -> None:
    """The revision, or the vocabulary, decides between two forms: the error payload alone, or an array of details."""
    form, is_own = target.revision.error_data, target.vendor == "autoagent"
    for exchange in await _errors_of_skills(target):
        data = refusal_of(exchange).data
        if form == "payload" or (form == "of the vocabulary" and is_own):
            good = isinstance(data, dict) and "@type" not in data and "error_id" in data
            expect(good, "error.data is not an error payload without @type.", exchange)
        else:
            good = data != [] and forms.array_of(lambda each: isinstance(at(each, "@type"), str))(data)
            expect(good, "error.data is not an array of objects with @type.", exchange)


# Ids


@check_each(
    {
        "json-rpc.id-string": "check-7f1f2a52",
        "json-rpc.id-empty": "",
        "json-rpc.id-unicode": 'é "quoted" \\ 車',
        "json-rpc.id-zero": 0,
        "json-rpc.id-negative": -7,
        # The first integer that a double cannot hold.
        "json-rpc.id-large": 9_007_199_254_740_993,
        "json-rpc.id-fraction": 1.5,
        "json-rpc.id-null": None,
    }
)
async def _(target: Target, rpc_id: Any) -> None:
    """1 and "1" are different ids, so the type is compared too."""
    exchange = await _calling(put("id", rpc_id))(target)
    data_of(exchange)
    returned = exchange.json.get("id", "absent")
    same = returned == rpc_id and isinstance(returned, type(rpc_id))
    expect(same, f"The call has the id {rpc_id!r}, the response {returned!r}.", exchange)


# Calls that are refused


def _explains(exchange: Exchange) -> bool | str:
    message = refusal_of(exchange).message
    return "SendMessage" in message or f"The message is: {message[:200]}"


def _has_id(rpc_id: Any) -> Judgement:
    return lambda exchange: (
        refusal_of(exchange).exchange.json.get("id", "absent") == rpc_id
        or f"The id of the error is {exchange.json.get('id', 'absent')!r}, not {rpc_id!r}."
    )


def _legacy(call: dict[str, Any]) -> None:
    call.update(id="check-legacy", method="message/send")


def _is_refused(change: Change, wanted: int) -> tuple[Request, Judgement]:
    return _calling(change), number(wanted)


def _is_no_result(exchange: Exchange) -> bool | str:
    return at(exchange.json, "result") is None or "It gets one object with a result."


judge_each(
    {
        "json-rpc.batch-array": (_calling(lambda call: [call]), _is_no_result),
        "json-rpc.notification-silent": (_calling(drop("id")), _is_no_result),
        "json-rpc.id-object": _is_refused(put("id", {"check": 1}), INVALID_REQUEST),
        "json-rpc.id-boolean": _is_refused(put("id", value=True), INVALID_REQUEST),
        "json-rpc.not-an-object": _is_refused(lambda _: "SendMessage", INVALID_REQUEST),
        "json-rpc.batch": _is_refused(lambda call: [call], INVALID_REQUEST),
        "json-rpc.notification": _is_refused(drop("id"), INVALID_REQUEST),
        "json-rpc.version-missing": _is_refused(drop("jsonrpc"), INVALID_REQUEST),
        "json-rpc.version-other": _is_refused(put("jsonrpc", "1.0"), INVALID_REQUEST),
        "json-rpc.method-missing": _is_refused(drop("method"), INVALID_REQUEST),
        "json-rpc.method-type": _is_refused(put("method", 7), INVALID_REQUEST),
        "json-rpc.method-unknown": _is_refused(put("method", "CheckNoSuchMethod"), METHOD_NOT_FOUND),
        "json-rpc.method-case": _is_refused(put("method", "sendmessage"), METHOD_NOT_FOUND),
        "json-rpc.method-legacy": _is_refused(put("method", "message/send"), METHOD_NOT_FOUND),
        "json-rpc.params-missing": _is_refused(drop("params"), INVALID_PARAMS),
        "json-rpc.params-array": _is_refused(lambda call: put("params", [call["params"]])(call), INVALID_PARAMS),
        "json-rpc.not-json": _is_refused(lambda _: NOT_JSON, PARSE_ERROR),
        "json-rpc.not-json-id": (_calling(lambda _: NOT_JSON), _has_id(None)),
        "json-rpc.id-in-errors": (_calling(put("id", "check-error"), unknown=True), _has_id("check-error")),
        "json-rpc.method-legacy-explained": (_calling(_legacy), _explains),
    }
)
