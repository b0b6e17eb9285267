"""Leads that a dealer accepts, what the responses say, and keys: a retry is the same lead.

`lead_defects.py` has the leads that are refused for a defect.
"""

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, each_of, each_request
from dealer_agent.checker.exchange import Exchange, at
from dealer_agent.checker.lead_requests import (
    EXTRA_MEMBERS,
    TRADE_IN,
    UNKNOWN_VEHICLE,
    UNKNOWN_VIN,
    VALIDATION_CODES,
    Lead,
    a_vin,
    accepted_or_skip,
    first_answered,
    full,
    key_of,
    keyed,
    lead,
    of_no_time,
    plain,
    submit,
    time_at,
)
from dealer_agent.checker.outcome import Failed, Judgement, expect, has, need, skip_if_failed, status
from dealer_agent.checker.reply import (
    Refusal,
    answered,
    code,
    data_of,
    if_refused,
    is_answered,
    message_of,
    payload_of,
    refusal_of,
)
from dealer_agent.checker.target import Request, Target

LONGEST_MESSAGE = 2_000


async def _empty(target: Target) -> list[tuple[tuple[Refusal, set[str]], Exchange]]:
    """The error of a lead without members, which every dealer must refuse, and the pointers that it lists."""
    error = refusal_of(await target.send_message(target.message(target.payload("lead.submit"))))
    need(error.code != "UNSUPPORTED_SKILL", "The agent does not offer lead.submit.")
    return [((error, {pointer for pointer, _ in error.problems(target.revision)}), error.exchange)]


each_of(
    _empty,
    {
        "leads.empty": lambda found: (
            found[0].code in (*VALIDATION_CODES, "CONTACT_CONSENT_REQUIRED")
            or f"The code is {found[0].code or 'absent'}."
        ),
        "leads.empty-all": lambda found: (
            found[1] >= {"/customer", "/source_agent"}
            or f"`details.errors` lists {', '.join(sorted(found[1])) or 'nothing'}, not /customer and /source_agent."
        ),
    },
)


async def _for_a_vehicle(target: Target) -> Exchange:
    single = lead(target, vehicle_of_interest={"vin": await a_vin(target)})
    return await first_answered(target, await full(target), single)


async def _with_trade_in(target: Target) -> Exchange:
    return await first_answered(target, await full(target), lead(target, trade_in=dict(TRADE_IN)))


def _unknown(target: Target) -> tuple[Lead, Lead]:
    return of_no_time(target), lead(target, vehicle_of_interest=UNKNOWN_VEHICLE)


async def _with_extra_members(target: Target) -> Exchange:
    # The first lead has more in it, and may be refused for that.
    return await first_answered(target, of_no_time(target), lead(target, vehicle_of_interest=EXTRA_MEMBERS))


def _test_drive(**members: object) -> Request:
    return lambda target: submit(target, lead(target, appointment={"appointment_type": "test_drive"}, **members))


def _accepts_unknown_vehicle(exchange: Exchange) -> bool | str:
    return is_answered(exchange) or code("VEHICLE_NOT_FOUND")(exchange)


each_request(
    {
        "leads.accepted": (lambda target: first_answered(target, keyed(target), plain(target)), answered),
        "leads.vehicle": (_for_a_vehicle, answered),
        "leads.trade-in": (_with_trade_in, answered),
        "leads.vehicle-unknown": (lambda target: first_answered(target, *_unknown(target)), answered),
        "leads.vehicle-extra-members": (_with_extra_members, _accepts_unknown_vehicle),
        "leads.vehicle-unknown-message": (
            lambda target: accepted_or_skip(target, *_unknown(target)),
            lambda exchange: has("message", bool)(payload_of(exchange)),
        ),
        "leads.test-drive-unknown": (
            _test_drive(vehicle_of_interest={"vin": UNKNOWN_VIN}),
            code("VEHICLE_NOT_FOUND"),
        ),
        "leads.test-drive-missing-vehicle": (_test_drive(), code("MISSING_REQUIRED_FIELD")),
    }
)


async def _reply(target: Target) -> list[tuple[Lead, Exchange]]:
    """The payload of the response to a lead of a customer who wants to be called."""
    exchange = await accepted_or_skip(target, keyed(target), plain(target))
    return [(payload_of(exchange), exchange)]


def _short_message(reply: Lead) -> bool | str:
    message = need(reply.get("message"), "The response has no `message`.")
    return not forms.text(message) or len(message) <= LONGEST_MESSAGE or f"The message has {len(message)} characters."


