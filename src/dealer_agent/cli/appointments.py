"""`dealer-agent appointments`: the visits that buyers asked for, and their changes."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dealer_agent.cli.command import CommandTarget, command
from dealer_agent.cli.customer_data import LeadIdArgument, OutOption, record_access
from dealer_agent.cli.open_dealer import CUSTOMERS
from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import Cell, counted, err, fail, minute, out, pasted, plain
from dealer_agent.encryption.private_files import replaced_file
from dealer_agent.leads.records import VisitRecord
from dealer_agent.leads.statuses import CANCELLED, CONFIRMED
from dealer_agent.open_installation import OpenDealer
from dealer_agent.operations.lead_documents import name_of, vehicle_of
from dealer_agent.protocol.requests import VisitKind
from dealer_agent.protocol.timestamps import zone_abbreviation
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.leads.visits import ListedVisit, list_booked, list_waiting
from dealer_agent.storage.tokens import create_token

if TYPE_CHECKING:
    from dealer_agent.visits.changes import ChosenTime, VisitChange, VisitChanges

app = typer.Typer(no_args_is_help=True)


@command(app, "list", CUSTOMERS)
def list_(
    dealer: OpenDealer,
    past: Annotated[int, typer.Option("--past", min=0, max=3650, help="Show also visits of so many past days.")] = 0,
    everything: Annotated[bool, typer.Option("--all", help="Show also visits that were cancelled or moved.")] = False,
) -> Table:
    """List the visits: first those that a person must arrange, then the booked ones. Times are local to the rooftop."""
    with dealer.read() as tx:
        waiting = list_waiting(tx, tx.now - timedelta(days=30))  # An older one is forgotten, and not listed.
        booked = list_booked(tx, tx.now - timedelta(days=past))
    shown = waiting + [listed for listed in booked if everything or not listed.appointment.is_off]
    record_access(dealer, "appointments list", leads=_customers(shown))
    columns = ("Id", "Lead Id", "When", "Kind", "Rooftop", "Status", "Customer", "Vehicle")
    rows = [_row(dealer, listed) for listed in shown]
    return Table("Visits", columns, rows, empty="No visits.", time="{:%a %Y-%m-%d %H:%M}".format)


@command(app, "calendar", CUSTOMERS)
def calendar(
    dealer: OpenDealer,
    file: OutOption = None,
    subscribe: Annotated[
        bool, typer.Option("--subscribe", help="Create a secret URL, from which calendar programs load the visits.")
    ] = False,
) -> None:
    """Write the booked visits as an iCalendar file, or create a URL to subscribe to."""
    if subscribe and file is not None:
        fail("--subscribe makes an address and writes no file: leave out --out")
    # Imported here: the library for calendars takes 0.1 s.
    from dealer_agent.visits.calendar import PAST, visit_calendar

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
        with replaced_file(file) as opened:
            opened.write(document)
        out.print(f"{counted(len(booked), 'visit')} written to {file}")


def _time(text: str) -> datetime:
    """The time that a person writes. Raises BadParameter."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(
            "write it as '2026-03-04 10:30' on the clock of the rooftop, or with an offset as 2026-03-04T10:30-06:00"
        ) from None


VisitArgument = Annotated[str, typer.Argument(metavar="ID", help="The id, from `appointments list`.")]
_AT = typer.Option(
    "--at",
    metavar="TIME",
    parser=_time,
    help="When it starts: '2026-03-04 10:30' on the clock of the rooftop, or with an offset from UTC.",
)
TimeOption = Annotated[Any, _AT]
MinutesOption = Annotated[
    int | None, typer.Option(min=15, max=480, help="How long it takes. Default: as asked for, or as in dealer.toml.")
]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force", help="Book it even outside the opening hours, or without a free place. The vehicle must be free."
    ),
]
Change = Callable[["Callable[[VisitChanges], VisitChange]"], dict[str, Any]]
"""Makes a change of a visit by staff, and prints what has changed and who is notified."""


