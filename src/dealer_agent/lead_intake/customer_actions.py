"""The actions behind the links in mails: see, move or cancel a visit, and withdraw consent.

Reading runs in a thread. Every change is one job of the process's lead writer, like a lead. The job locks the
dealer, so two changes at once book one place.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal, TypeVar

import msgspec
from msgspec import UNSET

from dealer_agent.lead_intake.availability import Without
from dealer_agent.lead_intake.cancellation import call_off
from dealer_agent.lead_intake.lead_transaction import MOST_ADDITIONS, IntakeContext
from dealer_agent.lead_intake.notifications import Notifications, tell_of_change
from dealer_agent.lead_intake.visit_booking import VisitBooking
from dealer_agent.leads.customer_links import LinkTarget
from dealer_agent.leads.lead_view import RooftopView, VisitTime
from dealer_agent.leads.rooftop_views import rooftop_view
from dealer_agent.leads.vehicle_words import listing_words
from dealer_agent.leads.visit_times import QUARTER, Slot, free_slots, requested_times
from dealer_agent.protocol.requests import Appointment, AppointmentType
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.storage.appointments import AppointmentRecord, appointments_of, busy_quarters, find_appointment
from dealer_agent.storage.consents import EVEN_EXPIRED, allowed_channels, channels_allowed
from dealer_agent.storage.lead_record import lead_details
from dealer_agent.storage.lead_writer import Job, LeadWriter
from dealer_agent.storage.leads import StoredLead, get_lead
from dealer_agent.storage.notices import withdraw as withdraw_consent
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

MOVE_DAYS = 14
"""A visit can be moved to a free time within this many days from the first time that can be booked."""

MOST_TIMES = 500
"""The most free times that a page offers, the earliest first."""

Ended = Literal["begun", "cancelled", "moved", "gone"]
"""Why a visit cannot be changed by its link: it has begun, it was cancelled or moved, or its customer was erased."""

Result = TypeVar("Result")


class VisitEnded(Exception):  # noqa: N818 - it says what happened
    """The visit cannot be changed by its link."""

    def __init__(self, why: Ended) -> None:
        super().__init__(why)
        self.why = why


class NotFree(Exception):  # noqa: N818 - it says what happened
    """The visit cannot be moved to this time. It stays as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerVisit:
    """What a customer's page shows: nothing of the customer.

    `kind`, `time` and `vehicle` are those of the visit while it can be changed (`ended` is None). `free` are the times
    to which it can be moved. `channels` are those that the customer allowed and did not withdraw. An expired consent
    counts, because receivers of the lead may not know that it has expired.
    """

    rooftop: RooftopView
    ended: Ended | None
    kind: AppointmentType
    time: VisitTime | None = None
    vehicle: str = ""
    free: tuple[Slot, ...] = ()
    channels: frozenset[str] = frozenset()


