"""Where leads are taken: decided purely, stored in one transaction, answered when that is durable (contract, part 10).

The writer runs a job's whole decision again if the database asks for it, so a job holds no state of its own.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal

import msgspec
import structlog
from msgspec import UNSET, Struct, UnsetType
from sqlalchemy import Connection

from dealer_agent import storage as stored
from dealer_agent.dealers.profile import DealerRooftop, Profile
from dealer_agent.dealers.rules import read_phone
from dealer_agent.inventory.catalogue import Catalogue, Listing
from dealer_agent.leads import intake
from dealer_agent.leads.consent import Grant, judge_consent
from dealer_agent.protocol.errors import IdempotencyConflict, VehicleNotFound, VehicleUnavailable
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.replies import Answer
from dealer_agent.protocol.requests import Appointment, Customer, LeadSubmitRequest
from dealer_agent.protocol.responses import AppointmentReply, DealerContact, LeadReceipt
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.storage.errors import StoreClosed
from dealer_agent.storage.lead_writer import LeadWriter
from dealer_agent.vault.vault import Vault


class LeadDesk:
    """Takes one dealer's leads."""

    def __init__(self, profile: Profile, writer: LeadWriter, vault: Vault) -> None:
        self._profile = profile
        self._writer = writer
        self._vault = vault

    async def take(
        self,
        lead: LeadSubmitRequest,
        payload: dict[str, Any],
        catalogue: Catalogue,
        *,
        token_id: str | None,
        body: bytes,
        now: datetime,
    ) -> Answer:
        """Stores a lead with its consent record, then answers it; `payload` is the lead's JSON values, extras included.

        Raises ContactConsentRequired, InvalidConsent, VehicleNotFound, VehicleUnavailable, IdempotencyConflict, and
        StorageError when it could not be stored.
        """
        job = _LeadJob(self._profile, self._vault, catalogue, lead, payload, token_id, sha256(body).digest(), now)
        if lead.idempotency_key is UNSET:
            # With a key the first answer is looked up before consent is judged; without one, spare the writer.
            job.decide()
        return await asyncio.wrap_future(self._writer.submit(self._profile.id, job.store))

    def note_refusal(self, code: str, at: datetime) -> None:
        """Has it stored that a lead was refused: the code and the time, nothing of the lead.

        Nobody waits for it, and the buyer's answer does not depend on it: a failure goes to the log.
        """
        dealer_id = self._profile.id
        try:
            noted = self._writer.submit(
                dealer_id, lambda connection: stored.record_refusal(connection, dealer_id, at, code)
            )
        except StoreClosed as failure:
            _log_lost_refusal(code, failure)
        else:
            noted.add_done_callback(lambda done: _log_lost_refusal(code, done.exception()))


def _log_lost_refusal(code: str, failure: BaseException | None) -> None:
    if failure is not None:
        # A refusal holds nothing personal, and a StorageError never quotes what was being stored.
        structlog.get_logger().error("refusal not stored", code=code, error=type(failure).__qualname__)


class _KeptAnswer(Struct):
    """The first answer to an idempotency key, as it is stored."""

    data: msgspec.Raw
    message: str | None


