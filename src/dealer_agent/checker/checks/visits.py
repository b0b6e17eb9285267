"""Makes and sends leads that ask for a visit in open hours, for the checks of `appointments`, `leads` and `promises`.

Each run takes a different vehicle, person and time.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

from dealer_agent.checker.checks.lead_defects import Lead, lead, seed_of, submit
from dealer_agent.checker.exchange import Exchange, at
from dealer_agent.checker.outcome import Failed, Skipped
from dealer_agent.checker.reply import data_of, is_answered
from dealer_agent.checker.target import Listing, Target
from dealer_agent.checker.visit_times import Span, open_spans, starts_in

Asked = tuple[Lead, Exchange]
"""A lead and its exchange."""

Times = Callable[[int, list[Span]], Lead]
"""The members of an appointment with times within the hours of a dealer, chosen by a number."""

WINDOWS = 3
"""How many windows a lead has. In one of them, most dealers have a time."""
LENGTH = timedelta(hours=2)
"""How long a window is. A time that was moved to another zone or day is outside."""
BUYER_ZONE, BUYER_OFFSET = "Etc/GMT+3", timedelta(hours=-3)
"""A zone in which no dealer of North America is. Three hours are less than a day of open hours."""


async def a_vehicle(target: Target, person: str = "") -> Listing:
    """A listing with a VIN, available if there is such a one: another for each person. Skips the check without any."""
    listings = await target.having("vin")
    available = [each for each in listings if each.get("status") == "available"] or listings
    return available[seed_of(target, person) % len(available)]


def one_time(number: int, spans: list[Span]) -> Lead:
    """A time in the form of revision 1.0.0."""
    starts = starts_in(spans)
    return {"appointment_at": starts[number % len(starts)].isoformat().replace("+00:00", "Z")}


def three_windows(number: int, spans: list[Span]) -> Lead:
    """Windows in the form of revision 0.1.0, in local times of the buyer.

    They are at the beginning of open hours, at their end, and so on. If they are read in UTC, or in a zone of North
    America, one of them is still in open hours, and outside of what was asked for.
    """
    first = number % len(spans)
    days = sorted([*spans[first:], *spans[:first]][:WINDOWS])
    chosen = [
        (max(start, end - LENGTH), end) if index % 2 else (start, min(start + LENGTH, end))
        for index, (start, end) in enumerate(days)
    ]
    windows = [{name: _local(each) for name, each in zip(("start", "end"), span, strict=True)} for span in chosen]
    return {"requested_windows": windows, "timezone": BUYER_ZONE}


async def visit(target: Target, person: str, times: Times, *, drive: bool) -> Lead:
    """A lead with an appointment: a test drive, or a visit to the sales department.

    Skips the check if it is a test drive and no listing has a VIN.
    """
    vehicle = await a_vehicle(target, person) if drive else {}
    information = None
    with suppress(Failed, Skipped):
        information = await target.ask("dealer.information")
    chosen = times(seed_of(target, person), open_spans(information, vehicle.get("rooftop"), target.wire.noon))
    if target.revision.snake_case and "appointment_at" in chosen:
        # The same time, with an offset.
        moment = datetime.fromisoformat(chosen["appointment_at"])
        chosen["appointment_at"] = moment.astimezone(timezone(BUYER_OFFSET)).isoformat()
    appointment = {"appointment_type": "test_drive" if drive else "sales", **chosen}
    payload = lead(target, person=person, appointment=appointment)
    return payload | {"vehicle_of_interest": {"vin": vehicle["vin"]}} if drive else payload


async def with_visit(target: Target, person: str, times: Times) -> list[Lead]:
    """Leads with an appointment: for a test drive, if a listing has a VIN, and for a sale.

    Revision 0.1.0 names no other type than the test drive, which needs a vehicle.
    """
    sale = await visit(target, person, times, drive=False)
    try:
        return [await visit(target, person, times, drive=True), sale]
    except Skipped:
        return [sale]


async def scheduled(target: Target, *leads: Lead) -> Asked:
    """The first of these leads that gets a time: confirmed or proposed. Else the first that is accepted, or the last.

    A vehicle that many want to drive gets none, for example.
    """
    accepted: list[Asked] = []
    for each in leads:
        asked = each, await submit(target, each)
        if is_answered(asked[1]):
            accepted.append(asked)
            if at(data_of(asked[1]), "appointment.status") in ("confirmed", "proposed"):
                return asked
    return accepted[0] if accepted else asked


def windows_of(sent: Lead) -> list[Span]:
    """The windows of a lead, in UTC."""
    return [(_instant(each["start"]), _instant(each["end"])) for each in sent["appointment"]["requested_windows"]]


def _local(time: datetime) -> str:
    """A time without offset, in the zone of the buyer."""
    return (time + BUYER_OFFSET).strftime("%Y-%m-%dT%H:%M:%S")


def _instant(local: str) -> datetime:
    return datetime.fromisoformat(local).replace(tzinfo=UTC) - BUYER_OFFSET
