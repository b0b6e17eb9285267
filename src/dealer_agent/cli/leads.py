"""`dealer-agent leads`: the leads that buyers sent. `list`, `show` and `dispose` are here."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from dealer_agent.cli.customer_data import (
    SinceOption,
    UntilOption,
    allowed_text,
    asked_text,
    days_between,
    event_document,
    known_contact,
    name_of,
    read_lead,
    record_access,
    show_event,
)
from dealer_agent.cli.erasure import erase
from dealer_agent.cli.export import export
from dealer_agent.cli.open_dealer import HERE, DirOption, OpenDealer, open_dealer
from dealer_agent.cli.terminal import (
    Cell,
    JsonOption,
    err,
    fail,
    limited,
    local,
    moment,
    out,
    plain,
    print_json,
    print_table,
    progress,
    section,
)
from dealer_agent.dealers.profile import erase_before, purge_before
from dealer_agent.leads.consent import channels_of
from dealer_agent.leads.consent_events import ERASED
from dealer_agent.leads.records import LeadDetails
from dealer_agent.storage import erasure
from dealer_agent.storage.appointments import appointments_of
from dealer_agent.storage.clock import clock_problem, confirm_clock
from dealer_agent.storage.erasure import purge
from dealer_agent.storage.lead_search import MOST_SEARCHED, FoundLeads, LeadFilter, LeadState, find_leads
from dealer_agent.storage.outbox import DeliveryRecord, list_deliveries
from dealer_agent.storage.transaction import Transaction

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            callback=asked_text,
            help="Only leads with these words in the customer's name, e-mail address or phone number, the VIN, the"
            " stock number, the agent or the lead's id. With - the command asks for it, so that no command history"
            " has it.",
        ),
    ] = "",
    directory: DirOption = HERE,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    since: SinceOption = None,
    until: UntilOption = None,
    state: Annotated[
        LeadState | None, typer.Option(help="Only leads with a delivery in this state, or leads that were erased.")
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="LEAD", help="Only leads older than this one.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest leads: customer, vehicle, rooftop, agent, visit, and the states of the deliveries.

    A search decrypts at most the newest 20,000 leads of the chosen days. The access log has each search. Times are
    those of the lead's rooftop, and days those of the first rooftop in dealer.toml.
    """
    rows: list[tuple[Cell, ...]] = []
    with open_dealer(directory, customers=True) as dealer:
        sought = LeadFilter(
            text=text, contact=known_contact(text), before=before, state=state, **days_between(dealer, since, until)
        )
        with dealer.read() as tx:
            problem = clock_problem(tx)
            found = _found(tx, sought, limit + 1)
            for lead in limited(found.leads, limit):
                name = ERASED if lead.customer is None else name_of(lead.customer)
                what = lead.stock or lead.vin or _claimed(lead.payload), lead.rooftop, lead.source_agent or ERASED
                visits = appointments_of(tx, lead.lead_id)
                visit = visits[-1].status if visits else None
                states = Counter(delivery.state for delivery in _deliveries(tx, lead.lead_id))
                sent = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
                received = dealer.local(lead.received_at, lead.rooftop)
                rows.append((lead.lead_id, received, name, *what, visit, sent))
        if problem:
            err.print(f"Warning: {problem}", style="yellow")
        if found.incomplete:
            err.print(f"Only {found.opened:,} leads were searched: choose older ones with --until or --before.")
        shown = sum(lead.erased_at is None for lead in found.leads[:limit])
        action = f"leads list, search of {found.opened:,}" if text else "leads list"
        record_access(dealer, action, leads=shown, even_without=bool(text and found.opened))
    columns = ("Id", "Received", "Customer", "Vehicle", "Rooftop", "Agent", "Visit", "Deliveries")
    empty = "No such leads." if text or since or until or state or before else "No leads yet."
    print_table("Leads", columns, rows, empty=empty, as_json=as_json)


def _found(tx: Transaction, sought: LeadFilter, limit: int) -> FoundLeads:
    """The leads, with a progress bar while a search decrypts them."""
    if not sought.text:
        return find_leads(tx, sought, limit)
    with progress() as bar:
        task = bar.add_task("Searching", total=MOST_SEARCHED)
        return find_leads(tx, sought, limit, lambda opened: bar.update(task, completed=opened))


