"""Stores one lead in one transaction, or repeats the response to its idempotency key.

The writer may run a transaction again, so it changes nothing but the database.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.dealers.routing import deliveries_of, mail_to_customer
from dealer_agent.holds import offer_of_lead
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.leads.consent import EMAIL, Grant, can_reach, channels_of, consent_was_withdrawn, usable_channels
from dealer_agent.leads.consent_events import is_same_consent, without_refused
from dealer_agent.leads.lead_response import LeadResponse, response_message
from dealer_agent.leads.received_lead import (
    Acceptance,
    FoundVehicle,
    PreparedLead,
    accept_lead,
    cannot_be_driven,
    find_vehicle,
    payload_hash,
    vehicle_key,
)
from dealer_agent.leads.records import (
    MOST_ADDITIONS,
    Addition,
    LeadContent,
    LeadRecord,
    RequestedVisit,
    StoredLead,
    VisitDecision,
    VisitRecord,
)
from dealer_agent.leads.statuses import DUPLICATE, RECEIVED, UNAVAILABLE
from dealer_agent.protocol.errors import AppointmentTimeUnavailable, IdempotencyConflict, ProtocolError
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.requests import VISIT_KIND_OF, Customer
from dealer_agent.protocol.response_bodies import SkillResult
from dealer_agent.protocol.responses import DealerContact, LeadStatus
from dealer_agent.protocol.skill import LeadReceipt
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.storage.deliveries.outbox import enqueue
from dealer_agent.storage.leads import idempotency, persons, stored_leads
from dealer_agent.storage.leads.prepared_statements import Sought
from dealer_agent.storage.leads.quarantine import quarantine_lead
from dealer_agent.storage.leads.visits import BookedVisit, booked_visits, visits_of
from dealer_agent.storage.privacy.consents import (
    REVOKED_BEFORE,
    consents_of,
    record_consent,
    repeat_withdrawal_event,
    touch_lead,
)
from dealer_agent.storage.privacy.withdrawals import (
    CONTACT_HASH,
    withdrawal_hashes,
    withdrawn_by_events,
    withdrawn_since,
)
from dealer_agent.storage.transaction import Transaction
from dealer_agent.visits.booking import VisitBooking, find_unavailable
from dealer_agent.visits.notifications import IntakeContext, Notifications

MOST_LEADS_WITH_VISITS = 200
"""The most leads of a sender's customer that are searched for a test drive."""

Result = SkillResult | ProtocolError


class _StoredAnswer(Struct, omit_defaults=True):
    """The response stored for an idempotency key.

    `without_a_time` is the id of a lead that was stored without a time for its visit. There is no response to repeat.
    `has_secret`: the error had the secret of this lead, so the response to a repeated request has it too.
    """

    data: msgspec.Raw = msgspec.Raw(b"null")
    message: str | None = None
    without_a_time: str | None = None
    has_secret: bool = False


def keys_of_lead(tx: Transaction, lead: PreparedLead) -> Sought:
    """What a transaction looks for first. Of a new customer's first request no row has any of it."""
    key = lead.request.idempotency_key
    return {
        idempotency.FINGERPRINT: () if key is UNSET else idempotency.fingerprints_of(tx, lead.key_scope, key),
        stored_leads.CONTACT_HASH: persons.hashes_of(tx, lead.contacts),
        CONTACT_HASH: withdrawal_hashes(tx, lead.contacts),
    }


