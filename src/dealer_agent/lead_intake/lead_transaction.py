"""One lead on the writer's transaction: the first answer again, a duplicate, or a new lead.

In this order: idempotency key, consent, vehicle, an earlier lead of the same sender, visit; then lead, consent,
contacts, visit and places, deliveries, and the answer that the key will get again. The writer runs the whole decision
again when the database asks for it, so a job changes nothing of its own.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal, NamedTuple, Self

import msgspec
from msgspec import UNSET, Struct

from dealer_agent.dealers.profile import DealerRooftop, Profile
from dealer_agent.dealers.routing import deliveries_of, mail_to_customer
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.lead_intake.acceptance import Verdict, cannot_be_driven, find_vehicle, judge
from dealer_agent.lead_intake.allowed_contact_points import channels_of, usable_channels
from dealer_agent.lead_intake.lead_history import Changes, LeadHistory, VisitAsked
from dealer_agent.lead_intake.notifications import Notifications, tell_of_change
from dealer_agent.lead_intake.visit_booking import Decision, VisitBooking, unavailable
from dealer_agent.leads import received_lead
from dealer_agent.leads.answer_message import Department, LeadAnswer, answer_message
from dealer_agent.leads.channels import can_reach
from dealer_agent.leads.consent import PURPOSE, Grant, consent_was_withdrawn
from dealer_agent.leads.timetable import Timetable
from dealer_agent.protocol.errors import (
    AppointmentTimeUnavailable,
    IdempotencyConflict,
    ProtocolError,
)
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.replies import Answer
from dealer_agent.protocol.requests import VISIT_KIND_OF, Customer
from dealer_agent.protocol.responses import DealerContact
from dealer_agent.protocol.skill import LeadReceipt, LeadSubmitRequest
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.storage import leads as stored
from dealer_agent.storage.appointments import AppointmentRecord, Booked, appointments_of, booked_visits
from dealer_agent.storage.consents import (
    ConsentRecord,
    consents_of,
    is_same_consent,
    record_consent,
    repeat_revocation,
    touch_lead,
)
from dealer_agent.storage.idempotency import (
    IdempotencyRecord,
    find_idempotent,
    record_idempotency,
    replace_idempotency,
)
from dealer_agent.storage.outbox import enqueue
from dealer_agent.storage.transaction import Transaction
from dealer_agent.storage.withdrawals import withdrawn_since


class IntakeContext(NamedTuple):
    """What every lead of a dealer is taken with."""

    profile: Profile
    timetable: Timetable
    confirms_by_mail: bool


MOST_ADDITIONS = 50
"""The most additions and the most consent events of a lead. Each addition reads the ones before; after the last, the
same sender's next request is a new lead."""

MOST_LEADS_WITH_VISITS = 200
"""The most leads of a sender's customer in which an appraisal looks for a test drive."""


class _Taken(NamedTuple):
    """The lead that was stored or added to, and what its sender is answered."""

    lead_id: str
    answer: Answer | ProtocolError


class _KeptAnswer(Struct, omit_defaults=True):
    """The first answer to an idempotency key, as it is stored.

    `without_a_time` is the id of a lead that was kept though no time could be booked: there is no answer to repeat.
    """

    data: msgspec.Raw = msgspec.Raw(b"null")
    message: str | None = None
    without_a_time: str | None = None


