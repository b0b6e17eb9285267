"""`dealer-agent appointments`: the visits that buyers asked for."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
import typer

from dealer_agent.cli.access_recording import note_look
from dealer_agent.cli.private_file import ordinary_file, private_file
from dealer_agent.cli.terminal import (
    HERE,
    DirOption,
    add_row,
    counted,
    customer_store,
    err,
    fail,
    failures_in_plain_words,
    out,
    settings_in,
    table,
)
from dealer_agent.config import Settings
from dealer_agent.dealers.profile import Profile
from dealer_agent.lead_intake import LeadIntake, NoVisitToCancel
from dealer_agent.lead_intake.cancellation import Cancellation
from dealer_agent.lead_intake.rooftop_views import rooftop_view
from dealer_agent.lead_intake.visit_calendar import PAST, visit_calendar
from dealer_agent.leads.received_lead import vehicle_name
from dealer_agent.protocol.requests import Customer
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.appointments import ListedAppointment

app = typer.Typer(help="See, cancel and subscribe to the visits that buyers asked for.", no_args_is_help=True)

WAITING_DAYS = 30
"""A visit that nobody arranged for so long is not listed any more."""


@app.command("list")
def list_(
    directory: DirOption = HERE,
    past: Annotated[int, typer.Option("--past", min=0, max=3650, help="Also visits of so many days ago.")] = 0,
    everything: Annotated[bool, typer.Option("--all", help="Also visits that were cancelled or moved.")] = False,
) -> None:
    """List the visits: first those that somebody must arrange, then the booked ones, on each rooftop's own clock."""
    with failures_in_plain_words():
        settings = settings_in(directory)
        profile = settings.dealer
        now = datetime.now(UTC)
        with customer_store(settings) as store:
            waiting = store.list_waiting(profile.id, now - timedelta(days=WAITING_DAYS))
            booked = store.list_booked(profile.id, now - timedelta(days=past))
            shown = waiting + [listed for listed in booked if everything or listed.appointment.stands]
            note_look(store, profile.id, "appointments list", leads=_customers(shown))
    made = table("Visits", "Id", "When", "Kind", "Rooftop", "Status", "Customer", "Vehicle", "Lead Id")
    for listed in shown:
        add_row(made, *_row(listed, profile))
    out.print(made if shown else "No visits.")


@app.command("cancel")
def cancel(
    appointment_id: Annotated[str, typer.Argument(help="The id, from `appointments list`.")],
    directory: DirOption = HERE,
    tell_nobody: Annotated[
        bool,
        typer.Option("--tell-nobody", help="Send nothing, neither to CRM and people nor to the customer."),
    ] = False,
) -> None:
    """Call a visit off: its time is free again, calendars show it as cancelled, and CRM, people and customer are told.

    What is part of the visit ends with it. The customer gets a mail where visits are confirmed by mail and consent
    allows it.
    """
    with failures_in_plain_words():
        settings = settings_in(directory)
        with customer_store(settings) as store, closing(store.lead_writer()) as writer:
            cipher = store.check_keys(settings.dealer.id)
            desk = LeadIntake(settings.dealer, writer, cipher, confirms_by_mail=settings.mail.confirms_visits)
            try:
                done = desk.call_off(appointment_id, tell=not tell_nobody, now=datetime.now(UTC))
            except NoVisitToCancel as problem:
                fail(str(problem))
    for line in _cancelled(done, told=not tell_nobody):
        out.print(line, markup=False)


@app.command("calendar")
def calendar(
    directory: DirOption = HERE,
    file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            callback=ordinary_file,
            help="A file for you alone (mode 0600); without it, the output.",
        ),
    ] = None,
    subscribe: Annotated[
        bool, typer.Option("--subscribe", help="Make a secret address instead, for calendar programs to fetch it.")
    ] = False,
) -> None:
    """Write the booked visits as an iCalendar file, or make an address at which it can be subscribed to."""
    if subscribe and file is not None:
        fail("--subscribe makes an address and writes no file: leave out --out")
    with failures_in_plain_words():
        settings = settings_in(directory)
        if subscribe:
            _subscribe(settings)
            return
        with customer_store(settings) as store:
            booked = store.list_booked(settings.dealer.id, datetime.now(UTC) - PAST)
            made = visit_calendar(settings.dealer, booked)
            note_look(store, settings.dealer.id, "appointments calendar", leads=_customers(booked))
        if file is None:
            typer.echo(made, nl=False)
        else:
            with private_file(file) as document:
                document.write(made)
            out.print(f"{counted(len(booked), 'visit')} written to {file}", markup=False)


def _cancelled(done: Cancellation, *, told: bool) -> Iterator[str]:
    """What became of a visit that was called off, and what is left to do."""
    yield f"Visit {done.visit.appointment_id} is cancelled."
    for part in done.parts:
        yield f"Visit {part.appointment_id} of lead {part.lead_id} was part of it, and is cancelled too."
    if not told:
        yield "Nobody is told: that is yours to do."
        return
    yield "The lead is sent again to wherever it went, as soon as the service runs."
    for visit in (done.visit, *done.parts):
        if visit.appointment_id in done.mailed:
            yield f"The customer gets a mail about {visit.appointment_id}."
        else:
            yield f"The customer gets no mail about {visit.appointment_id}: telling them is yours to do."


def _subscribe(settings: Settings) -> None:
    secret = new_token()
    with customer_store(settings) as store:
        at = datetime.now(UTC)
        token_id = store.create_token(settings.dealer.id, "calendar", secret.secret_hash, at, purpose="calendar")
    path = f"{settings.service.base_path}/calendar/{secret.secret}.ics"
    err.print(
        f"Calendar {token_id}. Whoever has this address sees who comes when: keep it, it is shown this once. "
        f"To end it: dealer-agent tokens revoke {token_id}",
        markup=False,
    )
    out.print(settings.service.public_url + path, markup=False, soft_wrap=True)
    if not settings.service.public_url:
        err.print("Put the address of your service in front of it: public_url is not set.", markup=False)


def _row(listed: ListedAppointment, profile: Profile) -> tuple[str, ...]:
    visit = listed.appointment
    zone = ZoneInfo(rooftop_view(profile, visit.rooftop).zone)
    when = "" if visit.starts_at is None else f"{visit.starts_at.astimezone(zone):%a %Y-%m-%d %H:%M %Z}"
    customer = vehicle = ""
    if listed.customer is not None:
        who = msgspec.json.decode(listed.customer, type=Customer)
        customer = f"{who.first_name} {who.last_name}"
    if listed.vehicle is not None:
        vehicle = vehicle_name(msgspec.json.decode(listed.vehicle, type=Vehicle))
    kind = visit.kind.replace("_", " ")
    return visit.appointment_id, when, kind, visit.rooftop, visit.status, customer, vehicle, visit.lead_id


def _customers(visits: Iterable[ListedAppointment]) -> int:
    return len({listed.appointment.lead_id for listed in visits if listed.customer is not None})