@contextmanager
def _changing(tell_nobody: bool, **chosen: Any) -> Iterator[Change]:
    with CUSTOMERS.open(**chosen) as dealer:
        yield partial(_change, dealer, notify=not tell_nobody)


_TELL_NOBODY = typer.Option("--tell-nobody", help="Send nothing to the CRM, the staff and the customer.")
VISITS = CommandTarget({"tell_nobody": (Annotated[bool, _TELL_NOBODY], False), **CUSTOMERS.options}, _changing)


@command(app, "arrange", VISITS)
def arrange(
    change: Change,
    lead_id: LeadIdArgument,
    at: TimeOption,
    kind: Annotated[VisitKind, typer.Option(help="The kind of visit.")] = "sales",
    minutes: MinutesOption = None,
    rooftop: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where. Default: the rooftop of the lead.")
    ] = None,
    force: ForceOption = False,
) -> dict[str, Any]:
    """Book a visit for a lead that has none of this kind, and notify CRM, staff and customer."""
    chosen = _chosen(at, minutes, force=force)
    return change(lambda staff: staff.arrange(lead_id, kind, chosen, rooftop))


@command(app, "confirm", VISITS)
def confirm(
    change: Change,
    appointment_id: VisitArgument,
    at: TimeOption = None,
    minutes: MinutesOption = None,
    force: ForceOption = False,
) -> dict[str, Any]:
    """Book a visit that was only requested, and notify CRM, staff and customer. The visit gets a new id.

    Without --at, it is booked at the time that the customer asked for, if that is one single time.
    """
    if at is None and minutes is not None:
        raise typer.BadParameter("give --minutes only with --at")
    chosen = at and _chosen(at, minutes, force=force)
    # `forced` is for a visit without a chosen time.
    return change(lambda staff: staff.confirm(appointment_id, chosen, forced=force))


@command(app, "move", VISITS)
def move(
    change: Change,
    appointment_id: VisitArgument,
    at: TimeOption,
    minutes: MinutesOption = None,
    force: ForceOption = False,
) -> dict[str, Any]:
    """Move a confirmed visit to another time, and notify CRM, staff and customer. The visit gets a new id.

    Visits that are part of it move too. It keeps its length unless you give --minutes.
    """
    chosen = _chosen(at, minutes, force=force)
    return change(lambda staff: staff.move(appointment_id, chosen))


@command(app, "done", VISITS)
def done(change: Change, appointment_id: VisitArgument) -> dict[str, Any]:
    """Record that a confirmed visit took place, and notify the CRM."""
    return change(lambda staff: staff.close(appointment_id, "done"))


@command(app, "no-show", VISITS)
def no_show(change: Change, appointment_id: VisitArgument) -> dict[str, Any]:
    """Record that the customer did not come to a confirmed visit, and notify the CRM."""
    return change(lambda staff: staff.close(appointment_id, "no_show"))


@command(app, "cancel", VISITS)
def cancel(change: Change, appointment_id: VisitArgument) -> dict[str, Any]:
    """Cancel a visit: free its time, show it as cancelled in calendars, and notify CRM, staff and customer.

    Visits that are part of it are cancelled too. The customer gets a mail if visits are confirmed by mail and consent
    allows it.
    """
    return change(lambda staff: staff.cancel(appointment_id))


def _subscribe(dealer: OpenDealer) -> None:
    """Makes a token for the calendar of visits, and prints its URL."""
    secret, service = new_token(), dealer.settings.service
    with dealer.write() as tx:
        token_id = create_token(tx, "calendar", secret.secret_hash, "calendar")
    err.print(
        f"Calendar {token_id}. Anyone with this address can see all visits and customers. It is shown this once. "
        f"To end it: {pasted('dealer-agent tokens revoke')} {token_id}"
    )
    out.print(f"{service.public_url}{service.base_path}/calendar/{secret.secret}.ics", soft_wrap=True)
    if not service.public_url:
        err.print("Put the address of your service in front of it: public_url is not set.")


