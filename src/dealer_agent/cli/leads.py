"""`dealer-agent leads`: the leads that buyers sent. `list`, `show` and `dispose` are here."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from dealer_agent.cli.customer_data import allowed_text, name_of, read_lead, record_access, show_event
from dealer_agent.cli.erasure import erase
from dealer_agent.cli.export import export
from dealer_agent.cli.open_dealer import HERE, DirOption, open_dealer
from dealer_agent.cli.terminal import Cell, JsonOption, cell_text, err, fail, moment, out, plain, print_table, section
from dealer_agent.dealers.retention import erase_before, purge_before
from dealer_agent.leads.consent import channels_of
from dealer_agent.leads.consent_events import ERASED
from dealer_agent.leads.records import AppointmentRecord
from dealer_agent.storage import erasure
from dealer_agent.storage.appointments import appointments_of
from dealer_agent.storage.clock import clock_problem, confirm_clock
from dealer_agent.storage.leads import list_leads
from dealer_agent.storage.outbox import DeliveryRecord, list_deliveries
from dealer_agent.storage.retention import purge
from dealer_agent.storage.transaction import Transaction

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    directory: DirOption = HERE,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    before: Annotated[str | None, typer.Option(metavar="LEAD", help="Only leads older than this one.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest leads: customer, vehicle, rooftop, agent, visit, and the states of the deliveries."""
    rows: list[tuple[Cell, ...]] = []
    with open_dealer(directory, customers=True) as dealer:
        with dealer.read() as tx:
            problem = clock_problem(tx)
            leads = list_leads(tx, limit, before)
            for lead in leads:
                name = ERASED if lead.customer is None else name_of(lead.customer)
                what = lead.stock or lead.vin or _claimed(lead.payload), lead.rooftop, lead.source_agent or ERASED
                visits = appointments_of(tx, lead.lead_id)
                visit = visits[-1].status if visits else None
                states = Counter(delivery.state for delivery in _deliveries(tx, lead.lead_id))
                sent = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
                rows.append((lead.lead_id, lead.received_at, name, *what, visit, sent))
        if problem:
            err.print(f"Warning: {problem}", style="yellow")
        record_access(dealer, "leads list", leads=sum(lead.erased_at is None for lead in leads))
    columns = ["Id", "Received (UTC)", "Customer", "Vehicle", "Rooftop", "Agent", "Visit", "Deliveries"]
    if out.is_terminal and out.width < 130 and not as_json:
        # The terminal is too narrow for a row. Two cells share a column, one below the other.
        columns = ["Id", "Customer, vehicle", "Rooftop, agent", "Visit, deliveries"]
        pairs = (zip(row[::2], row[1::2], strict=True) for row in rows)
        rows = [tuple("\n".join(map(cell_text, pair)) for pair in row) for row in pairs]
    print_table("Leads", columns, rows, empty="No leads yet.", as_json=as_json)


@app.command("show")
def show(
    lead_id: Annotated[str, typer.Argument(help="The id, from `leads list`.")], directory: DirOption = HERE
) -> None:
    """Show all of one lead: customer, vehicle, visits, later additions, consent and deliveries."""
    with open_dealer(directory, customers=True) as dealer:
        whole = read_lead(dealer, lead_id, "leads show")
        with dealer.read() as tx:
            deliveries = _deliveries(tx, lead_id)
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
    out.print(f"\nMay be contacted now by: {allowed_text(channels_of(whole.stored, whole.at))}")
    if deliveries:
        columns = ("Id", "What", "Channel", "State", "Attempts", "Settled (UTC)", "Problem")
        rows = [
            (each.delivery_id, each.kind, each.channel, each.state, each.attempts, each.settled_at, each.problem)
            for each in deliveries
        ]
        print_table("\nDeliveries", columns, rows, time=moment)


def _deliveries(tx: Transaction, lead_id: str) -> Sequence[DeliveryRecord]:
    return list_deliveries(tx, 1000, lead_id=lead_id)


def _claimed(payload: bytes | None) -> str:
    """The number with which the buyer named a vehicle that is not in the stock."""
    wanted = msgspec.json.decode(payload).get("vehicle_of_interest", {}) if payload else {}
    return wanted.get("stock") or wanted.get("vin") or ""


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


app.command("erase")(erase)
app.command("export")(export)


@app.command("dispose")
def dispose(
    directory: DirOption = HERE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how much would be erased. Erase nothing.")] = False,
    clock_is_right: Annotated[
        bool, typer.Option("--clock-is-right", help="Confirm the clock, after the service did not run for a long time.")
    ] = False,
) -> None:
    """Erase old customer data, as the running service does every hour: see the section privacy of dealer.toml.

    If the clock is far from the time at which the service last ran, nothing is erased until you confirm the clock.
    """
    now = datetime.now(UTC)
    with open_dealer(directory, customers=True) as dealer:
        profile = dealer.profile
        if dry_run:
            with dealer.read(now) as tx:
                if (problem := clock_problem(tx)) and not clock_is_right:
                    fail(problem)
                done = erasure.disposable(tx, **erase_before(profile.privacy, now))
        else:
            if clock_is_right:
                with dealer.write(now) as tx:
                    confirm_clock(tx)
            done = erasure.dispose(dealer.store, profile.id, **erase_before(profile.privacy, now), now=now)
            purge(dealer.store, profile.id, **purge_before(profile.privacy, now), now=now)
    rows = (
        ("Customers of leads, after their last use", profile.privacy.keep_leads_days, done.leads),
        ("Texts of consents, after their last event", profile.privacy.keep_consents_days, done.consents),
    )
    print_table("Would be erased" if dry_run else "Erased", ("What", "After days", "Count"), rows)
    if dry_run:
        out.print("\nNothing was changed (--dry-run).")