each_of(
    _reply,
    {
        "leads.reply-id": has("data.lead_id", forms.name),
        "leads.reply-status": has("data.status", forms.one_of("received", "duplicate", "rejected")),
        "leads.reply-dealer": has("data.dealer.name", bool),
        "leads.reply-message": has("message", forms.name),
        "leads.reply-message-length": _short_message,
    },
)


@check("leads.two-ids")
async def _(target: Target) -> None:
    [(first, _)] = await _reply(target)
    exchange = await accepted_or_skip(target, *_unknown(target))
    ids = [at(first, "data.lead_id"), data_of(exchange).get("lead_id")]
    need(None not in ids, "A response has no `lead_id`.")
    expect(ids[0] != ids[1], "Two leads for different vehicles have one id.", exchange)


# Idempotency keys


async def _first(target: Target) -> Exchange:
    """The exchange of the lead with a key, whose first request was refused for its consent."""
    await submit(target, keyed(target) | {"consent": []})
    return await submit(target, keyed(target))


async def _accepted_first(target: Target) -> Exchange:
    exchange = await _first(target)
    need(is_answered(exchange), "The lead with a key is refused.")
    return exchange


def _second_key(target: Target) -> Lead:
    return lead(target, idempotency_key=key_of(target, "second"))


@check("idempotency.longest-key")
async def _(target: Target) -> None:
    if is_answered(await _first(target)):
        return
    exchange = await submit(target, _second_key(target))
    without_key = is_answered(exchange) or is_answered(await submit(target, plain(target)))
    need(without_key, "A lead without a key is refused too.")
    data_of(exchange)


@check("idempotency.after-refusal")
async def _(target: Target) -> None:
    exchange = await _first(target)
    if is_answered(exchange):
        return
    need(is_answered(await submit(target, _second_key(target))), "A lead with a key is refused.")
    raise Failed("The corrected lead with the same key is refused.", exchange)


async def _pair(target: Target, again: Exchange) -> list[tuple[tuple[Lead, Lead], Exchange]]:
    """The response messages of the lead with a key and of another request with the same key, with their `data`."""
    first = await _accepted_first(target)
    return [(({**message_of(first), "data": data_of(first)}, {**message_of(again), "data": data_of(again)}), again)]


async def _sent_again(target: Target) -> list[tuple[tuple[Lead, Lead], Exchange]]:
    await _accepted_first(target)
    message_id = f"{target.message(keyed(target))['message']['messageId']}-retry"
    return await _pair(target, await submit(target, keyed(target), message_id=message_id))


async def _retry(target: Target) -> list[tuple[tuple[Lead, Lead], Exchange]]:
    """Skips the check if the retry is refused: `idempotency.same-lead` fails for that."""
    with skip_if_failed():
        return await _sent_again(target)


async def _submitted_later(target: Target) -> list[tuple[tuple[Lead, Lead], Exchange]]:
    await _accepted_first(target)
    later = keyed(target) | {"submitted_at": time_at(target, -1, hours=2)}
    return await _pair(target, await submit(target, later))


def _same(path: str, *, differs: bool = False) -> Judgement:
    """The lead and its retry have the same value at a path of their messages, or one that differs."""

    def judge(pair: tuple[Lead, Lead]) -> bool | str:
        first, again = (at(each, path) for each in pair)
        return (first != again) is differs or f"`{path}` is {again!r} for the retry, and was {first!r}."

    return judge


def _without_id_and_status(reply: Lead) -> Lead:
    return {name: value for name, value in reply["data"].items() if name not in ("lead_id", "status")}


each_of(
    _retry,
    {
        "idempotency.same-status": _same("data.status"),
        "idempotency.new-message-id": _same("messageId", differs=True),
        "idempotency.same-answer": lambda pair: (
            _without_id_and_status(pair[0]) == _without_id_and_status(pair[1]) or "The retry gets another answer."
        ),
    },
)
each_of(_sent_again, {"idempotency.same-lead": _same("data.lead_id")})
each_of(_submitted_later, {"idempotency.submitted-at": _same("data.lead_id")})


async def _conflict(target: Target) -> Exchange:
    await _accepted_first(target)
    return await submit(target, keyed(target) | {"message": "Another message with the same key."})


each_request(
    {
        "idempotency.conflict": (_conflict, code("IDEMPOTENCY_CONFLICT")),
        "idempotency.conflict-status": (_conflict, if_refused(status(409))),
    }
)
