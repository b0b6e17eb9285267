"""The visits of a dealer: a day or a week of each rooftop, and what people change."""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from starlette.responses import Response

from dealer_agent.console.acts import Act
from dealer_agent.console.pages.lead_rows import ON_A_PAGE, require_lead, rooftops_of, write
from dealer_agent.console.requests import ConsoleRequest, not_found, refuse
from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.leads.plain_text import short
from dealer_agent.leads.records import VisitRecord
from dealer_agent.leads.statuses import CANCELLED, CONFIRMED, POSSIBLE
from dealer_agent.leads.wording import VISITS
from dealer_agent.operations.lead_documents import name_of, vehicle_of
from dealer_agent.storage.leads.visits import ListedVisit, find_visit, list_timed, list_waiting
from dealer_agent.storage.privacy.accesses import log_access
from dealer_agent.storage.transaction import Transaction
from dealer_agent.visits.changes import ChosenTime, VisitChange, VisitChanges
from dealer_agent.visits.notifications import IntakeContext

WAITING_SINCE = timedelta(days=30)
"""An older visit without a time is forgotten, and not listed."""
IN_A_WEEK = 100
"""The most visits on a page of a week."""
NO_VISIT = "There is no such visit, or it is not at one of your rooftops."
WEEK = timedelta(days=7)
LONGEST = 60


class VisitRow(NamedTuple):
    """A visit in a list. `name` and `vehicle` are texts of strangers. `opens`: the person may open its lead."""

    visit: VisitRecord
    starts: datetime | None
    ends: datetime | None
    kind: str
    name: str | None
    vehicle: str
    opens: bool
    has_begun: bool


def rows_of(request: ConsoleRequest, visits: Sequence[ListedVisit]) -> list[VisitRow]:
    """The rows of a list of visits."""
    return [
        VisitRow(
            listed.appointment,
            request.dealer.local(listed.appointment.starts_at, listed.appointment.rooftop),
            request.dealer.local(listed.appointment.ends_at, listed.appointment.rooftop),
            VISITS.get(listed.appointment.kind, "visit"),
            None if listed.customer is None else short(name_of(listed.customer), LONGEST),
            short(vehicle_of(listed.vehicle) or "", LONGEST),
            request.may(Act.OPEN_LEAD) and request.sees(listed.lead_rooftop),
            listed.appointment.state_at(request.now) in POSSIBLE["close"],
        )
        for listed in visits
    ]


def show(request: ConsoleRequest) -> Response:
    """A day or a week, of all rooftops or of one. The access log has who saw the customers."""
    first, is_week = _day(request), request.query.get("view") == "week"
    if is_week:
        first -= timedelta(days=first.weekday())
    rooftops, chosen = _rooftops(request)
    most, page = IN_A_WEEK if is_week else ON_A_PAGE, request.page_number()
    with request.dealer.read(request.now) as tx:
        visits = list_timed(
            tx,
            request.dealer.start_of(first, chosen),
            request.dealer.start_of(first + (WEEK if is_week else timedelta(days=1)), chosen),
            rooftops=rooftops,
            most=most + 1,
            skip=(page - 1) * most,
        )
        waiting = list_waiting(tx, tx.now - WAITING_SINCE, rooftops=rooftops, most=ON_A_PAGE)
    rows = rows_of(request, visits[:most])
    request.record_access("visits", leads=len({each.appointment.lead_id for each in visits[:most] if each.customer}))
    days = [first + timedelta(days=number) for number in range(7 if is_week else 1)]
    return request.page(
        "visits.html",
        days=[(day, [row for row in rows if _day_of(request, row, chosen) == day]) for day in days],
        waiting=rows_of(request, waiting),
        first=first,
        is_week=is_week,
        before=first - (WEEK if is_week else timedelta(days=1)),
        after=first + (WEEK if is_week else timedelta(days=1)),
        chosen=chosen,
        rooftops=[each.name for each in request.dealer.profile.rooftops if request.sees(each.name)],
        page=page,
        more=len(visits) > most,
    )


def _day_of(request: ConsoleRequest, row: VisitRow, rooftop: str | None) -> date | None:
    """The day of a visit on the clock by which the page divides the days: that of the rooftop, or of the dealer."""
    starts = request.dealer.local(row.starts, rooftop)
    return None if starts is None else starts.date()


def _day(request: ConsoleRequest) -> date:
    """The day of the query; today if it is not a day, or too far away for a calendar."""
    today = request.dealer.local(request.now).date()
    try:
        day = date.fromisoformat(request.query.get("day", ""))
    except ValueError:
        return today
    return day if abs((day - today).days) < 10_000 else today


