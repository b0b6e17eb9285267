"""The A2A message around a payload: of a response, and of a request."""

from collections.abc import Callable, Mapping
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each, each_of
from dealer_agent.checker.checks.operations import expect_a2a_error
from dealer_agent.checker.exchange import Exchange, dicts
from dealer_agent.checker.outcome import expect
from dealer_agent.checker.target import Refusal, Target

SKILL = "dealer.information"
"""The skill of these requests: its payload has a type only."""

MISSING, WRONG = "MISSING_REQUIRED_FIELD", "SCHEMA_VALIDATION_FAILED"

Request = dict[str, Any]
Change = Callable[[Request], object]
"""Changes a SendMessageRequest in place."""


def changed(target: Target, change: Change, context: str | None = None) -> Request:
    """A valid request for the dealer's information, changed. A `contextId` tells it from those of other checks."""
    request = target.message(target.payload(SKILL), **({} if context is None else {"contextId": context}))
    change(request)
    return request


def _unchanged(_: Request) -> None:
    """No change."""


def part(request: Request) -> dict[str, Any]:
    """The data part of a request."""
    found: dict[str, Any] = request["message"]["parts"][0]
    return found


async def _refusal_of(target: Target, change: Change, context: str | None = None) -> Refusal:
    """The error that a changed request gets."""
    return target.refusal(await target.send_message(changed(target, change, context)))


def _of_message(**members: Any) -> Change:
    return lambda request: request["message"].update(members)


def _of_part(**members: Any) -> Change:
    return lambda request: part(request).update(members)


def _media_type(change: Callable[[str], str]) -> Change:
    return lambda request: part(request).update(mediaType=change(part(request)["mediaType"]))


def _modes(*accepted: str) -> Change:
    return lambda request: request["configuration"].update(acceptedOutputModes=list(accepted))


# Responses


async def _reply(target: Target) -> Exchange:
    """The exchange of a valid request."""
    return await target.send_message(changed(target, _unchanged))


@check("envelope.reply.message")
async def _(target: Target) -> None:
    exchange = await _reply(target)
    document = exchange.json
    outer = document.get("result") if target.is_rpc and isinstance(document, dict) else document
    found = sorted(outer) if isinstance(outer, dict) else []
    good = found == ["message"] and isinstance(outer, dict) and isinstance(outer["message"], dict)
    expect(
        good, f"The response is no object with a message alone. Its members: {', '.join(found) or 'none'}.", exchange
    )


async def _message(target: Target) -> list[tuple[dict[str, Any], Exchange]]:
    """The message of a response, with the first data part as `part`, and its expected media type as `wanted`."""
    exchange = await _reply(target)
    message = target.reply_message(exchange)
    data_part = next((each for each in dicts(message.get("parts")) if "data" in each), {})
    return [({**message, "part": data_part, "wanted": target.response_media_type(SKILL)}, exchange)]


def _has_type(message: dict[str, Any]) -> bool | str:
    payload = message["part"].get("data")
    found = payload.get("type") if isinstance(payload, dict) else None
    return found == f"{SKILL}.response" or f"The type of the payload is {found!r}."


def _has_one_part(message: dict[str, Any]) -> bool | str:
    parts = message.get("parts")
    count = len(parts) if isinstance(parts, list) else 0
    return count == 1 or f"The response has {count or 'no'} parts."


each_of(
    _message,
    {
        "envelope.reply.role": lambda message: (
            message.get("role") == "ROLE_AGENT" or f"The role of the response is {message.get('role')!r}."
        ),
        "envelope.reply.one-part": _has_one_part,
        "envelope.reply.media-type": lambda message: (
            message["part"].get("mediaType") == message["wanted"]
            or f"The mediaType of the response is {message['part'].get('mediaType')!r}. Expected: {message['wanted']}."
        ),
        "envelope.reply.type": _has_type,
        "envelope.reply.no-kind": lambda message: (
            ("kind" not in message and "kind" not in message["part"]) or "The message or the part has a kind."
        ),
    },
)


@check("envelope.reply.message-id")
async def _(target: Target) -> None:
    request = changed(target, _unchanged)
    exchange = await target.send_message(request)
    found = target.reply_message(exchange).get("messageId")
    expect(forms.name(found), "The response has no messageId.", exchange)
    expect(found != request["message"]["messageId"], "The response repeats the messageId of the request.", exchange)


