"""Defects for the checks of promises: dealers that mistake a new lead for an old one, or offer visits while closed."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dealer_agent.self_test.changing import answers
from dealer_agent.self_test.defect import Agent, AgentResponse, Call, broken
from dealer_agent.self_test.defects.leads import UNKNOWN_VIN, Test, is_keyed, lead, replies, vehicle, visit

NASHVILLE, KNOXVILLE = "Juniper Hollow Nashville", "Juniper Hollow Knoxville & Cycles"
OTHER_ROOFTOP = {NASHVILLE: KNOXVILLE, KNOXVILLE: NASHVILLE}


def _is_for_a_vehicle_or_has_key(payload: dict[str, Any]) -> bool:
    """Whether a lead is only for a vehicle, or has a key."""
    alone = "vehicle_of_interest" in payload and not {"trade_in", "appointment"} & set(payload)
    return (alone and vehicle(payload).get("vin") != UNKNOWN_VIN) or is_keyed(payload)


def _is_at_night(payload: dict[str, Any]) -> bool:
    """Whether a visit is asked for between midnight and seven in Tennessee, where the dealer is."""
    text = str(visit(payload).get("appointment_at", ""))
    if not text.endswith("Z") or text < datetime.now(UTC).isoformat():
        return False
    return 6 <= datetime.fromisoformat(text).hour < 12


def _answers_visit(**members: Any) -> Test:
    """Sets members of the appointment in a response."""
    return lambda data: data.update(appointment={**(data.get("appointment") or {}), **members})


def _night(number: int = 0) -> str:
    """Three in the morning, in some days."""
    at = datetime.now(UTC).replace(hour=8, minute=0, second=0, microsecond=0) + timedelta(days=5 + number)
    return at.isoformat().replace("+00:00", "Z")


replies("leads.first-is-new", lambda data: data.update(status="duplicate"))
replies("leads.two-customers", lambda data: data.update(lead_id="lead-1"), _is_for_a_vehicle_or_has_key)
replies("leads.reply-dealer-known", lambda data: data.update(dealer={"name": "Another dealer"}))
replies(
    "leads.reply-dealer-known",
    lambda data: data["dealer"].update(name=OTHER_ROOFTOP.get(data["dealer"]["name"], "Another dealer")),
    name="leads.reply-dealer-known.rooftop",
)


@broken("appointments.open-hours")
async def confirms_every_time(call: Call, agent: Agent) -> AgentResponse:
    """Confirms a visit at night."""
    answer = await agent(call)
    if not lead(_is_at_night)(call):
        return answer
    asked = visit(call.payload)["appointment_at"]
    return answer.with_data(
        lambda data: data.update(
            appointment={
                "appointment_id": data["appointment"]["appointment_id"],
                "status": "confirmed",
                "confirmed_at": asked,
            }
        )
    )


replies(
    "appointments.open-hours",
    _answers_visit(proposed_times=[_night(), _night(1), _night(2)]),
    _is_at_night,
    name="appointments.open-hours.proposed",
)
answers(
    "appointments.proposed-differ",
    lambda answer: answer.with_data(
        lambda data: data["appointment"].update(proposed_times=data["appointment"]["proposed_times"][:1] * 2)
    ),
    lead(_is_at_night),
)
replies("appointments.ids-differ", _answers_visit(appointment_id="visit-1"), lambda payload: "appointment" in payload)