def _rooftops(request: ConsoleRequest) -> tuple[tuple[str, ...], str | None]:
    """The rooftops whose visits are shown (empty: all), and the one that the query names."""
    named = request.query.get("rooftop", "")
    rooftop = next((each.name for each in request.dealer.profile.rooftops if each.name == named), None)
    if rooftop is not None and request.sees(rooftop):
        return (rooftop,), rooftop
    return rooftops_of(request), None


Change = Callable[[VisitChanges, VisitRecord], VisitChange]


def arrange(request: ConsoleRequest) -> Response:
    """Books a visit for a lead."""
    lead_id, time, kind = request.params["lead"], _time(request), request.text("kind", 40)
    rooftop = _rooftop(request, request.text("rooftop", 200))
    visit_kind = next((each for each in VISITS if each == kind), None)

    def work(tx: Transaction, context: IntakeContext) -> VisitChange:
        """Arranges a new visit for the lead, and notes that in the access log."""
        require_lead(request, tx, lead_id)
        if visit_kind is None:
            refuse("Choose the kind of the visit.")
        if time is None:
            refuse("Choose a time.")
        log_access(tx, request.actor, "console: visit arranged", lead_id=lead_id, leads=1)
        changes = VisitChanges(tx, context, _notifies(request))
        return changes.arrange(lead_id, visit_kind, time, None if rooftop is None else rooftop.name)

    return _show_change(request, write(request, work))


def confirm(request: ConsoleRequest) -> Response:
    """Books a visit that was only asked for."""
    time, forced = _time(request), _is_forced(request)
    return _change(request, lambda staff, visit: staff.confirm(visit.appointment_id, time, forced=forced))


def move(request: ConsoleRequest) -> Response:
    """Gives a visit another time."""
    time = _time(request)

    def change(staff: VisitChanges, visit: VisitRecord) -> VisitChange:
        if time is None:
            refuse("Choose a time.")
        return staff.move(visit.appointment_id, time)

    return _change(request, change)


def cancel(request: ConsoleRequest) -> Response:
    """Cancels a visit."""
    return _change(request, lambda staff, visit: staff.cancel(visit.appointment_id))


def done(request: ConsoleRequest) -> Response:
    """Records that a visit took place."""
    return _change(request, lambda staff, visit: staff.close(visit.appointment_id, "done"))


def no_show(request: ConsoleRequest) -> Response:
    """Records that the customer did not come."""
    return _change(request, lambda staff, visit: staff.close(visit.appointment_id, "no_show"))


def _change(request: ConsoleRequest, change: Change) -> Response:
    """Changes the visit that the path names, and notes that in the access log."""

    def work(tx: Transaction, context: IntakeContext) -> VisitChange:
        visit = find_visit(tx, request.params["visit"])
        if visit is None or not request.sees(visit.rooftop):
            not_found(NO_VISIT)
        log_access(tx, request.actor, "console: visit changed", lead_id=visit.lead_id, leads=1)
        return change(VisitChanges(tx, context, _notifies(request)), visit)

    return _show_change(request, write(request, work))


def _show_change(request: ConsoleRequest, changed: VisitChange) -> Response:
    """Leads to the page that sent the form (`back`): visits, today, or else the lead. `said` names who was notified."""
    visit = changed.visit
    if visit.status not in (CONFIRMED, CANCELLED):
        said = "visit-closed"
    elif not _notifies(request):
        said = "visit-nobody"
    else:
        said = "visit-mailed" if visit.appointment_id in changed.mailed else "visit-not-mailed"
    if request.text("back", 10) == "visits":
        day = request.text("day", 10)
        return request.go("visits", said=said, **({"day": day} if day else {}))
    if request.text("back", 10) == "today":
        return request.go(said=said)
    return request.go("leads", visit.lead_id, said=said)


def _notifies(request: ConsoleRequest) -> bool:
    return not request.text("tell_nobody", 10)


def _is_forced(request: ConsoleRequest) -> bool:
    return bool(request.text("force", 10))


def _time(request: ConsoleRequest) -> ChosenTime | None:
    """The time of the form, on the clock of the rooftop; None without one."""
    text, minutes = request.text("at", 40), request.text("minutes", 10)
    if minutes and not (minutes.isascii() and minutes.isdigit() and 15 <= int(minutes) <= 480):
        refuse("A visit takes 15 to 480 minutes.")
    if not text:
        return None
    try:
        start = datetime.fromisoformat(text)
    except ValueError:
        refuse("Write the time as 2026-03-04 10:30.")
    length = timedelta(minutes=int(minutes)) if minutes else None
    return ChosenTime(start=start, length=length, forced=_is_forced(request))


def _rooftop(request: ConsoleRequest, name: str) -> DealerRooftop | None:
    """The rooftop of the form, which the person sees; None for that of the lead."""
    if not name:
        return None
    rooftop = next((each for each in request.dealer.profile.rooftops if each.name == name), None)
    if rooftop is None or not request.sees(rooftop.name):
        refuse("Choose one of your rooftops.")
    return rooftop
