"""Builds the answer to a lead (docs/protocol.md#lead-submit). Pure."""

from datetime import datetime

import msgspec
from msgspec import UNSET

from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.leads.answer_message import LeadAnswer, answer_message
from dealer_agent.leads.received_lead import FoundVehicle, PreparedLead
from dealer_agent.leads.statuses import DUPLICATE, UNAVAILABLE, LeadStatus
from dealer_agent.leads.timetable import Timetable
from dealer_agent.leads.visit_decision import VisitDecision
from dealer_agent.protocol.errors import AppointmentTimeUnavailable, ProtocolError
from dealer_agent.protocol.replies import Answer
from dealer_agent.protocol.requests import VISIT_KIND_OF
from dealer_agent.protocol.responses import DealerContact
from dealer_agent.protocol.skill import LeadReceipt
from dealer_agent.protocol.vehicle import Vehicle


def lead_answer(
    lead: PreparedLead,
    lead_id: str,
    status: LeadStatus,
    rooftop: DealerRooftop,
    found: FoundVehicle,
    visit: VisitDecision | None,
    timetable: Timetable,
    now: datetime,
) -> Answer | ProtocolError:
    """The receipt, or AppointmentTimeUnavailable if no time can be booked."""
    request = lead.request
    kind = None if request.appointment is UNSET else VISIT_KIND_OF[request.appointment.appointment_type]
    department = timetable.department(rooftop, kind, now)
    is_unknown = not isinstance(found, Vehicle) and home_rooftop(lead, found, timetable) is None
    words = answer_message(
        LeadAnswer(
            department=department,
            now=now,
            wish=request.vehicle_of_interest,
            found=found,
            repeated=status == DUPLICATE,
            trade_in=request.trade_in is not UNSET,
            visit=None if visit is None else visit.answer,
            unknown_rooftop=lead.named_rooftop if is_unknown else None,
        )
    )
    if visit is not None and visit.status == UNAVAILABLE:
        details = {"in": "payload", "instancePath": "/appointment", "lead_id": lead_id}
        return AppointmentTimeUnavailable(words, details)
    receipt = LeadReceipt(
        lead_id=lead_id,
        status=status,
        appointment=UNSET if visit is None else visit.reply,
        dealer=DealerContact(department.rooftop, department.phone or UNSET),
    )
    return Answer(msgspec.json.encode(receipt), words)


def home_rooftop(lead: PreparedLead, found: FoundVehicle, timetable: Timetable) -> DealerRooftop | None:
    """The rooftop that has the vehicle. If none has it, the one that the buyer names."""
    if isinstance(found, Vehicle):
        return timetable.rooftop(found.rooftop)
    return None if lead.named_rooftop is None else timetable.named(lead.named_rooftop)