@check("envelope.reply.message-id-unique")
async def _(target: Target) -> None:
    request = changed(target, _unchanged, "check-unique")
    first = target.reply_message(await target.send_message(request)).get("messageId")
    second = target.reply_message(await target.send_message(request, fresh=True)).get("messageId")
    expect(first != second or first is None, f"Two responses have the messageId {first!r}.")


@check("envelope.reply.data")
async def _(target: Target) -> None:
    exchange = await target.send_message(changed(target, _unchanged, "check-data"))
    found = target.reply_payload(exchange).get("data")
    expect(isinstance(found, dict), "The payload has no object data.", exchange)


@check("envelope.reply.context-id")
async def _(target: Target) -> None:
    exchange = await target.send_message(changed(target, _unchanged, "check-context"))
    found = target.reply_message(exchange).get("contextId")
    expect(
        found == "check-context", f"The request has the contextId 'check-context', the response {found!r}.", exchange
    )


@check("envelope.reply.strict-json", last=True)
async def _(target: Target) -> None:
    await _reply(target)
    for exchange in target.exchanges:
        if exchange.body and "json" in exchange.media_type:
            expect(not exchange.json_defects, next(iter(exchange.json_defects), ""), exchange)


@check("envelope.reply.integers-plain")
async def _(target: Target) -> None:
    page = await target.ask("inventory.search", pagination={"limit": 100})
    names = ("year", "price", "list_price", "msrp", "mileage", "city_mpg", "highway_mpg", "displacement_cc")
    nodes = [(page, ("total", "skip", "limit")), *((each, names) for each in dicts(page.get("vehicles")))]
    for node, members in nodes:
        for name in members:
            expect(not isinstance(node.get(name), float), f"{name} is {node.get(name)!r}, with a fraction.")


# Requests that are refused

REFUSED: Mapping[str, tuple[Change, str]] = {
    "envelope.message-required": (lambda request: request.pop("message"), MISSING),
    "envelope.message-id-required": (lambda request: request["message"].pop("messageId"), MISSING),
    "envelope.role-required": (lambda request: request["message"].pop("role"), MISSING),
    "envelope.parts-required": (lambda request: request["message"].pop("parts"), MISSING),
    "envelope.media-type-required": (lambda request: part(request).pop("mediaType"), MISSING),
    "envelope.message-id-empty": (_of_message(messageId=""), WRONG),
    "envelope.message-id-type": (_of_message(messageId=7), WRONG),
    "envelope.message-type": (lambda request: request.update(message="Which cars do you have?"), WRONG),
    "envelope.role-unknown": (_of_message(role="ROLE_AGENT"), WRONG),
    "envelope.role-legacy": (_of_message(role="user"), WRONG),
    "envelope.kind-on-message": (_of_message(kind="message"), WRONG),
    "envelope.kind-on-part": (_of_part(kind="data"), WRONG),
    "envelope.parts-empty": (_of_message(parts=[]), WRONG),
    "envelope.two-data-parts": (lambda request: request["message"]["parts"].append(part(request)), WRONG),
    "envelope.data-type": (_of_part(data="dealer.information.request"), WRONG),
    "envelope.media-type-of-another-skill": (
        _media_type(lambda found: found.replace("dealer-information", "vehicle-detail")),
        WRONG,
    ),
    "envelope.modes-type": (
        lambda request: request["configuration"].update(acceptedOutputModes="application/json"),
        WRONG,
    ),
}
"""A change of a request, and the code that it gets."""


@check_each(REFUSED)
async def _(target: Target, change: Change, code: str) -> None:
    (await _refusal_of(target, change)).expect_code(code)


# An agent may refuse the request because the member is absent, or answer it. Both pass.
@check_each(
    {
        "envelope.configuration-required": lambda request: request.pop("configuration"),
        "envelope.modes-required": lambda request: request.update(configuration={}),
    }
)
async def _(target: Target, change: Change) -> None:
    exchange = await target.send_message(changed(target, change))
    if isinstance(exchange.json, dict) and "error" in exchange.json:
        target.refusal(exchange).expect_code(MISSING)
    else:
        target.answer(exchange)


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
    target.refusal(await _with_limit(target, limit)).expect_code(WRONG)


@check_each(
    {
        "envelope.numbers.zero-fraction": "2.0",
        "envelope.numbers.exponent": "2e0",
        "envelope.duplicate-member": '1,"limit":2',
    }
)
async def _(target: Target, text: str) -> None:
    # A dealer may allow only one vehicle on a page.
    two = target.answer(await _with_limit(target, "2")).get("limit")
    exchange = await _with_limit(target, text)
    limit = target.answer(exchange).get("limit")
    expect(limit == two, f"The limit {text} gives the limit {limit!r}, and the limit 2 gives {two!r}.", exchange)


