"""`dealer-agent leads`: what buyers sent."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from dealer_agent.cli.access_recording import look_at_lead, note_look
from dealer_agent.cli.consent import show_allowed, show_event
from dealer_agent.cli.terminal import (
    HERE,
    DirOption,
    add_row,
    customer_store,
    err,
    failures_in_plain_words,
    moment,
    out,
    plain,
    section,
    settings_in,
    table,
)
from dealer_agent.lead_intake.allowed_contact_points import channels_of
from dealer_agent.storage.appointments import AppointmentRecord
from dealer_agent.storage.outbox import DeliveryRecord

app = typer.Typer(no_args_is_help=True)

DELIVERIES = 1000
"""More than a lead ever has."""

ROOM = 130
"""Letters, for a line of the list."""

ERASED = "(erased)"
"""What stands for a customer who was forgotten."""


@app.command("list")
def list_(
    directory: DirOption = HERE,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    before: Annotated[str | None, typer.Option(metavar="LEAD", help="Only leads older than this one.")] = None,
) -> None:
    """List the newest leads: who, about what, where they went, and whether they arrived there."""
    rows: list[tuple[str, ...]] = []
    with failures_in_plain_words():
        settings = settings_in(directory)
        dealer_id = settings.dealer.id
        with customer_store(settings) as store:
            if problem := store.clock_problem(dealer_id, datetime.now(UTC)):
                err.print(f"Warning: {problem}", style="yellow", markup=False)
            leads = store.list_leads(dealer_id, limit, before)
            note_look(store, dealer_id, "leads list", leads=sum(lead.erased_at is None for lead in leads))
            for lead in leads:
                whole = store.whole_lead(dealer_id, lead.lead_id, datetime.now(UTC))
                visit = whole.visits[-1].status if whole is not None and whole.visits else ""
                deliveries = store.list_deliveries(dealer_id, DELIVERIES, lead_id=lead.lead_id)
                name, vehicle = _name(lead.customer), lead.stock or lead.vin or _claimed(lead.payload)
                received = f"{lead.received_at:%Y-%m-%d %H:%M}"
                where = (lead.rooftop, lead.source_agent or ERASED)
                rows.append((lead.lead_id, received, name, vehicle, *where, visit, _states(deliveries)))
    out.print(_table_of(rows) if rows else "No leads yet.")


def _table_of(rows: Sequence[tuple[str, ...]]) -> Table:
    """A lead a line or, where a terminal has no room for that, two cells above each other."""
    if out.is_terminal and out.width < ROOM:
        made = table("Leads", "Id", "Customer, vehicle", "Rooftop, agent", "Visit, deliveries")
        rows = [tuple(map("\n".join, zip(row[::2], row[1::2], strict=True))) for row in rows]
    else:
        made = table("Leads", "Id", "Received (UTC)", "Customer", "Vehicle", "Rooftop", "Agent", "Visit", "Deliveries")
    for row in rows:
        add_row(made, *row)
    return made


@app.command("show")
def show(
    lead_id: Annotated[str, typer.Argument(help="The id, from `leads list`.")], directory: DirOption = HERE
) -> None:
    """Show one lead whole: customer, vehicle, visits, what was added later, consent, and where it was delivered."""
    with failures_in_plain_words():
        settings = settings_in(directory)
        dealer_id = settings.dealer.id
        with customer_store(settings) as store:
            whole = look_at_lead(store, dealer_id, lead_id, "leads show")
            deliveries = store.list_deliveries(dealer_id, DELIVERIES, lead_id=lead_id)
    lead, consents, events = whole.stored
    out.print(f"[bold]Lead {lead.lead_id}[/], {lead.status} {moment(lead.received_at)} UTC")
    for_rooftop = f", for {plain(lead.rooftop)}" if lead.rooftop else ""
    token = f", with token {lead.token_id}" if lead.token_id else ""
    out.print(f"From {plain(lead.source_agent or ERASED)}{token}{for_rooftop}", markup=False)
    if lead.may_be_same_person_as is not None:
        out.print(f"It may be the same person as lead {lead.may_be_same_person_as}, which another sender sent.")
    if lead.erased_at is not None:
        out.print(f"\nThe customer was erased {moment(lead.erased_at)} UTC. What is left names nobody.")
    payload = msgspec.json.decode(lead.payload) if lead.payload else {}
    section("Customer", msgspec.json.decode(lead.customer) if lead.customer else None)
    section("Vehicle of interest", payload.get("vehicle_of_interest"))
    section("In stock when the lead came", _listing(lead.vehicle))
    section("Trade-in", payload.get("trade_in"))
    section("Message", payload.get("message"))
    for event in events:
        section(f"Added {moment(event.at)} UTC", msgspec.json.decode(event.changes) if event.changes else ERASED)
    for visit in whole.visits:
        _show_visit(visit)
    for consent in consents:
        show_event(consent)
    show_allowed(channels_of(whole.stored, whole.at))
    if deliveries:
        _show_deliveries(deliveries)


def _name(customer: bytes | None) -> str:
    if customer is None:
        return ERASED
    told = msgspec.json.decode(customer)
    return f"{told['first_name']} {told['last_name']}"


def _claimed(payload: bytes | None) -> str:
    """By which number the buyer named a vehicle that the stock does not know."""
    wish = msgspec.json.decode(payload).get("vehicle_of_interest", {}) if payload else {}
    return wish.get("stock") or wish.get("vin") or ""


def _states(deliveries: Sequence[DeliveryRecord]) -> str:
    """Such as `2 sent, 1 waiting`."""
    counted = Counter(delivery.state for delivery in deliveries)
    return ", ".join(f"{count} {state}" for state, count in sorted(counted.items()))


def _listing(vehicle: bytes | None) -> Any:
    """What tells a vehicle from others; the rest is on the dealer's website."""
    if vehicle is None:
        return None
    listing = msgspec.json.decode(vehicle)
    shown = ("year", "make", "model", "trim", "condition", "vin", "stock", "price", "mileage", "rooftop", "status")
    return {name: listing[name] for name in shown if name in listing}


def _show_visit(visit: AppointmentRecord) -> None:
    times = {"starts": visit.starts_at, "ends": visit.ends_at, "ended": visit.cancelled_at}
    told = {name: f"{moment(at)} UTC" for name, at in times.items() if at is not None}
    asked = msgspec.json.decode(visit.request) if visit.request else {"asked for": ERASED}
    section(f"Visit {visit.appointment_id}: {visit.kind}, {visit.status}", {"rooftop": visit.rooftop, **told, **asked})


def _show_deliveries(deliveries: Sequence[DeliveryRecord]) -> None:
    made = table("\nDeliveries", "Id", "What", "Channel", "State", "Attempts #", "Settled (UTC)", "Problem")
    for each in deliveries:
        settled = "" if each.settled_at is None else moment(each.settled_at)
        attempts = str(each.attempts)
        add_row(made, each.delivery_id, each.kind, each.channel, each.state, attempts, settled, each.problem or "")
    out.print(made)
