"""Defects for the checks of valid leads: dealers that refuse one valid value."""

from collections.abc import Callable
from typing import Any

from dealer_agent.self_test.defects.leads import Test, part_of, refuses


def _has(path: str, good: Callable[[Any], object]) -> Test:
    def test(payload: dict[str, Any]) -> bool:
        node, name = part_of(payload, path)
        return isinstance(node, dict) and bool(good(node.get(name)))

    return test


def _equals(wanted: Any) -> Callable[[Any], bool]:
    return lambda value: bool(value == wanted)


for requirement_id, (_member, _wanted) in {
    **{f"vehicle-condition-{word}": ("vehicle_of_interest.condition", word) for word in ("new", "used", "cpo")},
    **{f"trade-in-{word}": ("trade_in.condition", word) for word in ("excellent", "good", "fair", "poor")},
    **{f"contact-{word}": ("customer.preferred_contact", word) for word in ("email", "phone", "any")},
    "vehicle-year": ("vehicle_of_interest.year", 2024),
    "vehicle-stock": ("vehicle_of_interest.stock", "QZXVWK-0"),
    "foreign-phone": ("customer.phone", "+447700900123"),
    "two-scopes": ("consent.scope", ["marketing", "lead_submission"]),
    "channel-sms": ("consent.allowed_channels", ["email", "phone", "sms"]),
    "sales": ("appointment.appointment_type", "sales"),
    "service": ("appointment.appointment_type", "service"),
    "trade-in-visit": ("appointment.appointment_type", "trade_in"),
    "duration-15": ("appointment.duration_minutes", 15),
    "duration-30": ("appointment.duration_minutes", 30),
    "duration-120": ("appointment.duration_minutes", 120),
}.items():
    refuses(f"leads-valid.{requirement_id}", _has(_member, _equals(_wanted)))
for requirement_id, path, is_refused in (
    ("names", "customer.last_name", lambda value: not str(value).isascii()),
    ("email-alone", "customer.phone", lambda value: value is None),
    ("phone-alone", "customer.email", lambda value: value is None),
    ("not-yet-expired", "consent.expires_at", lambda value: value is not None),
    ("message-letters", "message", lambda value: "\n" in str(value)),
    ("submitted-milliseconds", "submitted_at", lambda value: "." in str(value)),
    ("time-offset", "appointment.appointment_at", lambda value: "+05:00" in str(value)),
    ("time-milliseconds", "appointment.appointment_at", lambda value: "." in str(value)),
    ("windows-offset", "appointment.requested_windows", lambda value: "+05:00" in str(value)),
    ("windows-utc", "appointment.requested_windows", lambda value: "Z'" in str(value)),
    ("granted-milliseconds", "consent.granted_at", lambda value: "." in str(value)),
    ("granted-with-offset", "consent.granted_at", lambda value: str(value).endswith("-05:00")),
    ("notes", "appointment.notes", lambda value: value is not None),
    ("submitted-at", "submitted_at", lambda value: value is not None),
    ("message-4000", "message", lambda value: len(str(value)) == 4_000),
    ("short-key", "idempotency_key", lambda value: value is not None and len(value) < 30),
):
    refuses(f"leads-valid.{requirement_id}", _has(path, is_refused))
