"""Descriptions of members for the developers of buyer agents. Pure.

The OpenAPI document and the page `/docs` have them.
"""

from dealer_agent.protocol.requests import FILTER_MEANINGS
from dealer_agent.protocol.vehicle import FIELDS

FIELD_MEANINGS: dict[str, dict[str, str]] = {
    "InventoryVehicleRequest": {
        "vin": "Compared without regard to case.",
        "zip": "The buyer's ZIP code. The reply repeats it and may carry the price offered there.",
    },
    "LeadSubmitRequest": {
        "source_agent": "The submitting agent: its name, or an object with `name`, `url` and `agent_card_url`.",
        "message": "Free text from the buyer.",
        "submitted_at": "Not part of what is compared under an `idempotency_key`.",
        "idempotency_key": "Sent again with the same payload, it gets the first answer again and stores nothing twice. "
        "Kept 30 days.",
    },
    "Filters": FILTER_MEANINGS,
    "Pagination": {
        "skip": "Results to skip. Past the end the page is empty and `total` is still true.",
        "limit": "The most to return. The dealer may apply less; the reply says what was applied.",
    },
    "Sort": {
        "field": "`price` is the advertised price; `updated_at` is the listing's freshness.",
    },
    "Privacy": {"anonymous": "True when nothing that identifies the user comes with the request."},
    "Customer": {
        "phone": "International form, with a leading +.",
        "preferred_contact": "The consent must allow this channel.",
    },
    "Consent": {
        "granted_at": "With an offset. Not in the future.",
        "allowed_channels": "The channels that the customer agreed to; at least one.",
        "consent_text": "The text that the customer agreed to.",
        "scope": "Must hold `lead_submission`.",
        "expires_at": "With an offset.",
    },
    "Appointment": {
        "requested_windows": "The form of revision 0.1.0.",
        "appointment_at": "The form of revision 1.0.0: one time, with an offset.",
        "timezone": "IANA zone name; windows may then leave out their offsets.",
    },
    "RequestedWindow": {
        "start": "With an offset, unless the appointment names a `timezone`.",
        "end": "Later than `start`.",
    },
    "Vehicle": {name: row.field.description for name, row in FIELDS.items() if row.field.description},
    "VehicleOfInterest": {
        "condition": "The sale condition.",
        "rooftop": "A name from dealer.information. It decides where the visit is and which rooftop gets the lead, "
        "unless the vehicle is found in stock.",
    },
    "TradeIn": {"condition": "A grade of quality."},
    "VehicleDetail": {
        "zip": "The buyer's ZIP code, repeated.",
        "offered_price": "What the dealer asks buyers of that area, in whole US dollars.",
    },
    "SearchPage": {"total": "How many vehicles match, on all pages."},
    "LeadReceipt": {"status": "`duplicate`: the same customer and vehicle came before; `lead_id` is the first lead's."},
    "AppointmentReply": {
        "proposed_times": "Up to three nearest alternatives to `appointment_at`.",
        "proposed_slots": "Up to three nearest alternatives to `requested_windows`.",
    },
    "Rooftop": {
        "timezone": "IANA zone name; `schedules` are in it.",
        "fees": "Mandatory dealer charges, in whole US dollars.",
    },
}
"""Component name and member to what the schema's own words cannot say."""
