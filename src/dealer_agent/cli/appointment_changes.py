"""`dealer-agent appointments arrange | confirm | move | done | no-show | cancel`: the changes of visits."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dealer_agent.cli.open_dealer import HERE, DealerFolder, DirOption, OpenDealer, open_dealer
from dealer_agent.cli.terminal import JsonOption, err, fail, minute, out, plain, print_json
from dealer_agent.leads.records import AppointmentRecord
from dealer_agent.leads.statuses import CANCELLED, CONFIRMED, ClosedStatus
from dealer_agent.protocol.requests import VisitKind
from dealer_agent.protocol.timestamps import zone_abbreviation

if TYPE_CHECKING:
    from dealer_agent.lead_intake.intake import LeadIntake
    from dealer_agent.lead_intake.visit_changes import ChosenTime, VisitChange, VisitChanges


def _time(text: str) -> datetime:
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
TellNobodyOption = Annotated[
    bool, typer.Option("--tell-nobody", help="Send nothing to the CRM, the staff and the customer.")
]


def arrange(
    lead_id: Annotated[str, typer.Argument(metavar="LEAD", help="The id, from `leads list`.")],
    at: TimeOption,
    kind: Annotated[VisitKind, typer.Option(help="The kind of visit.")] = "sales",
    minutes: MinutesOption = None,
    rooftop: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where. Default: the rooftop of the lead.")
    ] = None,
    directory: DirOption = HERE,
    force: ForceOption = False,
    tell_nobody: TellNobodyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Book a visit for a lead that has none of this kind, and notify CRM, staff and customer."""

    def change(staff: "VisitChanges") -> "VisitChange":
        return staff.arrange(lead_id, kind, _chosen(at, minutes, force=force), rooftop)

    _change(directory, change, tell_nobody=tell_nobody, as_json=as_json)


