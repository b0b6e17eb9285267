"""Leads that a dealer accepts, and what the replies say."""

from dealer_agent.checker.check import Failed, Skipped, check, expect
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.lead_requests import (
    EXTRA_MEMBERS,
    NO_TIME,
    TRADE_IN,
    UNKNOWN_VIN,
    Lead,
    a_vin,
    accepted,
    full,
    keyed,
    lead,
    of_no_time,
    plain,
    refusal_code,
    refused,
    reply_or_skip,
    submit,
    unknown_vehicle,
    with_members,
)
from dealer_agent.checker.target import Refusal, Target

VALIDATION_CODES = ("MISSING_REQUIRED_FIELD", "SCHEMA_VALIDATION_FAILED")
STATUSES = ("received", "duplicate", "rejected")
LONGEST_MESSAGE = 2_000


async def _empty(target: Target) -> Refusal:
    """The error of a lead without members, which every dealer must refuse."""
    error = target.refusal(await target.send_message(target.message(target.payload("lead.submit"))))
    if error.code == "UNSUPPORTED_SKILL":
        raise Skipped("The agent does not offer lead.submit.")
    return error


@check("leads.empty")
async def empty_leads_are_refused(target: Target) -> None:
    """Sends a lead without members."""
    error = await _empty(target)
    expected = (*VALIDATION_CODES, "CONTACT_CONSENT_REQUIRED")
    expect(error.code in expected, f"The code is {error.code or 'absent'}.", error.exchange)


@check("leads.empty-all")
async def all_absent_members_are_named(target: Target) -> None:
    """Looks at the problems of a lead without members."""
    error = await _empty(target)
    listed = {pointer for pointer, _ in error.problems(target.revision)}
    missing = {"/customer", "/source_agent"} - listed
    expect(not missing, f"`details.errors` does not list {', '.join(sorted(missing))}.", error.exchange)


@check("leads.accepted")
async def leads_are_accepted(target: Target) -> None:
    """Sends a lead of a customer who wants to be called."""
    await accepted(target, keyed(target), plain(target))


async def _reply(target: Target) -> tuple[Exchange, Lead]:
    return await reply_or_skip(target, keyed(target), plain(target))


@check("leads.reply-id")
async def replies_have_a_lead_id(target: Target) -> None:
    """Looks at a reply."""
    exchange, reply = await _reply(target)
    expect(isinstance(reply.get("lead_id"), str) and reply["lead_id"], "The reply has no `lead_id`.", exchange)


@check("leads.reply-status")
async def replies_have_a_status(target: Target) -> None:
    """Looks at a reply."""
    exchange, reply = await _reply(target)
    expect(reply.get("status") in STATUSES, f"The status is {reply.get('status')!r}.", exchange)


@check("leads.reply-dealer")
async def replies_name_the_dealer(target: Target) -> None:
    """Looks at a reply."""
    exchange, reply = await _reply(target)
    dealer = reply.get("dealer")
    expect(isinstance(dealer, dict) and dealer.get("name"), "The reply does not name the dealer.", exchange)


@check("leads.reply-message")
async def replies_have_a_message(target: Target) -> None:
    """Looks at a reply."""
    exchange, _ = await _reply(target)
    message = target.reply_payload(exchange).get("message")
    expect(isinstance(message, str) and message, "The reply has no `message`.", exchange)


@check("leads.reply-message-length")
async def messages_are_short(target: Target) -> None:
    """Looks at a reply."""
    exchange, _ = await _reply(target)
    message = target.reply_payload(exchange).get("message")
    if not isinstance(message, str):
        raise Skipped("The reply has no `message`.")
    expect(len(message) <= LONGEST_MESSAGE, f"The message has {len(message)} characters.", exchange)


@check("leads.two-ids")
async def other_leads_have_other_ids(target: Target) -> None:
    """Compares the ids of two leads, of which one is for a vehicle."""
    _, first = await _reply(target)
    exchange, second = await reply_or_skip(target, of_no_time(target), unknown_vehicle(target))
    if "lead_id" not in first or "lead_id" not in second:
        raise Skipped("A reply has no `lead_id`.")
    expect(first["lead_id"] != second["lead_id"], "Two leads for different vehicles have one id.", exchange)


async def _full_or(target: Target, single: Lead) -> None:
    await accepted(target, await full(target), single)


@check("leads.vehicle")
async def leads_for_a_vehicle_are_accepted(target: Target) -> None:
    """Sends a lead for a vehicle in stock."""
    await _full_or(target, lead(target, with_members(vehicle_of_interest={"vin": await a_vin(target)})))


@check("leads.trade-in")
async def leads_with_a_trade_in_are_accepted(target: Target) -> None:
    """Sends a lead with a trade-in."""
    await _full_or(target, lead(target, with_members(trade_in=dict(TRADE_IN))))


@check("leads.vehicle-extra-members")
async def vehicles_may_have_extra_members(target: Target) -> None:
    """Sends a lead for a vehicle with unknown members."""
    exchange = await submit(target, of_no_time(target))
    code = refusal_code(target, exchange)
    if code:
        # Perhaps for another reason: the lead has more in it.
        code = refusal_code(target, await submit(target, lead(target, EXTRA_MEMBERS)))
    expect(code in ("", "VEHICLE_NOT_FOUND"), f"A vehicle with unknown members is refused: {code}.", target)


@check("leads.vehicle-unknown")
async def leads_for_an_unknown_vehicle_are_accepted(target: Target) -> None:
    """Sends a lead for a vehicle that the dealer does not have."""
    await accepted(target, of_no_time(target), unknown_vehicle(target))


@check("leads.vehicle-unknown-message")
async def the_reply_says_that_the_vehicle_is_unknown(target: Target) -> None:
    """Looks at the reply to a lead for an unknown vehicle."""
    exchange, _ = await reply_or_skip(target, of_no_time(target), unknown_vehicle(target))
    expect(target.reply_payload(exchange).get("message"), "The reply has no `message`.", exchange)


@check("leads.test-drive-unknown")
async def test_drives_need_a_known_vehicle(target: Target) -> None:
    """Asks for a test drive of a vehicle that the dealer does not have."""
    made = lead(
        target,
        with_members(vehicle_of_interest={"vin": UNKNOWN_VIN}, appointment={"appointment_type": "test_drive"}),
    )
    error = await refused(target, made)
    expect(error.code == "VEHICLE_NOT_FOUND", f"The code is {error.code}, not VEHICLE_NOT_FOUND.", error.exchange)


@check("leads.test-drive-missing-vehicle")
async def test_drives_name_a_vehicle(target: Target) -> None:
    """Asks for a test drive without a vehicle."""
    error = await refused(target, lead(target, with_members(appointment={"appointment_type": "test_drive"})))
    expect(error.code == "MISSING_REQUIRED_FIELD", f"The code is {error.code}.", error.exchange)


def appointment_of(reply: Lead) -> Lead:
    """The `appointment` of a reply. Skips the check if there is none."""
    found = reply.get("appointment")
    if not isinstance(found, dict):
        raise Skipped("The reply has no `appointment`.")
    return found


def is_understood(target: Target, exchange: Exchange) -> None:
    """Raises Failed if a lead with an appointment is refused for another reason than that no time is free."""
    try:
        target.answer(exchange)
    except Failed:
        if refusal_code(target, exchange) != NO_TIME:
            raise
