"""Makes the pages about vehicles: the list with filters, and one page for each. They need no script. Pure."""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import UNSET, UnsetType

from dealer_agent.dealers.information import dealer_information
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.leads.us_formats import money
from dealer_agent.offers.pricing import AllInPrice
from dealer_agent.offers.words import amount_text, gap_text, place_text, total_label
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.requests import Filters, Sort
from dealer_agent.protocol.responses import TextCount
from dealer_agent.protocol.vehicle import FIELDS, Vehicle
from dealer_agent.server.pages.site import Site, label_of, render
from dealer_agent.server.pages.structured_data import vehicle_data

VEHICLES_PATH = "/vehicles"
VEHICLES_ON_A_PAGE = 24
MOST_OPTIONS = 200
"""The most values that a filter offers."""
MOST_PHOTOS = 60
MOST_PRICE = 100_000_000

CONDITIONS = {"new": "New", "used": "Used", "cpo": "Certified pre-owned"}
STATUSES = {"intransit": "In transit", "pending": "Sale pending"}
SORTS: Mapping[str, tuple[str, Sort | UnsetType]] = {
    "": ("Newest first", UNSET),
    "price-up": ("Lowest price", Sort("price", "asc")),
    "price-down": ("Highest price", Sort("price", "desc")),
    "mileage": ("Lowest mileage", Sort("mileage", "asc")),
    "year": ("Newest model year", Sort("year", "desc")),
}
"""The orders of the list, by their value in the query."""
CHOICES = {"condition": "Condition", "make": "Make", "body": "Body", "fuel": "Fuel", "rooftop": "Location"}
"""The filters with a list of values, by their name in the query."""
ASKED = ("q", *CHOICES, "price_max", "sort")
"""The names of the form."""
_ELSEWHERE = frozenset(
    {
        "vehicle_id", "status", "rooftop", "updated_at", "changed_at", "dealer_id", "condition", "price", "year",
        "make", "model", "trim", "list_price", "msrp", "vehicle_type", "vdp_url", "description", "notes",
    }
)  # fmt: skip
"""The fields that are not among the facts: a page shows them elsewhere, or not."""
_MILES = " miles"


class Query(NamedTuple):
    """What a person asks for: the values of the form, and the page."""

    chosen: Mapping[str, str]
    page: int = 1

    @classmethod
    def of(cls, values: Mapping[str, str]) -> "Query":
        """The query of a URL. Unknown names and empty values are left out. Raises ValueError for a wrong page."""
        chosen = {name: values[name].strip()[:200] for name in ASKED if values.get(name, "").strip()}
        if not chosen.get("price_max", "0").isascii() or not chosen.get("price_max", "0").isdigit():
            del chosen["price_max"]
        if chosen.get("sort", "") not in SORTS:
            del chosen["sort"]
        page = values.get("page", "1")
        if not page.isascii() or not page.isdigit() or len(page) > 6 or int(page) < 1:
            raise ValueError("a page is a number from 1")
        return cls(chosen, int(page))

    @property
    def filters(self) -> Filters | UnsetType:
        """The filters of a search."""
        filters: dict[str, Any] = {
            "rooftops" if name == "rooftop" else name: (self.chosen[name],) for name in CHOICES if name in self.chosen
        }
        if "q" in self.chosen:
            filters["query"] = self.chosen["q"]
        if "price_max" in self.chosen:
            filters["price_max"] = min(int(self.chosen["price_max"][:12]), MOST_PRICE)
        return Filters(**filters) if filters else UNSET

    def at(self, page: int) -> str:
        """The query string of a page of the same list."""
        return urlencode({**self.chosen, **({"page": str(page)} if page > 1 else {})})


