"""The A2A message around a payload: of a reply, and of a request."""

from collections.abc import Callable
from typing import Any

from dealer_agent.checker.check import check, expect
from dealer_agent.checker.checks.a2a_errors import expect_a2a_error
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.target import Refusal, Target

SKILL = "dealer.information"
"""The skill of these requests: its payload has a type only."""

MISSING, WRONG = "MISSING_REQUIRED_FIELD", "SCHEMA_VALIDATION_FAILED"

Change = Callable[[dict[str, Any]], object]
"""Changes a SendMessageRequest in place."""


def changed(target: Target, change: Change, context: str | None = None) -> dict[str, Any]:
    """A valid request for the dealer's information, changed. A `contextId` tells it from those of other checks."""
    request = target.message(target.payload(SKILL), **({} if context is None else {"contextId": context}))
    change(request)
    return request


def unchanged(_: dict[str, Any]) -> None:
    """No change."""


def part(request: dict[str, Any]) -> dict[str, Any]:
    """The data part of a request."""
    found: dict[str, Any] = request["message"]["parts"][0]
    return found


async def refusal_of(target: Target, change: Change, context: str | None = None) -> Refusal:
    """The error that a changed request gets."""
    return target.refusal(await target.send_message(changed(target, change, context)))


# Replies


async def reply(target: Target) -> Exchange:
    """The exchange of a valid request."""
    return await target.send_message(changed(target, unchanged))


@check("envelope.reply.message")
async def reply_is_a_message(target: Target) -> None:
    """The outer object has nothing beside the message."""
    exchange = await reply(target)
    document = exchange.json
    outer = document.get("result") if target.is_rpc and isinstance(document, dict) else document
    names = sorted(outer) if isinstance(outer, dict) else []
    expect(
        isinstance(outer, dict) and isinstance(outer.get("message"), dict),
        f"The reply is no object with a message. Its members: {', '.join(names) or 'none'}.",
        exchange,
    )
    expect(names == ["message"], f"The reply has the members {', '.join(names)}.", exchange)


@check("envelope.reply.role")
async def reply_has_the_role_of_an_agent(target: Target) -> None:
    """The role in the form of v1.0."""
    exchange = await reply(target)
    role = target.reply_message(exchange).get("role")
    expect(role == "ROLE_AGENT", f"The role of the reply is {role!r}.", exchange)


@check("envelope.reply.message-id")
async def reply_has_an_id_of_its_own(target: Target) -> None:
    """Compares the ids of one request and its reply."""
    request = changed(target, unchanged)
    exchange = await target.send_message(request)
    found = target.reply_message(exchange).get("messageId")
    expect(isinstance(found, str) and found, "The reply has no messageId.", exchange)
    expect(found != request["message"]["messageId"], "The reply repeats the messageId of the request.", exchange)


@check("envelope.reply.message-id-unique")
async def replies_have_different_ids(target: Target) -> None:
    """The same request twice."""
    request = changed(target, unchanged, "check-unique")
    first = target.reply_message(await target.send_message(request)).get("messageId")
    second = target.reply_message(await target.send_message(request, fresh=True)).get("messageId")
    expect(first != second or first is None, f"Two replies have the messageId {first!r}.", target)


@check("envelope.reply.one-part")
async def reply_has_one_part(target: Target) -> None:
    """The number of parts."""
    exchange = await reply(target)
    parts = target.reply_message(exchange).get("parts")
    expect(isinstance(parts, list) and parts, "The reply has no parts.", exchange)
    expect(len(parts or []) == 1, f"The reply has {len(parts or [])} parts.", exchange)


def first_part(target: Target, exchange: Exchange) -> dict[str, Any]:
    """The data part of a reply; empty if there is none."""
    parts = target.reply_message(exchange).get("parts")
    found = [each for each in (parts if isinstance(parts, list) else []) if isinstance(each, dict) and "data" in each]
    return found[0] if found else {}


