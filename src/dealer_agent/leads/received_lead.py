"""What identifies a lead's customer, sender, vehicle and payload (docs/protocol.md#duplicates). Pure."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from dealer_agent.protocol.formats import normal_email, normal_phone
from dealer_agent.protocol.requests import Customer, VehicleOfInterest
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.protocol.vehicle import Vehicle

EMAIL_PREFIX = "email:"
PHONE_PREFIX = "phone:"


@dataclass(frozen=True, slots=True)
class UnavailableVehicle:
    """A vehicle of interest that was in stock once."""

    vehicle_id: str
    vin: str | UnsetType = UNSET
    stock: str | UnsetType = UNSET


FoundVehicle = Vehicle | UnavailableVehicle | None
"""The vehicle of interest in the stock. None if the lead names no vehicle or the stock never had it."""


def agent_name(request: LeadSubmitRequest) -> str:
    """The submitting buyer agent's name."""
    return request.source_agent if isinstance(request.source_agent, str) else request.source_agent.name


def contact_points(customer: Customer) -> tuple[str, ...]:
    """The customer's normalised contact points with a prefix: `email:jordan@example.com`, `phone:+12025550123`."""
    found = []
    if customer.email is not UNSET and (email := normal_email(customer.email)):
        found.append(f"{EMAIL_PREFIX}{email}")
    if customer.phone is not UNSET and (phone := normal_phone(customer.phone)):
        found.append(f"{PHONE_PREFIX}{phone}")
    return tuple(found)


def sender_keys(token_id: str | None, request: LeadSubmitRequest, contacts: Sequence[str]) -> tuple[str, ...]:
    """The keys that identify a sender together with the customer, whose `contact_points` are `contacts`.

    With a token: one key for each contact point, of the token and the contact point. Without a token the sender is
    unknown: one key of the agent's name and all contact points.
    """
    if token_id is not None:
        return tuple(token_sender_key(token_id, contact) for contact in contacts)
    return (_json_key("agent", agent_name(request), *sorted(contacts)),)


def token_sender_key(token_id: str, contact: str) -> str:
    """The key that identifies a sender with a token together with one contact point."""
    return _json_key("token", token_id, contact)


def key_scope(token_id: str | None, keys: Sequence[str]) -> str:
    """The scope of an idempotency key: the token, else the only one of the `sender_keys`."""
    return _json_key("token", token_id) if token_id is not None else keys[0]


def _json_key(*parts: str) -> str:
    # A JSON array starts with a bracket and a contact point does not, so they are never equal.
    return msgspec.json.encode(parts).decode()


def with_normal_phone(customer: Customer, contacts: Iterable[str]) -> Customer:
    """The customer with the phone number in E.164 form, which is one of their `contact_points`."""
    phones = (contact.removeprefix(PHONE_PREFIX) for contact in contacts if contact.startswith(PHONE_PREFIX))
    return msgspec.structs.replace(customer, phone=next(phones, customer.phone))


def consenting_customer(customer: Customer) -> bytes:
    """The name and the contact points of a customer as JSON, as the consent record keeps them."""
    return msgspec.json.encode(Customer(customer.first_name, customer.last_name, customer.email, customer.phone))


def names_a_vehicle(wish: VehicleOfInterest | UnsetType) -> bool:
    """Whether a vehicle of interest has a VIN, a stock number or an id. A blank identifier does not count."""
    return wish is not UNSET and _identity(wish) is not None


def vehicle_key(wish: VehicleOfInterest | UnsetType, found: FoundVehicle) -> str | None:
    """A text that is equal for two leads about the same vehicle. None for a lead without a vehicle.

    The VIN comes first also for a vehicle in stock, so the key is the same before and after the vehicle's import.
    """
    if found is not None:
        return _identity(found)
    if wish is UNSET:
        return None
    identity = _identity(wish)
    if identity is not None:
        return identity
    members = {"year": wish.year, "make": wish.make, "model": wish.model, "trim": wish.trim}
    folded = {name: str(value).strip().casefold() for name, value in members.items() if value is not UNSET}
    described = {name: text for name, text in folded.items() if text}
    return f"kind:{msgspec.json.encode(described).decode()}" if described else None


def _identity(vehicle: Vehicle | UnavailableVehicle | VehicleOfInterest) -> str | None:
    for kind, value in (("vin", vehicle.vin), ("stock", vehicle.stock), ("id", vehicle.vehicle_id)):
        if value and value.strip():
            return f"{kind}:{value.strip().casefold()}"
    return None


def payload_hash(payload: dict[str, Any]) -> bytes:
    """A hash of the payload without `submitted_at`, to recognise a repeated request (docs/protocol.md#idempotency)."""
    compared = {name: value for name, value in payload.items() if name != "submitted_at"}
    return hashlib.sha256(msgspec.json.encode(compared, order="deterministic")).digest()