def vehicles_page(profile: Profile, catalogue: Catalogue, facts: CardFacts, query: Query) -> str | None:
    """A page of the list. None if the list has no such page."""
    sort = SORTS[query.chosen.get("sort", "")][1]
    first = (query.page - 1) * VEHICLES_ON_A_PAGE
    result = catalogue.search(query.filters, first, VEHICLES_ON_A_PAGE, sort)
    pages = max(1, -(-result.total // VEHICLES_ON_A_PAGE))
    if query.page > pages:
        return None
    facets = catalogue.facets()
    counts = {"condition": facets.conditions, "make": facets.makes, "body": facets.bodies, "fuel": facets.fuels}
    counts["rooftop"] = facets.rooftops
    choices = [(name, label, _options(name, counts[name], query.chosen.get(name))) for name, label in CHOICES.items()]
    vehicles = [msgspec.json.decode(listing, type=Vehicle) for listing in result.listings]
    site = Site(facts)
    return render(
        "vehicles.html",
        facts,
        dealer=profile.name,
        vehicles=[_card(vehicle) for vehicle in vehicles],
        chosen={name: query.chosen.get(name, "") for name in ASKED},
        choices=[each for each in choices if len(each[2]) > 1 or each[0] in query.chosen],
        sorts=[(value, label) for value, (label, _) in SORTS.items()],
        total=result.total,
        of_all=len(catalogue),
        page=query.page,
        pages=pages,
        before=site.to(f"{VEHICLES_PATH}?{query.at(query.page - 1)}"),
        after=site.to(f"{VEHICLES_PATH}?{query.at(query.page + 1)}"),
        has_filters=bool(query.chosen),
    )


def vehicle_page(profile: Profile, vehicle: Vehicle, facts: CardFacts, priced: AllInPrice | None = None) -> str:
    """The page of one vehicle, with its photos, its price in lines, and the place where it is.

    `priced` is its all-in price, if the dealer has one.
    """
    rooftops = dealer_information(profile).rooftops
    rooftop = next((each for each in rooftops if each.name == vehicle.rooftop), rooftops[0])
    url = f"{facts.http_json_url}{address_of(vehicle)}"
    return render(
        "vehicle.html",
        facts,
        dealer=profile.name,
        vehicle=vehicle,
        card=_card(vehicle),
        photos=photos_of(vehicle)[:MOST_PHOTOS],
        lines=list(_price_lines(vehicle)),
        included=[(fee.name, money(fee.amount)) for fee in vehicle.fees or ()],
        facts_of=list(_facts(vehicle)),
        others=list((vehicle.other_attributes or {}).items()),
        rooftop=rooftop,
        all_in=None if priced is None else _all_in(priced),
        structured_data=vehicle_data(vehicle, name_of(vehicle), rooftop, url, photos_of(vehicle)[:MOST_PHOTOS], priced),
    )


def address_of(vehicle: Vehicle) -> str:
    """The path of a vehicle's page."""
    return f"{VEHICLES_PATH}/{quote(vehicle.vehicle_id, safe='')}"


def photos_of(vehicle: Vehicle) -> list[str]:
    """The photos that a page shows: those that are fetched with encryption."""
    return [url for url in vehicle.photos or () if urlsplit(url).scheme == "https"]


def name_of(vehicle: Vehicle) -> str:
    """Year, make, model and trim; without any, the stock number."""
    words = [str(value) for value in (vehicle.year, vehicle.make, vehicle.model, vehicle.trim) if value]
    return " ".join(words) or f"Vehicle {vehicle.stock or vehicle.vehicle_id}"


def _card(vehicle: Vehicle) -> dict[str, object]:
    """The values of a vehicle that the list and its own page show."""
    return {
        "name": name_of(vehicle),
        "address": address_of(vehicle),
        "photo": next(iter(photos_of(vehicle)), None),
        "price": money(vehicle.price) if vehicle.price is not UNSET else None,
        "condition": CONDITIONS.get(vehicle.condition or ""),
        "kind": vehicle.condition or "unstated",
        "status": STATUSES.get(vehicle.status),
        "mileage": _with_unit("mileage", vehicle.mileage) if vehicle.mileage is not UNSET else None,
        "rooftop": vehicle.rooftop,
        "color": vehicle.exterior_color or None,
    }


def _options(name: str, counts: list[TextCount] | UnsetType, chosen: str | None) -> list[tuple[str, str, int | None]]:
    """The value, label and number of vehicles of each option, by label. A chosen value that is unknown is one, too."""
    options: list[tuple[str, str, int | None]] = [
        (entry.value, _label(name, entry.value), entry.count) for entry in (counts or [])[:MOST_OPTIONS]
    ]
    if chosen is not None and all(value != chosen for value, _, _ in options):
        options.append((chosen, _label(name, chosen), None))
    return sorted(options, key=lambda option: option[1].casefold())


def _label(name: str, value: str) -> str:
    if name in ("make", "rooftop"):
        return value
    return CONDITIONS.get(value) or label_of(value)


def _price_lines(vehicle: Vehicle) -> Iterator[tuple[str, str]]:
    """The lines above the advertised price."""
    if vehicle.msrp is not UNSET:
        yield "MSRP", money(vehicle.msrp)
    if vehicle.list_price is not UNSET and vehicle.list_price != vehicle.price:
        yield "List price", money(vehicle.list_price)


def _all_in(priced: AllInPrice) -> dict[str, object]:
    """The texts of an all-in price: its lines, whether each is an estimate, the total, and what is missing."""
    return {
        "place": place_text(priced),
        "lines": [(each.label, amount_text(each.amount, priced.currency), each.firm) for each in priced.lines],
        "total": (total_label(priced), amount_text(priced.total, priced.currency)),
        "gap": gap_text(priced),
    }


def _facts(vehicle: Vehicle) -> Iterator[tuple[str, str]]:
    """The label and the text of each fact about a vehicle."""
    if vehicle.condition is not UNSET:
        yield "Condition", CONDITIONS[vehicle.condition]
    for name, row in FIELDS.items():
        value = getattr(vehicle, name)
        if name in _ELSEWHERE or value in (UNSET, "") or isinstance(value, tuple | dict):
            continue
        if isinstance(value, bool):
            text = "Yes" if value else "No"
        elif isinstance(value, int | float):
            text = _with_unit(name, value)
        elif type(value) is date:
            text = f"{value:%B} {value.day}, {value.year}"
        else:
            text = label_of(value) if row.field.vocabulary not in (None, "colour") else str(value)
        yield row.field.label.replace("colour", "color"), text


def _with_unit(name: str, value: float) -> str:
    """A number with its unit, which is that in the text of a lead."""
    fact, value = FIELDS[name].lead_fact, int(value) if value == int(value) else value
    unit = _MILES if name == "mileage" or fact is None else fact.unit.replace(" mi", _MILES)
    return f"{value:,}{' mile' if value == 1 and unit == _MILES else unit}"
