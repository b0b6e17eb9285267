"""`dealer-agent leads`: the leads that buyers sent. `list`, `show` and `dispose` are here."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from dealer_agent.cli.customer_data import deliveries_of, read_lead, record_access, show_allowed, show_event
from dealer_agent.cli.erasure import erase
from dealer_agent.cli.export import export
from dealer_agent.cli.terminal import (
    HERE,
    DirOption,
    customer_store,
    err,
    fail,
    minute,
    moment,
    out,
    plain,
    print_table,
    section,
)
from dealer_agent.dealers.retention import erase_before, purge_before
from dealer_agent.leads.consent import channels_of
from dealer_agent.leads.consent_events import ERASED
from dealer_agent.leads.records import AppointmentRecord
from dealer_agent.storage import erasure
from dealer_agent.storage.appointments import appointments_of
from dealer_agent.storage.clock import clock_problem, confirm_clock
from dealer_agent.storage.leads import list_leads
from dealer_agent.storage.outbox import DeliveryRecord
from dealer_agent.storage.retention import purge

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    directory: DirOption = HERE,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    before: Annotated[str | None, typer.Option(metavar="LEAD", help="Only leads older than this one.")] = None,
) -> None:
    """List the newest leads: customer, vehicle, rooftop, agent, visit, and the states of the deliveries."""
    rows: list[tuple[str, ...]] = []
    with customer_store(directory) as (settings, store):
        dealer_id = settings.dealer.id
        with store.read(dealer_id) as tx:
            problem = clock_problem(tx)
            leads = list_leads(tx, limit, before)
        if problem:
            err.print(f"Warning: {problem}", style="yellow")
        record_access(store, dealer_id, "leads list", leads=sum(lead.erased_at is None for lead in leads))
        for lead in leads:
            with store.read(dealer_id) as tx:
                visits = appointments_of(tx, lead.lead_id)
            visit = visits[-1].status if visits else ""
            states = _states(deliveries_of(store, dealer_id, lead.lead_id))
            name, vehicle = _name(lead.customer), lead.stock or lead.vin or _claimed(lead.payload)
            where = (lead.rooftop, lead.source_agent or ERASED)
            rows.append((lead.lead_id, minute(lead.received_at), name, vehicle, *where, visit, states))
    columns = ["Id", "Received (UTC)", "Customer", "Vehicle", "Rooftop", "Agent", "Visit", "Deliveries"]
    if out.is_terminal and out.width < 130:
        # The terminal is too narrow for a row. Two cells share a column, one below the other.
        columns = ["Id", "Customer, vehicle", "Rooftop, agent", "Visit, deliveries"]
        rows = [tuple(map("\n".join, zip(row[::2], row[1::2], strict=True))) for row in rows]
    print_table("Leads", columns, rows, empty="No leads yet.")


@app.command("show")
def show(
    lead_id: Annotated[str, typer.Argument(help="The id, from `leads list`.")], directory: DirOption = HERE
) -> None:
    """Show all of one lead: customer, vehicle, visits, later additions, consent and deliveries."""
    with customer_store(directory) as (settings, store):
        whole = read_lead(store, settings.dealer.id, lead_id, "leads show")
        deliveries = deliveries_of(store, settings.dealer.id, lead_id)
    lead, consents, events = whole.stored
    out.print(f"[bold]Lead {lead.lead_id}[/], {lead.status} {moment(lead.received_at)} UTC", markup=True)
    for_rooftop = f", for {plain(lead.rooftop)}" if lead.rooftop else ""
    token = f", with token {lead.token_id}" if lead.token_id else ""
    out.print(f"From {plain(lead.source_agent or ERASED)}{token}{for_rooftop}")
    if lead.may_be_same_person_as is not None:
        out.print(f"It may be the same person as lead {lead.may_be_same_person_as}, which another sender sent.")
    if lead.erased_at is not None:
        out.print(f"\nThe customer was erased {moment(lead.erased_at)} UTC. The rest identifies nobody.")
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
    name = msgspec.json.decode(customer)
    return f"{name['first_name']} {name['last_name']}"


def _claimed(payload: bytes | None) -> str:
    """The number with which the buyer named a vehicle that is not in the stock."""
    wanted = msgspec.json.decode(payload).get("vehicle_of_interest", {}) if payload else {}
    return wanted.get("stock") or wanted.get("vin") or ""


def _states(deliveries: Sequence[DeliveryRecord]) -> str:
    counted = Counter(delivery.state for delivery in deliveries)
    return ", ".join(f"{count} {state}" for state, count in sorted(counted.items()))


def _listing(vehicle: bytes | None) -> Any:
    """The members that identify a vehicle. The dealer's website has the others."""
    if vehicle is None:
        return None
    listing = msgspec.json.decode(vehicle)
    shown = ("year", "make", "model", "trim", "condition", "vin", "stock", "price", "mileage", "rooftop", "status")
    return {name: listing[name] for name in shown if name in listing}


def _show_visit(visit: AppointmentRecord) -> None:
    times = {"starts": visit.starts_at, "ends": visit.ends_at, "ended": visit.cancelled_at}
    facts = {name: f"{moment(at)} UTC" for name, at in times.items() if at is not None}
    asked = msgspec.json.decode(visit.request) if visit.request else {"asked for": ERASED}
    section(f"Visit {visit.appointment_id}: {visit.kind}, {visit.status}", {"rooftop": visit.rooftop, **facts, **asked})


def _show_deliveries(deliveries: Sequence[DeliveryRecord]) -> None:
    columns = ("Id", "What", "Channel", "State", "Attempts #", "Settled (UTC)", "Problem")
    rows = []
    for each in deliveries:
        settled = "" if each.settled_at is None else moment(each.settled_at)
        attempts = str(each.attempts)
        rows.append((each.delivery_id, each.kind, each.channel, each.state, attempts, settled, each.problem or ""))
    print_table("\nDeliveries", columns, rows)


app.command("erase")(erase)
app.command("export")(export)


@app.command("dispose")
def dispose(
    directory: DirOption = HERE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how much would be erased. Erase nothing.")] = False,
    clock_is_right: Annotated[
        bool,
        typer.Option(
            "--clock-is-right", help="Confirm this machine's clock, after the service did not run for a long time."
        ),
    ] = False,
) -> None:
    """Erase old customer data, as the running service does every hour: see the section privacy of dealer.toml.

    If the clock is far from the time at which the service last ran, nothing is erased until you confirm the clock.
    """
    now = datetime.now(UTC)
    with customer_store(directory) as (settings, store):
        dealer = settings.dealer
        if dry_run:
            with store.read(dealer.id, now) as tx:
                if (problem := clock_problem(tx)) and not clock_is_right:
                    fail(problem)
                done = erasure.disposable(tx, **erase_before(dealer, now))
        else:
            if clock_is_right:
                with store.write(dealer.id, now) as tx:
                    confirm_clock(tx)
            done = erasure.dispose(store, dealer.id, **erase_before(dealer, now), now=now)
            purge(store, dealer.id, **purge_before(dealer, now), now=now)
    ages_in_days = dealer.privacy
    rows = (
        ("Customers of leads, after their last use", str(ages_in_days.keep_leads_days), str(done.leads)),
        ("Texts of consents, after their last event", str(ages_in_days.keep_consents_days), str(done.consents)),
    )
    print_table("Would be erased" if dry_run else "Erased", ("What", "After days #", "Count #"), rows)
    if dry_run:
        out.print("\nNothing was changed (--dry-run).")
