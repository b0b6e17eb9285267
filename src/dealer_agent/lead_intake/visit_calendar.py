"""The dealer's visits as a calendar that the desk can subscribe to.

It is fetched again and again, and kept by calendar programs: of the customer it holds the first name and the last
initial, and nothing else that could reach them.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import cast

import msgspec

from dealer_agent.dealers.profile import Profile
from dealer_agent.leads.icalendar import CalendarVisit, calendar_file
from dealer_agent.leads.rooftop_views import rooftop_view
from dealer_agent.leads.vehicle_words import vehicle_name
from dealer_agent.leads.visit_words import VISITS
from dealer_agent.protocol.requests import AppointmentType, Customer
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.storage.accesses import log_access
from dealer_agent.storage.appointments import ListedAppointment, list_calendar
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import find_token

PAST = timedelta(days=30)
"""How long visits that are over stay in the calendar."""

FUTURE = timedelta(days=366)
"""How far ahead the calendar shows visits: none can be booked for later (`horizon_days` is at most 365)."""

MOST_VISITS = 1000
"""The most visits in the calendar: a program fetches all of them each time. One visit has about 0.4 KB."""


def subscribed_calendar(store: Store, profile: Profile, secret_hash: bytes, now: datetime) -> bytes | None:
    """The calendar for whoever has its secret, noted as a look at customer data; None for anybody else.

    It holds the visits from PAST ago to FUTURE, and of more than MOST_VISITS those that matter most: confirmed ones to
    come. Raises StorageError.
    """
    with store.read(profile.id, now) as tx:
        token_id = find_token(tx, secret_hash, "calendar")
        if token_id is None:
            return None
        visits = list_calendar(tx, since=now - PAST, until=now + FUTURE, most=MOST_VISITS)
    customers = len({listed.appointment.lead_id for listed in visits if listed.customer is not None})
    if customers:
        with store.lock(profile.id, now) as tx:
            log_access(tx, f"token {token_id}", "calendar", leads=customers)
    return visit_calendar(profile, visits)


def visit_calendar(profile: Profile, visits: Iterable[ListedAppointment]) -> bytes:
    """An iCalendar file of visits with a time. Visits that were called off, or moved, stand in it as cancelled."""
    return calendar_file(f"{profile.name}: visits", (_event(profile, listed) for listed in visits))


def _event(profile: Profile, listed: ListedAppointment) -> CalendarVisit:
    visit = listed.appointment
    assert visit.starts_at is not None, "visits without a time stand in no calendar"
    return CalendarVisit(
        appointment_id=visit.appointment_id,
        title=_title(listed),
        start=visit.starts_at,
        end=visit.ends_at,
        rooftop=rooftop_view(profile, visit.rooftop),
        changed_at=visit.cancelled_at or visit.created_at,
        notes=(f"Lead {visit.lead_id}",),
        cancelled=not visit.is_active,
    )


def _title(listed: ListedAppointment) -> str:
    """`Test drive: 2024 Honda Civic, Jordan E.`"""
    kind = VISITS[cast(AppointmentType, listed.appointment.kind)]
    about = []
    if listed.vehicle is not None:
        about.append(vehicle_name(msgspec.json.decode(listed.vehicle, type=Vehicle)))
    if listed.customer is not None:
        customer = msgspec.json.decode(listed.customer, type=Customer)
        about.append(f"{customer.first_name} {customer.last_name.strip()[:1]}.")
    return ": ".join(filter(None, (f"{kind[0].upper()}{kind[1:]}", ", ".join(about))))