@check("envelope.reply.media-type")
async def reply_has_the_media_type_of_the_skill(target: Target) -> None:
    """In the vocabulary of the request."""
    exchange = await reply(target)
    found, wanted = first_part(target, exchange).get("mediaType"), target.response_media_type(SKILL)
    expect(found == wanted, f"The mediaType of the reply is {found!r}. Expected: {wanted}.", exchange)


@check("envelope.reply.type")
async def reply_has_the_type_of_the_skill(target: Target) -> None:
    """The type of the payload."""
    exchange = await reply(target)
    found = target.reply_payload(exchange).get("type")
    expect(found == f"{SKILL}.response", f"The type of the payload is {found!r}.", exchange)


@check("envelope.reply.data")
async def reply_has_data(target: Target) -> None:
    """`data` inside the payload."""
    exchange = await target.send_message(changed(target, unchanged, "check-data"))
    found = target.reply_payload(exchange).get("data")
    expect(isinstance(found, dict), "The payload has no object data.", exchange)


@check("envelope.reply.no-kind")
async def reply_has_no_kind(target: Target) -> None:
    """The legacy discriminator is absent."""
    exchange = await reply(target)
    expect("kind" not in target.reply_message(exchange), "The message of the reply has a kind.", exchange)
    expect("kind" not in first_part(target, exchange), "The part of the reply has a kind.", exchange)


@check("envelope.reply.context-id")
async def reply_repeats_the_context(target: Target) -> None:
    """With a context of the checker."""
    exchange = await target.send_message(changed(target, unchanged, "check-context"))
    found = target.reply_message(exchange).get("contextId")
    expect(found == "check-context", f"The request has the contextId 'check-context', the reply {found!r}.", exchange)


@check("envelope.reply.strict-json", last=True)
async def all_bodies_are_strict_json(target: Target) -> None:
    """All bodies of this target that claim to be JSON."""
    await reply(target)
    for exchange in target.exchanges:
        if exchange.body and "json" in exchange.media_type:
            expect(not exchange.json_defects, next(iter(exchange.json_defects), ""), exchange)


@check("envelope.reply.integers-plain")
async def integers_are_plain(target: Target) -> None:
    """The numbers of a page that are integers by the specification."""
    exchange = await target.send(target.payload("inventory.search", pagination={"limit": 100}))
    page = target.answer(exchange)
    vehicles = page.get("vehicles")
    names = ("year", "price", "list_price", "msrp", "mileage", "city_mpg", "highway_mpg", "displacement_cc")
    nodes: list[tuple[dict[str, Any], tuple[str, ...]]] = [(page, ("total", "skip", "limit"))]
    nodes += [(each, names) for each in (vehicles if isinstance(vehicles, list) else []) if isinstance(each, dict)]
    for node, members in nodes:
        for name in members:
            expect(not isinstance(node.get(name), float), f"{name} is {node.get(name)!r}, with a fraction.", exchange)


# Requests that are refused

REFUSED: dict[str, tuple[Change, str]] = {
    "envelope.message-required": (lambda request: request.pop("message"), MISSING),
    "envelope.message-id-required": (lambda request: request["message"].pop("messageId"), MISSING),
    "envelope.role-required": (lambda request: request["message"].pop("role"), MISSING),
    "envelope.parts-required": (lambda request: request["message"].pop("parts"), MISSING),
    "envelope.media-type-required": (lambda request: part(request).pop("mediaType"), MISSING),
    "envelope.message-id-empty": (lambda request: request["message"].update(messageId=""), WRONG),
    "envelope.message-id-type": (lambda request: request["message"].update(messageId=7), WRONG),
    "envelope.message-type": (lambda request: request.update(message="Which cars do you have?"), WRONG),
    "envelope.role-unknown": (lambda request: request["message"].update(role="ROLE_AGENT"), WRONG),
    "envelope.role-legacy": (lambda request: request["message"].update(role="user"), WRONG),
    "envelope.kind-on-message": (lambda request: request["message"].update(kind="message"), WRONG),
    "envelope.kind-on-part": (lambda request: part(request).update(kind="data"), WRONG),
    "envelope.parts-empty": (lambda request: request["message"].update(parts=[]), WRONG),
    "envelope.two-data-parts": (lambda request: request["message"]["parts"].append(part(request)), WRONG),
    "envelope.data-type": (lambda request: part(request).update(data="dealer.information.request"), WRONG),
    "envelope.media-type-of-another-skill": (
        lambda request: part(request).update(
            mediaType=part(request)["mediaType"].replace("dealer-information", "vehicle-detail")
        ),
        WRONG,
    ),
    "envelope.modes-type": (
        lambda request: request["configuration"].update(acceptedOutputModes="application/json"),
        WRONG,
    ),
}
"""A change of a request, and the code that it gets, by requirement."""


