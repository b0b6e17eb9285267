"""Leads, consent events and decisions as people read them: documents with local times, for commands and the console."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple, get_args

import msgspec

from dealer_agent.leads.consent import channels_of
from dealer_agent.leads.consent_events import ConsentEvent
from dealer_agent.leads.records import LeadDetails, LeadRecord
from dealer_agent.leads.wording import vehicle_name
from dealer_agent.open_installation import OpenDealer
from dealer_agent.protocol.requests import Channel, Customer
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.storage.deliveries.outbox import DeliveryRecord, list_deliveries
from dealer_agent.storage.deliveries.sent_deliveries import MOST_OF_LEAD
from dealer_agent.storage.leads.lead_record import lead_details
from dealer_agent.storage.leads.notes import Note, notes_of
from dealer_agent.storage.leads.quarantine import LeadReview, read_review
from dealer_agent.storage.transaction import Transaction

Clock = Callable[[datetime | None], datetime | None]
"""Returns a time in the zone in which it is shown."""


class WholeLead(NamedTuple):
    """A lead with all that staff see of it. `notes` are theirs."""

    details: LeadDetails
    deliveries: Sequence[DeliveryRecord]
    review: LeadReview | None
    notes: Sequence[Note]

    @property
    def lead(self) -> LeadRecord:
        """The lead itself."""
        return self.details.stored.lead


def read_whole_lead(tx: Transaction, lead_id: str) -> WholeLead | None:
    """A lead with all that staff see of it; None if there is no such lead. Raises EncryptionError."""
    details = lead_details(tx, lead_id)
    if details is None:
        return None
    deliveries = list_deliveries(tx, MOST_OF_LEAD, lead_id=lead_id)
    return WholeLead(details, deliveries, read_review(tx, lead_id), notes_of(tx, lead_id))


def lead_document(dealer: OpenDealer, whole: WholeLead) -> dict[str, Any]:
    """The lead as JSON. Times are in the zone of its rooftop, those of visits in the zone of the visit's rooftop."""
    lead, consents, events = whole.details.stored
    at, review = dealer.clock(lead.rooftop), whole.review
    payload = _decoded(lead.payload) or {}
    return {
        "id": lead.lead_id,
        "status": lead.status,
        "received": at(lead.received_at),
        "erased": at(lead.erased_at),
        "rooftop": lead.rooftop,
        "agent": lead.source_agent,
        "caller": lead.caller,
        "may_be_same_person_as": lead.may_be_same_person_as,
        **(
            {}
            if review is None
            else {name: at(v) if isinstance(v, datetime) else v for name, v in review._asdict().items()}
        ),
        "customer": _decoded(lead.customer),
        "vehicle_of_interest": payload.get("vehicle_of_interest"),
        "vehicle": _decoded(lead.vehicle),
        "trade_in": payload.get("trade_in"),
        "message": payload.get("message"),
        "additions": [{"at": at(each.at), "changes": _decoded(each.changes)} for each in events],
        "appointments": [
            {
                "id": visit.appointment_id,
                "kind": visit.kind,
                "status": visit.status,
                "rooftop": visit.rooftop,
                "starts": dealer.local(visit.starts_at, visit.rooftop),
                "ends": dealer.local(visit.ends_at, visit.rooftop),
                "ended": dealer.local(visit.cancelled_at, visit.rooftop),
                "request": _decoded(visit.request),
            }
            for visit in whole.details.visits
        ],
        "consents": [event_document(event, at) for event in consents],
        "may_be_contacted_by": channels_of(whole.details.stored, whole.details.at),
        "deliveries": [
            {
                "id": each.delivery_id,
                "kind": each.kind,
                "rooftop": each.rooftop,
                "channel": each.channel,
                "state": each.state,
                "tries": each.attempts,
                "settled": at(each.settled_at),
                "problem": each.problem,
            }
            for each in whole.deliveries
        ],
        "notes": [{"at": at(each.at), "by": each.written_by, "text": each.text} for each in whole.notes],
    }


def event_document(event: ConsentEvent, clock: Clock) -> dict[str, Any]:
    """A consent event as JSON."""
    return {
        "number": event.number,
        "kind": event.kind,
        "at": clock(event.at),
        "lead": event.lead_id,
        "customer": _decoded(event.customer),
        "granted": clock(event.granted_at),
        "expires": clock(event.expires_at),
        "channels": list(event.channels),
        "scope": list(event.scope),
        "purpose": event.purpose,
        "through": event.agent,
        "caller": event.caller,
        "text": event.consent_text,
        "by": event.by,
        "reason": event.reason,
        "request_hash": event.request_hash.hex() if event.request_hash else None,
    }


def identifying_members(listing: dict[str, Any] | None) -> dict[str, Any] | None:
    """The members of a listing that identify a vehicle. The dealer's website has the others."""
    if listing is None:
        return None
    shown = ("year", "make", "model", "trim", "condition", "vin", "stock", "price", "mileage", "rooftop", "status")
    return {name: listing[name] for name in shown if name in listing}


def allowed_text(channels: Collection[str]) -> str:
    """The channels in one line, in the order of the protocol."""
    return ", ".join(channel for channel in get_args(Channel) if channel in channels) or "no channel"


def name_of(customer: bytes) -> str:
    """The name of a stored customer."""
    found = msgspec.json.decode(customer, type=Customer)
    return f"{found.first_name} {found.last_name}"


def name_and_contacts(customer: bytes) -> str:
    """The name and the contact points of a stored customer."""
    found = msgspec.json.decode(customer, type=Customer)
    return ", ".join([name_of(customer), *(each for each in (found.email, found.phone) if each)])


def vehicle_of(listing: bytes | None) -> str | None:
    """The name of a stored listing, such as `2024 Toyota RAV4 XLE`."""
    return None if listing is None else vehicle_name(msgspec.json.decode(listing, type=Vehicle))


def number_of_vehicle(lead: LeadRecord) -> str:
    """The stock number or the VIN of a lead's vehicle, or the number that the buyer claims; empty without one."""
    if lead.stock or lead.vin:
        return lead.stock or lead.vin or ""
    wanted = (_decoded(lead.payload) or {}).get("vehicle_of_interest", {})
    return wanted.get("stock") or wanted.get("vin") or ""


def review_words(dealer: OpenDealer, review: LeadReview | None, rooftop: str | None = None) -> str:
    """What people decided about a lead in quarantine, in sentences; empty if nobody did."""
    if review is None or review.decided_at is None:
        return ""
    at = f"{dealer.local(review.decided_at, rooftop):%Y-%m-%d %H:%M}"
    what = {"released": "released", "refused": "refused"}.get(review.quarantine or "", "")
    if not what:
        what = "partly refused" if review.decided_why else "released"
    why = f" ({review.decided_why})" if review.decided_why else ""
    return f"{review.decided_by} {what} it on {at}{why}."


def _decoded(content: bytes | None) -> Any:
    return None if content is None else msgspec.json.decode(content)
