"""Checks leads that a dealer accepts: what the responses say, and keys: a retry is the same lead.

`lead_defects.py` has the lead that these are made of, and those that are refused for a defect.
"""

from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, each_of, judge_each
from dealer_agent.checker.checks.lead_defects import VALIDATION_CODES, Lead, customer_of, lead, submit, time_at
from dealer_agent.checker.checks.visits import (
    a_vehicle,
    one_time,
    three_windows,
    visit,
)
from dealer_agent.checker.exchange import Exchange, at, dicts
from dealer_agent.checker.outcome import Failed, Judgement, expect, has, skip_if_failed, skip_unless, status
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
from dealer_agent.checker.target import Request, Target, other_interface

UNKNOWN_VIN = "ZZZZZZ00000000000"
TRADE_IN = {"year": 2018, "make": "Honda", "model": "Civic", "condition": "good", "mileage": 61_000}
ADDRESS = {"address_line_1": "1 Example Street", "city": "Nashville", "state": "TN", "zip": "37203"}
UNKNOWN_VEHICLE = {"vin": UNKNOWN_VIN, "make": "Honda"}
EXTRA_MEMBERS = {**UNKNOWN_VEHICLE, "lot_row": "B", "keys": 2}
NO_TIME_GIVEN = {"appointment_type": "sales"}
LONGEST_KEY = 128
VISITOR = "visitor"
"""The customer whose lead with an appointment serves most checks."""
LONGEST_MESSAGE = 2_000


def key_of(target: Target, name: str) -> str:
    """An idempotency key of this run and variant, of the longest length: 128 characters."""
    return f"{name}-{target.binding}-{target.vendor}-{target.revision.name}-{target.wire.run_id}".ljust(
        LONGEST_KEY, "k"
    )


async def first_answered(target: Target, *leads: Lead) -> Exchange:
    """The exchange of the first of these leads that is accepted, else of the last one.

    The first leads have more in them than the check is about, because other checks need them too.
    """
    for each in leads[:-1]:
        exchange = await submit(target, each)
        if is_answered(exchange):
            return exchange
    return await submit(target, leads[-1])


async def accepted_or_skip(target: Target, *leads: Lead) -> Exchange:
    """The exchange of the first of these leads that is accepted. Skips the check if none is."""
    exchange = await first_answered(target, *leads)
    with skip_if_failed():
        data_of(exchange)
    return exchange


def keyed(target: Target) -> Lead:
    """The lead of the checks of keys, with the longest key. `checks/leads.py` sends a refused one before it."""
    return lead(target, idempotency_key=key_of(target, "first"), submitted_at=time_at(target, -1, hours=1))


def plain(target: Target) -> Lead:
    """The lead with nothing but what is required."""
    return lead(target, message=None)


def _with_home(customer: Lead) -> Lead:
    return {**customer, "address": dict(ADDRESS)}


async def full(target: Target) -> Lead:
    """A lead with an address, a vehicle in stock, a trade-in and a visit. Skips the check if no listing has a VIN."""
    payload = await visit(target, VISITOR, one_time, drive=True)
    payload["appointment"]["duration_minutes"] = 30
    return payload | {"trade_in": dict(TRADE_IN), "customer": _with_home(payload["customer"])}


def of_no_time(target: Target) -> Lead:
    """A lead for an unknown vehicle, with an appointment without a time. Its response serves several checks."""
    vehicle = UNKNOWN_VEHICLE if target.revision.is_published else EXTRA_MEMBERS
    near = f"{key_of(target, 'first')[:-1]}j"
    return lead(target, vehicle_of_interest=vehicle, appointment=NO_TIME_GIVEN, idempotency_key=near)


async def _empty(target: Target) -> tuple[Refusal, set[str]]:
    """The error of a lead without members, which every dealer must refuse, and the pointers that it lists."""
    error = refusal_of(await target.send_message(target.message(target.payload("lead.submit"))))
    skip_unless(error.code != "UNSUPPORTED_SKILL", "The agent does not offer lead.submit.")
    return error, {pointer for pointer, _ in error.problems(target.revision)}


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
    single = lead(target, vehicle_of_interest={"vin": (await a_vehicle(target))["vin"]})
    return await first_answered(target, await full(target), single)


async def _with_trade_in(target: Target) -> Exchange:
    return await first_answered(target, await full(target), lead(target, trade_in=dict(TRADE_IN)))


async def _with_address(target: Target) -> Exchange:
    return await first_answered(target, await full(target), lead(target, customer=_with_home(customer_of(target))))


