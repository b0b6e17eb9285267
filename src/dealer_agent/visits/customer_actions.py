"""See, move or cancel a visit, or withdraw consent, by a link in a mail (docs/protocol.md#customer-links).

Reading runs in a thread. Each change is a write of the process's writer, under the dealer's lock, so two changes cannot
book the same place.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar

import msgspec

from dealer_agent.leads.consent_events import EVEN_EXPIRED, channels_allowed
from dealer_agent.leads.customer_links import LinkTarget
from dealer_agent.leads.lead_view import RooftopView, VisitTime, rooftop_view
from dealer_agent.leads.received_lead import EMAIL_PREFIX
from dealer_agent.leads.records import MOST_ADDITIONS, StoredLead, VisitRecord, vehicle_driven
from dealer_agent.leads.visit_times import QUARTER, Slot, free_slots, requested_times
from dealer_agent.leads.wording import listing_words
from dealer_agent.protocol.requests import Appointment, AppointmentType
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.storage.deliveries.notices import withdraw as withdraw_consent
from dealer_agent.storage.leads.lead_record import lead_details
from dealer_agent.storage.leads.lead_write import Buyer, WriteFunction, result_in_time
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.visits import busy_quarters, vehicle_quarters
from dealer_agent.storage.privacy.consents import allowed_channels
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction
from dealer_agent.visits.booking import OtherVisits
from dealer_agent.visits.customer_changes import CustomerChanges, EndReason, end_reason, lead_of_customer, visit_in
from dealer_agent.visits.notifications import IntakeContext

MOVE_DAYS = 14
"""A visit can be moved to free times within this many days from the first bookable time."""

MOST_TIMES = 500
"""The most free times on a page."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerVisit:
    """A visit as its customer's page shows it, without data of the customer.

    If `ended` is None, the visit can be changed, and moved to the `free` times. `channels` are those that the customer
    allowed and did not withdraw, even if the consent has expired, because receivers of the lead may not know
    that it has.
    """

    rooftop: RooftopView
    ended: EndReason | None
    kind: AppointmentType
    time: VisitTime | None = None
    vehicle: str = ""
    free: tuple[Slot, ...] = ()
    channels: frozenset[str] = frozenset()


