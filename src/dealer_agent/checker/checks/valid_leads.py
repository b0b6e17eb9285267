"""Checks that a dealer accepts valid leads: each valid value, each kind of vehicle, at each interface of the card."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from dealer_agent.checker.check import check, check_each
from dealer_agent.checker.checks.lead_defects import ABSENT, EAST, Lead, change_lead, lead, seed_of, submit, time_at
from dealer_agent.checker.checks.visits import one_time, visit
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.outcome import Skipped, skip_unless
from dealer_agent.checker.reply import data_of, is_answered, refusal_of
from dealer_agent.checker.requirement import requirements
from dealer_agent.checker.target import Target, in_turn


class LeadValue(NamedTuple):
    """A valid value at a path of a lead, or a function of the target that returns it.

    The values of one group are sent in one lead.
    """

    path: str
    value: Any
    group: int


@dataclass(frozen=True)
class AtTime:
    """A value that is made of a time, in UTC, at which the dealer is open."""

    of: Callable[[datetime], Any]


def _window(start: datetime) -> list[dict[str, str]]:
    """One window of two hours, with the offsets of its times."""
    ends = {"start": start, "end": start + timedelta(hours=2)}
    return [{name: each.isoformat().replace("+00:00", "Z") for name, each in ends.items()}]


VALID: Mapping[str, LeadValue] = {
    "vehicle-condition-new": LeadValue("vehicle_of_interest.condition", "new", 1),
    "vehicle-condition-used": LeadValue("vehicle_of_interest.condition", "used", 2),
    "vehicle-condition-cpo": LeadValue("vehicle_of_interest.condition", "cpo", 3),
    "vehicle-year": LeadValue("vehicle_of_interest.year", 2024, 1),
    "vehicle-stock": LeadValue("vehicle_of_interest.stock", "QZXVWK-0", 4),
    "trade-in-excellent": LeadValue("trade_in.condition", "excellent", 1),
    "trade-in-good": LeadValue("trade_in.condition", "good", 2),
    "trade-in-fair": LeadValue("trade_in.condition", "fair", 3),
    "trade-in-poor": LeadValue("trade_in.condition", "poor", 4),
    "contact-email": LeadValue("customer.preferred_contact", "email", 1),
    "contact-phone": LeadValue("customer.preferred_contact", "phone", 2),
    "contact-any": LeadValue("customer.preferred_contact", "any", 3),
    "names": LeadValue("customer.last_name", "Łukasz-O'Brien 車 (dealer-agent check)", 1),
    "email-alone": LeadValue("customer.phone", ABSENT, 3),
    "phone-alone": LeadValue("customer.email", ABSENT, 4),
    "foreign-phone": LeadValue("customer.phone", "+447700900123", 2),
    "channel-sms": LeadValue("consent.allowed_channels", ["email", "phone", "sms"], 1),
    "two-scopes": LeadValue("consent.scope", ["marketing", "lead_submission"], 2),
    "not-yet-expired": LeadValue("consent.expires_at", lambda target: time_at(target, 30), 3),
    "granted-with-offset": LeadValue("consent.granted_at", lambda target: time_at(target, -1)[:-1] + "-05:00", 4),
    "granted-milliseconds": LeadValue("consent.granted_at", lambda target: time_at(target, -1)[:-1] + ".250Z", 1),
    "sales": LeadValue("appointment.appointment_type", "sales", 1),
    "service": LeadValue("appointment.appointment_type", "service", 2),
    "trade-in-visit": LeadValue("appointment.appointment_type", "trade_in", 3),
    "duration-15": LeadValue("appointment.duration_minutes", 15, 1),
    "duration-120": LeadValue("appointment.duration_minutes", 120, 2),
    "duration-30": LeadValue("appointment.duration_minutes", 30, 3),
    "notes": LeadValue("appointment.notes", "n" * 2_000, 3),
    "message-letters": LeadValue("message", "Ist der Škoda noch da?\n車 🚗", 2),
    "submitted-milliseconds": LeadValue("submitted_at", lambda target: time_at(target, -1)[:-1] + ".250Z", 1),
    "time-offset": LeadValue("appointment.appointment_at", AtTime(lambda at: at.astimezone(EAST).isoformat()), 1),
    "time-milliseconds": LeadValue("appointment.appointment_at", AtTime(lambda at: f"{at:%Y-%m-%dT%H:%M:%S}.000Z"), 3),
    "windows-offset": LeadValue("appointment.requested_windows", AtTime(lambda at: _window(at.astimezone(EAST))), 1),
    "windows-utc": LeadValue("appointment.requested_windows", AtTime(_window), 3),
    "submitted-at": LeadValue("submitted_at", lambda target: time_at(target, -1), 4),
    "message-4000": LeadValue("message", "m" * 4_000, 4),
    "short-key": LeadValue("idempotency_key", "k", 4),
}
"""Valid values of members, in a few leads. A value of a lead that is refused is then sent alone."""


KINDS = (("condition", "new"), ("condition", "used"), ("condition", "cpo"), ("vehicle_type", "motorcycle"))
"""A member of a listing and its value, for the lead of each group."""
OF_OTHERS = ("MISSING_REQUIRED_FIELD", "VEHICLE_NOT_FOUND", "VEHICLE_UNAVAILABLE", "APPOINTMENT_TIME_UNAVAILABLE")
"""Codes that do not say that a value is wrong."""


def _target_of_group(target: Target, group: int) -> Target:
    """One interface and one vocabulary of the card, in turn: the groups together reach all of them."""
    vocabularies = sorted(target.card.vendors or [target.vendor], key=lambda each: each != target.vendor)
    # The two revisions begin with different ones.
    first = 1 if target.revision.snake_case else 0
    return in_turn(target, group, vocabularies[(group + first) // 2 % len(vocabularies)])


async def _of_kind(target: Target, group: int) -> Lead:
    """A listing of another kind for each group: new, used, certified, a motorcycle. Empty if there is none."""
    name, value = KINDS[group - 1]
    with suppress(Skipped):
        listings = [each for each in await target.having("vin") if each.get("status") == "available"]
        return next((each for each in reversed(listings) if each.get(name) == value), {})
    return {}


async def _valid(target: Target, *rows: LeadValue) -> Lead:
    """A valid lead that has these values, to show that only their defective forms are refused."""
    payload = lead(target, person=f"valid {rows[0].group}")
    for row in rows:
        if isinstance(row.value, AtTime):
            at = await visit(target, f"valid {row.group}", one_time, drive=False)
            moment = datetime.fromisoformat(at["appointment"]["appointment_at"])
            row = row._replace(value=row.value.of(moment.astimezone(UTC)))
        change_lead(payload, target, row.path, row.value)
    if "appointment" in payload:
        payload["appointment"].setdefault("appointment_type", "sales")
    if "idempotency_key" in payload:
        payload["idempotency_key"] = str(seed_of(target, "short key"))[:20]
    return payload


async def send_valid(target: Target, group: int) -> tuple[Exchange, Target]:
    """The exchange of a lead with all valid values of a group, for a vehicle of one kind, and where it was sent.

    If the time is not free, it is sent without one.
    """
    place = _target_of_group(target, group)
    rows = [
        row
        for name, row in VALID.items()
        if row.group == group and requirements()[f"leads-valid.{name}"].applies_to(*target.variant)
    ]
    vin = (await _of_kind(target, group)).get("vin")
    for chosen in (rows, [row for row in rows if not isinstance(row.value, AtTime)]):
        payload = await _valid(target, *chosen)
        if vin:
            payload.setdefault("vehicle_of_interest", {})["vin"] = vin
        exchange = await submit(place, payload)
        if is_answered(exchange) or refusal_of(exchange).code != "APPOINTMENT_TIME_UNAVAILABLE":
            break
    return exchange, place


@check_each({f"leads-valid.{name}": (row,) for name, row in VALID.items()})
async def _(target: Target, row: LeadValue) -> None:
    """A valid value is accepted.

    The valid values of one group are sent in one lead, to save requests. If this lead is refused, the value is sent
    alone.
    """
    together, place = await send_valid(target, row.group)
    if is_answered(together):
        return
    exchange = await submit(place, await _valid(target, row))
    if not is_answered(exchange):
        skip_unless(exchange.status != 413, "The dealer does not accept a lead of this size.")
        refused = refusal_of(exchange)
        # What else a lead must have, and whether the dealer has the vehicle or the time, is not about the value.
        skip_unless(refused.code not in OF_OTHERS, f"The lead is refused for another reason: {refused.code}.")
        data_of(exchange)


@check("leads-valid.vehicle-kinds")
async def _(target: Target) -> None:
    """If the lead of a group is refused, one for the vehicle alone is sent."""
    for group in range(1, len(KINDS) + 1):
        together, place = await send_valid(target, group)
        listing = await _of_kind(target, group)
        if listing and not is_answered(together):
            alone = lead(target, person=f"kind {group}", vehicle_of_interest={"vin": listing["vin"]})
            exchange = await submit(place, alone)
            if not is_answered(exchange) and is_answered(await submit(place, lead(target, person=f"kind {group}"))):
                refusal_of(exchange).expect_code("VEHICLE_UNAVAILABLE")