@dataclass(frozen=True, slots=True)
class _LeadJob:
    """One lead on its way into the store: everything that `store` needs, and nothing of the network."""

    profile: Profile
    vault: Vault
    catalogue: Catalogue
    lead: LeadSubmitRequest
    payload: dict[str, Any]
    token_id: str | None
    request_hash: bytes
    now: datetime

    def decide(self) -> tuple[Grant, intake.Wanted]:
        """Whether the lead may be taken: consent, then the vehicle. Raises ProtocolError."""
        grant = judge_consent(self.lead.consent, self.lead.customer.preferred_contact, self.now)
        return grant, self._wanted_vehicle()

    def _wanted_vehicle(self) -> intake.Wanted:
        wish, appointment = self.lead.vehicle_of_interest, self.lead.appointment
        if wish is UNSET or not intake.names_a_vehicle(wish):
            return None
        found = self.catalogue.find(wish.vin, wish.stock, wish.vehicle_id)
        if isinstance(found, Listing):
            return found.vehicle
        if appointment is not UNSET and appointment.appointment_type == "test_drive":
            place = {"in": "payload", "instancePath": "/vehicle_of_interest"}
            if found is None:
                raise VehicleNotFound("There is no such vehicle to drive.", place)
            raise VehicleUnavailable(
                "This vehicle is no longer available for a test drive.", place | {"vehicle_id": found.vehicle_id}
            )
        return None if found is None else intake.Gone(found.vehicle_id, found.vin, found.stock)

    def store(self, connection: Connection) -> Answer:
        """Takes the lead, on the writer's transaction: the first answer again, a duplicate, or a new lead."""
        key = None if self.lead.idempotency_key is UNSET else self.lead.idempotency_key
        scope = f"token:{self.token_id}" if self.token_id else f"agent:{intake.agent_name(self.lead)}"
        payload_hash = intake.payload_hash(self.payload)
        dealer_id = self.profile.id
        if key is not None:
            first = stored.find_idempotent(connection, self.vault, dealer_id, scope, key, self.now)
            if first is not None:
                if first.payload_hash != payload_hash:
                    raise IdempotencyConflict("This idempotency_key came with another payload before.")
                kept = msgspec.json.decode(first.reply, type=_KeptAnswer)
                return Answer(bytes(kept.data), kept.message)
        grant, wanted = self.decide()
        answer = self._keep(connection, grant, wanted)
        if key is not None:
            reply = msgspec.json.encode(_KeptAnswer(msgspec.Raw(answer.data), answer.message))
            lead_id = msgspec.json.decode(answer.data, type=LeadReceipt).lead_id
            record = stored.IdempotencyRecord(
                scope=scope, key=key, payload_hash=payload_hash, reply=reply, at=self.now, lead_id=lead_id
            )
            stored.record_idempotency(connection, self.vault, dealer_id, record)
        return answer

    def _keep(self, connection: Connection, grant: Grant, wanted: intake.Wanted) -> Answer:
        dealer_id = self.profile.id
        contacts = intake.contacts(self.lead.customer)
        vehicle_key = intake.vehicle_key(self.lead.vehicle_of_interest, wanted)
        window = timedelta(hours=self.profile.policies.duplicate_window_hours)
        earlier = stored.find_duplicate(connection, self.vault, dealer_id, contacts, vehicle_key, self.now - window)
        if window and earlier is not None:
            appointment = self._add_to(connection, earlier, contacts, vehicle_key)
            stored.record_consent(connection, self.vault, dealer_id, earlier, self._consent(grant))
            return self._receipt(earlier, "duplicate", appointment, wanted)
        lead_id = new_ulid()
        appointment = self._new_appointment()
        stored.record_lead(
            connection,
            self.vault,
            self._record(lead_id, wanted),
            self._consent(grant),
            contacts=contacts,
            vehicle_key=vehicle_key,
        )
        return self._receipt(lead_id, "received", appointment, wanted)

    def _add_to(
        self, connection: Connection, lead_id: str, contacts: Sequence[str], vehicle_key: str | None
    ) -> AppointmentReply | UnsetType:
        """Adds to an earlier lead what this one says anew; the appointment as it then stands."""
        earlier = stored.get_lead(connection, self.vault, self.profile.id, lead_id)
        assert earlier is not None, "find_duplicate names only leads that are stored"
        # Who writes with another address or number next is the same customer still.
        stored.record_contacts(connection, self.vault, earlier.lead, contacts, vehicle_key)
        kept = _KeptLead.of(earlier)
        changes: dict[str, Any] = {}
        if self.lead.message and self.lead.message != kept.message:
            changes["message"] = self.lead.message
        customer = intake.customer_kept(self.lead.customer)
        if customer != kept.customer:
            changes["customer"] = customer
        reply: AppointmentReply | UnsetType = UNSET
        if self.lead.appointment is not UNSET:
            if kept.appointment is not None and kept.appointment.request == self.lead.appointment:
                reply = kept.appointment.reply
            else:
                reply = self._new_appointment()
                changes["appointment"] = self._kept_appointment(reply)
        if changes:
            stored.append_to_lead(
                connection, self.vault, self.profile.id, lead_id, self.now, msgspec.json.encode(changes)
            )
        return reply

    def _new_appointment(self) -> AppointmentReply | UnsetType:
        if self.lead.appointment is UNSET:
            return UNSET
        return AppointmentReply(appointment_id=new_ulid(), status="requested")

    def _kept_appointment(self, reply: AppointmentReply | UnsetType) -> "_KeptAppointment | None":
        if reply is UNSET or self.lead.appointment is UNSET:
            return None
        return _KeptAppointment(self.lead.appointment, reply)

    def _record(self, lead_id: str, wanted: intake.Wanted) -> stored.LeadRecord:
        wish = self.lead.vehicle_of_interest
        vehicle = wish if wanted is None else wanted
        vin, stock = (None, None) if vehicle is UNSET else (vehicle.vin, vehicle.stock)
        return stored.LeadRecord(
            dealer_id=self.profile.id,
            lead_id=lead_id,
            received_at=self.now,
            source_agent=intake.agent_name(self.lead),
            status="received",
            customer=msgspec.json.encode(intake.customer_kept(self.lead.customer)),
            payload=msgspec.json.encode(self.payload),
            rooftop=self._rooftop(wanted).name,
            vehicle_id=None if wanted is None else wanted.vehicle_id,
            vin=vin or None,
            stock=stock or None,
        )

    def _consent(self, grant: Grant) -> stored.ConsentRecord:
        return stored.ConsentRecord(
            received_at=self.now,
            granted_at=grant.granted_at,
            channels=grant.channels,
            scope=grant.scope,
            purpose="",
            customer=msgspec.json.encode(intake.customer_kept(self.lead.customer)),
            consent_text=grant.text,
            request_hash=self.request_hash,
            source_agent=grant.source_agent,
            expires_at=grant.expires_at,
        )

    def _receipt(
        self,
        lead_id: str,
        status: Literal["received", "duplicate"],
        appointment: AppointmentReply | UnsetType,
        wanted: intake.Wanted,
    ) -> Answer:
        rooftop = self._rooftop(wanted)
        phone = rooftop.phones.get("sales") or next(iter(rooftop.phones.values()), None)
        receipt = LeadReceipt(
            lead_id=lead_id,
            status=status,
            appointment=appointment,
            dealer=DealerContact(rooftop.name, read_phone(phone) if phone else UNSET),
        )
        wish = self.lead.vehicle_of_interest
        words = intake.sentence_for(wish, wanted, rooftop.name, repeated=status == "duplicate")
        return Answer(msgspec.json.encode(receipt), words)

    def _rooftop(self, wanted: intake.Wanted) -> DealerRooftop:
        """The rooftop that has the vehicle, else the first."""
        name = wanted.rooftop if isinstance(wanted, Vehicle) else None
        return next((rooftop for rooftop in self.profile.rooftops if rooftop.name == name), self.profile.rooftops[0])


class _KeptAppointment(Struct):
    """A visit as it is stored: what was asked for, and what was answered."""

    request: Appointment
    reply: AppointmentReply


class _Changes(Struct):
    """What a duplicate added to a lead."""

    message: str | None = None
    customer: Customer | None = None
    appointment: _KeptAppointment | None = None


class _Said(Struct):
    """The part of a stored payload that a duplicate may change."""

    message: str | None = None


@dataclass(slots=True)
class _KeptLead:
    """A stored lead as it stands: what was said last of the message, the customer and the appointment."""

    message: str | None
    customer: Customer
    appointment: _KeptAppointment | None

    @classmethod
    def of(cls, lead: stored.StoredLead) -> "_KeptLead":
        first = lead.lead
        assert first.payload is not None, "an erased lead has no duplicates"
        assert first.customer is not None, "an erased lead has no duplicates"
        said = msgspec.json.decode(first.payload, type=_Said)
        kept = cls(said.message, msgspec.json.decode(first.customer, type=Customer), None)
        for event in lead.events:
            changes = msgspec.json.decode(event.changes or b"{}", type=_Changes)
            kept.message = changes.message or kept.message
            kept.customer = changes.customer or kept.customer
            kept.appointment = changes.appointment or kept.appointment
        return kept
