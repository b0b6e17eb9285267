"""The leads that checks submit, all of one marked test customer.

Equal leads of one run are sent once, so that checks share them: the rate of leads is low at most dealers.
"""

from datetime import timedelta
from typing import Any

from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.target import Target

Lead = dict[str, Any]

AGENT = "dealer-agent check"
CUSTOMER = {
    "first_name": "Test",
    "last_name": "Lead (dealer-agent check)",
    "email": "test-lead@example.com",
    "phone": "+12025550142",
}
MESSAGE = "This is a test of the dealer agent, sent by dealer-agent check. Nobody waits for a response."
VALIDATION_CODES = ("MISSING_REQUIRED_FIELD", "SCHEMA_VALIDATION_FAILED")


def time_at(target: Target, days: int, *, hours: int = 0) -> str:
    """A time some days from today's noon in UTC, with its offset."""
    return (target.wire.noon + timedelta(days=days, hours=hours)).isoformat().replace("+00:00", "Z")


def visit_time(target: Target) -> str:
    """A morning of a working day in North America, at least two days from now."""
    weekday = (target.wire.noon + timedelta(days=3)).weekday()
    return time_at(target, 3 + (7 - weekday if weekday >= 5 else 0), hours=4)


def lead(target: Target, **members: Any) -> Lead:
    """A lead with what the revision requires and a message, and with other members. None leaves one out."""
    consent = {
        "granted_at": time_at(target, -1),
        "allowed_channels": ["email", "phone"],
        "consent_text": "The dealer may contact me about this request.",
        "scope": ["lead_submission"],
    }
    if target.revision.name == "aap/1.0":
        consent["source_agent"] = AGENT
    is_object = target.revision.is_published and target.revision.name != "aap/1.0"
    made: Lead = {
        "type": "lead.submit.request",
        "customer": dict(CUSTOMER),
        "consent": consent,
        "source_agent": {"name": AGENT} if is_object else AGENT,
        "message": MESSAGE,
        **members,
    }
    return {name: value for name, value in made.items() if value is not None}


async def submit(target: Target, payload: Lead, *, message_id: str | None = None) -> Exchange:
    """The exchange of a lead. An equal lead of the run is not sent again."""
    members = {} if message_id is None else {"messageId": message_id}
    return await target.send_message(target.message(payload, **members))
