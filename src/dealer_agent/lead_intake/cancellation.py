"""A visit that the dealer calls off: it ends, with what is part of it, and those whom it concerns are told."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from dealer_agent.encryption import Cipher
from dealer_agent.lead_intake.notifications import Notifications
from dealer_agent.storage import appointments as stored
from dealer_agent.storage.appointments import AppointmentRecord
from dealer_agent.storage.leads import get_lead


class NoVisitToCancel(Exception):  # noqa: N818 - it says what happened
    """There is no visit of that id that could be called off. The message says why, and names the id."""


class Cancellation(NamedTuple):
    """The visit that was called off and those that were part of it, as they stood before.

    `mailed` are the ids of those of which the customer gets a mail.
    """

    visit: AppointmentRecord
    parts: tuple[AppointmentRecord, ...]
    mailed: frozenset[str]


def call_off(
    connection: Connection,
    cipher: Cipher,
    dealer_id: str,
    appointment_id: str,
    now: datetime,
    telling: Notifications | None,
) -> Cancellation:
    """Ends a visit that stands and is not over, and frees its places; without `telling`, nobody hears of it.

    The dealer is locked. Raises NoVisitToCancel.
    """
    visit = stored.find_appointment(connection, cipher, dealer_id, appointment_id)
    if visit is None or not visit.stands or _is_over(visit, now):
        raise NoVisitToCancel(f"There is no visit {appointment_id} to cancel{_why(visit)}")
    parts = tuple(stored.sharing(connection, cipher, dealer_id, [appointment_id]))
    stored.end_appointments(connection, dealer_id, [appointment_id], now, "cancelled")
    mailed: set[str] = set()
    if telling is not None:
        mailed = {ended.appointment_id for ended in (visit, *parts) if _tell(connection, cipher, ended, telling)}
    return Cancellation(visit, parts, frozenset(mailed))


def _tell(connection: Connection, cipher: Cipher, ended: AppointmentRecord, telling: Notifications) -> bool:
    """Whether its customer gets a mail."""
    lead = get_lead(connection, cipher, ended.dealer_id, ended.lead_id)
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