def _row(dealer: OpenDealer, listed: ListedVisit) -> tuple[Cell, ...]:
    """A visit as a row of the table."""
    visit = listed.appointment
    when = dealer.local(visit.starts_at, visit.rooftop)
    customer = None if listed.customer is None else name_of(listed.customer)
    kind, vehicle = visit.kind.replace("_", " "), vehicle_of(listed.vehicle)
    return visit.appointment_id, visit.lead_id, when, kind, visit.rooftop, visit.status, customer, vehicle


def _customers(visits: Iterable[ListedVisit]) -> int:
    return len({listed.appointment.lead_id for listed in visits if listed.customer is not None})


def _chosen(at: datetime, minutes: int | None, *, force: bool) -> "ChosenTime":
    from dealer_agent.visits.changes import ChosenTime

    return ChosenTime(start=at, length=None if minutes is None else timedelta(minutes=minutes), forced=force)


def _change(dealer: OpenDealer, change: "Callable[[VisitChanges], VisitChange]", *, notify: bool) -> dict[str, Any]:
    """Applies a change of staff to a visit, and says what was booked and who is notified."""
    from dealer_agent.lead_intake.intake import LeadIntake

    with closing(dealer.store.lead_writer()) as writer:
        intake = LeadIntake(dealer.profile, writer, confirms_by_mail=dealer.settings.mail.confirms_visits)
        changed = intake.change_visit(change, notify=notify, now=datetime.now(UTC))
    for rule in changed.broken_rules:
        err.print(f"Warning: {plain(rule)}. The visit is booked, because of --force.", style="yellow")
    visit = changed.visit
    starts = dealer.local(visit.starts_at, visit.rooftop)
    when = "" if starts is None else f", {starts:%a} {minute(starts)} {zone_abbreviation(starts)}"
    out.print(
        f"Visit {visit.appointment_id} is {_words(visit.status)}: {_words(visit.kind)}{when}, {plain(visit.rooftop)}"
    )
    if changed.replaced is not None:
        out.print(f"It replaces visit {changed.replaced}.")
    for part in changed.parts:
        out.print(
            f"Visit {part.appointment_id} of lead {part.lead_id} is part of it, and is {_words(part.status)} too."
        )
    if visit.status in (CONFIRMED, CANCELLED):
        _show_notices((visit, *changed.parts), changed.mailed, notify=notify)
    elif notify:
        out.print("The service sends the lead again to every CRM that has it.")
    return _facts(dealer, visit) | {
        "replaces": changed.replaced,
        "beyond": changed.broken_rules,
        "notified": notify,
        "mailed": sorted(changed.mailed),
        "parts": [_facts(dealer, part) for part in changed.parts],
    }


def _facts(dealer: OpenDealer, visit: VisitRecord) -> dict[str, Any]:
    """The facts of a visit, in the dealer's local time, for the output of a command."""
    return {
        "id": visit.appointment_id,
        "lead_id": visit.lead_id,
        "kind": visit.kind,
        "rooftop": visit.rooftop,
        "status": visit.status,
        "starts": dealer.local(visit.starts_at, visit.rooftop),
        "ends": dealer.local(visit.ends_at, visit.rooftop),
    }


def _words(name: str) -> str:
    return name.replace("_", " ")


def _show_notices(visits: Iterable[VisitRecord], mailed: Collection[str], *, notify: bool) -> None:
    """Says which customers get a mail about a changed visit. `mailed` are the ids of their visits."""
    if not notify:
        out.print("Nobody is notified: you must do it.")
        return
    out.print("The service sends the lead again to every receiver that has it.")
    for visit in visits:
        if visit.appointment_id in mailed:
            out.print(f"The customer gets a mail about visit {visit.appointment_id}.")
        else:
            out.print(f"The customer gets no mail about visit {visit.appointment_id}: you must notify the customer.")
