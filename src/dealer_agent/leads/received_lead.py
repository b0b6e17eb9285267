"""A received lead: its vehicle, its acceptance, and everything that is known without the database. Pure.

The rules are in docs/protocol.md#lead-submit and docs/protocol.md#duplicates.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
from msgspec import UNSET, UnsetType

from dealer_agent.callers import Caller
from dealer_agent.inventory.listing import Listing, RemovedUnit
from dealer_agent.leads.consent import PURPOSE, Grant, check_consent
from dealer_agent.leads.consent_events import ConsentRecord
from dealer_agent.leads.lead_secrets import LeadSecrets
from dealer_agent.leads.records import LeadRecord
from dealer_agent.leads.statuses import RECEIVED, WAITING
from dealer_agent.protocol.errors import VehicleNotFound, VehicleUnavailable
from dealer_agent.protocol.formats import normal_email, normal_phone
from dealer_agent.protocol.published_versions import PublishedVersion
from dealer_agent.protocol.requests import Customer, SourceAgent, VehicleOfInterest
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.protocol.vehicle import Vehicle

if TYPE_CHECKING:  # Storage imports this module, and commands that only read the database need no NumPy.
    from dealer_agent.inventory.catalogue import Catalogue

EMAIL_PREFIX = "email:"
PHONE_PREFIX = "phone:"

FoundVehicle = Vehicle | RemovedUnit | None
"""The vehicle of interest in the stock. None if the lead names no vehicle or the stock never had it."""


def source_agent(request: LeadSubmitRequest) -> SourceAgent:
    """The submitting buyer agent."""
    return SourceAgent(request.source_agent) if isinstance(request.source_agent, str) else request.source_agent


def contact_points(customer: Customer) -> tuple[str, ...]:
    """The customer's normalised contact points with a prefix: `email:jordan@example.com`, `phone:+12025550123`."""
    found = []
    if customer.email is not UNSET and (email := normal_email(customer.email)):
        found.append(f"{EMAIL_PREFIX}{email}")
    if customer.phone is not UNSET and (phone := normal_phone(customer.phone)):
        found.append(f"{PHONE_PREFIX}{phone}")
    return tuple(found)


def known_contact(text: str) -> str | None:
    """The `contact_points` form of a text that is a whole e-mail address or phone number. Without a +, a US number."""
    if email := normal_email(text):
        return f"{EMAIL_PREFIX}{email}"
    number = normal_phone(text, "US")
    return number and f"{PHONE_PREFIX}{number}"


def sender_keys(caller: Caller, request: LeadSubmitRequest, contacts: Sequence[str]) -> tuple[str, ...]:
    """The keys that identify a sender together with the customer, whose `contact_points` are `contacts`.

    A known caller: one key for each contact point, of the caller and the contact point. An anonymous sender: one key of
    the agent's name and all contact points.
    """
    if caller.is_known:
        return tuple(known_sender_key(caller.identity, contact) for contact in contacts)
    return (_json_key("agent", source_agent(request).name, *sorted(contacts)),)


def known_sender_key(identity: str, contact: str) -> str:
    """The key that identifies a known caller together with one contact point."""
    return _json_key("caller", identity, contact)


def known_key_scope(identity: str) -> str:
    """The scope of the idempotency keys of a known caller."""
    return _json_key("caller", identity)


def _json_key(*parts: str) -> str:
    # A JSON array starts with a bracket and a contact point does not, so they are never equal.
    return msgspec.json.encode(parts).decode()


def with_normal_phone(customer: Customer, contacts: Iterable[str]) -> Customer:
    """The customer, with the phone number in E.164 form if one of `contacts` is a phone number."""
    phones = (contact.removeprefix(PHONE_PREFIX) for contact in contacts if contact.startswith(PHONE_PREFIX))
    return msgspec.structs.replace(customer, phone=next(phones, customer.phone))


def names_a_vehicle(interest: VehicleOfInterest | UnsetType) -> bool:
    """Whether a vehicle of interest has a VIN, a stock number or an id. A blank identifier does not count."""
    return interest is not UNSET and _identity(interest) is not None


def vehicle_key(interest: VehicleOfInterest | UnsetType, found: FoundVehicle) -> str | None:
    """A text that is equal for two leads about the same vehicle. None for a lead without a vehicle.

    The VIN comes first also for a vehicle in stock, so the key is the same before and after the vehicle's import.
    """
    if found is not None:
        return _identity(found)
    if interest is UNSET:
        return None
    identity = _identity(interest)
    if identity is not None:
        return identity
    members = {"year": interest.year, "make": interest.make, "model": interest.model, "trim": interest.trim}
    folded = {name: str(value).strip().casefold() for name, value in members.items() if value is not UNSET}
    described = {name: text for name, text in folded.items() if text}
    return f"kind:{msgspec.json.encode(described).decode()}" if described else None


def _identity(vehicle: Vehicle | RemovedUnit | VehicleOfInterest) -> str | None:
    for kind, value in (("vin", vehicle.vin), ("stock", vehicle.stock), ("id", vehicle.vehicle_id)):
        if value and value.strip():
            return f"{kind}:{value.strip().casefold()}"
    return None


def payload_hash(payload: dict[str, Any]) -> bytes:
    """A hash of the payload without `submitted_at`, to recognise a repeated request (docs/protocol.md#idempotency)."""
    compared = {name: value for name, value in payload.items() if name != "submitted_at"}
    return sha256(msgspec.json.encode(compared, order="deterministic")).digest()


