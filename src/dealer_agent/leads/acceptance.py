"""Decides whether a lead is accepted: its consent, then its vehicle (docs/protocol.md#lead-submit). Pure."""

from datetime import datetime
from typing import NamedTuple

from msgspec import UNSET

from dealer_agent.inventory.catalogue import Catalogue, Listing
from dealer_agent.leads.consent import Grant, judge_consent
from dealer_agent.leads.received_lead import FoundVehicle, UnavailableVehicle, names_a_vehicle
from dealer_agent.protocol.errors import VehicleNotFound, VehicleUnavailable
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.protocol.vehicle import Vehicle


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


def accept_lead(lead: LeadSubmitRequest, catalogue: Catalogue, now: datetime) -> Acceptance:
    """Checks consent and vehicle. Raises ProtocolError."""
    grant = judge_consent(lead.consent, lead.customer, now)
    found, listing = find_vehicle(lead, catalogue)
    if cannot_be_driven(lead, found):
        place = {"in": "payload", "instancePath": "/vehicle_of_interest"}
        if found is None:
            raise VehicleNotFound("There is no such vehicle to drive.", place)
        raise VehicleUnavailable(
            "This vehicle is no longer available for a test drive.", place | {"vehicle_id": found.vehicle_id}
        )
    return Acceptance(grant, found, listing)


def find_vehicle(lead: LeadSubmitRequest, catalogue: Catalogue) -> tuple[FoundVehicle, bytes | None]:
    """The vehicle of interest, and its listing as JSON if it is in stock."""
    wish = lead.vehicle_of_interest
    if wish is UNSET or not names_a_vehicle(wish):
        return None, None
    found = catalogue.find(wish.vin, wish.stock, wish.vehicle_id)
    if isinstance(found, Listing):
        return found.vehicle, found.json
    return None if found is None else UnavailableVehicle(found.vehicle_id, found.vin, found.stock), None


def cannot_be_driven(lead: LeadSubmitRequest, found: FoundVehicle) -> bool:
    """Whether the lead requests a test drive of a vehicle that is not in stock."""
    if lead.appointment is UNSET or lead.appointment.appointment_type != "test_drive":
        return False
    return names_a_vehicle(lead.vehicle_of_interest) and not isinstance(found, Vehicle)
