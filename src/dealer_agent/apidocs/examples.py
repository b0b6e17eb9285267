"""One believable request, reply and refusal per skill, for the documentation and the demo. Pure.

The people, phones and vehicles are made up. Replies are built from the wire types, so that they cannot drift from them.
"""

import json
import shlex
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.errors import (
    AuthRequired,
    ContactConsentRequired,
    IdempotencyConflict,
    InternalError,
    Problem,
    ProtocolError,
    RateLimited,
    SchemaValidationFailed,
    UnsupportedOperation,
    UnsupportedSkill,
    VehicleNotFound,
    http_error_body,
    json_rpc_error_body,
    refusal,
)
from dealer_agent.protocol.replies import Answer, reply_body
from dealer_agent.protocol.responses import (
    AppointmentReply,
    DealerContact,
    DealerInformation,
    Facets,
    GeoPoint,
    IntRange,
    LeadReceipt,
    Named,
    OpenHours,
    PostalAddress,
    Rooftop,
    Schedule,
    SearchPage,
    TextCount,
    VehicleDetail,
    Week,
    YearCount,
)
from dealer_agent.protocol.skill import SKILL_BY_ID, Skill
from dealer_agent.protocol.vehicle import Fee, Vehicle
from dealer_agent.protocol.vocabulary import Vocabulary

EXAMPLE_TIME = datetime(2026, 1, 5, 15, 0, tzinfo=UTC)
"""When the examples happen, unless told: long past, so that the consent in them is never granted in the future."""

EXAMPLE_VIN = "1HGCY2F57RA000001"
TOKEN_VARIABLE = "DEALER_AGENT_TOKEN"  # noqa: S105 - the name of a shell variable, not a token
"""Where the example commands take a bearer token from."""

_REQUEST_IDS = {
    "dealer.information": "01KE7AQ2N0V5X3J8R6T4Y9W1ZA",
    "inventory.facets": "01KE7AQ5B4D2C8M7H9K1P3S6FB",
    "inventory.search": "01KE7AQ8E1G4A5N2Q7W3X9Y6ZC",
    "inventory.vehicle": "01KE7AQB7J3T6V8C1D5F2H9KMD",
    "lead.submit": "01KE7AQEH2P4R6S8T1V3X5Z7AE",
}
_REPLY_ID = "01KE7AQHV0C8D2F4G6H1J3K5MF"
_ERROR_ID = "err_01KE7AQMD5N7Q9S2T4V6X8Z1BG"


def example_payload(skill: Skill, *, now: datetime = EXAMPLE_TIME, vin: str = EXAMPLE_VIN) -> dict[str, Any]:
    """A request payload. `now` is when the customer of a lead consents; `vin` is the vehicle that is asked about."""
    payload: dict[str, Any] = {"type": skill.request_type}
    match skill.id:
        case "inventory.facets":
            payload["filters"] = {"condition": ["used", "cpo"]}
        case "inventory.search":
            payload |= {
                "filters": {"condition": ["used", "cpo"], "price_max": 40000, "mileage_max": 60000},
                "pagination": {"skip": 0, "limit": 3},
                "sort": {"field": "price", "order": "asc"},
                "privacy": {"anonymous": True},
            }
        case "inventory.vehicle":
            payload |= {"vin": vin, "zip": "22301"}
        case "lead.submit":
            payload |= _lead(now, vin)
    return payload


def _lead(now: datetime, vin: str) -> dict[str, Any]:
    moment = now.astimezone(UTC).replace(microsecond=0)
    said_at = moment.isoformat().replace("+00:00", "Z")
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
            "granted_at": said_at,
            "allowed_channels": ["email", "phone"],
            "consent_text": "Share my name, e-mail and phone with this dealer so that they can answer me.",
            "scope": ["lead_submission"],
        },
        "vehicle_of_interest": {"vin": vin, "condition": "cpo"},
        "trade_in": {"year": 2017, "make": "Mazda", "model": "CX-5", "condition": "good", "mileage": 81200},
        # No test drive: that would be refused where the dealer does not have the vehicle of the example.
        "appointment": {
            "appointment_type": "sales",
            "appointment_at": visit.isoformat().replace("+00:00", "Z"),
            "duration_minutes": 30,
        },
        "message": "Is it still available? I would come by after work.",
        "source_agent": "Example Shopping Agent",
        "submitted_at": said_at,
        "idempotency_key": f"example-{moment:%Y%m%dT%H%M%S}-{vin}",
    }


