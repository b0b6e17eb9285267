"""The leads that checks submit, all of one marked test customer.

Equal leads of one run are sent once, so that checks share them: the rate of leads is low at most dealers.
"""

from datetime import timedelta
from typing import Any

from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.outcome import Skipped, skip_if_failed
from dealer_agent.checker.reply import data_of, is_answered
from dealer_agent.checker.target import Target

Lead = dict[str, Any]

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
UNKNOWN_VEHICLE = {"vin": UNKNOWN_VIN, "make": "Honda"}
EXTRA_MEMBERS = {**UNKNOWN_VEHICLE, "lot_row": "B", "keys": 2}
NO_TIME_GIVEN = {"appointment_type": "sales"}
VALIDATION_CODES = ("MISSING_REQUIRED_FIELD", "SCHEMA_VALIDATION_FAILED")
LONGEST_KEY = 128


def time_at(target: Target, days: int, *, hours: int = 0) -> str:
    """A time some days from today's noon in UTC, with its offset."""
    return (target.wire.noon + timedelta(days=days, hours=hours)).isoformat().replace("+00:00", "Z")


def visit_time(target: Target) -> str:
    """A morning of a working day in North America, at least two days from now."""
    weekday = (target.wire.noon + timedelta(days=3)).weekday()
    return time_at(target, 3 + (7 - weekday if weekday >= 5 else 0), hours=4)


def key_of(target: Target, name: str) -> str:
    """An idempotency key of this run and face, of 128 characters."""
    return f"{name}-{target.binding}-{target.vendor}-{target.revision.name}-{target.wire.run_id}".ljust(
        LONGEST_KEY, "k"
    )


def lead(target: Target, **members: Any) -> Lead:
    """A lead with what the revision requires and a message, and with other members. None leaves one out."""
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
        **members,
    }
    return {name: value for name, value in made.items() if value is not None}


async def submit(target: Target, payload: Lead, *, message_id: str | None = None) -> Exchange:
    """The exchange of a lead. An equal lead of the run is not sent again."""
    members = {} if message_id is None else {"messageId": message_id}
    return await target.send_message(target.message(payload, **members))


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


async def a_vin(target: Target) -> str:
    """The VIN of a listing. Skips the check if no listing has one."""
    return str((await target.having("vin"))[0]["vin"])


def keyed(target: Target) -> Lead:
    """The lead of the checks of keys, with the longest key. `checks/leads.py` sends a refused one before it."""
    return lead(target, idempotency_key=key_of(target, "first"), submitted_at=time_at(target, -1, hours=1))


def plain(target: Target) -> Lead:
    """The lead with nothing but what is required."""
    return lead(target, message=None)


async def full(target: Target) -> Lead:
    """A lead with a vehicle in stock, a trade-in and an appointment. Skips the check if no listing has a VIN."""
    visit = {"appointment_type": "test_drive", "appointment_at": visit_time(target), "duration_minutes": 30}
    vehicle = {"vin": await a_vin(target)}
    return lead(target, vehicle_of_interest=vehicle, trade_in=dict(TRADE_IN), appointment=visit)


async def with_visit(target: Target, **members: Any) -> list[Lead]:
    """Leads with these members of an appointment: for a test drive, if a listing has a VIN, and for a sale.

    Revision 0.1.0 names no other type than the test drive, which needs a vehicle.
    """
    found = [lead(target, appointment={"appointment_type": "sales", **members})]
    try:
        vehicle = {"vin": await a_vin(target)}
    except Skipped:
        return found
    visit = {"appointment_type": "test_drive", **members}
    return [lead(target, vehicle_of_interest=vehicle, appointment=visit), *found]


def of_no_time(target: Target) -> Lead:
    """A lead for an unknown vehicle, with an appointment without a time. Its response serves several checks."""
    vehicle = UNKNOWN_VEHICLE if target.revision.is_published else EXTRA_MEMBERS
    return lead(target, vehicle_of_interest=vehicle, appointment=NO_TIME_GIVEN)