class CustomerActions:
    """The actions of one dealer's customers. `on_stored` is called on the event loop after every change."""

    def __init__(self, desk: IntakeContext, store: Store, writer: LeadWriter, on_stored: Callable[[], None]) -> None:
        self._desk = desk
        self._store = store
        self._writer = writer
        self._on_stored = on_stored
        self._dealer_id = desk.profile.id

    async def see(self, linked: LinkTarget, now: datetime) -> CustomerVisit:
        """The visit as it is now. Changes nothing. Raises StorageError and EncryptionError."""
        return await asyncio.to_thread(self._see, linked, now)

    async def cancel(self, linked: LinkTarget, now: datetime, seconds: float) -> None:
        """Cancels the visit as `dealer-agent appointments cancel` does; CRM, people and customer are told.

        Raises VisitEnded, StorageError, and TimeoutError after `seconds`: then the change may be stored or not.
        """

        def job(tx: Transaction) -> None:
            self._changeable(tx, linked)
            call_off(tx, linked.appointment_id, self._telling(tx))

        await self._write(job, now, seconds)

    async def move(self, linked: LinkTarget, start: datetime, now: datetime, seconds: float) -> tuple[str, datetime]:
        """Moves the visit like a lead that asks for another time; CRM, people and customer are told.

        Returns the id and the end of the new visit. Raises NotFree, and the errors of `cancel`.
        """
        return await self._write(lambda tx: self._move(tx, linked, start), now, seconds)

    async def withdraw(self, linked: LinkTarget, channels: Collection[str], now: datetime, seconds: float) -> None:
        """Records that the customer withdraws consent for these channels, unless it was withdrawn before.

        The CRM is told. It counts for every lead with the same e-mail address. The link came to that address, so its
        reader may speak for it. A sender can put the phone number of another person in a lead, so leads that share
        only the number stay as they are. Raises the errors of `cancel`; VisitEnded only if the customer was erased.
        """

        def job(tx: Transaction) -> None:
            self._lead(tx, linked)
            allowed = allowed_channels(tx, linked.lead_id, EVEN_EXPIRED)
            chosen = sorted(allowed.intersection(channels))
            if chosen:
                withdraw_consent(
                    tx,
                    linked.lead_id,
                    chosen,
                    by="customer",
                    reason="link in a mail",
                    profile=self._desk.profile,
                    known_by=("email:",),
                )

        await self._write(job, now, seconds)

    def _see(self, linked: LinkTarget, now: datetime) -> CustomerVisit:
        with self._store.read(self._dealer_id, now) as tx:
            lead = lead_details(tx, linked.lead_id)
        visits = () if lead is None else lead.visits
        visit = next((one for one in visits if one.appointment_id == linked.appointment_id), None)
        if lead is None or visit is None:
            return CustomerVisit(rooftop=self._rooftop(self._desk.timetable.first.name), ended="gone", kind="sales")
        rooftop, why = self._rooftop(visit.rooftop), _why_ended(lead.stored, visit, now)
        if visit.request is None or visit.starts_at is None or why == "gone":
            return CustomerVisit(rooftop=rooftop, ended="gone", kind=visit.kind)
        request = msgspec.json.decode(visit.request, type=Appointment)
        listing = lead.stored.lead.vehicle
        vehicle = None if listing is None else msgspec.json.decode(listing, type=Vehicle)
        return CustomerVisit(
            rooftop=rooftop,
            ended=why,
            kind=request.appointment_type,
            time=VisitTime(visit.starts_at, visit.ends_at),
            vehicle=listing_words(vehicle, request.appointment_type),
            free=self._free_times(lead.stored, visit, request, now) if why is None else (),
            channels=channels_allowed(lead.stored.consents, EVEN_EXPIRED),
        )

    def _free_times(
        self, lead: StoredLead, visit: AppointmentRecord, request: Appointment, now: datetime
    ) -> tuple[Slot, ...]:
        rooftop = self._desk.timetable.rooftop(visit.rooftop)
        plan = None if rooftop is None else self._desk.timetable.plan(rooftop, visit.kind)
        asked = None if plan is None else requested_times(request, plan)
        if plan is None or asked is None or len(lead.events) >= MOST_ADDITIONS:
            return ()
        until = now + plan.notice + timedelta(days=MOVE_DAYS)
        with self._store.read(self._dealer_id, now) as tx:
            taken = busy_quarters(tx, visit.rooftop, visit.kind, now - QUARTER, until + asked.duration)
        free = free_slots(asked.duration, plan, Without(taken, [visit]), now, until)
        return tuple(islice((slot for slot in free if slot.start != visit.starts_at), MOST_TIMES))

    def _move(self, tx: Transaction, linked: LinkTarget, start: datetime) -> tuple[str, datetime]:
        lead, visit = self._changeable(tx, linked)
        assert visit.request is not None, "only a visit of a customer who is not erased can be changed"
        assert visit.ends_at is not None, "a visit that can be changed has a time"
        if start == visit.starts_at:
            return visit.appointment_id, visit.ends_at
        timetable = self._desk.timetable
        rooftop = timetable.rooftop(visit.rooftop)
        if rooftop is None or len(lead.events) >= MOST_ADDITIONS:
            raise NotFree
        asked = msgspec.structs.replace(
            msgspec.json.decode(visit.request, type=Appointment),
            appointment_at=start.isoformat(timespec="seconds"),
            requested_windows=UNSET,
        )
        book = VisitBooking(tx, timetable)
        decision = book.decide(asked, rooftop, [visit], test_drives=lambda: ())
        if decision.confirmed is None:
            raise NotFree
        parts = book.write(decision, linked.lead_id, asked)
        appointment_id = decision.reply.appointment_id
        moved = find_appointment(tx, appointment_id)
        assert moved is not None, "it was stored a moment ago"
        telling = self._telling(tx)
        for each in (moved, *parts):
            tell_of_change(telling, each)
        return appointment_id, decision.confirmed.end

    def _changeable(self, tx: Transaction, linked: LinkTarget) -> tuple[StoredLead, AppointmentRecord]:
        """The visit while it can be changed, with its lead. Raises VisitEnded."""
        lead = self._lead(tx, linked)
        visits = appointments_of(tx, linked.lead_id)
        visit = next((one for one in visits if one.appointment_id == linked.appointment_id), None)
        if visit is None:
            raise VisitEnded("gone")
        why = _why_ended(lead, visit, tx.now)
        if why is not None:
            raise VisitEnded(why)
        return lead, visit

    def _lead(self, tx: Transaction, linked: LinkTarget) -> StoredLead:
        """The lead of a customer who is not erased. Raises VisitEnded."""
        lead = get_lead(tx, linked.lead_id)
        if lead is None or lead.lead.customer is None:
            raise VisitEnded("gone")
        return lead

    def _rooftop(self, name: str) -> RooftopView:
        return rooftop_view(self._desk.profile, name)

    def _telling(self, tx: Transaction) -> Notifications:
        return Notifications(tx, self._desk.timetable, self._desk.confirms_by_mail)

    async def _write(self, job: Job[Result], now: datetime, seconds: float) -> Result:
        stored = self._writer.submit(self._dealer_id, job, now)
        try:
            async with asyncio.timeout(seconds):
                result = await asyncio.shield(asyncio.wrap_future(stored))
        except TimeoutError:
            stored.cancel()
            raise
        self._on_stored()
        return result


def _why_ended(lead: StoredLead, visit: AppointmentRecord, now: datetime) -> Ended | None:
    if lead.lead.customer is None or visit.request is None:
        return "gone"
    match visit.status:
        case "cancelled":
            return "cancelled"
        case "replaced":
            return "moved"
    return None if visit.starts_at is not None and visit.starts_at > now else "begun"
