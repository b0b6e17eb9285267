"""The stock of a dealer: the units as agents see them, one unit, units with a problem, and units that are held back."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from dealer_agent.console.rendering import clipped
from dealer_agent.console.requests import ConsoleRequest, not_found
from dealer_agent.inventory.catalogue import Catalogue, Listing
from dealer_agent.operations.stock import decide_unit, facts_of, held_document, origin_of, other_facts
from dealer_agent.operations.stock_problems import (
    MOST_FOUND,
    OLD_AFTER,
    PROBLEM_BY_ID,
    PROBLEMS,
    FoundUnits,
    problems_of,
)
from dealer_agent.protocol.requests import Filters
from dealer_agent.protocol.timestamps import parse_timestamp
from dealer_agent.protocol.vehicle import FIELDS
from dealer_agent.server.service import Service
from dealer_agent.storage.offers import held_until, hold_of_vehicle
from dealer_agent.storage.stock.held_units import Decision, HeldUnit, find_held, held_units
from dealer_agent.storage.stock.reading import find_units, list_old_units

PAGE = 50
LONGEST_QUERY = 200
LONGEST_ID = 200
MOST_FACTS = 100
"""The most members of a unit that its page shows."""
MOST_PHOTOS = 6
_LONGEST_FACT = 300
_LONGEST_TEXT = 2_000
_MOST_ITEMS = 20
_NOT_SHOWN = ("photos", "vehicle_id", "dealer_id")


class Pages(NamedTuple):
    """Which page of a list this is. `number` counts from 1, and `total` are the rows of all pages."""

    number: int
    total: int

    @property
    def skip(self) -> int:
        """How many rows come before the page."""
        return (self.number - 1) * PAGE

    @property
    def has_next(self) -> bool:
        """Whether there are more rows."""
        return self.number * PAGE < self.total


class Fact(NamedTuple):
    """A member of a unit with its label."""

    label: str
    value: str


def list_(request: ConsoleRequest) -> Response:
    """The units for sale as agents see them, with a search by words."""
    words = request.query.get("q", "").strip()[:LONGEST_QUERY]
    number = request.page_number()
    filters = Filters(query=words) if words else UNSET
    page = request.service().dealer.catalogue.search(filters, (number - 1) * PAGE, PAGE)
    units = [msgspec.json.decode(listing) for listing in page.listings]
    with request.dealer.read(request.now) as tx:
        ends = held_until(tx, [unit["vehicle_id"] for unit in units])
    return request.page("stock.html", units=units, held_until=ends, pages=Pages(number, page.total), words_asked=words)


def show(request: ConsoleRequest) -> Response:
    """One unit: what agents see, what the feed says, where it came from, and why it is held back."""
    vehicle_id = request.query.get("id", "")[:LONGEST_ID]
    listing = request.service().dealer.catalogue.find(vehicle_id=vehicle_id)
    seen = facts_of(listing.json) if isinstance(listing, Listing) else None
    with request.dealer.read(request.now) as tx:
        held = find_held(tx, vehicle_id)
        hold = hold_of_vehicle(tx, vehicle_id)
        stock_number, unit = find_units(tx, [vehicle_id]).get(vehicle_id, (None, None))
        if seen is None and held is None and stock_number is None:
            not_found("No unit has this id. It may have left the stock some time ago.")
        changed_at = None if seen is None else parse_timestamp(seen.get("changed_at", ""))
        origin = origin_of(tx, request.dealer, None if seen is None else seen.get("rooftop"), changed_at, held)
    fed = None if unit is None else facts_of(msgspec.json.encode(unit))
    about = None if held is None else held_document(request.dealer, held)
    return request.page(
        "unit.html",
        vehicle_id=vehicle_id,
        title=_title(seen or fed or {}, held, stock_number),
        seen=_facts(seen),
        photos=_photos(seen),
        fed=_facts(other_facts(fed, seen)),
        held=about,
        hold=hold,
        hold_until=None if hold is None else request.dealer.local(hold.expires_at, (seen or {}).get("rooftop")),
        held_facts=_facts(other_facts(about["feed"], fed)) if about else [],
        can_release=held is not None and held.decision != "released" and all(d.is_releasable for d in held.doubts),
        can_hide=held is None or held.decision != "hidden",
        origin=origin,
    )


def release(request: ConsoleRequest) -> Response:
    """Publishes a held or hidden unit as the feed gives it."""
    return _decide(request, "released")


def hide(request: ConsoleRequest) -> Response:
    """Removes a unit from what agents see, whatever the feed says."""
    return _decide(request, "hidden")


def list_held(request: ConsoleRequest) -> Response:
    """The units that are held back, and those that a person hid."""
    with request.dealer.read() as tx:
        held = held_units(tx)
    pages = Pages(request.page_number(), len(held))
    return request.page("held_units.html", held=held[pages.skip :][:PAGE], pages=pages, may_release=_may_release)


def list_problems(request: ConsoleRequest) -> Response:
    """The units for sale with a problem of one kind, each with its reason."""
    kind = PROBLEM_BY_ID.get(request.query.get("kind", PROBLEMS[0].id)) or not_found("There is no such problem.")
    service = request.service()
    problems = _problems(service, request)
    with request.dealer.read() as tx:
        held = len(held_units(tx))
    pages = Pages(request.page_number(), min(problems[kind.id].count, MOST_FOUND))
    reasons = dict(islice(problems[kind.id].reasons.items(), pages.skip, pages.skip + PAGE))
    return request.page(
        "stock_problems.html",
        kind=kind,
        kinds=PROBLEMS,
        problems=problems,
        held=held,
        units=_named(service.dealer.catalogue, reasons),
        pages=pages,
    )


def _problems(service: Service, request: ConsoleRequest) -> Mapping[str, FoundUnits]:
    """The units with a problem. They are searched once for each stock and day."""
    dealer, loaded = service.dealer, service.loaded.stock
    # The id of the catalogue, because a reference would keep an old one in memory.
    today = request.dealer.local(request.now).date()
    key = (id(dealer.catalogue), dealer.stock_at, loaded, today)
    cached = service.documents.get(_problems)
    if cached is None or cached[0] != key:
        with request.dealer.read() as tx:
            old_units = list_old_units(tx, request.now - OLD_AFTER, MOST_FOUND)
        listings = dealer.catalogue.listings(range(len(dealer.catalogue)))
        problems = problems_of(listings, request.dealer.settings.checks, old_units, today)
        cached = service.documents[_problems] = (key, problems)
    return cast(Mapping[str, FoundUnits], cached[1])


def _named(catalogue: Catalogue, reasons: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """The id, the title and the reason of each unit."""
    rows = []
    for vehicle_id, reason in reasons.items():
        listing = catalogue.find(vehicle_id=vehicle_id)
        seen = facts_of(listing.json) if isinstance(listing, Listing) else None
        rows.append((vehicle_id, _title(seen or {}, None, vehicle_id), reason))
    return rows


def _decide(request: ConsoleRequest, decision: Decision) -> Response:
    vehicle_id = request.text("id", LONGEST_ID)
    decide_unit(request.dealer, vehicle_id, decision, by=request.actor)
    return request.go("stock", "unit", id=vehicle_id, said=f"unit-{decision}")


def _may_release(held: HeldUnit) -> bool:
    return all(doubt.is_releasable for doubt in held.doubts)


def _title(facts: Mapping[str, Any], held: HeldUnit | None, stock_number: str | None) -> str:
    """The name of a unit in a heading: what it is, and its stock number or VIN."""
    what = " ".join(str(facts[name]) for name in ("year", "make", "model", "trim") if facts.get(name))
    number = facts.get("stock") or facts.get("vin") or (held.name if held else stock_number) or ""
    return clipped(", ".join(part for part in (what, str(number)) if part), 120) or "A unit"


def _facts(facts: Mapping[str, Any] | None) -> list[Fact]:
    """The members of a unit for a page, within bounds."""
    shown = ((name, value) for name, value in (facts or {}).items() if name not in _NOT_SHOWN)
    return [Fact(_label(name), _value(name, value)) for name, value in islice(shown, MOST_FACTS)]


def _label(name: str) -> str:
    return FIELDS[name].field.label if name in FIELDS else clipped(name.replace("_", " ").capitalize(), 60)


def _value(name: str, value: Any) -> str:
    """A value of a unit as text, cut off where it is long."""
    if isinstance(value, list):
        more = f" and {len(value) - _MOST_ITEMS:,} more" if len(value) > _MOST_ITEMS else ""
        return ", ".join(_value(name, each) for each in value[:_MOST_ITEMS]) + more
    if isinstance(value, dict):
        return " ".join(_value(name, each) for each in islice(value.values(), _MOST_ITEMS))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return clipped(str(value), _LONGEST_TEXT if name == "description" else _LONGEST_FACT)


def _photos(facts: Mapping[str, Any] | None) -> list[str]:
    """The first photos, only from https addresses."""
    photos = (facts or {}).get("photos", ())
    return [url for url in photos if url.startswith("https://")][:MOST_PHOTOS]