def confirm(
    appointment_id: VisitArgument,
    at: TimeOption = None,
    minutes: MinutesOption = None,
    directory: DirOption = HERE,
    force: ForceOption = False,
    tell_nobody: TellNobodyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Book a visit that was only requested, and notify CRM, staff and customer. The visit gets a new id.

    Without --at, it is booked at the time that the customer asked for, if that is one single time.
    """
    if at is None and minutes is not None:
        raise typer.BadParameter("give --minutes only with --at")

    def change(staff: "VisitChanges") -> "VisitChange":
        return staff.confirm(appointment_id, at and _chosen(at, minutes, force=force), forced=force)

    _change(directory, change, tell_nobody=tell_nobody, as_json=as_json)


def move(
    appointment_id: VisitArgument,
    at: TimeOption,
    minutes: MinutesOption = None,
    directory: DirOption = HERE,
    force: ForceOption = False,
    tell_nobody: TellNobodyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move a confirmed visit to another time, and notify CRM, staff and customer. The visit gets a new id.

    Visits that are part of it move too. It keeps its length unless you give --minutes.
    """

    def change(staff: "VisitChanges") -> "VisitChange":
        return staff.move(appointment_id, _chosen(at, minutes, force=force))

    _change(directory, change, tell_nobody=tell_nobody, as_json=as_json)


def done(
    appointment_id: VisitArgument,
    directory: DirOption = HERE,
    tell_nobody: TellNobodyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Record that a confirmed visit took place, and notify the CRM."""
    _close(directory, appointment_id, "done", tell_nobody=tell_nobody, as_json=as_json)


def no_show(
    appointment_id: VisitArgument,
    directory: DirOption = HERE,
    tell_nobody: TellNobodyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Record that the customer did not come to a confirmed visit, and notify the CRM."""
    _close(directory, appointment_id, "no_show", tell_nobody=tell_nobody, as_json=as_json)


def cancel(
    appointment_id: VisitArgument,
    directory: DirOption = HERE,
    tell_nobody: TellNobodyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Cancel a visit: free its time, show it as cancelled in calendars, and notify CRM, staff and customer.

    Visits that are part of it are cancelled too. The customer gets a mail if visits are confirmed by mail and consent
    allows it.
    """
    _change(directory, lambda staff: staff.cancel(appointment_id), tell_nobody=tell_nobody, as_json=as_json)


def _close(
    directory: DealerFolder, appointment_id: str, how: ClosedStatus, *, tell_nobody: bool, as_json: bool
) -> None:
    _change(directory, lambda staff: staff.close(appointment_id, how), tell_nobody=tell_nobody, as_json=as_json)


def _chosen(at: datetime, minutes: int | None, *, force: bool) -> "ChosenTime":
    from dealer_agent.lead_intake.visit_changes import ChosenTime

    return ChosenTime(start=at, length=None if minutes is None else timedelta(minutes=minutes), forced=force)


@contextmanager
def _opened_intake(dealer: OpenDealer) -> Iterator["LeadIntake"]:
    """The intake of a dealer's leads. Its writer ends with the `with` block."""
    from dealer_agent.lead_intake.intake import LeadIntake

    with closing(dealer.store.lead_writer()) as writer:
        yield LeadIntake(dealer.profile, writer, confirms_by_mail=dealer.settings.mail.confirms_visits)


def _change(
    directory: DealerFolder, change: "Callable[[VisitChanges], VisitChange]", *, tell_nobody: bool, as_json: bool
) -> None:
    from dealer_agent.lead_intake.visit_changes import ChangeRefused

    notify = not tell_nobody
    with open_dealer(directory, customers=True) as dealer, _opened_intake(dealer) as intake:
        try:
            changed = intake.change_visit(change, notify=notify, now=datetime.now(UTC))
        except ChangeRefused as problem:
            fail(str(problem))
    for rule in changed.beyond:
        err.print(f"Warning: {plain(rule)}. The visit is booked, because of --force.", style="yellow")
    visit = changed.visit
    if as_json:
        parts = [_facts(dealer, part) for part in changed.parts]
        facts = _facts(dealer, visit)
        _print_change(facts, parts, changed.mailed, notify=notify, replaces=changed.replaced, beyond=changed.beyond)
    starts = dealer.local(visit.starts_at, visit.rooftop)
    when = "" if starts is None else f", {starts:%a} {minute(starts)} {zone_abbreviation(starts)}"
    out.print(
        f"Visit {visit.appointment_id} is {_words(visit.status)}: {_words(visit.kind)}{when}, {plain(visit.rooftop)}"
    )
    if changed.replaced is not None:
        out.print(f"It replaces visit {changed.replaced}.")
    for part in changed.parts:
        out.print(f"Visit {part.appointment_id} of lead {part.lead_id} belongs to it: it is {_words(part.status)} too.")
    if visit.status in (CONFIRMED, CANCELLED):
        _show_notices((visit, *changed.parts), changed.mailed, notify=notify)
    elif notify:
        out.print("The service sends the lead again to every CRM that has it.")


def _facts(dealer: OpenDealer, visit: AppointmentRecord) -> dict[str, Any]:
    return {
        "id": visit.appointment_id,
        "lead_id": visit.lead_id,
        "kind": visit.kind,
        "rooftop": visit.rooftop,
        "status": visit.status,
        "starts": dealer.local(visit.starts_at, visit.rooftop),
        "ends": dealer.local(visit.ends_at, visit.rooftop),
    }


def _print_change(
    visit: dict[str, Any],
    parts: list[dict[str, Any]],
    mailed: Collection[str],
    *,
    notify: bool,
    replaces: str | None = None,
    beyond: tuple[str, ...] = (),
) -> None:
    more = {"replaces": replaces, "beyond": beyond, "notified": notify, "mailed": sorted(mailed), "parts": parts}
    print_json(visit | more)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _show_notices(visits: Iterable[AppointmentRecord], mailed: Collection[str], *, notify: bool) -> None:
    if not notify:
        out.print("Nobody is notified: you must do it.")
        return
    out.print("The service sends the lead again to every receiver that has it.")
    for visit in visits:
        if visit.appointment_id in mailed:
            out.print(f"The customer gets a mail about {visit.appointment_id}.")
        else:
            out.print(f"The customer gets no mail about {visit.appointment_id}: you must notify the customer.")
