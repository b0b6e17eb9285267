"""What codes, statuses and fields mean, in words for the developer of a buyer agent. Pure.

The OpenAPI document and the documentation page are written from these tables; tests hold them complete.
"""

from dealer_agent.protocol.requests import FILTER_MEANINGS
from dealer_agent.protocol.vehicle import FIELDS

CODE_MEANINGS: dict[str, str] = {
    "SCHEMA_VALIDATION_FAILED": "The request does not have the right shape. `details.errors` lists every problem with "
    "its JSON pointer; repair them all and send again.",
    "MISSING_REQUIRED_FIELD": "Only required members are missing, and nothing else is wrong. `details.errors` names "
    "each of them.",
    "UNSUPPORTED_SKILL": "`data.type` names no skill that this dealer offers, or the address or HTTP method does not "
    "exist. See the agent card.",
    "VEHICLE_NOT_FOUND": "No listing has this VIN, stock number or vehicle id. Search again: the stock changes.",
    "VEHICLE_UNAVAILABLE": "The dealer had this vehicle, but it is sold or gone. Offer the buyer another one.",
    "CONTACT_CONSENT_REQUIRED": "A customer came without consent, or the consent lacks the scope `lead_submission` or "
    "the channel that `preferred_contact` names. Ask the customer.",
    "INVALID_CONSENT": "The consent is malformed, expired, or granted in the future. Ask the customer again.",
    "APPOINTMENT_TIME_UNAVAILABLE": "None of the times asked for can be kept and none can be proposed. The lead itself "
    "is kept: `details.lead_id` names it. Do not send it again.",
    "AUTH_REQUIRED": "The bearer token is missing or invalid. The dealer hands out tokens.",
    "RATE_LIMITED": "Too many requests. Wait for the seconds in `Retry-After`, which `details.retry_after_seconds` "
    "repeats.",
    "INTERNAL_ERROR": "Something went wrong on the dealer's side. Try again later; quote `error_id` to the dealer.",
    "IDEMPOTENCY_CONFLICT": "This `idempotency_key` was used with another payload. Use a new key for a new lead.",
    "TASK_NOT_FOUND": "A2A: this agent keeps no tasks. Send messages without a `taskId`.",
    "PUSH_NOTIFICATION_NOT_SUPPORTED": "A2A: this agent pushes no notifications. Leave their configuration out.",
    "UNSUPPORTED_OPERATION": "A2A: the agent card does not declare this operation. Use SendMessage.",
    "VERSION_NOT_SUPPORTED": "A2A: send `A2A-Version: 1.0`, or leave the header out.",
}
"""Error code to what it tells and what to do. Backquotes mark code."""

STATUS_MEANINGS: dict[int, str] = {
    400: "An operation or protocol version of A2A that this agent does not offer.",
    401: "The bearer token is missing or invalid.",
    403: "The customer's consent does not cover this.",
    404: "No such skill or vehicle.",
    405: "This address is asked with another method; `Allow` names it.",
    408: "The body did not arrive in time.",
    409: "The request is right, but it collides with how things stand.",
    413: "The body is too large.",
    415: "The body's media type is neither application/json nor application/a2a+json.",
    422: "The request does not have the right shape.",
    429: "Too many requests.",
    500: "Something went wrong on the dealer's side.",
}

TRANSPORT_CODES: dict[int, str] = {
    405: "UNSUPPORTED_SKILL",
    408: "SCHEMA_VALIDATION_FAILED",
    413: "SCHEMA_VALIDATION_FAILED",
    415: "SCHEMA_VALIDATION_FAILED",
}
"""The code of a refusal whose status the transport gave it, not the code's own row (contract, part 3)."""

SCHEMA_MEANINGS: dict[str, str] = {
    "DealerInformationRequest": "Asks who the dealer is. It has no other member.",
    "InventoryFacetsRequest": "Asks which values occur in the stock, and how often.",
    "InventorySearchRequest": "Asks for one page of the matching stock.",
    "InventoryVehicleRequest": "Asks for one vehicle. At least one of `vin`, `stock` and `vehicle_id` is required; of "
    "several, the first that matches decides.",
    "LeadSubmitRequest": "A customer who consented, and any mix of a vehicle of interest, a trade-in and an "
    "appointment.",
    "Filters": "Absent members and empty arrays mean no constraint. Texts match whole values without regard to case, "
    "accents, spacing and punctuation, and through well-known synonyms. Ranges include their ends; a listing without "
    "the value does not match a range on it.",
    "Pagination": "Which part of the matching set to return.",
    "Sort": "An order; both members are required. What has no value sorts last in both directions.",
    "Privacy": "Searching is best done anonymously: who the buyer is belongs into a lead, and only there.",
    "Customer": "A name, and an e-mail address or a phone number.",
    "Consent": "What the customer agreed to, when, and through which channels.",
    "Appointment": "A visit asked for: by windows or by one time, never both. Both forms are understood everywhere.",
    "RequestedWindow": "A stretch of time that suits the buyer.",
    "VehicleOfInterest": "The vehicle that the buyer asks about: any member of a vehicle and extras, none required.",
    "TradeIn": "The vehicle that the buyer would trade in: any member of a vehicle and extras, none required. Its "
    "condition is a grade.",
    "DealerInformation": "Who the dealer is. At least one rooftop.",
    "Vehicle": "A listing. An absent member is unknown. Members of the dealer's own may stand beside these.",
    "VehicleDetail": "The listing, and what the buyer's ZIP code adds.",
    "Facets": "Highest count first, then by value. A facet without a value in the matching set is left out.",
    "SearchPage": "One page; `skip` and `limit` as they were applied.",
    "LeadReceipt": "What became of the lead.",
    "AppointmentReply": "What became of the visit asked for. Times carry the rooftop's offset.",
}
"""Component name to its description, where the type's own is not written for this reader."""

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
