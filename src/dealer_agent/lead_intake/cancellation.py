"""Cancels a visit for the dealer, with the visits that share its places."""

from datetime import datetime
from typing import NamedTuple

from dealer_agent.lead_intake.notifications import Notifications
from dealer_agent.leads.records import AppointmentRecord
from dealer_agent.leads.statuses import CANCELLED, REPLACED
from dealer_agent.storage.appointments import end_appointments, find_appointment, sharing
from dealer_agent.storage.transaction import Transaction


class NoVisitToCancel(Exception):  # noqa: N818 - it says what happened
    """There is no visit of this id that can be cancelled. The message says why."""


class Cancellation(NamedTuple):
    """The cancelled visit and the parts of it, as they were before. The customers of the visits `mailed` get a mail."""

    visit: AppointmentRecord
    parts: tuple[AppointmentRecord, ...]
    mailed: frozenset[str]


def cancel_visit(tx: Transaction, appointment_id: str, notifications: Notifications | None) -> Cancellation:
    """Ends an active visit that is not over, and frees its places. Without `notifications` nobody is notified.

    The caller holds the dealer's lock. Raises NoVisitToCancel.
    """
    visit = find_appointment(tx, appointment_id)
    if visit is None or not visit.is_active or _is_over(visit, tx.now):
        raise NoVisitToCancel(f"There is no visit {appointment_id} to cancel{_reason(visit)}")
    parts = tuple(sharing(tx, [appointment_id]))
    end_appointments(tx, [appointment_id], CANCELLED)
    mailed = frozenset(
        ended.appointment_id
        for ended in (visit, *parts)
        if notifications is not None and notifications.notify("cancel", ended, ended.appointment_id)
    )
    return Cancellation(visit, parts, mailed)


def _is_over(visit: AppointmentRecord, now: datetime) -> bool:
    return visit.ends_at is not None and visit.ends_at <= now


def _reason(visit: AppointmentRecord | None) -> str:
    if visit is None:
        return "; see dealer-agent appointments list"
    if visit.status == CANCELLED:
        return ": it is cancelled already"
    if visit.status == REPLACED:
        return ": the customer asked for another in its place; see dealer-agent appointments list"
    return ": it is over"
