"""The dealer's visits as a calendar to which the staff can subscribe.

Calendar programs fetch it often and keep it. So it has only the first name and the last initial of the customer.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from dealer_agent.dealers.profile import Profile
from dealer_agent.leads.icalendar import CalendarVisit, calendar_file
from dealer_agent.leads.lead_view import rooftop_view
from dealer_agent.leads.wording import vehicle_name, visit_name
from dealer_agent.protocol.requests import Customer
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.storage.leads.visits import ListedVisit, list_calendar
from dealer_agent.storage.privacy.accesses import log_access
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import find_token

PAST = timedelta(days=30)
"""The age at which visits leave the calendar."""

FUTURE = timedelta(days=366)
"""No visit can be booked for later (`horizon_days` is at most 365)."""

LOCK_SECONDS = 1.0
"""How long a calendar waits for the dealer's lock. Meanwhile it holds a connection, which other dealers need too."""

MOST_VISITS = 1000
"""The most visits in the calendar. A program fetches all of them each time, about 0.4 KB each."""


def subscribed_calendar(store: Store, profile: Profile, secret_hash: bytes, now: datetime) -> bytes | None:
    """The calendar, if the secret is valid, else None. The access log gets an entry.

    It has the visits from `PAST` ago to `FUTURE` ahead. If there are more than `MOST_VISITS`, confirmed future visits
    have priority. Raises StorageError.
    """
    with store.read(profile.id, now) as tx:
        token_id = find_token(tx, secret_hash, "calendar")
        if token_id is None:
            return None
        visits = list_calendar(tx, since=now - PAST, until=now + FUTURE, most=MOST_VISITS)
    customers = len({listed.appointment.lead_id for listed in visits if listed.customer is not None})
    if customers:
        with store.lock(profile.id, now, LOCK_SECONDS) as tx:
            log_access(tx, f"token {token_id}", "calendar", leads=customers)
    return visit_calendar(profile, visits)


def visit_calendar(profile: Profile, visits: Iterable[ListedVisit]) -> bytes:
    """An iCalendar file of visits with a time. Cancelled and replaced visits are cancelled events."""
    return calendar_file(f"{profile.name}: visits", (_event(profile, listed) for listed in visits))


def _event(profile: Profile, listed: ListedVisit) -> CalendarVisit:
    """A visit as an event of the staff's calendar."""
    visit = listed.appointment
    assert visit.starts_at is not None, "a visit in the calendar has a time"
    return CalendarVisit(
        appointment_id=visit.appointment_id,
        title=_title(listed),
        start=visit.starts_at,
        end=visit.ends_at,
        rooftop=rooftop_view(profile, visit.rooftop),
        changed_at=visit.cancelled_at or visit.created_at,
        notes=(f"Lead {visit.lead_id}",),
        cancelled=visit.is_off,
    )


def _title(listed: ListedVisit) -> str:
    """`Test drive: 2024 Honda Civic, Jordan E.`"""
    about = []
    if listed.vehicle is not None:
        about.append(vehicle_name(msgspec.json.decode(listed.vehicle, type=Vehicle)))
    if listed.customer is not None:
        customer = msgspec.json.decode(listed.customer, type=Customer)
        about.append(f"{customer.first_name} {customer.last_name.strip()[:1]}.")
    return ": ".join(filter(None, (visit_name(listed.appointment.kind), ", ".join(about))))