async def _combined(target: Target) -> Exchange:
    return await submit(target, await full(target))


async def _combined_there(target: Target) -> Exchange:
    """The exchange of the same lead at the other interface. It may be a duplicate there."""
    skip_unless(is_answered(await _combined(target)), "The lead is refused.")
    return await _combined(other_interface(target))


def _unknown(target: Target) -> tuple[Lead, Lead]:
    return of_no_time(target), lead(target, vehicle_of_interest=UNKNOWN_VEHICLE)


async def _with_extra_members(target: Target) -> Exchange:
    # The first lead has more in it, and may be refused for that.
    return await first_answered(target, of_no_time(target), lead(target, vehicle_of_interest=EXTRA_MEMBERS))


def _test_drive(**members: Any) -> Request:
    return lambda target: submit(target, lead(target, appointment={"appointment_type": "test_drive"}, **members))


def _is_available(exchange: Exchange) -> bool | str:
    return is_answered(exchange) or code("APPOINTMENT_TIME_UNAVAILABLE", "VEHICLE_UNAVAILABLE")(exchange)


def _accepts_unknown_vehicle(exchange: Exchange) -> bool | str:
    return is_answered(exchange) or code("VEHICLE_NOT_FOUND")(exchange)


judge_each(
    {
        "leads.accepted": (lambda target: first_answered(target, keyed(target), plain(target)), answered),
        "leads.combined": (_combined, _is_available),
        "leads.combined-there": (_combined_there, _is_available),
        "leads.vehicle": (_for_a_vehicle, answered),
        "leads.address": (_with_address, answered),
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


async def _reply(target: Target) -> Lead:
    """The payload of the response to a lead of a customer who wants to be called."""
    return payload_of(await accepted_or_skip(target, keyed(target), plain(target)))


def _short_message(reply: Lead) -> bool | str:
    message = skip_unless(reply.get("message"), "The response has no `message`.")
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
    """The second lead is for an unknown vehicle, so no dealer can take it for a duplicate of the first."""
    first = await _reply(target)
    exchange = await accepted_or_skip(target, *_unknown(target))
    ids = [at(first, "data.lead_id"), data_of(exchange).get("lead_id")]
    skip_unless(None not in ids, "A response has no `lead_id`.")
    expect(ids[0] != ids[1], "Two leads for different vehicles have one id.", exchange)


# Idempotency keys


async def _after_a_refusal(target: Target) -> Exchange:
    """The exchange of the lead with a key, whose first request was refused for its consent."""
    await submit(target, keyed(target) | {"consent": []})
    return await submit(target, keyed(target))


async def accepted_first(target: Target) -> Exchange:
    """The exchange of the lead with a key, which has no appointment. Skips the check if it is refused."""
    exchange = await _after_a_refusal(target)
    skip_unless(is_answered(exchange), "The lead with a key is refused.")
    return exchange


def _second_key(target: Target) -> Lead:
    """A lead with the longest key, which no earlier request had."""
    return lead(target, idempotency_key=key_of(target, "second"))


@check("idempotency.longest-key")
async def _(target: Target) -> None:
    """A lead with a key of 128 characters is accepted. All keys of `key_of` have this length.

    A dealer may wrongly store the refusal of the first key, which `idempotency.after-refusal` checks. So a refused lead
    is sent with a second key, and then without one: a dealer that refuses this too refuses it for another reason.
    """
    if is_answered(await _after_a_refusal(target)):
        return
    second = await submit(target, _second_key(target))
    if not is_answered(second):
        skip_unless(
            is_answered(await submit(target, plain(target))), "A lead without an idempotency key is refused too."
        )
        data_of(second)  # Raises Failed, with the answer to the lead.


@check("idempotency.after-refusal")
async def _(target: Target) -> None:
    """If a lead with a new key is refused too, the refusal says nothing about keys that were used before."""
    exchange = await _after_a_refusal(target)
    if is_answered(exchange):
        return
    skip_unless(is_answered(await submit(target, _second_key(target))), "A lead with a key is refused.")
    raise Failed("The corrected lead with the same key is refused.", exchange)


Pair = tuple[Lead, Lead]
"""The messages of two responses, with their `data`."""


async def _lead_and_retry(target: Target, again: Lead, *, message_id: str | None = None) -> Pair:
    """The responses to the lead with a key and to another request with this key."""
    exchanges = (await accepted_first(target), await submit(target, again, message_id=message_id))
    first, second = ({**message_of(each), "data": data_of(each)} for each in exchanges)
    return first, second


async def _sent_again(target: Target) -> Pair:
    message_id = f"{target.message(keyed(target))['message']['messageId']}-retry"
    return await _lead_and_retry(target, keyed(target), message_id=message_id)


async def _retry(target: Target) -> Pair:
    """Skips the check if the retry is refused: `idempotency.same-lead` fails for that."""
    with skip_if_failed():
        return await _sent_again(target)


async def _submitted_later(target: Target) -> Pair:
    return await _lead_and_retry(target, keyed(target) | {"submitted_at": time_at(target, -1, hours=2)})


def _same(path: str, *, differs: bool = False) -> Judgement:
    """The lead and its retry have the same value at a path of their messages, or one that differs."""

    def judge(pair: Pair) -> bool | str:
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


def _form_of(exchange: Exchange) -> list[Any]:
    """What is the same in all responses to leads: the role, and the media type and the type of each part."""
    message = message_of(exchange)
    return [
        message.get("role"),
        *((each.get("mediaType"), at(each, "data.type")) for each in dicts(message.get("parts"))),
    ]


@check("idempotency.other-interface")
async def _(target: Target) -> None:
    """The dealer stores no second lead: the lead has the key of the first."""
    one = await accepted_first(target)
    first = data_of(one)
    exchange = await submit(other_interface(target), keyed(target))
    lead_id = data_of(exchange).get("lead_id")
    expect(
        _form_of(one) == _form_of(exchange),
        f"The response is {_form_of(one)}, and over the other binding {_form_of(exchange)}.",
        exchange,
    )
    expect(
        lead_id == first.get("lead_id"),
        f"The lead is {first.get('lead_id')!r}, and over the other binding {lead_id!r}.",
        exchange,
    )


each_of(_submitted_later, {"idempotency.submitted-at": _same("data.lead_id")})


async def _conflict(target: Target) -> Exchange:
    await accepted_first(target)
    return await submit(target, keyed(target) | {"message": "Another message with the same key."})


@check("idempotency.other-lead")
async def _(target: Target) -> None:
    """The dealer may refuse the second lead, or accept it as a new one. Else it is lost."""
    lead_id = skip_unless(data_of(await accepted_first(target)).get("lead_id"), "The response has no `lead_id`.")
    exchange = await submit(target, keyed(target) | {"vehicle_of_interest": UNKNOWN_VEHICLE})
    same = is_answered(exchange) and data_of(exchange).get("lead_id") == lead_id
    expect(
        not same,
        "A lead for another vehicle gets the response to the first lead, because it has the same key.",
        exchange,
    )


@check("idempotency.near-key")
async def _(target: Target) -> None:
    """The second lead has the key of the first one, but for its last character."""
    lead_id = data_of(await accepted_first(target)).get("lead_id")
    exchange = await submit(target, of_no_time(target))
    if is_answered(exchange):
        same = lead_id is not None and data_of(exchange).get("lead_id") == lead_id
        expect(not same, "Another lead gets the answer of the first.", exchange)
    else:
        conflict = refusal_of(exchange).code == "IDEMPOTENCY_CONFLICT"
        expect(not conflict, "A key that differs in its last character is a conflict.", exchange)


@check("idempotency.other-customer")
async def _(target: Target) -> None:
    """The second customer may be refused, or get a lead of its own, and never that of the first."""
    lead_id = skip_unless(data_of(await accepted_first(target)).get("lead_id"), "The response has no `lead_id`.")
    exchange = await submit(target, keyed(target) | {"customer": customer_of(target, "with the same key")})
    same = is_answered(exchange) and data_of(exchange).get("lead_id") == lead_id
    expect(not same, "Another customer with the same key gets the lead of the first.", exchange)


@check("appointments.of-a-vehicle")
async def _(target: Target) -> None:
    times = three_windows if target.revision.name == "0.1.0" else one_time
    payload = await visit(target, "dreamer", times, drive=False)
    payload["appointment"]["appointment_type"] = "test_drive"
    exchange = await submit(target, payload | {"vehicle_of_interest": {"vin": UNKNOWN_VIN}})
    confirmed = is_answered(exchange) and at(data_of(exchange), "appointment.status") == "confirmed"
    expect(not confirmed, "A test drive of an unknown vehicle is confirmed.", exchange)


judge_each(
    {
        "idempotency.conflict": (_conflict, code("IDEMPOTENCY_CONFLICT")),
        "idempotency.conflict-status": (_conflict, if_refused(status(409))),
    }
)
