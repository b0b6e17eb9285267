"""`dealer-agent appointments`: the visits that buyers asked for."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated

import msgspec
import typer

from dealer_agent.cli.appointment_changes import arrange, cancel, confirm, done, move, no_show
from dealer_agent.cli.customer_data import OutOption, name_of, private_file, record_access
from dealer_agent.cli.open_dealer import HERE, DirOption, OpenDealer, open_dealer
from dealer_agent.cli.terminal import Cell, JsonOption, counted, err, fail, out, print_table
from dealer_agent.leads.wording import vehicle_name
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.appointments import ListedAppointment, list_booked, list_waiting
from dealer_agent.storage.tokens import create_token

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    directory: DirOption = HERE,
    past: Annotated[int, typer.Option("--past", min=0, max=3650, help="Show also visits of so many past days.")] = 0,
    everything: Annotated[bool, typer.Option("--all", help="Show also visits that were cancelled or moved.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the visits: first those that a person must arrange, then the booked ones. Times are local to the rooftop."""
    with open_dealer(directory, customers=True) as dealer:
        with dealer.read() as tx:
            waiting = list_waiting(tx, tx.now - timedelta(days=30))  # An older one is forgotten, and not listed.
            booked = list_booked(tx, tx.now - timedelta(days=past))
        shown = waiting + [listed for listed in booked if everything or not listed.appointment.is_off]
        record_access(dealer, "appointments list", leads=_customers(shown))
    columns = ("Id", "Lead Id", "When", "Kind", "Rooftop", "Status", "Customer", "Vehicle")
    rows = [_row(dealer, listed) for listed in shown]
    print_table("Visits", columns, rows, empty="No visits.", time="{:%a %Y-%m-%d %H:%M}".format, as_json=as_json)


for _name, _command in (
    ("arrange", arrange),
    ("confirm", confirm),
    ("move", move),
    ("done", done),
    ("no-show", no_show),
    ("cancel", cancel),
):
    app.command(_name)(_command)


@app.command("calendar")
def calendar(
    directory: DirOption = HERE,
    file: OutOption = None,
    subscribe: Annotated[
        bool, typer.Option("--subscribe", help="Create a secret URL, from which calendar programs load the visits.")
    ] = False,
) -> None:
    """Write the booked visits as an iCalendar file, or create a URL to subscribe to."""
    if subscribe and file is not None:
        fail("--subscribe makes an address and writes no file: leave out --out")
    # Imported here: the library for calendars takes 0.1 s.
    from dealer_agent.lead_intake.visit_calendar import PAST, visit_calendar

    with open_dealer(directory, customers=True) as dealer:
        if subscribe:
            _subscribe(dealer)
            return
        with dealer.read() as tx:
            booked = list_booked(tx, tx.now - PAST)
        document = visit_calendar(dealer.profile, booked)
        record_access(dealer, "appointments calendar", leads=_customers(booked))
        if file is None:
            typer.echo(document, nl=False)
        else:
            with private_file(file) as opened:
                opened.write(document)
            out.print(f"{counted(len(booked), 'visit')} written to {file}")


def _subscribe(dealer: OpenDealer) -> None:
    secret, service = new_token(), dealer.settings.service
    with dealer.write() as tx:
        token_id = create_token(tx, "calendar", secret.secret_hash, "calendar")
    err.print(
        f"Calendar {token_id}. Anyone with this address can see all visits and customers. It is shown this once. "
        f"To end it: dealer-agent tokens revoke {token_id}"
    )
    out.print(f"{service.public_url}{service.base_path}/calendar/{secret.secret}.ics", soft_wrap=True)
    if not service.public_url:
        err.print("Put the address of your service in front of it: public_url is not set.")


def _row(dealer: OpenDealer, listed: ListedAppointment) -> tuple[Cell, ...]:
    visit = listed.appointment
    when = dealer.local(visit.starts_at, visit.rooftop)
    customer = None if listed.customer is None else name_of(listed.customer)
    vehicle = None if listed.vehicle is None else vehicle_name(msgspec.json.decode(listed.vehicle, type=Vehicle))
    kind = visit.kind.replace("_", " ")
    return visit.appointment_id, visit.lead_id, when, kind, visit.rooftop, visit.status, customer, vehicle


def _customers(visits: Iterable[ListedAppointment]) -> int:
    return len({listed.appointment.lead_id for listed in visits if listed.customer is not None})