@check("envelope.pointer")
async def _(target: Target) -> None:
    refusal = await _refusal_of(target, REFUSED["envelope.role-required"][0], "check-pointer")
    found = refusal.details.get("instancePath", refusal.details.get("instanceLocation"))
    if found is None and (problems := refusal.problems(target.revision)):
        found = problems[0][0]
    expect(found == "/message/role", f"The pointer is {found!r}. Expected: '/message/role'.", refusal.exchange)


def _without_role_and_id(request: Request) -> None:
    del request["message"]["role"], request["message"]["messageId"]


@check("envelope.all-problems")
async def _(target: Target) -> None:
    refusal = await _refusal_of(target, _without_role_and_id, "check-all-problems")
    found = sorted(pointer for pointer, _ in refusal.problems(target.revision))
    expect(
        {"/message/messageId", "/message/role"} <= set(found),
        f"messageId and role are absent. details.errors lists: {', '.join(found) or 'nothing'}.",
        refusal.exchange,
    )


@check("envelope.legacy-explained")
async def _(target: Target) -> None:
    refusal = await _refusal_of(target, REFUSED["envelope.role-legacy"][0], "check-legacy")
    words = f"{refusal.message} {refusal.payload.get('message', '')}"
    expect("ROLE_USER" in words or "v1.0" in words, f"The message is: {words[:200]}", refusal.exchange)


@check("envelope.text-alone")
async def _(target: Target) -> None:
    await _refusal_of(target, _of_message(parts=[{"text": "Which cars do you have?"}]))


@check("envelope.payload-type-required")
async def _(target: Target) -> None:
    (await _refusal_of(target, lambda request: part(request)["data"].pop("type"))).expect_code(MISSING, WRONG)


@check("envelope.payload-type-unknown")
async def _(target: Target) -> None:
    change = _of_part(data={"type": "inventory.astrology.request"})
    (await _refusal_of(target, change)).expect_code("UNSUPPORTED_SKILL")


@check("envelope.modes-mismatch")
async def _(target: Target) -> None:
    refusal = await _refusal_of(target, _modes("text/plain"))
    if refusal.number != -32005:
        refusal.expect_code(WRONG, "CONTENT_TYPE_NOT_SUPPORTED", "UNSUPPORTED_MEDIA_TYPE")


@check("envelope.modes-expected")
async def _(target: Target) -> None:
    refusal = await _refusal_of(target, _modes("text/plain"), "check-expected")
    wanted = target.response_media_type(SKILL)
    expect(wanted.encode() in refusal.exchange.body, f"The error does not name {wanted}.", refusal.exchange)


# Requests that are accepted


def _add_unknown_members(request: Request) -> None:
    for node in (request, request["message"], part(request), request["configuration"]):
        node["futureMember"] = {"of": "A2A"}


@check_each(
    {
        "envelope.text-beside-data": lambda request: request["message"]["parts"].insert(
            0, {"text": "Please tell me who you are."}
        ),
        "envelope.media-type-case": _media_type(str.upper),
        "envelope.media-type-parameters": _media_type(lambda found: f"{found}; charset=utf-8"),
        "envelope.modes-json": _modes("application/json"),
        "envelope.modes-wildcard": (_modes("application/*"), _modes("*/*")),
        "envelope.unknown-members": _add_unknown_members,
        "envelope.metadata": _of_message(metadata={"trace": "1"}, extensions=["https://example.com/x"]),
    }
)
async def _(target: Target, *changes: Change) -> None:
    for change in changes:
        target.answer(await target.send_message(changed(target, change)))


# Tasks and push notifications


@check("envelope.task-id")
async def _(target: Target) -> None:
    # Also if the card declares tasks: nobody has this one.
    expect_a2a_error(target, await _refusal_of(target, _of_message(taskId="check-no-such-task")), "TASK_NOT_FOUND")


@check("envelope.push-configuration")
async def _(target: Target) -> None:
    target.skip_if_declared("pushNotifications")
    push = {"url": "https://example.com/hook"}
    refusal = await _refusal_of(
        target, lambda request: request["configuration"].update(taskPushNotificationConfig=push)
    )
    expect_a2a_error(target, refusal, "PUSH_NOTIFICATION_NOT_SUPPORTED")