def _refused(change: Change, code: str) -> Callable[[Target], Any]:
    async def is_refused(target: Target) -> None:
        refusal = await refusal_of(target, change)
        expect(refusal.code == code, f"The code is {refusal.code or 'absent'}. Expected: {code}.", refusal.exchange)

    return is_refused


for _id, (_change, _code) in REFUSED.items():
    check(_id)(_refused(_change, _code))


def without_modes(request: dict[str, Any]) -> None:
    """Removes the output modes only."""
    request["configuration"] = {}


@check("envelope.configuration-required")
async def configuration_is_required(target: Target) -> None:
    """Or allowed to be absent, on purpose."""
    await _missing_or_allowed(target, lambda request: request.pop("configuration"))


@check("envelope.modes-required")
async def modes_are_required(target: Target) -> None:
    """Or allowed to be absent, on purpose."""
    await _missing_or_allowed(target, without_modes)


async def _missing_or_allowed(target: Target, change: Change) -> None:
    exchange = await target.send_message(changed(target, change))
    if not (isinstance(exchange.json, dict) and "error" in exchange.json):
        target.answer(exchange)
        return
    refusal = target.refusal(exchange)
    expect(refusal.code == MISSING, f"The code is {refusal.code or 'absent'}. Expected: {MISSING}.", exchange)


@check("envelope.pointer")
async def pointer_leads_to_the_absent_member(target: Target) -> None:
    """For an absent role."""
    refusal = await refusal_of(target, lambda request: request["message"].pop("role"), "check-pointer")
    found = refusal.details.get("instancePath", refusal.details.get("instanceLocation"))
    if found is None and (problems := refusal.problems(target.revision)):
        found = problems[0][0]
    expect(found == "/message/role", f"The pointer is {found!r}. Expected: '/message/role'.", refusal.exchange)


def without_role_and_id(request: dict[str, Any]) -> None:
    """Removes two members."""
    del request["message"]["role"], request["message"]["messageId"]


@check("envelope.all-problems")
async def all_problems_are_listed(target: Target) -> None:
    """For two absent members."""
    refusal = await refusal_of(target, without_role_and_id, "check-all-problems")
    found = sorted(pointer for pointer, _ in refusal.problems(target.revision))
    expect(
        {"/message/messageId", "/message/role"} <= set(found),
        f"messageId and role are absent. details.errors lists: {', '.join(found) or 'nothing'}.",
        refusal.exchange,
    )


@check("envelope.legacy-explained")
async def legacy_form_is_explained(target: Target) -> None:
    """The message of the error helps."""
    refusal = await refusal_of(target, REFUSED["envelope.role-legacy"][0], "check-legacy")
    words = f"{refusal.message} {refusal.payload.get('message', '')}"
    expect("ROLE_USER" in words or "v1.0" in words, f"The message is: {words[:200]}", refusal.exchange)


@check("envelope.text-alone")
async def text_alone_is_refused(target: Target) -> None:
    """No skill can be found in free text."""
    await refusal_of(target, lambda request: request["message"].update(parts=[{"text": "Which cars do you have?"}]))