class CustomerActions:
    """The actions of one dealer's customers. `on_stored` is called on the event loop after every change."""

    def __init__(self, context: IntakeContext, store: Store, writer: LeadWriter, on_stored: Callable[[], None]) -> None:
        self._context = context
        self._store = store
        self._writer = writer
        self._on_stored = on_stored
        self._dealer_id = context.profile.id

    async def see(self, target: LinkTarget, now: datetime) -> CustomerVisit:
        """The current state of the visit. Raises StorageError and EncryptionError."""
        return await asyncio.to_thread(self._read_visit, target, now)

    async def cancel(self, target: LinkTarget, now: datetime, seconds: float) -> None:
        """Cancels the visit like `dealer-agent appointments cancel`, and notifies CRMs, staff and customer.

        Raises VisitIsOver and StorageError, and TimeoutError after `seconds`. After a timeout the change may be stored.
        """

        await self._write(
            lambda tx: CustomerChanges(tx, self._context).cancel(target.lead_id, target.appointment_id), now, seconds
        )

    async def move(self, target: LinkTarget, start: datetime, now: datetime, seconds: float) -> tuple[str, datetime]:
        """Moves the visit like a lead that requests another time, and notifies CRMs, staff and customer.

        Returns the id and the end of the new visit. Raises TimeNotFree, and the errors of `cancel`.
        """

        def change(tx: Transaction) -> VisitRecord:
            return CustomerChanges(tx, self._context).move(target.lead_id, target.appointment_id, start)

        moved = await self._write(change, now, seconds)
        assert moved.ends_at is not None, "a moved visit has a time"
        return moved.appointment_id, moved.ends_at

    async def withdraw(self, target: LinkTarget, channels: Collection[str], now: datetime, seconds: float) -> None:
        """Withdraws the customer's consent for these channels, unless it is withdrawn already. CRMs are notified.

        The withdrawal applies to all leads with the same e-mail address, because the link was sent to this address. It
        does not apply to leads with only the same phone number: a sender can put another person's number in a lead.
        Raises the errors of `cancel`, and VisitIsOver only if the customer was erased.
        """

        def change(tx: Transaction) -> None:
            """Withdraws those of the channels that the consent still allows. Does nothing if there is none."""
            lead_of_customer(tx, target.lead_id)
            chosen = sorted(allowed_channels(tx, target.lead_id, EVEN_EXPIRED).intersection(channels))
            if chosen:
                withdraw_consent(
                    tx,
                    target.lead_id,
                    chosen,
                    by="customer",
                    reason="link in a mail",
                    profile=self._context.profile,
                    known_by=(EMAIL_PREFIX,),
                )

        await self._write(change, now, seconds)

    def _read_visit(self, target: LinkTarget, now: datetime) -> CustomerVisit:
        """What the page behind a link shows. `ended` says why nothing can be changed any more."""
        with self._store.read(self._dealer_id, now) as tx:
            lead = lead_details(tx, target.lead_id)
        visit = None if lead is None else visit_in(lead.visits, target.appointment_id)
        if lead is None or visit is None:
            first = rooftop_view(self._context.profile, self._context.timetable.first.name)
            return CustomerVisit(rooftop=first, ended="gone", kind="sales")
        rooftop = rooftop_view(self._context.profile, visit.rooftop)
        ended = end_reason(lead.stored, visit, now)
        request = visit.read_request()
        if request is None or visit.starts_at is None or ended == "gone":
            return CustomerVisit(rooftop=rooftop, ended="gone", kind=visit.kind)
        listing = lead.stored.lead.vehicle
        vehicle = None if listing is None else msgspec.json.decode(listing, type=Vehicle)
        return CustomerVisit(
            rooftop=rooftop,
            ended=ended,
            kind=request.appointment_type,
            time=VisitTime(visit.starts_at, visit.ends_at),
            vehicle=listing_words(vehicle, request.appointment_type),
            free=self._free_times(lead.stored, visit, request, now) if ended is None else (),
            channels=channels_allowed(lead.stored.consents, EVEN_EXPIRED),
        )

    def _free_times(
        self, lead: StoredLead, visit: VisitRecord, request: Appointment, now: datetime
    ) -> tuple[Slot, ...]:
        """The times to which the customer may move the visit. None are offered when the lead has too many additions."""
        timetable = self._context.timetable
        rooftop = timetable.rooftop(visit.rooftop)
        plan = None if rooftop is None else timetable.plan(rooftop, visit.kind)
        asked = None if plan is None else requested_times(request, plan)
        if plan is None or asked is None or len(lead.events) >= MOST_ADDITIONS:
            return ()
        until = now + plan.notice + timedelta(days=MOVE_DAYS)
        span, vehicle_id = (now - QUARTER, until + asked.duration), vehicle_driven(lead.lead, visit.kind, visit)
        with self._store.read(self._dealer_id, now) as tx:
            busy = busy_quarters(tx, visit.rooftop, visit.kind, *span)
            drives = {} if vehicle_id is None else vehicle_quarters(tx, vehicle_id, *span)
        others = OtherVisits(busy, visit.rooftop, plan.places, drives, [visit])
        free = free_slots(asked.duration, plan, others, now, until)
        return tuple(islice((slot for slot in free if slot.start != visit.starts_at), MOST_TIMES))

    async def _write(self, function: WriteFunction[Result], now: datetime, seconds: float) -> Result:
        """Runs a function in the lead writer. After `seconds` it cancels the write and raises TimeoutError."""
        result = await result_in_time(self._writer.submit(self._dealer_id, function, now, Buyer()), seconds)
        self._on_stored()
        return result