@dataclass(frozen=True, slots=True)
class LeadTransaction:
    """The transaction of one lead.

    `accepted` is None for a lead with an idempotency key, because its consent is checked after the key.
    """

    tx: Transaction
    context: IntakeContext
    catalogue: Catalogue
    lead: PreparedLead
    accepted: Acceptance | None

    def store(self) -> Result:
        """Stores the lead. Returns AppointmentTimeUnavailable, because an error that is raised is rolled back.

        Raises ContactConsentRequired, InvalidConsent, VehicleNotFound, VehicleUnavailable and IdempotencyConflict.
        """
        key = self.lead.request.idempotency_key
        return self._store_lead()[1] if key is UNSET else self._store_once(key)

    def _store_once(self, key: str) -> Result:
        """Stores the lead for the first request with the idempotency key. A repeated request gets the same response.

        After AppointmentTimeUnavailable there is no response to repeat. The lead is stored already, so a repeated
        request only tries to book the visit again. Other errors are not stored.
        """
        hashed = payload_hash(self.lead.payload)
        first = idempotency.find_idempotent(self.tx, self.lead.key_scope, key)
        lead_without_a_time, has_secret = None, False
        if first is not None:
            if first.payload_hash != hashed:
                raise IdempotencyConflict("This idempotency_key came with another payload before.")
            answered = msgspec.json.decode(first.reply, type=_StoredAnswer)
            lead_without_a_time, has_secret = answered.without_a_time, answered.has_secret
            if lead_without_a_time is None:
                return SkillResult(bytes(answered.data), answered.message, is_repeated=True)
        if lead_without_a_time is None:
            lead_id, answer = self._store_lead()
        else:
            lead_id, answer = self._book_again(lead_without_a_time, has_secret=has_secret)
        if isinstance(answer, SkillResult):
            content = _StoredAnswer(msgspec.Raw(answer.data), answer.message)
        elif lead_without_a_time is None:
            content = _StoredAnswer(without_a_time=lead_id, has_secret="lead_secret" in answer.details)
        else:
            return answer
        if first is not None:
            idempotency.delete_idempotency(self.tx, self.lead.key_scope, key)
        reply = msgspec.json.encode(content)
        idempotency.record_idempotency(self.tx, self.lead.key_scope, key, hashed, reply, lead_id)
        return answer

    def _book_again(self, lead_id: str, *, has_secret: bool) -> tuple[str, Result]:
        """Books the visit of a lead that was stored without a time. Repeats the error if no time is free.

        The consent is not checked again. Nothing is booked if the vehicle is sold or the visit was replaced. Without a
        token, other visits of the lead do not change.
        """
        request = self.lead.request.appointment
        assert request is not UNSET, "only a visit can have no time"
        vehicle, _ = find_vehicle(self.lead.request, self.catalogue)
        stored = stored_leads.get_lead(self.tx, lead_id)
        assert stored is not None, "the record of an idempotency key is deleted with its lead"
        visits = visits_of(self.tx, lead_id)
        without_time = find_unavailable(visits, request)
        if without_time is None or cannot_be_driven(self.lead.request, vehicle):
            visit = self._booking.refuse(request, self._rooftop_of_request(vehicle))
        else:
            earlier = visits if self.lead.is_trusted else [without_time]
            visit = self._decide(vehicle, earlier)
        if visit.status != UNAVAILABLE:
            addition = Addition(appointment=RequestedVisit(request, visit.reply))
            rooftop = self.context.timetable.rooftop(stored.lead.rooftop) or visit.rooftop
            self._store_addition(stored.lead, addition, visit, rooftop, channels_of(stored, self.tx.now))
        return lead_id, self._response(lead_id, RECEIVED, visit.rooftop, vehicle, visit, has_secret=has_secret)

    def _store_lead(self) -> tuple[str, Result]:
        """Stores a new lead or adds to an earlier one. Returns the id of this lead, and the response."""
        lead, tx = self.lead, self.tx
        accepted = self.accepted or accept_lead(lead, self.catalogue, tx.now)
        vehicle = vehicle_key(lead.request.vehicle_of_interest, accepted.found)
        # A withdrawal counts even if all other data of the customer was deleted.
        withdrawn = withdrawn_since(tx, lead.contacts, accepted.grant.granted_at)
        accepted = accepted._replace(withdrawn=withdrawn)
        if not persons.is_known(tx, lead.contacts):
            return self._store_new(accepted, vehicle)
        by_events = withdrawn_by_events(tx, lead.contacts, accepted.grant.granted_at)
        accepted = accepted._replace(withdrawn=withdrawn | by_events)
        if not can_reach(lead.customer, accepted.channels):
            self._refuse_withdrawn(accepted.grant)
        window = timedelta(hours=self.context.profile.policies.duplicate_window_hours)
        if not window:
            return self._store_new(accepted, vehicle)
        since = tx.now - window
        own_id = persons.find_duplicate(tx, lead.senders, vehicle, since)
        own = None if own_id is None else stored_leads.get_lead(tx, own_id)
        if own is not None and max(len(own.events), len(own.consents)) < MOST_ADDITIONS:
            return own.lead.lead_id, self._add_to(own, accepted, vehicle)
        find_shown = persons.FIND_DUPLICATE_SHOWN_TO_STAFF
        first_id = persons.find_duplicate(tx, lead.contacts, vehicle, since, find_shown)
        return self._store_new(accepted, vehicle, first_id)

    def _refuse_withdrawn(self, grant: Grant) -> None:
        """Raises ContactConsentRequired if the customer withdrew all channels of the consent from this sender.

        Leads of other senders are accepted. An error would disclose to anybody who knows a contact point that its owner
        withdrew a consent from this dealer.
        """
        known = persons.withdrawn_from(self.tx, self.lead.senders, grant.granted_at)
        if not can_reach(self.lead.customer, (channel for channel in grant.channels if channel not in known)):
            raise consent_was_withdrawn()

    def _store_new(self, accepted: Acceptance, vehicle: str | None, first_id: str | None = None) -> tuple[str, Result]:
        """Stores a new lead. The response discloses nothing of `first_id`, which may be a lead of the same person."""
        lead, tx, lead_id = self._with_offer(), self.tx, new_ulid()
        visit = self._decide_visit(accepted.found, None)
        rooftop = visit.rooftop if visit else self._rooftop_of_request(accepted.found) or self.context.timetable.first
        stored_leads.record_lead(
            tx,
            lead.lead_record(lead_id, rooftop.name, accepted, first_id, tx.now),
            lead.consent_record(accepted.grant, tx.now),
            contacts=(*lead.contacts, *lead.senders),
            vehicle_key=vehicle,
        )
        self._repeat_withdrawal(lead_id, accepted)
        self._store_visit(visit, lead_id)
        if not lead.quarantined:
            deliveries = [*deliveries_of(rooftop)]
            if visit is not None and self._gets_confirmation(accepted.channels, visit):
                deliveries.append(mail_to_customer("confirm", rooftop, visit.reply.appointment_id))
            enqueue(tx, lead_id, deliveries)
        return lead_id, self._response(lead_id, RECEIVED, rooftop, accepted.found, visit, has_secret=True)

    def _with_offer(self) -> PreparedLead:
        """The lead with what it keeps of the quote that it names. Raises QuoteNotFound and HoldNotFound."""
        offer = self._offer()
        return self.lead if offer is None else replace(self.lead, payload=self.lead.payload | {"offer": offer})

    def _offer(self) -> dict[str, Any] | None:
        named = self.lead.request.offer
        return None if named is UNSET else offer_of_lead(self.tx, named, self.lead.caller.identity or None)

    def _add_to(self, earlier: StoredLead, accepted: Acceptance, vehicle: str | None) -> Result:
        """Adds the new parts of this lead to an earlier one of the same sender, and delivers them.

        A sender without a token may be anybody who knows the customer's contact points. Its request replaces nothing,
        its visit is only requested, and the response depends only on this request.
        """
        lead, lead_id = self.lead, earlier.lead.lead_id
        if lead.is_trusted:
            stored_leads.record_contacts(self.tx, earlier.lead, (*lead.contacts, *lead.senders), vehicle)
        content = LeadContent.of(earlier)
        allows_more_channels = self._add_consent(earlier, content.customer, accepted)
        addition = content.added_by(
            lead.request.message, lead.customer, lead.payload.get("trade_in"), may_replace=lead.is_trusted
        )
        addition.offer = self._offer()
        visit = None
        if lead.request.appointment is not UNSET:
            visit = self._decide_visit(accepted.found, visits_of(self.tx, lead_id))
            if visit is not None and visit.is_new:
                addition.appointment = RequestedVisit(lead.request.appointment, visit.reply)
        rooftop_of_request = self._rooftop_of_request(accepted.found) or self.context.timetable.first
        rooftop_of_lead = self.context.timetable.rooftop(earlier.lead.rooftop) or rooftop_of_request
        self._store_addition(
            earlier.lead,
            addition,
            visit,
            rooftop_of_lead,
            accepted.channels,
            allows_more_channels=allows_more_channels,
        )
        shown = self._shown_rooftop(visit, rooftop_of_lead, rooftop_of_request)
        return self._response(lead_id, DUPLICATE, shown, accepted.found, visit)

    def _shown_rooftop(
        self, visit: VisitDecision | None, rooftop_of_lead: DealerRooftop, rooftop_of_request: DealerRooftop
    ) -> DealerRooftop:
        """The rooftop in the response to an addition: that of the visit, else that of the earlier lead.

        A sender without a token must not learn where the earlier lead went, so it sees the rooftop of its own request.
        """
        if visit is not None:
            return visit.rooftop
        return rooftop_of_lead if self.lead.is_trusted else rooftop_of_request

    def _add_consent(self, earlier: StoredLead, customer: Customer, accepted: Acceptance) -> bool:
        """Records the consent if the lead does not have it. Returns whether it allows more channels."""
        tx, lead_id = self.tx, earlier.lead.lead_id
        consent = self.lead.consent_record(accepted.grant, tx.now)
        if any(is_same_consent(event, consent) for event in without_refused(earlier.consents)):
            touch_lead(tx, lead_id, tx.now)
            return False
        record_consent(tx, lead_id, consent)
        self._repeat_withdrawal(lead_id, accepted)
        before = usable_channels(customer, earlier.consents, tx.now)
        after = usable_channels(customer, consents_of(tx, lead_id), tx.now)
        return not set(after).issubset(before)

    def _store_addition(
        self,
        earlier: LeadRecord,
        addition: Addition,
        visit: VisitDecision | None,
        rooftop_of_lead: DealerRooftop,
        channels: Collection[str],
        *,
        allows_more_channels: bool = False,
    ) -> None:
        """Stores an addition, and delivers the lead to its rooftop and to that of the visit.

        `allows_more_channels`: a new consent does so, so an empty addition is delivered too. If the sender is in
        quarantine, or the earlier lead waits or was refused there, the whole lead waits with the addition.
        """
        lead_id, event_id = earlier.lead_id, None
        if allows_more_channels or addition != Addition():
            event_id = stored_leads.append_to_lead(self.tx, lead_id, msgspec.json.encode(addition))
        self._store_visit(visit, lead_id)
        if event_id is not None and (self.lead.quarantined or earlier.is_kept_from_staff):
            quarantine_lead(self.tx, lead_id)
        elif event_id is not None:
            notifications = self._notifications
            notifications.send_again(lead_id, event_id, (rooftop_of_lead, visit.rooftop if visit else rooftop_of_lead))
            if visit is not None and self._gets_confirmation(channels, visit):
                notifications.mail("confirm", lead_id, visit.rooftop, visit.reply.appointment_id)

    def _repeat_withdrawal(self, lead_id: str, accepted: Acceptance) -> None:
        """Records on this lead the channels that were withdrawn on another lead after this consent."""
        again = sorted(accepted.withdrawn.intersection(accepted.grant.channels))
        if again:
            repeat_withdrawal_event(self.tx, lead_id, again, by="dealer-agent", reason=REVOKED_BEFORE)

    def _decide_visit(self, vehicle: FoundVehicle, earlier: Sequence[VisitRecord] | None) -> VisitDecision | None:
        """The decision about the requested visit. `earlier` are the visits of the lead to which it is added."""
        request = self.lead.request.appointment
        if request is UNSET:
            return None
        if earlier is not None and not self.lead.is_trusted:
            return self._booking.request_without_token(request, self._rooftop_of_request(vehicle), earlier)
        return self._decide(vehicle, earlier or ())

    def _decide(self, vehicle: FoundVehicle, earlier: Sequence[VisitRecord]) -> VisitDecision:
        """The decision about the requested visit, as for a sender with a token."""
        request = self.lead.request.appointment
        assert request is not UNSET, "only a requested visit is decided"
        return self._booking.decide(
            request,
            self._rooftop_of_request(vehicle),
            earlier,
            vehicle_id=None if vehicle is None else vehicle.vehicle_id,
            test_drives=self._test_drives,
        )

    def _test_drives(self) -> Iterable[BookedVisit]:
        """The confirmed test drives of the customer that are not over. A new visit must not overlap with them.

        Reads the newest MOST_LEADS_WITH_VISITS leads that the same token sent for the customer. There are none for a
        sender without a token: from the times that stay free, it could learn where the customer will be.
        """
        if not self.lead.is_trusted:
            return ()
        lead_ids = persons.newest_leads_of(self.tx, self.lead.senders, MOST_LEADS_WITH_VISITS)
        return booked_visits(self.tx, lead_ids, "test_drive")

    def _store_visit(self, visit: VisitDecision | None, lead_id: str) -> None:
        if visit is not None and self.lead.request.appointment is not UNSET:
            for moved in self._booking.store(visit, lead_id, self.lead.request.appointment):
                quarantined = self.lead.quarantined
                self._notifications.add_moved_visit(moved, notify=not quarantined, quarantined=quarantined)

    @property
    def _booking(self) -> VisitBooking:
        return VisitBooking(self.tx, self.context.timetable)

    @property
    def _notifications(self) -> Notifications:
        return Notifications(self.tx, self.context)

    def _rooftop_of_request(self, vehicle: FoundVehicle) -> DealerRooftop | None:
        """The rooftop that has the vehicle. If none has it, the one that the buyer names."""
        timetable = self.context.timetable
        if isinstance(vehicle, Vehicle):
            return timetable.rooftop(vehicle.rooftop)
        return None if self.lead.named_rooftop is None else timetable.named(self.lead.named_rooftop)

    def _gets_confirmation(self, channels: Collection[str], visit: VisitDecision) -> bool:
        by_mail = self.lead.request.customer.email is not UNSET and EMAIL in channels
        return by_mail and self.context.confirms_by_mail and visit.confirmed is not None and visit.existing is None

    def _response(
        self,
        lead_id: str,
        status: LeadStatus,
        rooftop: DealerRooftop,
        found: FoundVehicle,
        visit: VisitDecision | None,
        *,
        has_secret: bool = False,
    ) -> Result:
        """The response to a lead: a receipt with a message, or the error for a visit without a time.

        Only the sender of a new lead gets its secret: an addition may come from anybody who knows the contact points.
        """
        request, secrets = self.lead.request, self.lead.secrets if has_secret else None
        secret = UNSET if secrets is None else secrets.of(lead_id)
        kind = None if request.appointment is UNSET else VISIT_KIND_OF[request.appointment.appointment_type]
        department = self.context.timetable.department(rooftop, kind, self.tx.now)
        is_unknown = not isinstance(found, Vehicle) and self._rooftop_of_request(found) is None
        words = response_message(
            LeadResponse(
                department=department,
                now=self.tx.now,
                interest=request.vehicle_of_interest,
                found=found,
                repeated=status == DUPLICATE,
                trade_in=request.trade_in is not UNSET,
                visit=visit,
                unknown_rooftop=self.lead.named_rooftop if is_unknown else None,
            )
        )
        if visit is not None and visit.status == UNAVAILABLE:
            details = {"in": "payload", "instancePath": "/appointment", "lead_id": lead_id}
            return AppointmentTimeUnavailable(words, details if secret is UNSET else details | {"lead_secret": secret})
        receipt = LeadReceipt(
            lead_id=lead_id,
            status=status,
            appointment=UNSET if visit is None else visit.reply,
            dealer=DealerContact(department.rooftop, department.phone or UNSET),
            lead_secret=secret,
        )
        return SkillResult(msgspec.json.encode(receipt), words)