class Acceptance(NamedTuple):
    """The consent of an accepted lead, its vehicle in the stock, and the listing as JSON.

    `withdrawn` are the channels that the customer withdrew after this consent, on any lead.
    """

    grant: Grant
    found: FoundVehicle
    listing: bytes | None
    withdrawn: frozenset[str] = frozenset()

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that may be used."""
        return tuple(channel for channel in self.grant.channels if channel not in self.withdrawn)


def accept_lead(prepared: "PreparedLead", catalogue: "Catalogue", now: datetime) -> Acceptance:
    """Checks consent and vehicle. Raises ProtocolError."""
    lead = prepared.request
    grant = check_consent(lead.consent, lead.customer, now, prepared.version)
    found, listing = find_vehicle(lead, catalogue)
    if cannot_be_driven(lead, found):
        place = {"in": "payload", "instancePath": "/vehicle_of_interest"}
        if found is None:
            raise VehicleNotFound("There is no such vehicle to drive.", place)
        raise VehicleUnavailable(
            "This vehicle is no longer available for a test drive.", place | {"vehicle_id": found.vehicle_id}
        )
    return Acceptance(grant, found, listing)


def find_vehicle(lead: LeadSubmitRequest, catalogue: "Catalogue") -> tuple[FoundVehicle, bytes | None]:
    """The vehicle of interest, and its listing as JSON if it is in stock."""
    interest = lead.vehicle_of_interest
    if interest is UNSET or not names_a_vehicle(interest):
        return None, None
    found = catalogue.find(interest.vin, interest.stock, interest.vehicle_id)
    if isinstance(found, Listing):
        return found.vehicle, found.json
    return found, None


def cannot_be_driven(lead: LeadSubmitRequest, found: FoundVehicle) -> bool:
    """Whether the lead requests a test drive of a vehicle that is not in stock."""
    if lead.appointment is UNSET or lead.appointment.appointment_type != "test_drive":
        return False
    return names_a_vehicle(lead.vehicle_of_interest) and not isinstance(found, Vehicle)


@dataclass(frozen=True, slots=True)
class PreparedLead:
    """A lead that passed the schema. It is prepared outside its transaction, where other leads would wait for it.

    `payload` has the JSON values of the request, extras included. `contacts` are the `contact_points`, `senders` the
    `sender_keys`. The consent follows the rules of `version`, or of this service's protocol if it is None.
    `quarantined`: the policy of the caller says that its leads wait for a person. `secrets`: the response to a new lead
    has its secret.
    """

    request: LeadSubmitRequest
    payload: dict[str, Any]
    caller: Caller
    request_hash: bytes
    contacts: tuple[str, ...]
    senders: tuple[str, ...]
    customer: Customer
    version: PublishedVersion | None = None
    quarantined: bool = False
    secrets: LeadSecrets | None = None

    @classmethod
    def of(
        cls,
        request: LeadSubmitRequest,
        payload: dict[str, Any],
        caller: Caller,
        body: bytes,
        version: PublishedVersion | None = None,
        *,
        quarantined: bool = False,
        secrets: LeadSecrets | None = None,
    ) -> Self:
        """Prepares a lead. `body` is the body of the HTTP request."""
        contacts = contact_points(request.customer)
        senders = sender_keys(caller, request, contacts)
        customer = with_normal_phone(request.customer, contacts)
        digest = sha256(body).digest()
        return cls(request, payload, caller, digest, contacts, senders, customer, version, quarantined, secrets)

    @property
    def is_trusted(self) -> bool:
        """Whether the sender has proved who it is."""
        return self.caller.is_known

    @property
    def key_scope(self) -> str:
        """The scope of its idempotency key: the known caller, else the only one of the `sender_keys`."""
        return known_key_scope(self.caller.identity) if self.caller.is_known else self.senders[0]

    @property
    def named_rooftop(self) -> str | None:
        """The rooftop that the buyer names."""
        interest = self.request.vehicle_of_interest
        return None if interest is UNSET or interest.rooftop is UNSET else interest.rooftop

    def lead_record(
        self, lead_id: str, rooftop: str, accepted: Acceptance, first_id: str | None, now: datetime
    ) -> LeadRecord:
        """The row of a new lead. `first_id` is an earlier lead that may be of the same person."""
        # A vehicle that is not in stock is not stored unencrypted: it may be the customer's own.
        found = accepted.found
        record = LeadRecord(
            lead_id=lead_id,
            received_at=now,
            source_agent=source_agent(self.request).name,
            status=RECEIVED,
            rooftop=rooftop,
            customer=msgspec.json.encode(self.customer),
            payload=msgspec.json.encode(self.payload),
            vehicle=accepted.listing,
            vehicle_id=None if found is None else found.vehicle_id,
            vin=found.vin or None if found else None,
            stock=found.stock or None if found else None,
            caller=self.caller.identity or None,
            may_be_same_person_as=first_id,
        )
        return replace(record, quarantine=WAITING, quarantined_at=now) if self.quarantined else record

    def consent_record(self, grant: Grant, now: datetime) -> ConsentRecord:
        """The record of its consent, with the customer's name and contact points."""
        person = self.customer
        return ConsentRecord(
            received_at=now,
            granted_at=grant.granted_at,
            channels=grant.channels,
            scope=grant.scope,
            purpose=PURPOSE,
            consent_text=grant.text,
            request_hash=self.request_hash,
            customer=msgspec.json.encode(Customer(person.first_name, person.last_name, person.email, person.phone)),
            source_agent=grant.source_agent or source_agent(self.request).name,
            expires_at=grant.expires_at,
            caller=self.caller.identity or None,
        )
