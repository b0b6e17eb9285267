"""A lead as the dealer keeps it, from the request that brought it (specification, 2.7; contract, part 10). Pure."""

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

PHONE = "phone:"
"""What the contact of a phone number begins with."""


@dataclass(frozen=True, slots=True)
class UnavailableVehicle:
    """A vehicle of interest that the dealer knew and no longer has."""

    vehicle_id: str
    vin: str | UnsetType = UNSET
    stock: str | UnsetType = UNSET


Wanted = Vehicle | UnavailableVehicle | None
"""What the vehicle of interest turned out to be in stock; None when nothing in stock was named or found."""


def agent_name(request: LeadSubmitRequest) -> str:
    """The submitting buyer agent's name."""
    return request.source_agent if isinstance(request.source_agent, str) else request.source_agent.name


def contacts(customer: Customer) -> tuple[str, ...]:
    """What a customer is recognised by: e-mail address without case, phone number as E.164."""
    found = []
    if customer.email is not UNSET and (email := normal_email(customer.email)):
        found.append(f"email:{email}")
    if customer.phone is not UNSET and (phone := normal_phone(customer.phone)):
        found.append(f"{PHONE}{phone}")
    return tuple(found)


def senders(token_id: str | None, request: LeadSubmitRequest, known: Sequence[str]) -> tuple[str, ...]:
    """The keys that identify a sender together with the customer, whose `contacts` are `known`.

    With a token: one key for each contact point, of the token and the contact point. Without a token the sender is
    unknown: one key of the agent's name and all contact points (contract, part 10).
    """
    if token_id is not None:
        return tuple(sender_with_token(token_id, contact) for contact in known)
    return (_sender("agent", agent_name(request), *sorted(known)),)


def sender_with_token(token_id: str, contact: str) -> str:
    """The key that identifies a sender with a token together with a contact point of the customer."""
    return _sender("token", token_id, contact)


def key_scope(token_id: str | None, sender_keys: Sequence[str]) -> str:
    """The scope of an idempotency key of these `senders`: the token, else the agent's name with all contact points."""
    return _sender("token", token_id) if token_id is not None else sender_keys[0]


def _sender(*parts: str) -> str:
    # A JSON array begins with a bracket, and a contact point does not: the two cannot be equal.
    return msgspec.json.encode(parts).decode()


def customer_kept(customer: Customer, known: Iterable[str]) -> Customer:
    """The customer with the phone number as E.164, which is among their `contacts`."""
    phones = (contact.removeprefix(PHONE) for contact in known if contact.startswith(PHONE))
    return msgspec.structs.replace(customer, phone=next(phones, customer.phone))


def who_consents(customer: Customer) -> bytes:
    """The customer as the consent record names them, in JSON: the name, and the contact points that it is given for."""
    kept = {name: getattr(customer, name) for name in ("first_name", "last_name", "email", "phone")}
    return msgspec.json.encode({name: value for name, value in kept.items() if value is not UNSET})


def names_a_vehicle(wish: VehicleOfInterest | UnsetType) -> bool:
    """Whether the wish identifies one vehicle, and not only a kind of vehicle. A blank identifier is none."""
    return wish is not UNSET and _identity(wish) is not None


def vehicle_key(wish: VehicleOfInterest | UnsetType, wanted: Wanted) -> str | None:
    """What makes two leads of one customer speak of the same vehicle; None when a lead speaks of none.

    The VIN comes first even where the stock knows the vehicle: so it is the same one before and after its import.
    """
    if wanted is not None:
        return _identity(wanted)
    if wish is UNSET:
        return None
    identity = _identity(wish)
    if identity is not None:
        return identity
    traits = {"year": wish.year, "make": wish.make, "model": wish.model, "trim": wish.trim}
    told = {name: str(value).strip().casefold() for name, value in traits.items() if value is not UNSET}
    described = {name: text for name, text in told.items() if text}
    return f"kind:{msgspec.json.encode(described).decode()}" if described else None


def _identity(vehicle: Vehicle | UnavailableVehicle | VehicleOfInterest) -> str | None:
    for kind, value in (("vin", vehicle.vin), ("stock", vehicle.stock), ("id", vehicle.vehicle_id)):
        if value and value.strip():
            return f"{kind}:{value.strip().casefold()}"
    return None


def payload_hash(payload: dict[str, Any]) -> bytes:
    """What two requests with one idempotency key must share: all of the payload but `submitted_at`."""
    compared = {name: value for name, value in payload.items() if name != "submitted_at"}
    return hashlib.sha256(msgspec.json.encode(compared, order="deterministic")).digest()


def vehicle_name(vehicle: Vehicle) -> str:
    """Year, make, model and trim, as far as they are known."""
    words = [str(part) for part in (vehicle.year, vehicle.make, vehicle.model, vehicle.trim) if part is not UNSET]
    return " ".join(words) or "vehicle"