@dataclass(frozen=True, slots=True)
class LeadTransaction:
    """One lead on its way into the store: everything that `store` needs, and nothing of the network.

    What can be known before is worked out before: everybody else's lead waits while `store` runs. `verdict` is None for
    a lead with an idempotency key, whose first answer is looked up before it is judged.
    """

    desk: IntakeContext
    catalogue: Catalogue
    lead: LeadSubmitRequest
    payload: dict[str, Any]
    token_id: str | None
    request_hash: bytes
    now: datetime
    contacts: tuple[str, ...]
    senders: tuple[str, ...]
    customer: Customer
    verdict: Verdict | None

    @classmethod
    def of(
        cls,
        desk: IntakeContext,
        catalogue: Catalogue,
        lead: LeadSubmitRequest,
        payload: dict[str, Any],
        token_id: str | None,
        body: bytes,
        now: datetime,
    ) -> Self:
        """The job of a lead that is valid but for its consent. Raises ProtocolError for one that may not be taken."""
        contacts = received_lead.contact_points(lead.customer)
        customer = received_lead.with_normal_phone(lead.customer, contacts)
        senders = received_lead.sender_keys(token_id, lead, contacts)
        verdict = judge(lead, catalogue, now) if lead.idempotency_key is UNSET else None
        request_hash = sha256(body).digest()
        return cls(desk, catalogue, lead, payload, token_id, request_hash, now, contacts, senders, customer, verdict)

    def store(self, tx: Transaction) -> Answer | ProtocolError:
        """Takes the lead. Returns AppointmentTimeUnavailable, because what is raised here leaves nothing stored."""
        if self.lead.idempotency_key is UNSET:
            return self._keep(tx).answer
        return self._keep_once(tx, self.lead.idempotency_key)

    def _keep_once(self, tx: Transaction, key: str) -> Answer | ProtocolError:
        """The first answer to the key again; without one, the lead is taken and its answer kept.

        Errors are not kept. AppointmentTimeUnavailable keeps its lead under the key: a retry tries to book its visit.
        """
        scope = received_lead.key_scope(self.token_id, self.senders)
        payload_hash = received_lead.payload_hash(self.payload)
        first = find_idempotent(tx, scope, key)
        waiting_id = None
        if first is not None:
            if first.payload_hash != payload_hash:
                raise IdempotencyConflict("This idempotency_key came with another payload before.")
            kept = msgspec.json.decode(first.reply, type=_KeptAnswer)
            waiting_id = kept.without_a_time
            if waiting_id is None:
                return Answer(bytes(kept.data), kept.message)
        lead_id, answer = self._keep(tx) if waiting_id is None else self._book_again(tx, waiting_id)
        if isinstance(answer, Answer):
            kept = _KeptAnswer(msgspec.Raw(answer.data), answer.message)
        elif waiting_id is None:
            kept = _KeptAnswer(without_a_time=lead_id)
        else:
            return answer
        reply = msgspec.json.encode(kept)
        record = IdempotencyRecord(
            scope=scope, key=key, payload_hash=payload_hash, reply=reply, at=self.now, lead_id=lead_id
        )
        keep_reply = record_idempotency if first is None else replace_idempotency
        keep_reply(tx, record)
        return answer

    def _book_again(self, tx: Transaction, lead_id: str) -> _Taken:
        """Books the visit of a lead that was kept without a time, where one can be had now; else the same error.

        The lead was taken: its consent is not judged again. Nothing is booked when its vehicle is gone, or when another
        request took the place of this visit. Without a token, other visits of the lead stay as they are.
        """
        wanted, _ = find_vehicle(self.lead, self.catalogue)
        kept = stored.get_lead(tx, lead_id)
        assert kept is not None, "an answer is dropped with its lead"
        assert self.lead.appointment is not UNSET, "only a visit can have no time"
        visits = appointments_of(tx, lead_id)
        waiting = unavailable(visits, self.lead.appointment)
        book, home = self._book(tx), self._home(wanted)
        if waiting is None or cannot_be_driven(self.lead, wanted):
            visit = book.refuse(self.lead.appointment, home)
        else:
            earlier = visits if self.is_trusted else [waiting]
            visit = book.decide(self.lead.appointment, home, earlier, test_drives=lambda: self._test_drives(tx))
        if visit.status != "unavailable":
            changes = Changes(appointment=VisitAsked(self.lead.appointment, visit.reply))
            rooftop = self.desk.timetable.rooftop(kept.lead.rooftop) or visit.rooftop
            self._add(tx, lead_id, changes, visit, rooftop, channels_of(kept, self.now))
        return _Taken(lead_id, self._answer(lead_id, "received", visit.rooftop, wanted, visit))

    def _keep(self, tx: Transaction) -> _Taken:
        verdict = self.verdict or judge(self.lead, self.catalogue, self.now)
        vehicle_key = received_lead.vehicle_key(self.lead.vehicle_of_interest, verdict.wanted)
        # A withdrawal counts also when nothing else is left of the customer.
        revoked = withdrawn_since(tx, self.contacts, verdict.grant.granted_at)
        verdict = verdict._replace(revoked=revoked)
        if not stored.is_known(tx, self.contacts):
            return self._take_new(tx, verdict, vehicle_key)
        if not can_reach(self.customer, verdict.channels):
            self._refuse_withdrawn(tx, verdict.grant)
        window = timedelta(hours=self.desk.profile.policies.duplicate_window_hours)
        if window:
            since = self.now - window
            own_id = stored.find_duplicate(tx, self.senders, vehicle_key, since)
            own = None if own_id is None else stored.get_lead(tx, own_id)
            if own is not None and max(len(own.events), len(own.consents)) < MOST_ADDITIONS:
                return _Taken(own.lead.lead_id, self._add_to(tx, own, verdict, vehicle_key))
            first_id = stored.find_duplicate(tx, self.contacts, vehicle_key, since)
            return self._take_new(tx, verdict, vehicle_key, first_id)
        return self._take_new(tx, verdict, vehicle_key)

    def _refuse_withdrawn(self, tx: Transaction, grant: Grant) -> None:
        """Refuses a consent that leaves no channel, if the customer withdrew it from this sender.

        The leads of others are taken as if nothing was withdrawn: a refusal would disclose to anybody who knows an
        address that its owner wrote to this dealer and withdrew. Raises ContactConsentRequired.
        """
        known = stored.withdrawn_from(tx, self.senders, grant.granted_at)
        if not can_reach(self.customer, (channel for channel in grant.channels if channel not in known)):
            raise consent_was_withdrawn()

    def _take_new(
        self, tx: Transaction, verdict: Verdict, vehicle_key: str | None, first_id: str | None = None
    ) -> _Taken:
        """Stores a new lead. The answer discloses nothing of the lead `first_id`, which may be of the same person."""
        lead_id = new_ulid()
        visit = self._decide_visit(tx, verdict.wanted, None)
        rooftop = visit.rooftop if visit else self._home(verdict.wanted) or self.desk.timetable.first
        stored.record_lead(
            tx,
            self._record(lead_id, rooftop, verdict, first_id),
            self._consent(verdict.grant),
            contacts=(*self.contacts, *self.senders),
            vehicle_key=vehicle_key,
        )
        self._keep_revoked(tx, lead_id, verdict)
        self._write_visit(tx, visit, lead_id)
        deliveries = [*deliveries_of(rooftop)]
        if visit is not None and self._is_confirmed_by_mail(verdict.channels, visit):
            deliveries.append(mail_to_customer("confirm", rooftop, visit.reply.appointment_id))
        enqueue(tx, lead_id, deliveries)
        return _Taken(lead_id, self._answer(lead_id, "received", rooftop, verdict.wanted, visit))

    def _add_to(
        self, tx: Transaction, earlier: stored.StoredLead, verdict: Verdict, vehicle_key: str | None
    ) -> Answer | ProtocolError:
        """Adds to an earlier lead of the same sender what this one says anew. What is added is delivered too.

        Without a token the sender may be anybody who knows the customer's contact points. Then nothing is replaced, a
        visit is only requested, and the answer depends on this request alone.
        """
        lead_id = earlier.lead.lead_id
        if self.is_trusted:
            contacts = (*self.contacts, *self.senders)
            stored.record_contacts(tx, earlier.lead, contacts, vehicle_key)
        kept = LeadHistory.of(earlier)
        reachable = self._add_consent(tx, earlier, kept.customer, verdict)
        changes = self._said_anew(kept)
        visit = None
        if self.lead.appointment is not UNSET:
            standing = appointments_of(tx, lead_id)
            visit = self._decide_visit(tx, verdict.wanted, standing)
            if visit is not None and visit.standing is None and not visit.answered_before:
                changes.appointment = VisitAsked(self.lead.appointment, visit.reply)
        kept_at = self.desk.timetable.rooftop(earlier.lead.rooftop)
        asked_of = self._home(verdict.wanted) or self.desk.timetable.first
        home = kept_at or asked_of
        self._add(tx, lead_id, changes, visit, home, verdict.channels, reachable=reachable)
        shown = home if self.is_trusted else asked_of
        return self._answer(lead_id, "duplicate", visit.rooftop if visit else shown, verdict.wanted, visit)

    def _add_consent(self, tx: Transaction, earlier: stored.StoredLead, customer: Customer, verdict: Verdict) -> bool:
        """Records the consent, unless the lead has it. Returns whether it allows a channel that was not allowed."""
        lead_id = earlier.lead.lead_id
        consent = self._consent(verdict.grant)
        if any(is_same_consent(event, consent) for event in earlier.consents):
            touch_lead(tx, lead_id, self.now)
            return False
        record_consent(tx, lead_id, consent)
        self._keep_revoked(tx, lead_id, verdict)
        before = usable_channels(customer, earlier.consents, self.now)
        after = usable_channels(customer, consents_of(tx, lead_id), self.now)
        return not set(after).issubset(before)

    def _add(
        self,
        tx: Transaction,
        lead_id: str,
        changes: Changes,
        visit: Decision | None,
        home: DealerRooftop,
        channels: Collection[str],
        *,
        reachable: bool = False,
    ) -> None:
        """Stores what is added to a lead, and delivers it: to its rooftop `home`, and to the one that is visited.

        `reachable`: a new consent allows more channels. The lead is delivered again though nothing else changed.
        """
        event_id = None
        if reachable or changes != Changes():
            said = msgspec.json.encode(changes)
            event_id = stored.append_to_lead(tx, lead_id, said)
        self._write_visit(tx, visit, lead_id)
        if event_id is not None:
            telling = self._telling(tx)
            telling.send_again(lead_id, event_id, (home, visit.rooftop if visit else home))
            if visit is not None and self._is_confirmed_by_mail(channels, visit):
                telling.mail("confirm", lead_id, visit.rooftop, visit.reply.appointment_id)

    @property
    def is_trusted(self) -> bool:
        """Whether a token shows who sends."""
        return self.token_id is not None

    def _said_anew(self, kept: LeadHistory) -> Changes:
        """What this request adds to what a lead said before; without a token it replaces nothing."""
        changes = Changes()
        if self.lead.message and self.lead.message != kept.message:
            changes.message = self.lead.message
        if self.is_trusted and self.customer != kept.customer:
            changes.customer = self.customer
        trade_in = self.payload.get("trade_in")
        if trade_in and trade_in != kept.trade_in and (self.is_trusted or not kept.trade_in):
            changes.trade_in = trade_in
        return changes

    def _keep_revoked(self, tx: Transaction, lead_id: str, verdict: Verdict) -> None:
        """What the customer took back stays taken back, though an agent sends the consent from before once more."""
        again = sorted(verdict.revoked.intersection(verdict.grant.channels))
        if again:
            repeat_revocation(
                tx,
                lead_id,
                again,
                by="dealer-agent",
                reason="revoked on another lead after this consent was given",
            )

    def _decide_visit(
        self, tx: Transaction, wanted: received_lead.FoundVehicle, earlier: Sequence[AppointmentRecord] | None
    ) -> Decision | None:
        """What becomes of the visit asked for; `earlier` are those of the lead that this one is added to."""
        if self.lead.appointment is UNSET:
            return None
        book, home = self._book(tx), self._home(wanted)
        if earlier is not None and not self.is_trusted:
            return book.note(self.lead.appointment, home, earlier)
        return book.decide(
            self.lead.appointment,
            home,
            earlier or (),
            test_drives=lambda: self._test_drives(tx),
        )

    def _test_drives(self, tx: Transaction) -> Iterable[Booked]:
        """The customer's confirmed ones, whichever of their leads asked for them; only of leads with the same token.

        Other senders do not learn where the customer will be.
        """
        if not self.is_trusted:
            return ()
        lead_ids = stored.newest_leads_of(tx, self.senders, MOST_LEADS_WITH_VISITS)
        return booked_visits(tx, lead_ids, "test_drive")

    def _write_visit(self, tx: Transaction, visit: Decision | None, lead_id: str) -> None:
        """Stores the visit; of an appraisal that moved with it the appraisal's own lead and customer are told."""
        if visit is None or self.lead.appointment is UNSET:
            return
        for moved in self._book(tx).write(visit, lead_id, self.lead.appointment):
            tell_of_change(self._telling(tx), moved)

    def _book(self, tx: Transaction) -> VisitBooking:
        return VisitBooking(tx, self.desk.timetable)

    def _telling(self, tx: Transaction) -> Notifications:
        desk = self.desk
        return Notifications(tx, desk.timetable, desk.confirms_by_mail)

    def _home(self, wanted: received_lead.FoundVehicle) -> DealerRooftop | None:
        """The rooftop that has the vehicle; where the stock does not have it, the one that the buyer names."""
        timetable = self.desk.timetable
        if isinstance(wanted, Vehicle):
            return timetable.rooftop(wanted.rooftop)
        name = self._named_rooftop
        return None if name is None else timetable.named(name)

    @property
    def _named_rooftop(self) -> str | None:
        """What the buyer calls the rooftop."""
        wish = self.lead.vehicle_of_interest
        return None if wish is UNSET or wish.rooftop is UNSET else wish.rooftop

    def _is_confirmed_by_mail(self, channels: Collection[str], visit: Decision) -> bool:
        """Whether the customer gets a mail of a visit that was confirmed just now."""
        by_mail = self.lead.customer.email is not UNSET and "email" in channels
        return by_mail and self.desk.confirms_by_mail and visit.confirmed is not None and visit.standing is None

    def _record(
        self, lead_id: str, rooftop: DealerRooftop, verdict: Verdict, first_id: str | None
    ) -> stored.LeadRecord:
        # Of a vehicle that the stock does not know nothing stands in the clear: it may be the customer's own.
        known = verdict.wanted
        return stored.LeadRecord(
            lead_id=lead_id,
            received_at=self.now,
            source_agent=received_lead.agent_name(self.lead),
            status="received",
            rooftop=rooftop.name,
            customer=msgspec.json.encode(self.customer),
            payload=msgspec.json.encode(self.payload),
            vehicle=verdict.listing,
            vehicle_id=None if known is None else known.vehicle_id,
            vin=known.vin or None if known else None,
            stock=known.stock or None if known else None,
            token_id=self.token_id,
            may_be_same_person_as=first_id,
        )

    def _consent(self, grant: Grant) -> ConsentRecord:
        return ConsentRecord(
            received_at=self.now,
            granted_at=grant.granted_at,
            channels=grant.channels,
            scope=grant.scope,
            purpose=PURPOSE,
            consent_text=grant.text,
            request_hash=self.request_hash,
            customer=received_lead.consenting_customer(self.customer),
            source_agent=grant.source_agent or received_lead.agent_name(self.lead),
            expires_at=grant.expires_at,
            token_id=self.token_id,
        )

    def _answer(
        self,
        lead_id: str,
        status: Literal["received", "duplicate"],
        rooftop: DealerRooftop,
        wanted: received_lead.FoundVehicle,
        visit: Decision | None,
    ) -> Answer | ProtocolError:
        department = self._department(rooftop)
        is_unknown = not isinstance(wanted, Vehicle) and self._home(wanted) is None
        words = answer_message(
            LeadAnswer(
                department=department,
                now=self.now,
                wish=self.lead.vehicle_of_interest,
                found=wanted,
                repeated=status == "duplicate",
                trade_in=self.lead.trade_in is not UNSET,
                visit=None if visit is None else visit.answer,
                unknown_rooftop=self._named_rooftop if is_unknown else None,
            )
        )
        if visit is not None and visit.status == "unavailable":
            details = {"in": "payload", "instancePath": "/appointment", "lead_id": lead_id}
            return AppointmentTimeUnavailable(words, details)
        receipt = LeadReceipt(
            lead_id=lead_id,
            status=status,
            appointment=UNSET if visit is None else visit.reply,
            dealer=DealerContact(department.rooftop, department.phone or UNSET),
        )
        return Answer(msgspec.json.encode(receipt), words)

    def _department(self, rooftop: DealerRooftop) -> Department:
        timetable = self.desk.timetable
        kind = None if self.lead.appointment is UNSET else VISIT_KIND_OF[self.lead.appointment.appointment_type]
        department = timetable.department(rooftop, kind)
        return Department(
            rooftop=rooftop.name,
            zone=rooftop.timezone,
            phone=timetable.phone(rooftop, department),
            hours=timetable.hours(rooftop, department, self.now),
        )
