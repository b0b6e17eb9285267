"""Descriptions of objects and members for the developers of buyer agents. Pure.

The OpenAPI document and the page `/docs` have them.
"""

SCHEMA_MEANINGS: dict[str, str] = {
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
    "Vehicle": "A listing. An absent member is unknown. Members of the dealer's own may stand beside these.",
    "Facets": "Highest count first, then by value. A facet without a value in the matching set is left out.",
    "AppointmentReply": "What became of the visit asked for. Times carry the rooftop's offset.",
}
"""Component name to its description, where the type's own is not written for this reader."""

TRANSMISSIONS = "automatic, manual, cvt, dct, single_speed."
DRIVELINES = "fwd, rwd, awd, 4wd, 2wd (axle unknown)."
FUELS = "gas, diesel, hybrid, phev, bev, flex, hydrogen."
CHARGE_PORTS = "nacs, ccs, j1772, chademo."
BODIES = (
    "sedan, suv, truck, coupe, hatchback, wagon, convertible, minivan, van; of motorcycles cruiser, sport, touring, "
    "adventure, standard, scooter."
)
_OWN_WORDS = "A word of the dealer's that is none of these is kept."

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
    "Filters": {
        "condition": "Sale conditions to include.",
        "vehicle_type": "Types to include. A listing without a type counts as `car`.",
        "transmission": f"{TRANSMISSIONS} `automatic` finds neither cvt nor dct.",
        "fuel": f"{FUELS} `hybrid` does not find phev.",
        "electric_range_mi_min": "Miles.",
        "electric_range_mi_max": "Miles.",
        "dc_fast_charge": "When true, only vehicles that charge with direct current. False is no constraint.",
        "charge_port": CHARGE_PORTS,
        "driveline": f"{DRIVELINES} `2wd` finds fwd, rwd and 2wd.",
        "body": f"Body styles or segments. {BODIES}",
        "displacement_cc_min": "Cubic centimetres.",
        "displacement_cc_max": "Cubic centimetres.",
        "exterior_color": "All words must stand in the listing's colour; paint names count as their basic colour too.",
        "interior_color": "As for `exterior_color`.",
        "rooftops": "Names from dealer.information.",
        "year_min": "Model year.",
        "year_max": "Model year.",
        "price_min": "Whole US dollars, of the advertised price.",
        "price_max": "Whole US dollars, of the advertised price. Vehicles without a price do not match.",
        "mileage_max": "Miles.",
        "vin": "The exact VIN.",
        "stock": "The stock number, without regard to case.",
        "query": "Every word must be found, as a word or the start of one, in what the listing says. Without `sort`, "
        "the best match comes first.",
    },
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
    "Vehicle": {
        "vehicle_id": "The dealer agent's own id of the unit; it never changes.",
        "price": "The advertised price in whole US dollars: with every mandatory dealer charge, without government "
        "charges.",
        "fees": "Mandatory dealer charges, already inside `price`.",
        "list_price": "Whole US dollars.",
        "msrp": "Whole US dollars.",
        "mileage": "Miles.",
        "displacement_cc": "Cubic centimetres.",
        "electric_range_mi": "Miles.",
        "battery_kwh": "Kilowatt-hours.",
        "motor_power_hp": "Horsepower.",
        "vehicle_type": "Absent means `car`.",
        "body": f"{BODIES} {_OWN_WORDS}",
        "transmission": f"{TRANSMISSIONS} {_OWN_WORDS}",
        "driveline": f"{DRIVELINES} {_OWN_WORDS}",
        "fuel": f"{FUELS} {_OWN_WORDS}",
        "charge_port": f"{CHARGE_PORTS} {_OWN_WORDS}",
        "city_mpg": "Miles per gallon.",
        "highway_mpg": "Miles per gallon.",
        "dealer_id": "The dealer's own id in the feed.",
        "inventory_date": "When the unit came into stock.",
        "rooftop": "One of the names of dealer.information.",
        "photos": "URLs.",
        "vdp_url": "The vehicle's page on the dealer's website.",
        "other_attributes": "Facts of the dealer's that have no member here.",
        "updated_at": "RFC 3339. The feed's time for this unit, else the last import that confirmed it.",
        "changed_at": "RFC 3339. When price, status or content last changed.",
    },
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
