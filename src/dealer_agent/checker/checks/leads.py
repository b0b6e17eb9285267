"""Leads that a dealer accepts, what the responses say, and keys: a retry is the same lead.

`lead_defects.py` has the leads that are refused for a defect.
"""

from collections.abc import Awaitable, Callable

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each, each_of
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.lead_requests import (
    EXTRA_MEMBERS,
    TRADE_IN,
    UNKNOWN_VIN,
    Lead,
    a_vin,
    accepted,
    full,
    is_accepted,
    key_of,
    keyed,
    lead,
    of_no_time,
    plain,
    refusal_code,
    refused,
    reply_or_skip,
    submit,
    time_at,
    unknown_vehicle,
    with_members,
)
from dealer_agent.checker.outcome import Failed, Skipped, expect, expect_status, skip_if_failed
from dealer_agent.checker.target import Refusal, Target

VALIDATION_CODES = ("MISSING_REQUIRED_FIELD", "SCHEMA_VALIDATION_FAILED")
STATUSES = ("received", "duplicate", "rejected")
LONGEST_MESSAGE = 2_000


async def _empty(target: Target) -> list[tuple[tuple[Refusal, set[str]], Exchange]]:
    """The error of a lead without members, which every dealer must refuse, and the pointers that it lists."""
    error = target.refusal(await target.send_message(target.message(target.payload("lead.submit"))))
    if error.code == "UNSUPPORTED_SKILL":
        raise Skipped("The agent does not offer lead.submit.")
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


async def _for_a_vehicle(target: Target) -> list[Lead]:
    single = lead(target, with_members(vehicle_of_interest={"vin": await a_vin(target)}))
    return [await full(target), single]


async def _with_trade_in(target: Target) -> list[Lead]:
    return [await full(target), lead(target, with_members(trade_in=dict(TRADE_IN)))]


async def _simple(target: Target) -> list[Lead]:
    return [keyed(target), plain(target)]


async def _for_an_unknown_vehicle(target: Target) -> list[Lead]:
    return [of_no_time(target), unknown_vehicle(target)]


@check_each(
    {
        "leads.accepted": _simple,
        "leads.vehicle": _for_a_vehicle,
        "leads.trade-in": _with_trade_in,
        "leads.vehicle-unknown": _for_an_unknown_vehicle,
    }
)
async def _(target: Target, leads: Callable[[Target], Awaitable[list[Lead]]]) -> None:
    await accepted(target, *await leads(target))


async def _reply(target: Target) -> list[tuple[Lead, Exchange]]:
    """The payload of the response to a lead of a customer who wants to be called."""
    exchange, _ = await reply_or_skip(target, *await _simple(target))
    return [(target.reply_payload(exchange), exchange)]


def _short_message(reply: Lead) -> bool | str:
    message = reply.get("message")
    if not isinstance(message, str):
        raise Skipped("The response has no `message`.")
    return len(message) <= LONGEST_MESSAGE or f"The message has {len(message)} characters."


each_of(
    _reply,
    {
        "leads.reply-id": lambda reply: forms.name(reply["data"].get("lead_id")) or "The response has no `lead_id`.",
        "leads.reply-status": lambda reply: (
            reply["data"].get("status") in STATUSES or f"The status is {reply['data'].get('status')!r}."
        ),
        "leads.reply-dealer": lambda reply: (
            (isinstance(reply["data"].get("dealer"), dict) and bool(reply["data"]["dealer"].get("name")))
            or "The response does not name the dealer."
        ),
        "leads.reply-message": lambda reply: forms.name(reply.get("message")) or "The response has no `message`.",
        "leads.reply-message-length": _short_message,
    },
)


@check("leads.two-ids")
async def _(target: Target) -> None:
    [(first, _)] = await _reply(target)
    exchange, second = await reply_or_skip(target, *await _for_an_unknown_vehicle(target))
    if "lead_id" not in first["data"] or "lead_id" not in second:
        raise Skipped("A response has no `lead_id`.")
    same = first["data"]["lead_id"] == second["lead_id"]
    expect(not same, "Two leads for different vehicles have one id.", exchange)


@check("leads.vehicle-extra-members")
async def _(target: Target) -> None:
    code = refusal_code(target, await submit(target, of_no_time(target)))
    if code:
        # Perhaps for another reason: the lead has more in it.
        code = refusal_code(target, await submit(target, lead(target, EXTRA_MEMBERS)))
    expect(code in ("", "VEHICLE_NOT_FOUND"), f"A vehicle with unknown members is refused: {code}.")


