"""The documentation of each skill, with an example. Pure.

The people, phones and vehicles are invented. Replies are made from the wire types, so they always have their shape.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dealer_agent.protocol.responses import (
    AppointmentReply,
    DealerContact,
    Facets,
    GeoPoint,
    IntRange,
    Named,
    OpenHours,
    PostalAddress,
    Rooftop,
    Schedule,
    TextCount,
    Week,
    YearCount,
)
from dealer_agent.protocol.skill import (
    DEALER_INFORMATION,
    INVENTORY_FACETS,
    INVENTORY_SEARCH,
    INVENTORY_VEHICLE,
    LEAD_SUBMIT,
    DealerInformation,
    LeadReceipt,
    SearchPage,
    Skill,
    VehicleDetail,
)
from dealer_agent.protocol.vehicle import Fee, Vehicle

EXAMPLE_VIN = "1HGCY2F57RA000001"


@dataclass(frozen=True)
class SkillDocs:
    """What the documentation says of one skill.

    `question` is what the skill answers, in a shopper's words, and `example_question` an example of it.

    The example request has `message_id`, and the members that `members` makes from a time and a VIN: the time is when
    the customer of a lead consents. The example reply has `data` and `reply_message`.
    """

    question: str
    example_question: str
    message_id: str
    members: Callable[[datetime, str], dict[str, Any]]
    data: Any
    reply_message: str | None = None


def _lead(now: datetime, vin: str) -> dict[str, Any]:
    moment = now.astimezone(UTC).replace(microsecond=0)
    now_text = moment.isoformat().replace("+00:00", "Z")
    visit = (moment + timedelta(days=2)).replace(hour=19, minute=0, second=0)
    return {
        "customer": {
            "first_name": "Jordan",
            "last_name": "Example",
            "email": "jordan@example.com",
            "phone": "+12025550123",
            "preferred_contact": "email",
        },
        "consent": {
            "granted_at": now_text,
            "allowed_channels": ["email", "phone"],
            "consent_text": "Share my name, e-mail and phone with this dealer so that they can answer me.",
            "scope": ["lead_submission"],
        },
        "vehicle_of_interest": {"vin": vin, "condition": "cpo"},
        "trade_in": {"year": 2017, "make": "Mazda", "model": "CX-5", "condition": "good", "mileage": 81200},
        # A dealer without the vehicle of the example refuses a test drive, but not this.
        "appointment": {
            "appointment_type": "sales",
            "appointment_at": visit.isoformat().replace("+00:00", "Z"),
            "duration_minutes": 30,
        },
        "message": "Is it still available? I would come by after work.",
        "source_agent": "Example Shopping Agent",
        "submitted_at": now_text,
        "idempotency_key": f"example-{moment:%Y%m%dT%H%M%S}-{vin}",
    }


_FEE = Fee("Processing fee", 799)

_ACCORD: dict[str, Any] = {
    "vehicle_id": f"veh_{EXAMPLE_VIN}",
    "vin": EXAMPLE_VIN,
    "stock": "P4471",
    "vehicle_type": "car",
    "condition": "cpo",
    "status": "available",
    "year": 2024,
    "make": "Honda",
    "model": "Accord Hybrid",
    "trim": "EX-L",
    "rooftop": "Example Honda Alexandria",
    "price": 28040,
    "list_price": 27241,
    "fees": (_FEE,),
    "mileage": 14210,
    "body": "sedan",
    "transmission": "cvt",
    "driveline": "fwd",
    "fuel": "hybrid",
    "engine": "2.0L 4-cylinder hybrid",
    "city_mpg": 51,
    "highway_mpg": 44,
    "exterior_color": "Canyon River Blue",
    "interior_color": "Black",
    "features": ("Heated front seats", "Adaptive cruise control"),
    "photos": ("https://www.example.com/photos/P4471-1.jpg",),
    "vdp_url": "https://www.example.com/inventory/P4471",
    "inventory_date": date(2025, 12, 19),
    "updated_at": datetime(2026, 1, 5, 11, 30, tzinfo=UTC),
}

_WEEKDAY, _SATURDAY = OpenHours("09:00", "20:00"), OpenHours("09:00", "18:00")
_ROOFTOP = Rooftop(
    name="Example Honda Alexandria",
    website="https://www.example.com",
    geo=GeoPoint(38.8048, -77.0469),
    emails=(Named("sales", "sales@example.com"),),
    phones=(Named("sales", "+12025550110"),),
    address=PostalAddress("100 Example Avenue", "Alexandria", "VA", "22301"),
    schedules=(Schedule("sales", Week(_WEEKDAY, _WEEKDAY, _WEEKDAY, _WEEKDAY, _WEEKDAY, _SATURDAY)),),
    timezone="America/New_York",
    capabilities=("sales", "service", "financing", "trade_in"),
    fees=(_FEE,),
)

SKILL_DOCS: dict[Skill, SkillDocs] = {
    DEALER_INFORMATION: SkillDocs(
        question="Who are you?",
        example_question="Where is your nearest store, and is it open on Saturday?",
        message_id="01KE7AQ2N0V5X3J8R6T4Y9W1ZA",
        members=lambda _, __: {},
        data=DealerInformation("Example Auto Group", (_ROOFTOP,), "Welcome. Ask us anything about our cars."),
    ),
    INVENTORY_FACETS: SkillDocs(
        question="What do you have?",
        example_question="Which makes do you carry used, and what do they cost?",
        message_id="01KE7AQ5B4D2C8M7H9K1P3S6FB",
        members=lambda _, __: {"filters": {"condition": ["used", "cpo"]}},
        data=Facets(
            makes=[TextCount("Honda", 21), TextCount("Toyota", 9)],
            models=[TextCount("Accord", 12), TextCount("CR-V", 9), TextCount("RAV4", 9)],
            years=[YearCount(2023, 18), YearCount(2024, 12)],
            conditions=[TextCount("used", 22), TextCount("cpo", 8)],
            vehicle_types=[TextCount("car", 30)],
            fuels=[TextCount("gas", 20), TextCount("hybrid", 10)],
            statuses=[TextCount("available", 30)],
            price_range=IntRange(18250, 41990),
            mileage_range=IntRange(6100, 58400),
            year_range=IntRange(2023, 2024),
        ),
    ),
    INVENTORY_SEARCH: SkillDocs(
        question="Find one for me.",
        example_question="A used all-wheel-drive hybrid SUV under $35,000, fewest miles first.",
        message_id="01KE7AQ8E1G4A5N2Q7W3X9Y6ZC",
        members=lambda _, __: {
            "filters": {"condition": ["used", "cpo"], "price_max": 40000, "mileage_max": 60000},
            "pagination": {"skip": 0, "limit": 3},
            "sort": {"field": "price", "order": "asc"},
            "privacy": {"anonymous": True},
        },
        data=SearchPage(total=1, skip=0, limit=3, vehicles=[Vehicle(**_ACCORD)]),
    ),
    INVENTORY_VEHICLE: SkillDocs(
        question="Tell me about this one.",
        example_question="Is this VIN still there, and what does it cost where I live?",
        message_id="01KE7AQB7J3T6V8C1D5F2H9KMD",
        members=lambda _, vin: {"vin": vin, "zip": "22301"},
        data=VehicleDetail(**_ACCORD, zip="22301", offered_price=27540),
    ),
    LEAD_SUBMIT: SkillDocs(
        question="Put us in touch.",
        example_question="My user agreed to be contacted, and would like to come on Wednesday at 2 PM.",
        message_id="01KE7AQEH2P4R6S8T1V3X5Z7AE",
        members=_lead,
        data=LeadReceipt(
            lead_id="01KE7AQQ3R5T7V9X2Z4B6D8F1H",
            status="received",
            appointment=AppointmentReply(
                appointment_id="01KE7AQT9W2Y4A6C8E1G3J5M7K",
                status="confirmed",
                confirmed_at="2026-01-07T14:00:00-05:00",
            ),
            dealer=DealerContact("Example Honda Alexandria", "+12025550110"),
        ),
        reply_message="Thank you, Jordan. We look forward to seeing you on Wednesday at 2 PM.",
    ),
}
