"""A visit that the dealer calls off: it ends, with what is part of it, and those whom it concerns are told."""

from datetime import datetime
from typing import NamedTuple

from dealer_agent.lead_intake.notifications import Notifications
from dealer_agent.storage import appointments as stored
from dealer_agent.storage.appointments import AppointmentRecord
from dealer_agent.storage.leads import get_lead
from dealer_agent.storage.transaction import Transaction


class NoVisitToCancel(Exception):  # noqa: N818 - it says what happened
    """There is no visit of that id that could be called off. The message says why, and names the id."""


class Cancellation(NamedTuple):
    """The visit that was called off and those that were part of it, as they stood before.

    `mailed` are the ids of those of which the customer gets a mail.
    """

    visit: AppointmentRecord
    parts: tuple[AppointmentRecord, ...]
    mailed: frozenset[str]


def call_off(tx: Transaction, appointment_id: str, telling: Notifications | None) -> Cancellation:
    """Ends a visit that stands and is not over, and frees its places; without `telling`, nobody hears of it.

    The dealer is locked. Raises NoVisitToCancel.
    """
    visit = stored.find_appointment(tx, appointment_id)
    if visit is None or not visit.is_active or _is_over(visit, tx.now):
        raise NoVisitToCancel(f"There is no visit {appointment_id} to cancel{_why(visit)}")
    parts = tuple(stored.sharing(tx, [appointment_id]))
    stored.end_appointments(tx, [appointment_id], "cancelled")
    mailed: set[str] = set()
    if telling is not None:
        mailed = {ended.appointment_id for ended in (visit, *parts) if _tell(tx, ended, telling)}
    return Cancellation(visit, parts, frozenset(mailed))


def _tell(tx: Transaction, ended: AppointmentRecord, telling: Notifications) -> bool:
    """Whether its customer gets a mail."""
    lead = get_lead(tx, ended.lead_id)
    assert lead is not None, "a visit belongs to a lead"
    return telling.tell_of_visit("cancel", lead, ended, ended.appointment_id)


def _is_over(visit: AppointmentRecord, now: datetime) -> bool:
    return visit.ends_at is not None and visit.ends_at <= now


def _why(visit: AppointmentRecord | None) -> str:
    if visit is None:
        return "; see dealer-agent appointments list"
    match visit.status:
        case "cancelled":
            return ": it is cancelled already"
        case "replaced":
            return ": the customer asked for another in its place; see dealer-agent appointments list"
    return ": it is over"
