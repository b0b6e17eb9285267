"""A deal hand-off of DMC-12 as a lead. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dealer_agent.protocol.published_versions import SCOPE
from dealer_agent.protocol.skill import LEAD_SUBMIT

Json = dict[str, Any]

CHANNELS: Final = ("email", "phone")
"""The channels of a hand-off that names none. Text messages need a consent of their own."""
NO_LAST_NAME: Final = "-"
"""The last name of a customer whose name is one word."""
_FINANCING: Final[Mapping[str, str]] = {
    "cash": "Pays cash.",
    "finance": "Wants to finance.",
    "lease": "Wants to lease.",
    "unknown": "",
}


def lead_payload(arguments: Json, hold: Mapping[str, Any], consent_text: str, agent: str, now: datetime) -> Json:
    """The payload of `lead.submit` for valid arguments. A hand-off without a consent text has the dealer's."""
    contact, given = arguments["customer_contact"], arguments.get("consent", {})
    first, _, last = " ".join(contact["name"].split()).rpartition(" ")
    consent = {
        "granted_at": now.isoformat(timespec="milliseconds"),
        "allowed_channels": given.get("allowed_channels", [*CHANNELS]),
        "consent_text": given.get("consent_text") or consent_text,
        "scope": [SCOPE],
        "source_agent": agent[:200],
    }
    if "expires_at" in given:
        consent["expires_at"] = given["expires_at"]
    names = {"first_name": first, "last_name": last} if first else {"first_name": last, "last_name": NO_LAST_NAME}
    payload: Json = {
        "type": LEAD_SUBMIT.request_type,
        "customer": {**names, "email": contact["email"], "phone": contact["phone"]},
        "source_agent": agent[:200],
        "consent": consent,
        "vehicle_of_interest": {"vehicle_id": hold["vehicle_id"]},
        "offer": {"hold_id": hold["hold_id"]},
    }
    if trade_in := _trade_in(arguments):
        payload["trade_in"] = trade_in
    if message := _message(arguments):
        payload["message"] = message
    return payload


def _trade_in(arguments: Json) -> Json:
    given = arguments.get("trade_in", {})
    return {name: value for name, value in given.items() if name != "appraised_value_partner"}


def _message(arguments: Json) -> str:
    """What has no member of its own in a lead."""
    parts = [_FINANCING[arguments["financing_preference"]]]
    given = arguments.get("trade_in", {})
    if given or arguments["trade_in_disclosed"]:
        parts.append("Has a vehicle to trade in.")
    if value := given.get("appraised_value_partner"):
        parts.append(f"The agent's estimate of its value: {value['amount']} {value['currency']}.")
    parts.append((arguments.get("notes") or "").strip())
    return "\n".join(part for part in parts if part)