@check("envelope.payload-type-required")
async def payload_without_type_is_refused(target: Target) -> None:
    """The code is one of both for validation."""
    refusal = await refusal_of(target, lambda request: part(request)["data"].pop("type"))
    expect(refusal.code in (MISSING, WRONG), f"The code is {refusal.code or 'absent'}.", refusal.exchange)


@check("envelope.payload-type-unknown")
async def unknown_type_is_an_unsupported_skill(target: Target) -> None:
    """A type that no revision has."""
    refusal = await refusal_of(target, lambda request: part(request)["data"].update(type="inventory.astrology.request"))
    expect(refusal.code == "UNSUPPORTED_SKILL", f"The code is {refusal.code or 'absent'}.", refusal.exchange)


def modes(*accepted: str) -> Change:
    """Sets the output modes."""
    return lambda request: request["configuration"].update(acceptedOutputModes=list(accepted))


@check("envelope.modes-mismatch")
async def other_modes_are_refused(target: Target) -> None:
    """Plain text covers no reply."""
    refusal = await refusal_of(target, modes("text/plain"))
    allowed = (WRONG, "CONTENT_TYPE_NOT_SUPPORTED", "UNSUPPORTED_MEDIA_TYPE")
    expect(
        refusal.code in allowed or refusal.number == -32005,
        f"The code is {refusal.code or 'absent'}. Expected: {WRONG}.",
        refusal.exchange,
    )


@check("envelope.modes-expected")
async def expected_mode_is_named(target: Target) -> None:
    """Anywhere in the error."""
    refusal = await refusal_of(target, modes("text/plain"), "check-expected")
    wanted = target.response_media_type(SKILL)
    expect(wanted.encode() in refusal.exchange.body, f"The error does not name {wanted}.", refusal.exchange)


# Requests that are accepted


def add_text(request: dict[str, Any]) -> None:
    """Puts a text part before the data part."""
    request["message"]["parts"].insert(0, {"text": "Please tell me who you are."})


def add_unknown_members(request: dict[str, Any]) -> None:
    """On every level of the envelope."""
    for node in (request, request["message"], part(request), request["configuration"]):
        node["futureMember"] = {"of": "A2A"}


ACCEPTED: dict[str, Change] = {
    "envelope.text-beside-data": add_text,
    "envelope.media-type-case": lambda request: part(request).update(mediaType=part(request)["mediaType"].upper()),
    "envelope.media-type-parameters": lambda request: part(request).update(
        mediaType=part(request)["mediaType"] + "; charset=utf-8"
    ),
    "envelope.modes-json": modes("application/json"),
    "envelope.unknown-members": add_unknown_members,
    "envelope.metadata": lambda request: request["message"].update(
        metadata={"trace": "1"}, extensions=["https://example.com/x"]
    ),
}
"""A change of a request that gets a normal reply, by requirement."""


def _accepted(change: Change) -> Callable[[Target], Any]:
    async def is_accepted(target: Target) -> None:
        target.answer(await target.send_message(changed(target, change)))

    return is_accepted


for _id, _change in ACCEPTED.items():
    check(_id)(_accepted(_change))


@check("envelope.modes-wildcard")
async def wildcards_cover_every_reply(target: Target) -> None:
    """Both forms."""
    for mode in ("application/*", "*/*"):
        target.answer(await target.send_message(changed(target, modes(mode))))


# Tasks and push notifications


@check("envelope.task-id")
async def unknown_task_is_not_found(target: Target) -> None:
    """Also if the card declares tasks: nobody has this one."""
    refusal = await refusal_of(target, lambda request: request["message"].update(taskId="check-no-such-task"))
    expect_a2a_error(target, refusal, "TASK_NOT_FOUND")


@check("envelope.push-configuration")
async def push_configuration_is_refused(target: Target) -> None:
    """Unless the card declares push notifications."""
    target.skip_if_declared("pushNotifications")
    push = {"url": "https://example.com/hook"}
    refusal = await refusal_of(target, lambda request: request["configuration"].update(taskPushNotificationConfig=push))
    expect_a2a_error(target, refusal, "PUSH_NOTIFICATION_NOT_SUPPORTED")
