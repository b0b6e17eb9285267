"""Checks the A2A message around a payload: that of responses, and that the agent refuses a wrong one in a request."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each, judge_each
from dealer_agent.checker.checks.operations import expect_a2a_error
from dealer_agent.checker.exchange import Exchange, at, dicts
from dealer_agent.checker.outcome import Judgement, conclude, expect, has, skip_unless
from dealer_agent.checker.reply import answered, code, data_of, is_answered, message_of, payload_of, refusal_of, refused
from dealer_agent.checker.target import LEAD, Change, Request, Target, asking, drop, put
from dealer_agent.protocol.skill import SKILL_BY_REQUEST_TYPE

SKILL = "dealer.information"
"""The skill of these requests: its payload has a type only."""

MISSING, WRONG = "MISSING_REQUIRED_FIELD", "SCHEMA_VALIDATION_FAILED"
ABSENT = (MISSING, WRONG)
"""An absent member also breaks the schema."""
MEDIA_TYPE, PAYLOAD, MODES = "message.parts.0.mediaType", "message.parts.0.data", "configuration.acceptedOutputModes"


def _asking(context: str, *changes: Change) -> Request:
    """A changed request whose `contextId` tells it from those of other checks."""
    return asking(SKILL, put("message.contextId", context), *changes)


def _media_type(change: Callable[[str], str]) -> Change:
    return lambda request: put(MEDIA_TYPE, change(request["message"]["parts"][0]["mediaType"]))(request)


# Responses


@check("envelope.reply.message")
async def _(target: Target) -> None:
    """An error is another matter: `message_of` then fails with its code.

    The message is the `result` of a call of JSON-RPC, and the body of a response over HTTP+JSON.
    """
    exchange = await asking(SKILL)(target)
    if isinstance(at(exchange.json, "error"), dict):
        message_of(exchange)
    outer = at(exchange.json, "result") if target.is_rpc else exchange.json
    good = isinstance(outer, dict) and list(outer) == ["message"] and isinstance(outer["message"], dict)
    members = ", ".join(sorted(outer)) if isinstance(outer, dict) else ""
    expect(good, f"The response is not an object with only a message. Its members: {members or 'none'}.", exchange)


def _data_part(message: Any) -> dict[str, Any]:
    """The first data part of a message; empty if it has none."""
    return next((entry for entry in dicts(at(message, "parts")) if "data" in entry), {})


async def _messages(target: Target) -> list[tuple[dict[str, Any], Exchange]]:
    """The message of each success so far, at least of one, and its exchange.

    Each message gets more members: `others` are those beside it, `part` is its first data part,
    `media_type` and `type` are what this part must have, and `request_id` is the `messageId` of the request.
    """
    exchanges = [await asking(SKILL)(target)]
    message_of(exchanges[0])
    exchanges += [
        posted
        for posted in target.posted
        if isinstance(at(posted.json, "result.message" if target.is_rpc else "message"), dict)
    ]
    messages = []
    for exchange in exchanges:
        sent = at(exchange.request_json, "params.message" if target.is_rpc else "message")
        skill = SKILL_BY_REQUEST_TYPE.get(str(at(_data_part(sent), "data.type")))
        if skill:
            message = message_of(exchange)
            outer = exchange.json["result"] if target.is_rpc else exchange.json
            wanted = {
                "others": sorted(outer.keys() - {"message"}),
                "request_id": at(sent, "messageId"),
                "media_type": target.media_type(skill.id, "response"),
                "type": f"{skill.id}.response",
            }
            messages.append(({**message, "part": _data_part(message), **wanted}, exchange))
    return messages


@check_each(
    {
        "envelope.reply.message-id": lambda message: (
            "The response has no messageId."
            if not forms.name(message.get("messageId"))
            else message["messageId"] != message["request_id"] or "The response repeats the messageId of the request."
        ),
        "envelope.reply.message-alone": lambda message: (
            not message["others"] or f"Beside the message, there is {message['others'][0]}."
        ),
        "envelope.reply.role": has("role", forms.one_of("ROLE_AGENT")),
        "envelope.reply.one-part": has("parts", lambda parts: isinstance(parts, list) and len(parts) == 1),
        "envelope.reply.media-type": lambda message: has(
            "part.mediaType", forms.one_of(message["media_type"]), f"not {message['media_type']}"
        )(message),
        "envelope.reply.type": lambda message: has("part.data.type", forms.one_of(message["type"]))(message),
        "envelope.reply.no-kind": lambda message: (
            ("kind" not in message and "kind" not in message["part"]) or "The message or the part has a kind."
        ),
    },
    last=True,
)
async def _(target: Target, judgement: Judgement) -> None:
    for message, exchange in await _messages(target):
        conclude(judgement(message), exchange)


judge_each(
    {
        "envelope.reply.data": (_asking("check-data"), lambda found: has("data", forms.an_object)(payload_of(found))),
        "envelope.reply.no-other-context": (
            _asking("check-context"),
            lambda found: has("contextId", forms.one_of("check-context", None))(message_of(found)),
        ),
        "envelope.reply.context-id": (
            _asking("check-context"),
            lambda found: has("contextId", forms.one_of("check-context"))(message_of(found)),
        ),
    }
)


@check("envelope.reply.message-id-unique", last=True)
async def _(target: Target) -> None:
    """The same request is sent twice, and the responses of the run are looked at. A retried lead may get its first one.

    Responses without a messageId have a check of their own.
    """
    request = target.message(target.payload(SKILL), contextId="check-unique")
    for fresh in (False, True):
        message_of(await target.send_message(request, fresh=fresh))
    others = (each for each in target.posted if LEAD.encode() not in each.request_body)
    known = {id(each): each for each in others if is_answered(each)}.values()
    ids = Counter(name for each in known if isinstance(name := message_of(each).get("messageId"), str))
    twice = next((name for name, count in ids.items() if count > 1), None)
    expect(twice is None, f"Two responses have the messageId {twice!r}.")


@check("envelope.reply.strict-json", last=True)
async def _(target: Target) -> None:
    """All responses of the run are looked at, after one request of this check."""
    await asking(SKILL)(target)
    for exchange in target.exchanges:
        if exchange.body and "json" in exchange.media_type:
            expect(not exchange.json_defects, next(iter(exchange.json_defects), ""), exchange)


@check("envelope.reply.integers-plain")
async def _(target: Target) -> None:
    """Python reads a number with a fraction or an exponent as a float.

    The members are those that the protocol defines as integers.
    """
    page = await target.ask("inventory.search", pagination={"limit": 100})
    names = ("year", "price", "list_price", "msrp", "mileage", "city_mpg", "highway_mpg", "displacement_cc")
    nodes = [(page, ("total", "skip", "limit")), *((entry, names) for entry in dicts(page.get("vehicles")))]
    for node, members in nodes:
        for name in members:
            expect(not isinstance(node.get(name), float), f"{name} is {node.get(name)!r}, with a fraction.")


# Requests that are refused

REFUSED: Mapping[str, tuple[Change, *tuple[str, ...]]] = {
    "envelope.message-required": (drop("message"), *ABSENT),
    "envelope.message-id-required": (drop("message.messageId"), *ABSENT),
    "envelope.role-required": (drop("message.role"), *ABSENT),
    "envelope.parts-required": (drop("message.parts"), *ABSENT),
    "envelope.media-type-required": (drop(MEDIA_TYPE), *ABSENT),
    "envelope.message-id-empty": (put("message.messageId", ""), WRONG),
    "envelope.message-id-type": (put("message.messageId", 7), WRONG),
    "envelope.message-type": (put("message", "Which cars do you have?"), WRONG),
    "envelope.role-unknown": (put("message.role", "ROLE_AGENT"), WRONG),
    "envelope.role-legacy": (put("message.role", "user"), WRONG),
    "envelope.kind-on-message": (put("message.kind", "message"), WRONG),
    "envelope.kind-on-part": (put("message.parts.0.kind", "data"), WRONG),
    "envelope.parts-empty": (put("message.parts", []), WRONG),
    "envelope.two-data-parts": (lambda request: put("message.parts", request["message"]["parts"] * 2)(request), WRONG),
    "envelope.data-type": (put(PAYLOAD, "dealer.information.request"), WRONG),
    "envelope.media-type-of-another-skill": (
        _media_type(lambda found: found.replace("dealer-information", "vehicle-detail")),
        WRONG,
    ),
    "envelope.modes-type": (put(MODES, "application/json"), WRONG),
    "envelope.payload-type-unknown": (put(PAYLOAD, {"type": "inventory.astrology.request"}), "UNSUPPORTED_SKILL"),
}
"""A change of a request, and the codes that it may get."""


judge_each(
    {
        **{name: (asking(SKILL, change), code(*wanted)) for name, (change, *wanted) in REFUSED.items()},
        "envelope.text-alone": (asking(SKILL, put("message.parts", [{"text": "Which cars do you have?"}])), refused),
        "envelope.payload-type-required": (asking(SKILL, drop(f"{PAYLOAD}.type")), code(*ABSENT, "UNSUPPORTED_SKILL")),
    }
)


def _answered_or_missing(exchange: Exchange) -> bool | str:
    return code(MISSING)(exchange) if at(exchange.json, "error") is not None else answered(exchange)


async def _with_limit(target: Target, limit: str) -> Exchange:
    """The exchange of a search with this JSON text as the limit of the page.

    A text, because a JSON writer would make some of them equal.
    """
    body = target.body(target.message(target.payload("inventory.search", pagination={"limit": "check-place"})))
    return await target.post(body.replace(b'"check-place"', limit.encode()))


@check_each(
    {
        "envelope.numbers.fraction": "2.5",
        "envelope.numbers.text": '"2"',
        "envelope.numbers.boolean": "true",
        "envelope.numbers.too-large": "100000000000000000000002",
        "envelope.null": "null",
    }
)
async def _(target: Target, limit: str) -> None:
    conclude(code(WRONG)(await _with_limit(target, limit)))


@check_each(
    {
        "envelope.numbers.zero-fraction": "2.0",
        "envelope.numbers.exponent": "2e0",
        "envelope.duplicate-member": '1,"limit":2',
    }
)
async def _(target: Target, text: str) -> None:
    """`text` is the raw JSON of the limit: another spelling of 2, or a 1 and then a second member with 2."""
    # A dealer may allow only one vehicle on a page.
    two = data_of(await _with_limit(target, "2")).get("limit")
    exchange = await _with_limit(target, text)
    limit = data_of(exchange).get("limit")
    expect(
        limit == two,
        f"A request with the limit {text} gets the limit {limit!r}, and one with 2 gets {two!r}.",
        exchange,
    )


@check("envelope.pointer")
async def _(target: Target) -> None:
    """The pointer may be in `details`, or that of a listed problem."""
    refusal = refusal_of(await _asking("check-pointer", drop("message.role"))(target))
    named = [at(refusal.payload, f"details.{name}") for name in ("instancePath", "instanceLocation")]
    listed = [pointer for pointer, _ in refusal.problems(target.revision)]
    pointer = next((entry for entry in (*named, *listed) if entry is not None), None)
    expect(pointer == "/message/role", f"The pointer is {pointer!r}. Expected: '/message/role'.", refusal.exchange)


@check("envelope.all-problems")
async def _(target: Target) -> None:
    """Two members are absent, and both are listed."""
    refusal = refusal_of(await _asking("check-all-problems", drop("message.role", "message.messageId"))(target))
    pointers = sorted(pointer for pointer, _ in refusal.problems(target.revision))
    expect(
        {"/message/messageId", "/message/role"} <= set(pointers),
        f"messageId and role are absent. details.errors lists: {', '.join(pointers) or 'nothing'}.",
        refusal.exchange,
    )


def _names_new_role(exchange: Exchange) -> bool | str:
    refusal = refusal_of(exchange)
    words = f"{refusal.message} {refusal.payload.get('message', '')}"
    return "ROLE_USER" in words or "v1.0" in words or f"The message is: {words[:200]}"


def _refuses_modes(exchange: Exchange) -> bool | str:
    codes = (WRONG, "CONTENT_TYPE_NOT_SUPPORTED", "UNSUPPORTED_MEDIA_TYPE")
    return refusal_of(exchange).number == -32005 or code(*codes)(exchange)


judge_each(
    {
        "envelope.legacy-explained": (_asking("check-legacy", put("message.role", "user")), _names_new_role),
        "envelope.modes-mismatch": (asking(SKILL, put(MODES, ["text/plain"])), _refuses_modes),
        # An agent may refuse the request because the member is absent, or answer it. Both pass.
        "envelope.configuration-required": (asking(SKILL, drop("configuration")), _answered_or_missing),
        "envelope.modes-required": (asking(SKILL, drop(MODES)), _answered_or_missing),
    }
)


@check("envelope.modes-expected")
async def _(target: Target) -> None:
    exchange = refusal_of(await _asking("check-expected", put(MODES, ["text/plain"]))(target)).exchange
    wanted = target.media_type(SKILL, "response")
    expect(wanted.encode() in exchange.body, f"The error does not name {wanted}.", exchange)


# Requests that are accepted

_FUTURE = [f"{node}futureMember" for node in ("", "message.", "message.parts.0.", "configuration.")]


@check_each(
    {
        "envelope.text-beside-data": lambda request: request["message"]["parts"].insert(
            0, {"text": "Please tell me who you are."}
        ),
        "envelope.media-type-case": _media_type(str.upper),
        "envelope.media-type-parameters": _media_type(lambda found: f"{found}; charset=utf-8"),
        "envelope.modes-json": put(MODES, ["application/json"]),
        "envelope.modes-wildcard": (put(MODES, ["application/*"]), put(MODES, ["*/*"])),
        "envelope.modes-several": lambda request: request["configuration"]["acceptedOutputModes"].insert(
            0, "text/plain"
        ),
        "envelope.unknown-members": lambda request: [put(path, {"from": "A2A"})(request) for path in _FUTURE],
        "envelope.metadata": lambda request: request["message"].update(
            metadata={"trace": "1"}, extensions=["https://example.com/x"]
        ),
    }
)
async def _(target: Target, *changes: Change) -> None:
    for change in changes:
        answered(await asking(SKILL, change)(target))


# Tasks and push notifications


@check("envelope.task-id")
async def _(target: Target) -> None:
    # Also if the card declares tasks: nobody has this one.
    exchange = await asking(SKILL, put("message.taskId", "check-no-such-task"))(target)
    expect_a2a_error(target, refusal_of(exchange), "TASK_NOT_FOUND")


@check("envelope.push-configuration")
async def _(target: Target) -> None:
    skip_unless(not at(target.card.camel, "capabilities.pushNotifications"), "The card declares pushNotifications.")
    push = put("configuration.taskPushNotificationConfig", {"url": "https://example.com/hook"})
    expect_a2a_error(target, refusal_of(await asking(SKILL, push)(target)), "PUSH_NOTIFICATION_NOT_SUPPORTED")
