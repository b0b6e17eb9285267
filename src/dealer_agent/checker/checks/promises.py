"""Checks what a dealer promises to a customer: that a lead is new, who answers it, and visits while it is open."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from dealer_agent.checker.check import check, each_of
from dealer_agent.checker.checks.appointments import appointment_of, instant, with_time
from dealer_agent.checker.checks.lead_defects import Lead, lead, submit
from dealer_agent.checker.checks.leads import accepted_or_skip
from dealer_agent.checker.checks.visits import a_vehicle, visit
from dealer_agent.checker.exchange import Exchange, at, dicts
from dealer_agent.checker.outcome import Skipped, expect, skip_if_failed, skip_unless
from dealer_agent.checker.reply import data_of, is_answered
from dealer_agent.checker.target import LEAD, Target
from dealer_agent.checker.visit_times import Span, is_open

NEWCOMER = "newcomer"


async def _vehicle_of_two_customers(target: Target) -> Lead:
    """The listing that two customers want; empty if no listing has a VIN."""
    with suppress(Skipped):
        return await a_vehicle(target, NEWCOMER)
    return {}


def _leads_for(target: Target, person: str, vehicle: Lead) -> list[Lead]:
    """A lead for the vehicle, if there is one, and one without a vehicle."""
    plain = lead(target, person=person)
    return [plain | {"vehicle_of_interest": {"vin": vehicle["vin"]}}, plain] if vehicle else [plain]


async def _lead_of_new_customer(target: Target) -> tuple[Lead, str]:
    """The response to the only lead of a customer, for a vehicle if there is one, and the rooftop of the vehicle.

    If the dealer accepts only a lead without the vehicle, there is no rooftop.
    """
    vehicle = await _vehicle_of_two_customers(target)
    exchange = await accepted_or_skip(target, *_leads_for(target, NEWCOMER, vehicle))
    is_for_vehicle = any(at(part, "data.vehicle_of_interest") for part in _parts(exchange))
    return data_of(exchange), str(vehicle.get("rooftop", "")) if is_for_vehicle else ""


@check("leads.first-is-new")
async def _(target: Target) -> None:
    response, _ = await _lead_of_new_customer(target)
    expect(response.get("status") != "duplicate", "The first lead of a customer is called a duplicate.")


@check("leads.two-customers")
async def _(target: Target) -> None:
    """Both want the same vehicle, if there is one."""
    first, _ = await _lead_of_new_customer(target)
    exchange = await accepted_or_skip(
        target, *_leads_for(target, "second buyer", await _vehicle_of_two_customers(target))
    )
    second = data_of(exchange)
    expect(second.get("status") != "duplicate", "The lead of another customer is called a duplicate.", exchange)
    skip_unless(first.get("lead_id") and second.get("lead_id"), "A response has no `lead_id`.")
    expect(first["lead_id"] != second["lead_id"], "The leads of two customers have one id.", exchange)


@check("leads.customers-apart", last=True)
async def _(target: Target) -> None:
    """All leads that the card's checks sent are compared, those of customers who share no e-mail address or phone."""
    owners: dict[str, set[Any]] = {}
    for exchange in await _leads(target):
        customer = at(next(iter(_parts(exchange)), None), "data.customer")
        contacts = {at(customer, name) for name in ("email", "phone")} - {None}
        for path in ("lead_id", "appointment.appointment_id"):
            if isinstance(found := at(data_of(exchange), path), str):
                owner = owners.setdefault(f"{path} {found}", contacts)
                expect(contacts & owner, f"The leads of two customers have the {path} {found!r}.", exchange)


@check("leads.reply-dealer-known")
async def _(target: Target) -> None:
    """The lead names a vehicle, so the response may name the rooftop of the vehicle in place of the dealer."""
    response, rooftop = await _lead_of_new_customer(target)
    with skip_if_failed():
        information = await target.ask("dealer.information")
    name = str(skip_unless(at(response, "dealer.name"), "The response names no dealer."))
    rooftops = {str(each.get("name")) for each in dicts(information.get("rooftops"))}
    allowed = {str(information.get("name"))} | ({rooftop} & rooftops or rooftops)
    expect(name in allowed, f"The response names the dealer {name!r}, and not {' or '.join(sorted(allowed))}.")


# Visits


def _while_closed(number: int, spans: list[Span]) -> Lead:
    """A time at night, some hours before the dealer opens."""
    opening = spans[number % len(spans)][0]
    return {"appointment_at": (opening - timedelta(hours=6)).isoformat().replace("+00:00", "Z")}


async def _asked_at_night(target: Target) -> tuple[Any, Exchange]:
    """What the dealer says of itself, and its response to a lead with a visit at night."""
    with skip_if_failed():
        information = await target.ask("dealer.information")
    hours = [week for each in dicts(information.get("rooftops")) for week in dicts(each.get("schedules"))]
    skip_unless(hours, "No rooftop has hours.")
    sent = await visit(target, "owl", _while_closed, drive=False)
    at_night = datetime.fromisoformat(sent["appointment"]["appointment_at"])
    skip_unless(not is_open(information, at_night), "The dealer is open at night.")
    return information, await submit(target, sent)


def _times(appointment: Lead) -> Iterator[datetime]:
    proposed = appointment.get("proposed_times")
    for each in (appointment.get("confirmed_at"), *(proposed if isinstance(proposed, list) else ())):
        if (moment := instant(each)) is not None:
            yield moment