@check("leads.vehicle-unknown-message")
async def _(target: Target) -> None:
    exchange, _ = await reply_or_skip(target, *await _for_an_unknown_vehicle(target))
    expect(target.reply_payload(exchange).get("message"), "The response has no `message`.", exchange)


@check_each(
    {
        "leads.test-drive-unknown": ("VEHICLE_NOT_FOUND", {"vehicle_of_interest": {"vin": UNKNOWN_VIN}}),
        "leads.test-drive-missing-vehicle": ("MISSING_REQUIRED_FIELD", {}),
    }
)
async def _(target: Target, code: str, members: Lead) -> None:
    visit = with_members(appointment={"appointment_type": "test_drive"}, **members)
    (await refused(target, lead(target, visit))).expect_code(code)


# Idempotency keys


async def _first(target: Target) -> Exchange:
    """The exchange of the lead with a key, whose first request was refused for its consent."""
    await submit(target, keyed(target) | {"consent": []})
    return await submit(target, keyed(target))


async def _accepted_first(target: Target) -> Exchange:
    exchange = await _first(target)
    if not is_accepted(target, exchange):
        raise Skipped("The lead with a key is refused.")
    return exchange


def _second_key(target: Target) -> Lead:
    return lead(target, with_members(idempotency_key=key_of(target, "second")))


@check("idempotency.longest-key")
async def _(target: Target) -> None:
    if is_accepted(target, await _first(target)):
        return
    exchange = await submit(target, _second_key(target))
    if not is_accepted(target, exchange) and not is_accepted(target, await submit(target, plain(target))):
        raise Skipped("A lead without a key is refused too.")
    target.answer(exchange)


@check("idempotency.after-refusal")
async def _(target: Target) -> None:
    exchange = await _first(target)
    if is_accepted(target, exchange):
        return
    if not is_accepted(target, await submit(target, _second_key(target))):
        raise Skipped("A lead with a key is refused.")
    raise Failed("The corrected lead with the same key is refused.", exchange)


async def _retry(target: Target) -> tuple[Exchange, Exchange]:
    """The exchanges of a lead and of its retry."""
    first = await _accepted_first(target)
    message_id = f"{target.message(keyed(target))['message']['messageId']}-retry"
    return first, await submit(target, keyed(target), message_id=message_id)


async def _replies(target: Target) -> list[tuple[tuple[Lead, Lead], Exchange]]:
    """The response messages of a lead and of its retry, with `data`. Skips the check if the retry is refused."""
    first, again = await _retry(target)
    if not is_accepted(target, again):
        raise Skipped("The retry is refused.")
    one, two = ({**target.reply_message(each), "data": target.answer(each)} for each in (first, again))
    return [((one, two), again)]


def _without_id_and_status(reply: Lead) -> Lead:
    return {name: value for name, value in reply["data"].items() if name not in ("lead_id", "status")}


each_of(
    _replies,
    {
        "idempotency.same-status": lambda pair: (
            pair[0]["data"].get("status") == pair[1]["data"].get("status")
            or f"The status is {pair[1]['data'].get('status')!r}, and was {pair[0]['data'].get('status')!r}."
        ),
        "idempotency.same-answer": lambda pair: (
            _without_id_and_status(pair[0]) == _without_id_and_status(pair[1]) or "The retry gets another answer."
        ),
        "idempotency.new-message-id": lambda pair: (
            pair[0].get("messageId") != pair[1].get("messageId")
            or "The response to the retry has the messageId of the first response."
        ),
    },
)


def _expect_same_lead(target: Target, first: Exchange, again: Exchange) -> None:
    ids = [target.answer(each).get("lead_id") for each in (first, again)]
    expect(ids[0] == ids[1], f"The retry is the lead {ids[1]}, and the first request {ids[0]}.", again)


@check("idempotency.same-lead")
async def _(target: Target) -> None:
    _expect_same_lead(target, *await _retry(target))


@check("idempotency.submitted-at")
async def _(target: Target) -> None:
    first = await _accepted_first(target)
    again = await submit(target, keyed(target) | {"submitted_at": time_at(target, -1, hours=2)})
    _expect_same_lead(target, first, again)


async def _conflict(target: Target) -> Refusal:
    await _accepted_first(target)
    return await refused(target, keyed(target) | {"message": "Another message with the same key."})


@check("idempotency.conflict")
async def _(target: Target) -> None:
    (await _conflict(target)).expect_code("IDEMPOTENCY_CONFLICT")


@check("idempotency.conflict-status")
async def _(target: Target) -> None:
    with skip_if_failed():
        error = await _conflict(target)
    expect_status(error.exchange, 409)