def example_body(
    skill: Skill, vocabulary: Vocabulary, *, now: datetime = EXAMPLE_TIME, vin: str = EXAMPLE_VIN
) -> dict[str, Any]:
    """The whole body of `POST /message:send`: the payload of `example_payload` in its envelope."""
    return {
        "message": {
            "messageId": _REQUEST_IDS[skill.id],
            "role": "ROLE_USER",
            "parts": [
                {
                    "data": example_payload(skill, now=now, vin=vin),
                    "mediaType": vocabulary.request_media_type(skill),
                }
            ],
        },
        "configuration": {"acceptedOutputModes": [vocabulary.response_media_type(skill)]},
    }


def example_call(
    skill: Skill, vocabulary: Vocabulary, *, now: datetime = EXAMPLE_TIME, vin: str = EXAMPLE_VIN
) -> dict[str, Any]:
    """The same request as a JSON-RPC 2.0 call."""
    params = example_body(skill, vocabulary, now=now, vin=vin)
    return {"jsonrpc": "2.0", "id": "1", "method": "SendMessage", "params": params}


def curl_command(
    base_url: str,
    skill: Skill,
    vocabulary: Vocabulary,
    *,
    now: datetime = EXAMPLE_TIME,
    vin: str = EXAMPLE_VIN,
    bearer: bool = False,
    compact: bool = False,
) -> str:
    """A command for a POSIX shell. `base_url` is the address of the HTTP+JSON interface, without a trailing slash.

    With `bearer` the token comes from the environment, and never stands in the command itself. `compact` writes the
    body on one line, for a terminal; else it is indented, for a page.
    """
    example = example_body(skill, vocabulary, now=now, vin=vin)
    body = msgspec.json.encode(example).decode() if compact else json_text(example)
    token = [f'-H "Authorization: Bearer ${TOKEN_VARIABLE}"'] if bearer else []
    lines = [
        f"curl -sS {shlex.quote(f'{base_url}/message:send')}",
        "-H 'Content-Type: application/json'",
        *token,
        f"-d {shlex.quote(body)}",
    ]
    return " \\\n  ".join(lines)


_LINE = 88


