"""Defects for the checks of JSON-RPC: agents with wrong ids, versions, errors, or calls that they must refuse."""

import json
from dataclasses import replace
from typing import Any

from dealer_agent.self_test.changing import When, changes_answers, changes_calls
from dealer_agent.self_test.defect import Agent, AgentResponse, Breaking, Call, Change, broken

NOT_JSON = b'{"jsonrpc": "2.0", "id": 1, "method": '


def _answers(wanted: When, change: Change) -> Breaking:
    """Changes the JSON of the answers to the wanted calls."""
    return changes_answers(wanted, lambda answer: answer.with_document(change))


def _calls(wanted: When, change: Change) -> Breaking:
    """Changes the JSON of the wanted calls before the honest agent gets them."""
    return changes_calls(wanted, lambda call: call.with_document(change))


def member(call: Call, name: str) -> Any:
    """A member of the call; "absent" if there is none, or if the body is not an object."""
    return call.document.get(name, "absent") if isinstance(call.document, dict) else "absent"


def is_usual(call: Call) -> bool:
    """Whether it is a usual call: its response is of interest to no other check of ids."""
    return call.is_rpc and member(call, "id") == 1 and isinstance(call.payload, dict)


def is_wrong_payload(call: Call) -> bool:
    """Whether it is the call with an error of a skill."""
    return isinstance(call.payload, dict) and call.payload == {"type": "dealer.weather.request"}


def _add_error(document: dict[str, Any]) -> None:
    """Adds an error to a response with a result: it must have only one of both."""
    if "result" in document:
        document["error"] = None


broken("json-rpc.version")(_answers(lambda call: call.is_rpc, lambda document: document.update(jsonrpc="1.0")))
broken("json-rpc.result-or-error")(_answers(lambda call: call.is_rpc, _add_error))
broken("json-rpc.members")(_answers(lambda call: call.is_rpc, lambda document: document.update(time=3)))
broken("json-rpc.id-present")(_answers(is_usual, lambda document: document.pop("id", None)))
broken("json-rpc.error-object")(_answers(is_wrong_payload, lambda document: document["error"].update(details=[])))
broken("json-rpc.error-data")(
    _answers(is_wrong_payload, lambda document: document["error"].update(data=document["error"]["data"][-1]))
)


@broken("json-rpc.http-status")
async def answers_422(call: Call, agent: Agent) -> AgentResponse:
    """Sends an error of a skill with the HTTP status 422, although errors of JSON-RPC have 200."""
    answer = await agent(call)
    return answer.with_status(422) if is_wrong_payload(call) and member(call, "id") == 1 else answer


def _is_id(rpc_id: Any) -> When:
    """Calls with exactly this id: 1 and True are different."""
    return lambda call: call.is_rpc and member(call, "id") == rpc_id and type(member(call, "id")) is type(rpc_id)


WRONG_IDS: dict[str, tuple[Any, Any]] = {
    "json-rpc.id-string": ("check-7f1f2a52", 1),
    "json-rpc.id-empty": ("", 1),
    "json-rpc.id-unicode": ('é "quoted" \\ 車', 1),
    "json-rpc.id-zero": (0, None),
    "json-rpc.id-negative": (-7, 1),
    "json-rpc.id-large": (9_007_199_254_740_993, 9_007_199_254_740_992),
    "json-rpc.id-fraction": (1.5, 1),
    "json-rpc.id-null": (None, 1),
}
"""The id of a call, and that of its response."""


def _sets(**members: Any) -> Change:
    """Sets members of a JSON object."""
    return lambda document: document.update(**members)


for _id, (_asked, _answered) in WRONG_IDS.items():
    broken(_id)(_answers(_is_id(_asked), _sets(id=_answered)))

broken("json-rpc.id-in-errors")(_answers(_is_id("check-error"), _sets(id=None)))


def _array_to_object(document: dict[str, Any]) -> None:
    """Replaces an array of params by its first member, which makes the call a valid one."""
    document["params"] = document["params"][0]


# Each agent repairs one kind of wrong call.
broken("json-rpc.id-object")(_calls(lambda call: isinstance(member(call, "id"), dict), _sets(id=1)))
broken("json-rpc.id-boolean")(_calls(lambda call: member(call, "id") is True, _sets(id=1)))
broken("json-rpc.notification-silent")(_calls(lambda call: call.is_rpc and "id" not in call.document, _sets(id=1)))
broken("json-rpc.batch-array")(
    changes_calls(
        lambda call: isinstance(call.document, list) and isinstance(call.document[0], dict),
        lambda call: replace(call, body=json.dumps(call.document[0]).encode()),
    )
)
broken("json-rpc.notification")(_calls(lambda call: call.is_rpc and "id" not in call.document, _sets(id=None)))
broken("json-rpc.version-missing")(
    _calls(
        lambda call: member(call, "method") == "SendMessage" and "jsonrpc" not in call.document, _sets(jsonrpc="2.0")
    )
)
broken("json-rpc.version-other")(_calls(lambda call: member(call, "jsonrpc") == "1.0", _sets(jsonrpc="2.0")))
broken("json-rpc.method-missing")(
    _calls(lambda call: call.is_rpc and "method" not in call.document, _sets(method="SendMessage"))
)
broken("json-rpc.method-type")(_calls(lambda call: member(call, "method") == 7, _sets(method="SendMessage")))
broken("json-rpc.method-unknown")(
    _calls(lambda call: member(call, "method") == "CheckNoSuchMethod", _sets(method="SendMessage"))
)
broken("json-rpc.method-case")(
    _calls(lambda call: member(call, "method") == "sendmessage", _sets(method="SendMessage"))
)
broken("json-rpc.method-legacy")(
    _calls(
        lambda call: member(call, "method") == "message/send" and member(call, "id") == 1, _sets(method="SendMessage")
    )
)
broken("json-rpc.params-array")(_calls(lambda call: isinstance(member(call, "params"), list), _array_to_object))


def _number(number: int) -> Change:
    """Gives an error another code of JSON-RPC."""
    return lambda document: document["error"].update(code=number)


broken("json-rpc.not-an-object")(_answers(lambda call: call.document == "SendMessage", _number(-32602)))
broken("json-rpc.batch")(
    _answers(lambda call: isinstance(call.document, list) and isinstance(call.document[0], dict), _number(-32601))
)
broken("json-rpc.params-missing")(
    _answers(lambda call: member(call, "method") == "SendMessage" and "params" not in call.document, _number(-32603))
)
broken("json-rpc.not-json")(_answers(lambda call: call.body == NOT_JSON, _number(-32600)))
broken("json-rpc.not-json-id")(_answers(lambda call: call.body == NOT_JSON, _sets(id=1)))


@broken("json-rpc.method-legacy-explained")
async def does_not_explain_the_method(call: Call, agent: Agent) -> AgentResponse:
    """Refuses a method of an old revision with "No.", so that nobody learns the new name."""
    answer = await agent(call)
    return (
        answer.with_error(lambda error: error.update(message="No.")) if member(call, "id") == "check-legacy" else answer
    )