@app.command("show")
def show(
    lead_id: Annotated[str, typer.Argument(help="The id, from `leads list`.")],
    directory: DirOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Show all of one lead: customer, vehicle, visits, later additions, consent and deliveries."""
    with open_dealer(directory, customers=True) as dealer:
        whole = read_lead(dealer, lead_id, "leads show")
        with dealer.read() as tx:
            deliveries = _deliveries(tx, lead_id)
    document = _document(dealer, whole, deliveries)
    if as_json:
        print_json(document)
        return
    lead, consents, _ = whole.stored
    out.print(f"[bold]Lead {lead.lead_id}[/], {lead.status} {local(document['received'])}", markup=True)
    for_rooftop = f", for {plain(lead.rooftop)}" if lead.rooftop else ""
    token = f", with token {lead.token_id}" if lead.token_id else ""
    out.print(f"From {plain(lead.source_agent or ERASED)}{token}{for_rooftop}")
    if lead.may_be_same_person_as is not None:
        out.print(f"It may be the same person as lead {lead.may_be_same_person_as}, which another sender sent.")
    if lead.erased_at is not None:
        out.print(f"\nThe customer was erased {local(document['erased'])}. The rest identifies nobody.")
    section("Customer", document["customer"])
    section("Vehicle of interest", document["vehicle_of_interest"])
    section("In stock when the lead came", _listing(document["vehicle"]))
    section("Trade-in", document["trade_in"])
    section("Message", document["message"])
    for addition in document["additions"]:
        section(f"Added {local(addition['at'])}", addition["changes"] or ERASED)
    for visit in document["appointments"]:
        _show_visit(visit)
    for consent in consents:
        show_event(consent, dealer.clock(lead.rooftop))
    out.print(f"\nMay be contacted now by: {allowed_text(document['may_be_contacted_by'])}")
    if deliveries:
        columns = ("Id", "What", "Channel", "State", "Attempts", "Settled", "Problem")
        rows = [
            tuple(each[name] for name in ("id", "kind", "channel", "state", "tries", "settled", "problem"))
            for each in document["deliveries"]
        ]
        print_table("\nDeliveries", columns, rows, time=moment)


def _document(dealer: OpenDealer, whole: LeadDetails, deliveries: Sequence[DeliveryRecord]) -> dict[str, Any]:
    """The lead as JSON. Times are in the zone of its rooftop, those of visits in the zone of the visit's rooftop."""
    lead, consents, events = whole.stored

    def at(moment: datetime | None) -> datetime | None:
        return dealer.local(moment, lead.rooftop)

    def decoded(content: bytes | None) -> Any:
        return None if content is None else msgspec.json.decode(content)

    payload = decoded(lead.payload) or {}
    return {
        "id": lead.lead_id,
        "status": lead.status,
        "received": at(lead.received_at),
        "erased": at(lead.erased_at),
        "rooftop": lead.rooftop,
        "agent": lead.source_agent,
        "token": lead.token_id,
        "may_be_same_person_as": lead.may_be_same_person_as,
        "customer": decoded(lead.customer),
        "vehicle_of_interest": payload.get("vehicle_of_interest"),
        "vehicle": decoded(lead.vehicle),
        "trade_in": payload.get("trade_in"),
        "message": payload.get("message"),
        "additions": [{"at": at(each.at), "changes": decoded(each.changes)} for each in events],
        "appointments": [
            {
                "id": visit.appointment_id,
                "kind": visit.kind,
                "status": visit.status,
                "rooftop": visit.rooftop,
                "starts": dealer.local(visit.starts_at, visit.rooftop),
                "ends": dealer.local(visit.ends_at, visit.rooftop),
                "ended": dealer.local(visit.cancelled_at, visit.rooftop),
                "request": decoded(visit.request),
            }
            for visit in whole.visits
        ],
        "consents": [event_document(event, at) for event in consents],
        "may_be_contacted_by": channels_of(whole.stored, whole.at),
        "deliveries": [
            {
                "id": each.delivery_id,
                "kind": each.kind,
                "rooftop": each.rooftop,
                "channel": each.channel,
                "state": each.state,
                "tries": each.attempts,
                "settled": at(each.settled_at),
                "problem": each.problem,
            }
            for each in deliveries
        ],
    }


def _deliveries(tx: Transaction, lead_id: str) -> Sequence[DeliveryRecord]:
    return list_deliveries(tx, 1000, lead_id=lead_id)


def _claimed(payload: bytes | None) -> str:
    """The number with which the buyer named a vehicle that is not in the stock."""
    wanted = msgspec.json.decode(payload).get("vehicle_of_interest", {}) if payload else {}
    return wanted.get("stock") or wanted.get("vin") or ""


def _listing(listing: dict[str, Any] | None) -> Any:
    """The members that identify a vehicle. The dealer's website has the others."""
    if listing is None:
        return None
    shown = ("year", "make", "model", "trim", "condition", "vin", "stock", "price", "mileage", "rooftop", "status")
    return {name: listing[name] for name in shown if name in listing}


def _show_visit(visit: dict[str, Any]) -> None:
    asked = visit["request"] or {"asked for": ERASED}
    facts = {name: visit[name] for name in ("rooftop", "starts", "ends", "ended")}
    section(f"Visit {visit['id']}: {visit['kind']}, {visit['status']}", facts | asked)


app.command("erase")(erase)
app.command("export")(export)


@app.command("dispose")
def dispose(
    directory: DirOption = HERE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how much would be erased. Erase nothing.")] = False,
    clock_is_right: Annotated[
        bool, typer.Option("--clock-is-right", help="Confirm the clock, after the service did not run for a long time.")
    ] = False,
    as_json: JsonOption = False,
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
    if as_json:
        print_json({"customers_of_leads": done.leads, "texts_of_consents": done.consents, "dry_run": dry_run})
    rows = (
        ("Customers of leads, after their last use", profile.privacy.keep_leads_days, done.leads),
        ("Texts of consents, after their last event", profile.privacy.keep_consents_days, done.consents),
    )
    print_table("Would be erased" if dry_run else "Erased", ("What", "After days", "Count"), rows)
    if dry_run:
        out.print("\nNothing was changed (--dry-run).")
