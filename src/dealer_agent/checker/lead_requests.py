"""The leads that checks submit, all of one marked test customer.

Equal leads of one run are sent once, so that checks share them: the rate of leads is low at most dealers.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.outcome import Failed, Skipped, skip_if_failed
from dealer_agent.checker.target import Refusal, Target

Lead = dict[str, Any]
Change = Callable[[Lead], object]

AGENT = "dealer-agent check"
UNKNOWN_VIN = "ZZZZZZ00000000000"
CUSTOMER = {
    "first_name": "Test",
    "last_name": "Lead (dealer-agent check)",
    "email": "test-lead@example.com",
    "phone": "+12025550142",
}
MESSAGE = "This is a test of the dealer agent, sent by dealer-agent check. Nobody waits for a response."
TRADE_IN = {"year": 2018, "make": "Honda", "model": "Civic", "condition": "good", "mileage": 61_000}
NO_TIME = "APPOINTMENT_TIME_UNAVAILABLE"
LONGEST_KEY = 128


def time_at(target: Target, days: int, *, hours: int = 0) -> str:
    """A time some days from today's noon in UTC, with its offset."""
    return (target.wire.noon + timedelta(days=days, hours=hours)).isoformat().replace("+00:00", "Z")


def visit_time(target: Target) -> str:
    """A morning of a working day in North America, at least two days from now."""
    day = target.wire.noon + timedelta(days=3)
    while day.weekday() >= 5:
        day += timedelta(days=1)
    return (day + timedelta(hours=4)).isoformat().replace("+00:00", "Z")


def key_of(target: Target, name: str) -> str:
    """An idempotency key of this run and face, of 128 characters."""
    return f"{name}-{target.binding}-{target.vendor}-{target.revision.name}-{target.wire.run_id}".ljust(
        LONGEST_KEY, "k"
    )


def lead(target: Target, *changes: Change) -> Lead:
    """A lead with what the revision requires, after some changes."""
    consent = {
        "granted_at": time_at(target, -1),
        "allowed_channels": ["email", "phone"],
        "consent_text": "The dealer may contact me about this request.",
        "scope": ["lead_submission"],
    }
    if target.revision.name == "aap/1.0":
        consent["source_agent"] = AGENT
    is_object = target.revision.is_published and target.revision.name != "aap/1.0"
    made: Lead = {
        "type": "lead.submit.request",
        "customer": dict(CUSTOMER),
        "consent": consent,
        "source_agent": {"name": AGENT} if is_object else AGENT,
        "message": MESSAGE,
    }
    for change in changes:
        change(made)
    return made


def with_members(**members: Any) -> Change:
    """Sets members of a lead."""
    return lambda made: made.update(members)


async def submit(target: Target, payload: Lead, *, message_id: str | None = None) -> Exchange:
    """The exchange of a lead. An equal lead of the run is not sent again."""
    if not target.leads:
        raise Skipped("The check submits leads. Allow it with --leads.")
    members = {} if message_id is None else {"messageId": message_id}
    return await target.send_message(target.message(payload, **members))


def is_accepted(target: Target, exchange: Exchange) -> bool:
    """Whether a lead got a response and no error."""
    try:
        target.answer(exchange)
    except Failed:
        return False
    return True


def refusal_code(target: Target, exchange: Exchange) -> str:
    """The code of the error that a lead got; empty if it got a response."""
    return "" if is_accepted(target, exchange) else target.refusal(exchange).code


async def refused(target: Target, payload: Lead) -> Refusal:
    """The error that a lead gets. Raises Failed if the lead is accepted."""
    return target.refusal(await submit(target, payload))


async def accepted(target: Target, *leads: Lead) -> Exchange:
    """The exchange of the first of these leads that is accepted. Raises Failed for the last one if none is.

    The first leads have more in them than the check is about, because other checks need them too.
    """
    for each in leads[:-1]:
        exchange = await submit(target, each)
        if is_accepted(target, exchange):
            return exchange
    exchange = await submit(target, leads[-1])
    target.answer(exchange)
    return exchange


async def reply_or_skip(target: Target, *leads: Lead) -> tuple[Exchange, Lead]:
    """The `data` of the response to the first of these leads that is accepted. Skips the check if none is."""
    with skip_if_failed():
        exchange = await accepted(target, *leads)
    return exchange, target.answer(exchange)


async def a_vin(target: Target) -> str:
    """The VIN of a listing. Skips the check if no listing has one."""
    return str((await target.material.having("vin"))[0]["vin"])


def keyed(target: Target) -> Lead:
    """The lead of the checks of keys, with the longest key. `checks/idempotency.py` sends a refused one before it."""
    return lead(
        target, with_members(idempotency_key=key_of(target, "first"), submitted_at=time_at(target, -1, hours=1))
    )


def plain(target: Target) -> Lead:
    """The lead with nothing but what is required."""
    return lead(target, lambda made: made.pop("message"))


async def full(target: Target) -> Lead:
    """A lead with a vehicle in stock, a trade-in and an appointment. Skips the check if no listing has a VIN."""
    return lead(
        target,
        with_members(
            vehicle_of_interest={"vin": await a_vin(target)},
            trade_in=dict(TRADE_IN),
            appointment={
                "appointment_type": "test_drive",
                "appointment_at": visit_time(target),
                "duration_minutes": 30,
            },
        ),
    )


async def with_visit(target: Target, **members: Any) -> list[Lead]:
    """Leads with these members of an appointment: for a test drive, if a listing has a VIN, and for a sale.

    Revision 0.1.0 names no other type than the test drive, which needs a vehicle.
    """
    found = [lead(target, with_members(appointment={"appointment_type": "sales", **members}))]
    try:
        vehicle = {"vin": await a_vin(target)}
    except Skipped:
        return found
    visit = {"appointment_type": "test_drive", **members}
    return [lead(target, with_members(vehicle_of_interest=vehicle, appointment=visit)), *found]


def unknown_vehicle(target: Target, *changes: Change) -> Lead:
    """A lead for a vehicle that the dealer does not have."""
    return lead(target, with_members(vehicle_of_interest={"vin": UNKNOWN_VIN, "make": "Honda"}), *changes)


NO_TIME_GIVEN = with_members(appointment={"appointment_type": "sales"})
EXTRA_MEMBERS = with_members(vehicle_of_interest={"vin": UNKNOWN_VIN, "make": "Honda", "lot_row": "B", "keys": 2})


def of_no_time(target: Target) -> Lead:
    """A lead for an unknown vehicle, with an appointment without a time. Its response serves several checks."""
    changes = [NO_TIME_GIVEN] if target.revision.is_published else [EXTRA_MEMBERS, NO_TIME_GIVEN]
    return unknown_vehicle(target, *changes)