def json_text(value: Any, indent: int = 0) -> str:
    """JSON to be read by people: indented by two, and what fits on a line on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= _LINE or not isinstance(value, dict | list):
        return flat
    inner = indent + 2
    if isinstance(value, dict):
        opened, closed = "{}"
        items = [f"{json.dumps(name)}: {json_text(item, inner)}" for name, item in value.items()]
    else:
        opened, closed = "[]"
        items = [json_text(item, inner) for item in value]
    lines = (",\n" + " " * inner).join(items)
    return f"{opened}\n{' ' * inner}{lines}\n{' ' * indent}{closed}"


def example_reply(skill: Skill, vocabulary: Vocabulary) -> dict[str, Any]:
    """A successful answer to `example_body`."""
    answer = Answer(msgspec.json.encode(_reply_data(skill)), _REPLY_WORDS.get(skill.id))
    body = reply_body(Request(skill, vocabulary), _REPLY_ID, answer)
    reply: dict[str, Any] = msgspec.json.decode(body)
    return reply


_REPLY_WORDS = {"lead.submit": "Thank you, Jordan. We look forward to seeing you on Wednesday at 2 PM."}

_FEE = Fee("Processing fee", 799)


def _reply_data(skill: Skill) -> Any:
    match skill.id:
        case "dealer.information":
            return _dealer()
        case "inventory.facets":
            return _facets()
        case "inventory.search":
            return SearchPage(total=1, skip=0, limit=3, vehicles=[Vehicle(**_ACCORD)])
        case "inventory.vehicle":
            return VehicleDetail(**_ACCORD, zip="22301", offered_price=27540)
    return LeadReceipt(
        lead_id="01KE7AQQ3R5T7V9X2Z4B6D8F1H",
        status="received",
        appointment=AppointmentReply(
            appointment_id="01KE7AQT9W2Y4A6C8E1G3J5M7K",
            status="confirmed",
            confirmed_at="2026-01-07T14:00:00-05:00",
        ),
        dealer=DealerContact("Example Honda Alexandria", "+12025550110"),
    )


_ACCORD: dict[str, Any] = {
    "vehicle_id": "veh_1HGCY2F57RA000001",
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


def _dealer() -> DealerInformation:
    weekday, saturday = OpenHours("09:00", "20:00"), OpenHours("09:00", "18:00")
    hours = Week(
        monday=weekday, tuesday=weekday, wednesday=weekday, thursday=weekday, friday=weekday, saturday=saturday
    )
    rooftop = Rooftop(
        name="Example Honda Alexandria",
        website="https://www.example.com",
        geo=GeoPoint(38.8048, -77.0469),
        emails=(Named("sales", "sales@example.com"),),
        phones=(Named("sales", "+12025550110"),),
        address=PostalAddress("100 Example Avenue", "Alexandria", "VA", "22301"),
        schedules=(Schedule("sales", hours),),
        timezone="America/New_York",
        capabilities=("sales", "service", "financing", "trade_in"),
        fees=(_FEE,),
    )
    return DealerInformation("Example Auto Group", (rooftop,), "Welcome. Ask us anything about our cars.")


def _facets() -> Facets:
    return Facets(
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
    )


_PROBLEMS = [Problem("/filters/year_min", "type", "must be an integer", ("twenty twenty",))]

_REFUSALS: dict[int, ProtocolError] = {
    400: UnsupportedOperation("This agent does not offer this operation: it answers SendMessage.", {"in": "envelope"}),
    401: AuthRequired("This skill asks for a bearer token."),
    403: ContactConsentRequired("consent.scope must hold lead_submission.", {"instancePath": "/consent/scope"}),
    404: VehicleNotFound("No vehicle here has this VIN.", {"instancePath": "/vin", "received": EXAMPLE_VIN}),
    405: UnsupportedSkill("This address takes POST.", http=405),
    408: SchemaValidationFailed("The body did not arrive in time.", {"in": "envelope"}, http=408),
    409: IdempotencyConflict(
        "This idempotency_key was used with another payload.", {"instancePath": "/idempotency_key"}
    ),
    413: SchemaValidationFailed("The body is larger than 256 KiB.", {"in": "envelope"}, http=413),
    415: SchemaValidationFailed("Send Content-Type: application/json.", {"in": "envelope"}, http=415),
    422: refusal(_PROBLEMS, "payload"),
    429: RateLimited(12),
    500: InternalError("Something went wrong on our side. Please try again."),
}


def example_error(status: int, vocabulary: Vocabulary) -> dict[str, Any]:
    """A refusal over HTTP+JSON with this status (specification, part 7). Raises KeyError for one that cannot occur."""
    body: dict[str, Any] = msgspec.json.decode(http_error_body(_REFUSALS[status], vocabulary, _ERROR_ID, EXAMPLE_TIME))
    return body


def example_json_rpc_error(vocabulary: Vocabulary, status: int = 422) -> dict[str, Any]:
    """A refusal over JSON-RPC, in the vocabulary's form (contract, part 3). Raises KeyError as `example_error`."""
    body: dict[str, Any] = msgspec.json.decode(
        json_rpc_error_body(_REFUSALS[status], vocabulary, _ERROR_ID, EXAMPLE_TIME, b'"1"')
    )
    return body


def example_json_rpc_reply(vocabulary: Vocabulary) -> dict[str, Any]:
    """A successful JSON-RPC answer."""
    return {"jsonrpc": "2.0", "id": "1", "result": example_reply(SKILL_BY_ID["dealer.information"], vocabulary)}
