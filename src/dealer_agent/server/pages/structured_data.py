"""Describes the dealer to search engines as JSON-LD of schema.org (docs/protocol.md#discovery-json-ld). Pure."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import UNSET, UnsetType

from dealer_agent.dealers.opening import DAY, DepartmentHours, Span, Spans, department_hours
from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.offers.pricing import AllInPrice, json_number
from dealer_agent.offers.words import firmness, total_label
from dealer_agent.protocol.responses import Facets, Rooftop
from dealer_agent.protocol.skill import DealerInformation
from dealer_agent.protocol.vehicle import Vehicle

Node = dict[str, Any]

MOST_ROOFTOPS = 50
MOST_MAKES = 50
SPECIAL_DAYS = 14
"""For so many days from today, the hours of a day that differ from those of the week are listed."""
_LONGEST_TEXT = 500
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DEPARTMENTS = {"service": "AutoRepair", "parts": "AutoPartsStore", "body": "AutoBodyShop"}
"""The types of departments. Others are a LocalBusiness. The first department of a rooftop is the rooftop itself."""
_CLOSED: Spans = ((0, 0),)
_VEHICLES = {"car": "Car", "motorcycle": "Motorcycle"}
"""The types of vehicles. The others are a Vehicle."""
_AVAILABILITY = {"available": "InStock", "intransit": "PreOrder", "pending": "LimitedAvailability"}


def structured_data(
    dealer: DealerInformation, rooftops: tuple[DealerRooftop, ...], facets: Facets, total: int, now: datetime
) -> Node:
    """The rooftops as `AutoDealer`, and the stock as an `OfferCatalog` of its makes. Each list is bounded."""
    places = [
        _rooftop(f"#location-{number}", dealer.name, public, rooftop, now)
        for number, (public, rooftop) in enumerate(
            zip(dealer.rooftops[:MOST_ROOFTOPS], rooftops[:MOST_ROOFTOPS], strict=True), start=1
        )
    ]
    places[0]["hasOfferCatalog"] = _catalog("Vehicles in stock", total) | {
        "itemListElement": [_catalog(entry.value, entry.count) for entry in (facets.makes or [])[:MOST_MAKES]]
    }
    return {"@context": "https://schema.org", "@graph": places}


def vehicle_data(
    vehicle: Vehicle, name: str, rooftop: Rooftop, url: str, photos: Sequence[str], priced: AllInPrice | None = None
) -> Node:
    """A vehicle as `Car` or another type of vehicle, with its `Offer`. `photos` are its images, `url` is its page.

    `priced` is its all-in price, if the dealer has one.
    """
    offer: Node = {
        "@type": "Offer",
        "url": url,
        "price": vehicle.price,
        "priceCurrency": (priced.currency if priced else "USD") if vehicle.price is not UNSET else UNSET,
        "priceSpecification": UNSET if priced is None else _price_specification(priced),
        "availability": f"https://schema.org/{_AVAILABILITY[vehicle.status]}",
        "itemCondition": _condition(vehicle),
        "seller": {"@type": "AutoDealer", "name": _text(rooftop.name)} | _address(rooftop),
    }
    node: Node = {
        "@context": "https://schema.org",
        "@type": _VEHICLES.get(vehicle.vehicle_type or "car", "Vehicle"),
        "name": _text(name),
        "url": url,
        "vehicleIdentificationNumber": vehicle.vin,
        "sku": vehicle.stock,
        "brand": {"@type": "Brand", "name": _text(vehicle.make)} if vehicle.make else UNSET,
        "model": vehicle.model,
        "vehicleConfiguration": vehicle.trim,
        "vehicleModelDate": str(vehicle.year) if vehicle.year else UNSET,
        "mileageFromOdometer": UNSET
        if vehicle.mileage is UNSET
        else {"@type": "QuantitativeValue", "value": vehicle.mileage, "unitCode": "SMI"},
        "bodyType": vehicle.body,
        "fuelType": vehicle.fuel,
        "vehicleTransmission": vehicle.transmission,
        "driveWheelConfiguration": vehicle.driveline,
        "vehicleEngine": {"@type": "EngineSpecification", "name": _text(vehicle.engine)} if vehicle.engine else UNSET,
        "color": vehicle.exterior_color,
        "vehicleInteriorColor": vehicle.interior_color,
        "description": _text(vehicle.description) if vehicle.description else UNSET,
        "itemCondition": _condition(vehicle),
        "image": list(photos) or UNSET,
        "offers": _present(offer),
    }
    return _present(node)


def _price_specification(priced: AllInPrice) -> Node:
    """An all-in price with its lines. Its name says what the total does not have."""
    return {
        "@type": "CompoundPriceSpecification",
        "name": total_label(priced),
        "price": json_number(priced.total),
        "priceCurrency": priced.currency,
        "priceComponent": [
            {
                "@type": "UnitPriceSpecification",
                "name": line.label,
                "description": firmness(line),
                "price": json_number(line.amount),
                "priceCurrency": priced.currency,
            }
            for line in priced.lines
        ],
    }


def _condition(vehicle: Vehicle) -> str | UnsetType:
    if vehicle.condition is UNSET:
        return UNSET
    return f"https://schema.org/{'New' if vehicle.condition == 'new' else 'Used'}Condition"


def _present(node: Node) -> Node:
    return {name: value for name, value in node.items() if value is not UNSET}


def _catalog(name: str, count: int) -> Node:
    return {"@type": "OfferCatalog", "name": _text(name), "numberOfItems": count}


def _rooftop(anchor: str, dealer: str, public: Rooftop, rooftop: DealerRooftop, now: datetime) -> Node:
    """A rooftop as a dealer of schema.org."""
    today = now.astimezone(ZoneInfo(rooftop.timezone)).date()
    departments = department_hours(rooftop)
    phones = {phone.name: phone.value for phone in public.phones or ()}
    first = next(iter(departments), "")
    node: Node = {
        "@type": "AutoDealer",
        "@id": anchor,
        "name": _text(public.name),
        "parentOrganization": {"@type": "Organization", "name": _text(dealer)},
        "legalName": _text(public.legal_name) if public.legal_name else UNSET,
        "url": public.website or UNSET,
        "telephone": phones.get(first) or next(iter(phones.values()), UNSET),
        "email": next((email.value for email in public.emails or ()), UNSET),
        "openingHoursSpecification": [*_hours(departments[first], today)] if first else UNSET,
        "department": [
            {
                "@type": _DEPARTMENTS.get(name, "LocalBusiness"),
                "name": _text(f"{public.name}: {name}"),
                "openingHoursSpecification": [*_hours(departments[name], today)],
                **({"telephone": phones[name]} if name in phones else {}),
            }
            for name in departments
            if name != first
        ]
        or UNSET,
    }
    node |= _address(public)
    if public.geo:
        node["geo"] = {
            "@type": "GeoCoordinates",
            "latitude": public.geo.latitude,
            "longitude": public.geo.longitude,
        }
    return _present(node)


def _address(public: Rooftop) -> Node:
    """The member `address` of a rooftop; empty without one."""
    if not public.address:
        return {}
    lines = (public.address.address_line_1, public.address.address_line_2)
    return {
        "address": {
            "@type": "PostalAddress",
            "streetAddress": _text(", ".join(line for line in lines if line)),
            "addressLocality": _text(public.address.city),
            "addressRegion": _text(public.address.state),
            "postalCode": _text(public.address.zip),
            "addressCountry": public.address.country,
        }
    }


def _hours(hours: DepartmentHours, today: date) -> Iterator[Node]:
    """The usual hours, and those of the next SPECIAL_DAYS that differ from them."""
    for spans in dict.fromkeys(hours.week):
        days = [name for name, other in zip(_WEEKDAYS, hours.week, strict=True) if other == spans]
        yield from (_specification(span) | {"dayOfWeek": days} for span in spans)
    for day in (today + timedelta(number) for number in range(SPECIAL_DAYS)):
        spans = hours.on(day)
        if spans != hours.week[day.weekday()]:
            valid = {"validFrom": day.isoformat(), "validThrough": day.isoformat()}
            # Without times on a day, the day is closed. Search engines expect equal times.
            yield from (_specification(span) | valid for span in spans or _CLOSED)


def _specification(span: Span) -> Node:
    """The hours of a span. If it closes before it opens, it ends on the next day. The end of a day is 23:59."""
    opens, closes = span
    last = DAY - 1 if closes == DAY else closes % DAY
    return {
        "@type": "OpeningHoursSpecification",
        "opens": f"{opens // 60:02}:{opens % 60:02}",
        "closes": f"{last // 60:02}:{last % 60:02}",
    }


def _text(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"
