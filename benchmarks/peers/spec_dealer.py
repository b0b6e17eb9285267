"""A dealer agent of another company, written from the specification alone: plain ASGI, an invented stock in memory.

    python -m uvicorn --factory benchmarks.peers.spec_dealer:app --port 8123

It shares no code with this project, and decides differently where the specification leaves something open: errors over
JSON-RPC have the status 200, a body that is not JSON has the status 400, an unknown VIN in a lead is accepted, unknown
members are refused in a search only, and revision 0.1.0 has a card and a base address of its own.
"""

import json
import os
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Json = dict[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

STATUS = {
    "SCHEMA_VALIDATION_FAILED": 422,
    "MISSING_REQUIRED_FIELD": 422,
    "UNSUPPORTED_SKILL": 404,
    "VEHICLE_NOT_FOUND": 404,
    "VEHICLE_UNAVAILABLE": 409,
    "CONTACT_CONSENT_REQUIRED": 403,
    "INVALID_CONSENT": 403,
    "APPOINTMENT_TIME_UNAVAILABLE": 409,
    "IDEMPOTENCY_CONFLICT": 409,
    "VERSION_NOT_SUPPORTED": 400,
    "TASK_NOT_FOUND": 404,
    "AUTH_REQUIRED": 401,
    "RATE_LIMITED": 429,
    "INTERNAL_ERROR": 500,
}
MEDIA = {
    "dealer.information": "dealer-information",
    "inventory.facets": "inventory-facets",
    "inventory.search": "inventory-search",
    "inventory.vehicle": "vehicle-detail",
    "lead.submit": "lead-submit",
}
_WORDS = ("make", "model", "trim", "condition", "vehicle_type", "transmission", "fuel", "charge_port", "driveline")
LISTS = (*_WORDS, "body", "exterior_color", "interior_color", "rooftops")
ALLOWED = {"condition": ("new", "used", "cpo"), "vehicle_type": ("car", "motorcycle", "trailer", "rv", "other")}
RANGES = {
    "electric_range_mi_min": (0, None),
    "electric_range_mi_max": (0, None),
    "displacement_cc_min": (0, None),
    "displacement_cc_max": (0, None),
    "year_min": (1900, 2100),
    "year_max": (1900, 2100),
    "price_min": (0, None),
    "price_max": (0, None),
    "mileage_max": (0, None),
}
SORTS = ("price", "list_price", "msrp", "mileage", "year", "make", "model", "stock", "updated_at")
TERMS = {
    "make": "makes",
    "model": "models",
    "trim": "trims",
    "year": "years",
    "condition": "conditions",
    "transmission": "transmissions",
    "fuel": "fuels",
    "driveline": "drivelines",
    "body": "bodies",
    "vehicle_type": "vehicle_types",
    "charge_port": "charge_ports",
    "exterior_color": "exterior_colors",
    "interior_color": "interior_colors",
    "rooftop": "rooftops",
    "status": "statuses",
}
MEMBERS_OF_A_LEAD = {
    "": (
        *("type", "customer", "consent", "vehicle_of_interest", "trade_in", "appointment"),
        *("message", "source_agent", "submitted_at"),
    ),
    "customer": ("first_name", "last_name", "email", "phone", "preferred_contact", "address"),
    "consent": ("granted_at", "allowed_channels", "consent_text", "source_agent", "scope"),
    "vehicle_of_interest": ("vin", "year", "make", "model", "trim", "condition"),
    "trade_in": ("year", "make", "model", "condition", "mileage"),
    "appointment": ("appointment_type", "appointment_at", "requested_windows", "timezone", "duration_minutes"),
}
SPANS = ("price", "mileage", "year", "displacement_cc", "electric_range_mi")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
OMAHA, DENVER = "Prairie Auto Omaha", "Prairie Auto Denver"
ZONES = {OMAHA: ZoneInfo("America/Chicago"), DENVER: ZoneInfo("America/Denver")}
HOURS = {
    OMAHA: [("08:30", "19:00")] * 5 + [("09:00", "17:00"), None],
    DENVER: [("09:00", "18:00"), None, *[("09:00", "18:00")] * 3, ("10:00", "16:00"), ("12:00", "16:00")],
}


class RefusedError(Exception):
    """A request that is answered with an error of the protocol."""

    def __init__(self, code: str, message: str, path: str = "", received: object = None, status: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status or STATUS[code]
        self.details: Json = {"instancePath": path} if path else {}
        # A lead has personal data, which no error repeats.
        # JSON cannot write the infinity that Python reads from 1e999.
        private = path.startswith(("/customer", "/consent", "/message"))
        if received is not None and not private and received not in (float("inf"), float("-inf")):
            self.details["received"] = received
        self.headers: list[tuple[bytes, bytes]] = []


@dataclass(frozen=True)
class Limits:
    """What this dealer allows.

    `literal`: it knows only what the specification names. A lead has exactly the members of its table, facets have the
    filter `condition` only, and a refusal has its HTTP status over JSON-RPC, too.
    """

    page: int = 80
    default_page: int = 12
    filter_values: int = 50
    facet_values: int = 40
    literal: bool = False
    body: int = 200_000
    leads_a_minute: int = 300
    requests_a_second: int = 400


@dataclass
class Desk:
    """The leads and appointments so far."""

    keys: dict[str, tuple[str, Json]] = field(default_factory=dict)
    known: dict[tuple[str, str], str] = field(default_factory=dict)
    booked: Counter[tuple[str, datetime]] = field(default_factory=Counter)
    recent: dict[tuple[str, str], deque[float]] = field(default_factory=dict)


# The stock --------------------------------------------------------------------------------------------------------

CARS = (  # make, model, body, fuel, driveline, cc, electric range, list of trims, base price
    ("Subaru", "Outback", "wagon", "gas", "awd", 2498, None, ("Premium", "Touring XT"), 31_900),
    ("Ford", "F-150", "truck", "gas", "4wd", 3496, None, ("XLT", "Lariat"), 48_500),
    ("Ford", "Mustang Mach-E", "suv", "bev", "awd", None, 303, ("Premium", "GT"), 46_200),
    ("Hyundai", "IONIQ 5", "suv", "bev", "rwd", None, 266, ("SE", "Limited"), 43_750),
    ("Toyota", "Sienna", "minivan", "hybrid", "fwd", 2487, None, ("LE", "XSE"), 38_300),
    ("Toyota", "RAV4 Prime", "suv", "phev", "awd", 2487, 42, ("SE",), 44_100),
    ("Mazda", "MX-5 Miata", "convertible", "gas", "rwd", 1998, None, ("Club",), 33_400),
    ("Zero", "SR/F", "standard", "bev", None, None, 113, ("Premium",), 19_995),
)
COLORS = ("Pearl White", "Deep Blue Metallic", "Graphite Gray", "Ember Red")
VALUES = dict(zip("ABCDEFGH", range(1, 9), strict=True)) | dict(zip("JKLMN", range(1, 6), strict=True))
VALUES |= {"P": 7, "R": 9} | dict(zip("STUVWXYZ", range(2, 10), strict=True))
WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)


def vin_of(number: int, year: int) -> str:
    """Returns a VIN with a right check digit."""
    code = "ABCDEFGHJKLMNPRSTVWXY"[year - 2010]
    vin = f"5PZKA8GC0{code}B{number:06d}"
    total = sum(weight * (int(c) if c.isdigit() else VALUES[c]) for c, weight in zip(vin, WEIGHTS, strict=True))
    return vin[:8] + "0123456789X"[total % 11] + vin[9:]


def stock_of(now: datetime) -> list[Json]:
    """Returns 60 listings: some without a price, some pending, some in transit."""
    units = []
    for number in range(60):
        make, model, body, fuel, driveline, cc, miles, trims, base = CARS[number % len(CARS)]
        condition = ("new", "used", "cpo", "used", "new")[number % 5]
        year = 2026 if condition == "new" else 2025 - number % 6
        mileage = 3 + number % 9 if condition == "new" else 6_100 + (number * 7_919) % 88_000
        amount = base if condition == "new" else int(base * (0.9 - 0.07 * (2026 - year)))
        unit: Json = {
            "vehicle_id": f"pa-{number + 4001}",
            "vin": vin_of(number + 17, year),
            "stock": f"{'U' if condition != 'new' else 'N'}{20_500 + number * 3}",
            "rooftop": OMAHA if number % 3 else DENVER,
            "year": year,
            "make": make,
            "model": model,
            "trim": trims[number % len(trims)],
            "condition": condition,
            "status": "pending" if number % 13 == 4 else "intransit" if number % 17 == 5 else "available",
            "mileage": mileage,
            "body": body,
            "fuel": fuel,
            "driveline": driveline,
            "transmission": "manual" if model == "MX-5 Miata" else "automatic",
            "exterior_color": COLORS[number % 4],
            "interior_color": "Black" if number % 2 else "Sand Beige",
            "list_price": amount,
            "msrp": base + 1_250 if condition == "new" else None,
            "price": None if number % 7 == 3 else amount + 399 - 100 * (number % 5),
            "displacement_cc": cc,
            "electric_range_mi": miles,
            "dc_fast_charge": model in ("Mustang Mach-E", "IONIQ 5") if miles else None,
            "charge_port": ("nacs" if make == "Hyundai" else "ccs" if make == "Ford" else "j1772") if miles else None,
            "vehicle_type": "motorcycle" if make == "Zero" else None if number % 2 else "car",
            "updated_at": (now - timedelta(hours=5 * number + 1)).isoformat(timespec="seconds"),
        }
        units.append({name: value for name, value in unit.items() if value is not None})
    return units


INFORMATION: Json = {
    "name": "Prairie Auto Group",
    "welcome_message": "Two stores, one stock. Ask us anything.",
    "rooftops": [
        {
            "name": name,
            "address": {"address_line_1": street, "city": city, "state": state, "zip": code, "country": "US"},
            "phones": [{"name": "Sales", "value": phone}],
            "timezone": str(ZONES[name]),
            "schedules": [
                {
                    "name": "sales",
                    "value": {
                        day: {"open": hours[0], "close": hours[1]} if hours else None
                        for day, hours in zip(DAYS, HOURS[name], strict=True)
                    },
                }
            ],
            "capabilities": ["sales", "trade_in"],
        }
        for name, street, city, state, code, phone in (
            (OMAHA, "7400 L Street", "Omaha", "NE", "68127", "+14025550142"),
            (DENVER, "2150 S Colorado Blvd", "Denver", "CO", "80222", "+13035550177"),
        )
    ],
}


# Checks of a request ----------------------------------------------------------------------------------------------


def _invalid(path: str, message: str, received: object) -> RefusedError:
    return RefusedError("SCHEMA_VALIDATION_FAILED", f"{path or 'The payload'} {message}", path, received)


def _object(value: object, path: str, members: Iterable[str] | None = None) -> Json:
    if not isinstance(value, dict):
        raise _invalid(path, "must be an object.", value)
    if members is not None and (unknown := sorted(set(value) - set(members))):
        raise _invalid(f"{path}/{unknown[0]}", "is not a member of the schema.", value[unknown[0]])
    return value


def _text(value: object, path: str, longest: int = 20_000) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise _invalid(path, f"must be a string of at most {longest} characters.", value)
    return value


def _integer(value: object, path: str, low: int, high: int | None) -> int:
    if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
        raise _invalid(path, "must be an integer.", value)
    if value < low or (high is not None and value > high):
        raise _invalid(path, f"must be between {low} and {high or 'any number'}.", value)
    return int(value)


def _instant(value: object, path: str, zone: ZoneInfo | None = None) -> datetime:
    try:
        found = datetime.fromisoformat(_text(value, path))
    except ValueError as error:
        raise _invalid(path, "must be an ISO 8601 timestamp.", value) from error
    if found.tzinfo is None:
        if zone is None:
            raise _invalid(path, "must have an offset from UTC.", value)
        found = found.replace(tzinfo=zone)
    return found


def _needed(holder: Json, member: str, path: str) -> Any:
    if holder.get(member) is None:
        raise RefusedError("MISSING_REQUIRED_FIELD", f"{path}/{member} is required.", f"{path}/{member}")
    return holder[member]


def checked_filters(value: object, most: int) -> Json:
    """Returns the filters, or raises RefusedError."""
    names = (*LISTS, *RANGES, "dc_fast_charge", "vin", "stock", "query")
    filters = dict(_object(value, "/filters", names))
    for name, wanted in filters.items():
        path = f"/filters/{name}"
        if name in LISTS:
            if not isinstance(wanted, list) or len(wanted) > most:
                raise _invalid(path, f"must be an array of at most {most} strings.", None)
            for index, item in enumerate(wanted):
                _text(item, f"{path}/{index}")
                if name in ALLOWED and item not in ALLOWED[name]:
                    raise _invalid(f"{path}/{index}", f"must be one of {', '.join(ALLOWED[name])}.", item)
        elif name in RANGES:
            filters[name] = _integer(wanted, path, *RANGES[name])
        elif name == "dc_fast_charge":
            if not isinstance(wanted, bool):
                raise _invalid(path, "must be true or false.", wanted)
        else:
            _text(wanted, path, 200 if name == "query" else 20_000)
            vin_letters = set("ABCDEFGHJKLMNPRSTUVWXYZ0123456789")
            if name == "vin" and (len(wanted) != 17 or not set(wanted) <= vin_letters):
                raise _invalid(path, "must be a VIN of 17 characters.", wanted)
    return filters


# The dealer -------------------------------------------------------------------------------------------------------


class Dealer:
    """The five skills."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.started = datetime.now(UTC)
        self.units = stock_of(self.started)
        self.sold = {vin_of(900, 2024)}
        self.desk = Desk()

    def answer(self, skill: str, payload: Json, caller: str) -> Json:
        """Returns the data of the skill's response, or raises RefusedError."""
        match skill:
            case "dealer.information":
                return INFORMATION
            case "inventory.facets":
                filters = _object(
                    payload.get("filters", {}), "/filters", ("condition",) if self.limits.literal else None
                )
                return facets(self.found(checked_filters(filters, self.limits.filter_values)), self.limits.facet_values)
            case "inventory.search":
                return self.search(payload)
            case "inventory.vehicle":
                return self.vehicle(payload)
            case _:
                return self.lead(payload, caller)

    def found(self, filters: Json) -> list[Json]:
        """Returns the listings that match all filters, the newest first."""
        return [unit for unit in self.units if all(_matches(unit, name, value) for name, value in filters.items())]

    def search(self, payload: Json) -> Json:
        """inventory.search."""
        _object(payload, "", ("type", "filters", "pagination", "sort", "privacy"))
        found = self.found(checked_filters(payload.get("filters", {}), self.limits.filter_values))
        page = _object(payload.get("pagination", {}), "/pagination", ("skip", "limit"))
        skip = _integer(page.get("skip", 0), "/pagination/skip", 0, None)
        limit = _integer(page.get("limit", self.limits.default_page), "/pagination/limit", 1, 1000)
        privacy = _object(payload.get("privacy", {}), "/privacy", ("anonymous",))
        if not isinstance(privacy.get("anonymous", True), bool):
            raise _invalid("/privacy/anonymous", "must be true or false.", privacy["anonymous"])
        if "sort" in payload:
            sort = _object(payload["sort"], "/sort", ("field", "order"))
            for name, allowed in (("field", SORTS), ("order", ("asc", "desc"))):
                if _needed(sort, name, "/sort") not in allowed:
                    raise _invalid(f"/sort/{name}", f"must be one of {', '.join(allowed)}.", sort[name])
            known = [unit for unit in found if sort["field"] in unit]
            known.sort(key=lambda unit: unit["updated_at"])
            known.sort(key=lambda unit: unit[sort["field"]], reverse=sort["order"] == "desc")
            found = known + [unit for unit in found if sort["field"] not in unit]
        limit = min(limit, self.limits.page)
        return {"total": len(found), "skip": skip, "limit": limit, "vehicles": found[skip : skip + limit]}

    def vehicle(self, payload: Json) -> Json:
        """inventory.vehicle."""
        _object(payload, "", ("type", "vin", "stock", "vehicle_id", "zip"))
        wanted = {name: _text(value, f"/{name}") for name, value in payload.items() if name not in ("type", "zip")}
        if "zip" in payload:
            _text(payload["zip"], "/zip", 20)
        if not wanted:
            raise RefusedError("MISSING_REQUIRED_FIELD", "Name the vehicle by vin, stock or vehicle_id.", "/vin")
        if wanted.get("vin", "").upper() in self.sold:
            raise RefusedError("VEHICLE_UNAVAILABLE", "This vehicle is sold.", "/vin", wanted["vin"])
        for unit in self.units:
            if all(unit[name].upper() == value.upper() for name, value in wanted.items()):
                return unit
        name, value = next(iter(wanted.items()))
        raise RefusedError("VEHICLE_NOT_FOUND", "No listing has this number. Search again.", f"/{name}", value)

    def lead(self, payload: Json, caller: str) -> Json:
        """lead.submit."""
        self.allow(caller, "lead", self.limits.leads_a_minute, 60)
        if self.limits.literal:
            _check_members(payload)
        customer = _checked_customer(payload)
        _check_consent(payload)
        wanted = _object(payload.get("vehicle_of_interest", {}), "/vehicle_of_interest")
        traded = _object(payload.get("trade_in", {}), "/trade_in")
        for vehicle, path in ((wanted, "/vehicle_of_interest"), (traded, "/trade_in")):
            _check_vehicle(vehicle, path)
        _text(payload.get("message", ""), "/message", 4000)
        if "submitted_at" in payload:
            _instant(payload["submitted_at"], "/submitted_at")
        vin = str(wanted.get("vin", "")).upper()
        if vin in self.sold:
            raise RefusedError("VEHICLE_UNAVAILABLE", "This vehicle is sold.", "/vehicle_of_interest/vin", vin)
        asked = dict(_object(payload["appointment"], "/appointment")) if "appointment" in payload else None
        starts = _starts(asked) if asked is not None else []
        key = payload.get("idempotency_key")
        digest = sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()
        if key is not None and _text(key, "/idempotency_key", 128) in self.desk.keys:
            before, stored = self.desk.keys[key]
            if before != digest:
                message = "Another lead came with this idempotency_key. Use a new key for a new lead."
                raise RefusedError("IDEMPOTENCY_CONFLICT", message, "/idempotency_key")
            return stored
        rooftop = next((unit["rooftop"] for unit in self.units if unit.get("vin") == vin), OMAHA)
        booking = self._appointment(asked, starts, rooftop) if asked is not None else None
        return self._stored(payload, customer, vin, booking, digest)

    def _stored(self, payload: Json, customer: Json, vin: str, booking: Json | None, digest: str) -> Json:
        about = json.dumps([payload.get("vehicle_of_interest"), payload.get("trade_in"), payload.get("message")])
        person = (str(customer.get("email") or customer["phone"]).casefold(), vin or about)
        status = "duplicate" if person in self.desk.known else "received"
        lead_id = self.desk.known.setdefault(person, f"L-{uuid4().hex[:12]}")
        data: Json = {"lead_id": lead_id, "status": status}
        if booking is not None:
            data["appointment"] = booking
        data["dealer"] = {"name": INFORMATION["name"], "phone": "+14025550142"}
        if (key := payload.get("idempotency_key")) is not None:
            self.desk.keys[key] = digest, data
        return data

    def _appointment(self, asked: Json, starts: list[datetime], rooftop: str) -> Json:
        number = {"appointment_id": f"A-{uuid4().hex[:12]}"}
        if asked["appointment_type"] == "service":
            return {**number, "status": "rejected"}
        if not starts:
            return {**number, "status": "requested"}
        now, minutes = datetime.now(UTC), asked.get("duration_minutes", 45)
        for start in starts:
            if now < start < now + timedelta(days=45) and self._free(start, rooftop, minutes):
                self.desk.booked[rooftop, start] += 1
                return {**number, "status": "confirmed", "confirmed_at": start.astimezone(ZONES[rooftop]).isoformat()}
        first = max(now, starts[0].astimezone(UTC)) if starts[0] < now + timedelta(days=45) else now
        slot = first.replace(minute=0, second=0, microsecond=0)
        slots = (slot + timedelta(minutes=30 * step) for step in range(2, 48 * 8))
        free = [at.astimezone(ZONES[rooftop]).isoformat() for at in slots if self._free(at, rooftop, minutes)]
        if not free:
            raise RefusedError("APPOINTMENT_TIME_UNAVAILABLE", "No appointment of this length is free.", "/appointment")
        return {**number, "status": "proposed", "proposed_times": free[:8:2]}

    def _free(self, start: datetime, rooftop: str, minutes: int) -> bool:
        local = start.astimezone(ZONES[rooftop])
        hours = HOURS[rooftop][local.weekday()]
        if hours is None or self.desk.booked[rooftop, start] >= 3 or minutes > 24 * 60:
            return False
        end = local + timedelta(minutes=minutes)
        return end.date() == local.date() and hours[0] <= f"{local:%H:%M}" and f"{end:%H:%M}" <= hours[1]

    def allow(self, caller: str, what: str, most: int, seconds: float) -> None:
        """Raises RefusedError when the caller sent `most` of these within the last seconds."""
        now, recent = time.monotonic(), self.desk.recent.setdefault((caller, what), deque())
        while recent and recent[0] <= now - seconds:
            recent.popleft()
        if len(recent) >= most:
            refused = RefusedError("RATE_LIMITED", "Too many requests. Wait, then send it again.")
            wait = int(recent[0] + seconds - now) + 1
            refused.details["retry_after_seconds"] = wait
            refused.headers = [(b"retry-after", str(wait).encode())]
            raise refused
        recent.append(now)


def _matches(unit: Json, name: str, value: Any) -> bool:
    if name in LISTS:
        found = unit.get("rooftop" if name == "rooftops" else name, "car" if name == "vehicle_type" else "")
        return not value or found.casefold() in {item.casefold() for item in value}
    if name in RANGES:
        member, bound = name.rsplit("_", 1)
        return member in unit and (unit[member] >= value if bound == "min" else unit[member] <= value)
    if name == "dc_fast_charge":
        return not value or unit.get("dc_fast_charge") is True
    if name == "query":
        text = " ".join(str(part) for part in unit.values()).casefold()
        return all(word in text for word in value.casefold().split())
    return bool(unit[name].casefold() == value.casefold())


def facets(units: list[Json], most: int) -> Json:
    """inventory.facets: the most frequent values of each member, and the ranges."""
    found: Json = {}
    for member, name in TERMS.items():
        default = "car" if member == "vehicle_type" else None
        counts = Counter(value for unit in units if (value := unit.get(member, default)) is not None)
        found[name] = [{"value": value, "count": count} for value, count in counts.most_common(most)]
    for member in SPANS:
        if values := [unit[member] for unit in units if member in unit]:
            found[f"{member}_range"] = {"min": min(values), "max": max(values)}
    return found


def _check_members(payload: Json) -> None:
    _object(payload, "", MEMBERS_OF_A_LEAD[""])
    for name, members in MEMBERS_OF_A_LEAD.items():
        if name and isinstance(payload.get(name), dict):
            _object(payload[name], f"/{name}", members)
    _text(_needed(payload, "source_agent", ""), "/source_agent")
    if isinstance(payload.get("consent"), dict):
        _text(_needed(payload["consent"], "source_agent", "/consent"), "/consent/source_agent")


def _checked_customer(payload: Json) -> Json:
    customer = _object(_needed(payload, "customer", ""), "/customer")
    for name, value in customer.items():
        if name == "address":
            for part, text in _object(value, "/customer/address").items():
                _text(text, f"/customer/address/{part}", 200)
        else:
            _text(value, f"/customer/{name}", 320)
    for name in ("first_name", "last_name"):
        if not str(_needed(customer, name, "/customer")).strip():
            raise _invalid(f"/customer/{name}", "must not be empty.", None)
    if not customer.get("email") and not customer.get("phone"):
        raise RefusedError("MISSING_REQUIRED_FIELD", "Give an email or a phone number.", "/customer/email")
    if "email" in customer and (customer["email"].count("@") != 1 or " " in customer["email"]):
        raise _invalid("/customer/email", "must be an email address.", None)
    if "phone" in customer and not (customer["phone"][:1] == "+" and customer["phone"][1:].isdecimal()):
        raise _invalid("/customer/phone", "must be a number in the international format, e.g. +14025550142.", None)
    return customer


def _check_consent(payload: Json) -> None:
    if payload.get("consent") is None:
        raise RefusedError("CONTACT_CONSENT_REQUIRED", "A lead needs the consent of the customer.", "/consent")
    try:
        consent = _object(payload["consent"], "/consent")
        for member in ("granted_at", "allowed_channels", "consent_text", "scope"):
            _needed(consent, member, "/consent")
        granted = _instant(consent["granted_at"], "/consent/granted_at")
        for member in ("allowed_channels", "scope"):
            if not isinstance(consent[member], list) or not all(isinstance(item, str) for item in consent[member]):
                raise _invalid(f"/consent/{member}", "must be an array of strings.", None)
        if not set(consent["allowed_channels"]) & {"email", "phone", "sms"}:
            raise _invalid("/consent/allowed_channels", "must have at least one of email, phone, sms.", None)
        if not _text(consent["consent_text"], "/consent/consent_text").strip():
            raise _invalid("/consent/consent_text", "must not be empty.", None)
        if granted > datetime.now(UTC) + timedelta(minutes=10):
            raise _invalid("/consent/granted_at", "must not be in the future.", None)
        if "expires_at" in consent and _instant(consent["expires_at"], "/consent/expires_at") < datetime.now(UTC):
            raise _invalid("/consent/expires_at", "is over.", None)
    except RefusedError as refused:
        raise RefusedError("INVALID_CONSENT", refused.message, refused.details["instancePath"]) from refused
    if "lead_submission" not in consent["scope"]:
        raise RefusedError("CONTACT_CONSENT_REQUIRED", "The consent lacks the scope lead_submission.", "/consent/scope")


def _check_vehicle(vehicle: Json, path: str) -> None:
    for name in ("vin", "make", "model", "trim", "condition"):
        if name in vehicle:
            _text(vehicle[name], f"{path}/{name}", 200)
    for name, low, high in (("year", 1900, 2100), ("mileage", 0, None)):
        if name in vehicle:
            _integer(vehicle[name], f"{path}/{name}", low, high)
    allowed = ALLOWED["condition"] if path == "/vehicle_of_interest" else ("excellent", "good", "fair", "poor")
    if vehicle.get("condition", allowed[0]) not in allowed:
        raise _invalid(f"{path}/condition", f"must be one of {', '.join(allowed)}.", vehicle["condition"])


def _starts(asked: Json) -> list[datetime]:
    """Returns the starts that the buyer asks for, of either revision's shape."""
    allowed = ("sales", "service", "test_drive", "trade_in")
    if _needed(asked, "appointment_type", "/appointment") not in allowed:
        message = f"must be one of {', '.join(allowed)}."
        raise _invalid("/appointment/appointment_type", message, asked["appointment_type"])
    if "duration_minutes" in asked:
        asked["duration_minutes"] = _integer(asked["duration_minutes"], "/appointment/duration_minutes", 15, 480)
    if "appointment_at" in asked:
        return [_instant(asked["appointment_at"], "/appointment/appointment_at")]
    zone = None
    if "timezone" in asked:
        try:
            zone = ZoneInfo(_text(asked["timezone"], "/appointment/timezone", 60))
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise _invalid("/appointment/timezone", "must be an IANA time zone.", asked["timezone"]) from error
    windows, minutes = asked.get("requested_windows", []), timedelta(minutes=asked.get("duration_minutes", 45))
    if not isinstance(windows, list):
        raise _invalid("/appointment/requested_windows", "must be an array.", windows)
    starts: list[datetime] = []
    for index, window in enumerate(windows):
        path = f"/appointment/requested_windows/{index}"
        start = _instant(_needed(_object(window, path), "start", path), f"{path}/start", zone)
        end = _instant(_needed(window, "end", path), f"{path}/end", zone)
        if end <= start:
            raise _invalid(f"{path}/end", "must be after start.", window["end"])
        while start + minutes <= end and len(starts) < 200:
            starts.append(start)
            start += timedelta(minutes=15)
    return starts


# The wire ---------------------------------------------------------------------------------------------------------


def _envelope(refused: RefusedError) -> list[Json]:
    strings = {name: item if isinstance(item, str) else json.dumps(item) for name, item in refused.details.items()}
    return [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": refused.code,
            "domain": "autoagentprotocol.org",
            "metadata": {name: text[:300] for name, text in strings.items()},
        },
        {
            "@type": "type.googleapis.com/proto.Error",
            "type": "proto.error",
            "error_id": str(uuid4()),
            "code": refused.code,
            "message": refused.message,
            "retryable": refused.code in ("RATE_LIMITED", "INTERNAL_ERROR"),
            "details": refused.details,
            "created_at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        },
    ]


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


class Agent:
    """The ASGI application."""

    def __init__(self, base: str, limits: Limits, token: str = "") -> None:
        self.base = base.rstrip("/")
        self.dealer = Dealer(limits)
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        headers: list[tuple[bytes, bytes]]
        try:
            status, answer, headers = await self._routed(scope, receive)
        except RefusedError as refused:
            status, headers = refused.status, refused.headers
            answer = {"error": {"code": status, "message": refused.message, "details": _envelope(refused)}}
        body = json.dumps(answer).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _routed(self, scope: Scope, receive: Receive) -> tuple[int, Json, list[tuple[bytes, bytes]]]:
        path, method = scope["path"], scope["method"]
        cards = {"/.well-known/agent-card.json": self._card, "/v0/agent-card.json": self._old_card}
        posts = ("/rpc", "/rest/message:send", "/v0/message:send")
        if path not in (*cards, *posts):
            raise RefusedError("UNSUPPORTED_SKILL", "Nothing is here. The agent card has the addresses.", status=404)
        allowed = ("GET", "HEAD") if path in cards else ("POST",)
        if method not in allowed:
            refused = RefusedError("SCHEMA_VALIDATION_FAILED", f"Use {allowed[0]} here.", status=405)
            refused.headers = [(b"allow", ", ".join(allowed).encode())]
            raise refused
        if path in cards:
            return 200, cards[path](), [(b"cache-control", b"public, max-age=300")]
        caller = scope["client"][0] if scope.get("client") else "unknown"
        query = dict(parse_qsl(scope["query_string"]))
        version = {b"a2a-version": query[b"A2A-Version"]} if b"A2A-Version" in query else {}
        sent = version | dict(scope["headers"])
        text = await self._body(receive)
        if path == "/rpc":
            return self._rpc(text, sent, caller)
        self.dealer.allow(caller, "request", self.dealer.limits.requests_a_second, 1)
        if path == "/v0/message:send" and self.token and sent.get(b"authorization") != b"Bearer " + self.token.encode():
            refused = RefusedError("AUTH_REQUIRED", "Send the bearer token.")
            refused.headers = [(b"www-authenticate", b"Bearer")]
            raise refused
        kind = sent.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind not in (b"application/json", b"application/a2a+json"):
            raise RefusedError("SCHEMA_VALIDATION_FAILED", "Send application/json.", status=415)
        try:
            request = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise RefusedError("SCHEMA_VALIDATION_FAILED", "The body is not JSON.", status=400) from error
        return 200, self._sent(request, caller, sent), []

    async def _body(self, receive: Receive) -> bytes:
        text, more = b"", True
        while more:
            event = await receive()
            text, more = text + event.get("body", b""), event.get("more_body", False)
            if len(text) > self.dealer.limits.body:
                message = f"The body is larger than {self.dealer.limits.body} bytes."
                raise RefusedError("SCHEMA_VALIDATION_FAILED", message, status=413)
        return text

    def _rpc(self, text: bytes, sent: dict[bytes, bytes], caller: str) -> tuple[int, Json, list[tuple[bytes, bytes]]]:
        status, number = 200, None
        headers: list[tuple[bytes, bytes]] = []
        error: Json
        try:
            request = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return 200, {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}, []
        try:
            if not isinstance(request, dict) or request.get("jsonrpc") != "2.0" or "id" not in request:
                error = {"code": -32600, "message": "Send one JSON-RPC 2.0 request with an id."}
            elif isinstance(request["id"], (dict, list, bool)) or not isinstance(request.get("method"), str):
                error = {"code": -32600, "message": "The id or the method has the wrong type."}
            else:
                number = request["id"]
                if request["method"] == "SendMessage":
                    self.dealer.allow(caller, "request", self.dealer.limits.requests_a_second, 1)
                    result = self._sent(request.get("params"), caller, sent)
                    return 200, {"jsonrpc": "2.0", "id": number, "result": result}, []
                error = {"code": -32601, "message": "Only SendMessage is supported."}
        except RefusedError as refused:
            codes = {
                422: -32602,
                "UNSUPPORTED_SKILL": -32601,
                500: -32603,
                "VERSION_NOT_SUPPORTED": -32009,
                "TASK_NOT_FOUND": -32001,
            }
            code = codes.get(refused.code, codes.get(refused.status, -32050))
            status = refused.status if self.dealer.limits.literal else 200
            error, headers = {"code": code, "message": refused.message, "data": _envelope(refused)}, refused.headers
        return status, {"jsonrpc": "2.0", "id": number, "error": error}, headers

    def _sent(self, request: object, caller: str, headers: dict[bytes, bytes]) -> Json:
        version = headers.get(b"a2a-version", b"1.0").decode("latin-1").strip()
        if version and version.split(".")[0] != "1":
            raise RefusedError("VERSION_NOT_SUPPORTED", "This agent speaks A2A 1.0.")
        whole = _object(request, "")
        message = _object(_needed(whole, "message", ""), "/message")
        if message.get("taskId"):
            raise RefusedError("TASK_NOT_FOUND", "This agent makes no tasks.")
        modes = _needed(_object(_needed(whole, "configuration", ""), "/configuration"), *MODES)
        if not isinstance(modes, list) or not all(isinstance(mode, str) for mode in modes):
            raise _invalid("/configuration/acceptedOutputModes", "must be an array of strings.", modes)
        number = _text(_needed(message, "messageId", "/message"), "/message/messageId", 256)
        if not number or _needed(message, "role", "/message") != "ROLE_USER":
            raise _invalid("/message/role", "must be ROLE_USER, and messageId not empty.", None)
        parts = _needed(message, "parts", "/message")
        if not isinstance(parts, list) or len(parts) != 1:
            raise _invalid("/message/parts", "must have exactly one part.", None)
        part = _object(parts[0], "/message/parts/0")
        payload = _object(_needed(part, "data", "/message/parts/0"), "/message/parts/0/data")
        kind = _needed(payload, "type", "")
        skill = next((skill for skill in MEDIA if kind == f"{skill}.request"), None)
        if skill is None:
            raise RefusedError("UNSUPPORTED_SKILL", "This agent has no such skill.", "/type", kind)
        expected = f"application/vnd.proto.{MEDIA[skill]}-request+json"
        media = _text(_needed(part, "mediaType", "/message/parts/0"), "/message/parts/0/mediaType")
        if media.split(";")[0].strip().lower() != expected:
            raise _invalid("/message/parts/0/mediaType", f"must be {expected}.", part["mediaType"])
        data = {"type": f"{skill}.response", "data": self.dealer.answer(skill, payload, caller)}
        media = f"application/vnd.proto.{MEDIA[skill]}-response+json"
        answer: Json = {"messageId": str(uuid4()), "role": "ROLE_AGENT", "parts": [{"data": data, "mediaType": media}]}
        return {"message": answer}

    def _skills(self, inputs: str, outputs: str) -> list[Json]:
        return [
            {
                "id": skill,
                "name": skill.replace(".", " ").title(),
                "description": f"The skill {skill} of {INFORMATION['name']}.",
                "tags": ["automotive", skill.split(".")[0]],
                inputs: [f"application/vnd.proto.{name}-request+json"],
                outputs: [f"application/vnd.proto.{name}-response+json"],
            }
            for skill, name in MEDIA.items()
        ]

    def _card(self) -> Json:
        modes = ["application/json"]
        return {
            "name": "Prairie Auto",
            "description": "The vehicles of Prairie Auto Group in Omaha and Denver, and its sales desk.",
            "version": "3.2.0",
            "provider": {"organization": "Prairie Auto Group", "url": "https://prairie-auto.example"},
            "supportedInterfaces": [
                {"url": f"{self.base}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
                {"url": f"{self.base}/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            ],
            "capabilities": {"streaming": False, "pushNotifications": False},
            "defaultInputModes": modes,
            "defaultOutputModes": modes,
            "skills": self._skills("inputModes", "outputModes"),
        }

    def _old_card(self) -> Json:
        modes = ["application/json"]
        return {
            "name": "Prairie Auto",
            "description": "The vehicles of Prairie Auto Group in Omaha and Denver, and its sales desk.",
            "version": "0.9.4",
            "auth_type": "bearer" if self.token else "none",
            "supported_interfaces": [
                {"url": f"{self.base}/v0", "protocol_binding": "HTTP+JSON", "protocol_version": "1.0"}
            ],
            "capabilities": {"streaming": False},
            "default_input_modes": modes,
            "default_output_modes": modes,
            "skills": self._skills("input_modes", "output_modes"),
        }


MODES = ("acceptedOutputModes", "/configuration")


def app() -> Agent:
    """Returns the agent at SPEC_DEALER_URL, with the bearer token SPEC_DEALER_TOKEN for revision 0.1.0."""
    base = os.environ.get("SPEC_DEALER_URL", "http://127.0.0.1:8123")
    return Agent(base, Limits(), os.environ.get("SPEC_DEALER_TOKEN", ""))