@check("appointments.open-hours")
async def _(target: Target) -> None:
    """One customer asked for a time at night, another for an open time.

    What is confirmed without its own time was confirmed as asked.
    """
    information, at_night = await _asked_at_night(target)
    for exchange in (at_night, await with_time(target)):
        appointment = at(data_of(exchange), "appointment") if is_answered(exchange) else None
        if not isinstance(appointment, dict):
            continue
        closed = exchange is at_night and appointment.get("status") == "confirmed" and "confirmed_at" not in appointment
        expect(not closed, "A visit is confirmed at a time at which the dealer is closed.", exchange)
        for moment in _times(appointment):
            words = f"The dealer is closed at {moment.astimezone(UTC).isoformat()}, which it confirms or proposes."
            expect(is_open(information, moment), words, exchange)


@check("appointments.proposed-differ")
async def _(target: Target) -> None:
    _, exchange = await _asked_at_night(target)
    times = skip_unless(list(_times(appointment_of(exchange))), "No times are proposed.")
    expect(len(set(times)) == len(times), "One time is proposed twice.", exchange)


@check("appointments.ids-differ")
async def _(target: Target) -> None:
    _, at_night = await _asked_at_night(target)
    ids = [appointment_of(each).get("appointment_id") for each in (at_night, await with_time(target))]
    skip_unless(None not in ids, "An appointment has no id.")
    expect(ids[0] != ids[1], "Appointments of two customers have one id.", at_night)


# All answers to leads of the run

LATE = timedelta(minutes=15)
"""A time that was promised early in a run may have passed when it is judged."""


def _moments(appointment: Lead) -> Iterator[Any]:
    """All confirmed and proposed times, and both ends of windows, in pairs that must be in order."""
    times, slots = (appointment.get(name) for name in ("proposed_times", "proposed_slots"))
    windows = [appointment.get("confirmed_window"), *(slots if isinstance(slots, list) else [slots])]
    for each in (appointment.get("confirmed_at"), *(times if isinstance(times, list) else [times])):
        if each is not None:
            yield each, each
    for each in windows:
        if each is not None:
            yield at(each, "start"), at(each, "end")


def _wrong_times(appointment: Lead) -> str | None:
    """What is wrong with the times of an appointment; None if nothing is."""
    for first, last in _moments(appointment):
        start, end = instant(first), instant(last)
        if start is None or end is None:
            return f"{first!r:.100} to {last!r:.100} are not timestamps with an offset"
        if start > end:
            return f"a window begins at {first} and ends at {last}"
        if start < datetime.now(UTC) - LATE:
            return f"{first} has passed"
    return None


async def _leads(target: Target) -> list[Exchange]:
    """The exchanges of leads so far that were answered, at each interface and in each vocabulary of the card."""
    places = [each for place, each in target.wire.exchanges.items() if place[0] == target.card.url]
    exchanges = [each for one in places for each in one if LEAD.encode() in each.request_body and is_answered(each)]
    return skip_unless(exchanges, "No lead was accepted.")


def _has_times_to_come(exchange: Exchange) -> bool | str:
    data, sent = data_of(exchange), next(iter(_parts(exchange)), None)
    wrong = _wrong_times(found) if isinstance(found := data.get("appointment"), dict) else None
    confirmed, asked = instant(at(found, "confirmed_at")), instant(at(sent, "data.appointment.appointment_at"))
    if data.get("status") != "duplicate" and None not in (confirmed, asked) and confirmed != asked:
        wrong = f"{confirmed} is confirmed, and {asked} was requested"
    return wrong is None or f"In an appointment, {wrong}."


def _has_ids_of_its_own(exchange: Exchange) -> bool | str:
    customer = next((at(part, "data.customer") for part in _parts(exchange)), None)
    data = data_of(exchange)
    ids = f"{data.get('lead_id')} {at(data, 'appointment.appointment_id')}".casefold()
    named = [name for name in ("email", "phone") if (text := str(at(customer, name) or "").casefold()) and text in ids]
    return not named or f"An id of the response contains the customer's `{named[0]}`."


def _parts(exchange: Exchange) -> list[dict[str, Any]]:
    document = exchange.request_json
    return dicts(at(document, "params.message.parts") or at(document, "message.parts"))


each_of(
    _leads,
    {"appointments.every-time": _has_times_to_come, "leads.ids-anonymous": _has_ids_of_its_own},
    last=True,
)


@check("leads.not-told-to-others", last=True)
async def _(target: Target) -> None:
    """No other response may have what a test customer sent. What the dealer itself publishes is left out."""
    customers = [at(part, "data.customer") for each in await _leads(target) for part in _parts(each)]
    texts = (at(each, name) for each in customers for name in ("email", "phone"))
    # The number of a test customer is one of a few that are reserved for fiction: a dealer may have the same.
    asked = (each for each in target.posted if b"dealer.information" in each.request_body and is_answered(each))
    published = next((each.body for each in asked), b"")
    sent = {text.encode() for text in texts if isinstance(text, str) and text}
    secrets = {each for each in sent if each not in published}
    for exchange in target.posted:
        # A refusal may have an example of a telephone number.
        possible = secrets if is_answered(exchange) else {each for each in secrets if b"@" in each}
        told = next((each for each in possible if each in exchange.body and each not in exchange.request_body), None)
        expect(told is None, f"The response to another request contains {told!r}, which a customer sent.", exchange)
