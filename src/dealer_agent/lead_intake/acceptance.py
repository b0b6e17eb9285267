"""Whether a lead may be taken: its consent, then its vehicle (docs/protocol.md#lead-submit). Pure."""

from datetime import datetime
from typing import NamedTuple

from msgspec import UNSET

from dealer_agent.inventory.catalogue import Catalogue, Listing
from dealer_agent.leads import received_lead
from dealer_agent.leads.consent import Grant, judge_consent
from dealer_agent.protocol.errors import VehicleNotFound, VehicleUnavailable
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.protocol.vehicle import Vehicle


class Verdict(NamedTuple):
    """That a lead may be taken: the consent, and what the vehicle of interest turned out to be.

    `revoked` are the channels that the customer took back after giving this consent, on any lead.
    """

    grant: Grant
    wanted: received_lead.FoundVehicle
    listing: bytes | None
    revoked: frozenset[str] = frozenset()

    @property
    def channels(self) -> tuple[str, ...]:
        """Those that may be used."""
        return tuple(channel for channel in self.grant.channels if channel not in self.revoked)


def judge(lead: LeadSubmitRequest, catalogue: Catalogue, now: datetime) -> Verdict:
    """Whether a lead may be taken: consent, then the vehicle. Raises ProtocolError."""
    grant = judge_consent(lead.consent, lead.customer, now)
    wanted, listing = find_vehicle(lead, catalogue)
    if cannot_be_driven(lead, wanted):
        place = {"in": "payload", "instancePath": "/vehicle_of_interest"}
        if wanted is None:
            raise VehicleNotFound("There is no such vehicle to drive.", place)
        raise VehicleUnavailable(
            "This vehicle is no longer available for a test drive.", place | {"vehicle_id": wanted.vehicle_id}
        )
    return Verdict(grant, wanted, listing)


def find_vehicle(lead: LeadSubmitRequest, catalogue: Catalogue) -> tuple[received_lead.FoundVehicle, bytes | None]:
    """What the vehicle of interest is, and its listing where the stock has it."""
    wish = lead.vehicle_of_interest
    if wish is UNSET or not received_lead.names_a_vehicle(wish):
        return None, None
    found = catalogue.find(wish.vin, wish.stock, wish.vehicle_id)
    if isinstance(found, Listing):
        return found.vehicle, found.json
    return None if found is None else received_lead.UnavailableVehicle(found.vehicle_id, found.vin, found.stock), None


def cannot_be_driven(lead: LeadSubmitRequest, wanted: received_lead.FoundVehicle) -> bool:
    """Whether a test drive is asked for with a vehicle that is not in stock."""
    if lead.appointment is UNSET or lead.appointment.appointment_type != "test_drive":
        return False
    return received_lead.names_a_vehicle(lead.vehicle_of_interest) and not isinstance(wanted, Vehicle)
