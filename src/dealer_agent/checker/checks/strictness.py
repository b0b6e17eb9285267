"""Requests of the reading skills that a dealer agent must refuse, and those at a bound that it must accept."""

from collections.abc import Mapping
from typing import Any

from dealer_agent.checker.check import CheckFunction, check
from dealer_agent.checker.checks.filters import RANGE_FILTERS, WORD_FILTERS, name_of
from dealer_agent.checker.searches import expect_refused
from dealer_agent.checker.target import Target

Members = Mapping[str, Any]

SEARCH, FACETS, VEHICLE, INFORMATION = "inventory.search", "inventory.facets", "inventory.vehicle", "dealer.information"
UNKNOWN = "colour_of_seats"
"""A member that no revision knows."""

REFUSED: dict[str, tuple[str, Members]] = {
    # Unknown members.
    "strict.unknown-member": (SEARCH, {UNKNOWN: "red"}),
    "strict.unknown-filter": (SEARCH, {"filters": {UNKNOWN: ["red"]}}),
    "strict.unknown-in-pagination": (SEARCH, {"pagination": {"skip": 0, "limit": 10, UNKNOWN: 1}}),
    "strict.unknown-in-sort": (SEARCH, {"sort": {"field": "year", "order": "asc", UNKNOWN: 1}}),
    "strict.unknown-in-privacy": (SEARCH, {"privacy": {"anonymous": True, UNKNOWN: 1}}),
    "strict.facets-unknown-member": (FACETS, {UNKNOWN: "red"}),
    "strict.facets-unknown-filter": (FACETS, {"filters": {UNKNOWN: ["red"]}}),
    "strict.facets-pagination": (FACETS, {"pagination": {"skip": 0, "limit": 10}}),
    "strict.vehicle-unknown-member": (VEHICLE, {"vin": "1HGCY1F30RA000017", UNKNOWN: "red"}),
    "strict.information-unknown-member": (INFORMATION, {UNKNOWN: "red"}),
    "strict.information-filters": (INFORMATION, {"filters": {}}),
    # Sort.
    "strict.sort-without-order": (SEARCH, {"sort": {"field": "year"}}),
    "strict.sort-without-field": (SEARCH, {"sort": {"order": "asc"}}),
    "strict.sort-empty": (SEARCH, {"sort": {}}),
    "strict.sort-unknown-field": (SEARCH, {"sort": {"field": "color", "order": "asc"}}),
    "strict.sort-unknown-order": (SEARCH, {"sort": {"field": "year", "order": "up"}}),
    "strict.sort-type": (SEARCH, {"sort": "year"}),
    "strict.sort-offered-price": (SEARCH, {"sort": {"field": "offered_price", "order": "asc"}}),
    # Pagination and privacy.
    "strict.skip-negative": (SEARCH, {"pagination": {"skip": -1}}),
    "strict.skip-text": (SEARCH, {"pagination": {"skip": "0"}}),
    "strict.limit-zero": (SEARCH, {"pagination": {"limit": 0}}),
    "strict.limit-1001": (SEARCH, {"pagination": {"limit": 1001}}),
    "strict.pagination-type": (SEARCH, {"pagination": [0, 10]}),
    "strict.privacy-type": (SEARCH, {"privacy": True}),
    "strict.anonymous-type": (SEARCH, {"privacy": {"anonymous": "yes"}}),
    # Filters.
    "strict.filters-type": (SEARCH, {"filters": ["honda"]}),
    "strict.filter-null": (SEARCH, {"filters": {"model": None}}),
    "strict.year-1899": (SEARCH, {"filters": {"year_min": 1899}}),
    "strict.year-2101": (SEARCH, {"filters": {"year_max": 2101}}),
    "strict.year-text": (SEARCH, {"filters": {"year_max": "2020"}}),
    "strict.year-fraction": (SEARCH, {"filters": {"year_min": 2020.5}}),
    "strict.price-text": (SEARCH, {"filters": {"price_max": "30000"}}),
    "strict.price-boolean": (SEARCH, {"filters": {"price_min": True}}),
    "strict.mileage-text": (SEARCH, {"filters": {"mileage_max": "10"}}),
    "strict.condition-unknown": (SEARCH, {"filters": {"condition": ["mint"]}}),
    "strict.vehicle-type-unknown": (SEARCH, {"filters": {"vehicle_type": ["boat"]}}),
    "strict.dc-fast-charge-type": (SEARCH, {"filters": {"dc_fast_charge": "true"}}),
    "strict.word-number": (SEARCH, {"filters": {"make": [7]}}),
    "strict.vin-short": (SEARCH, {"filters": {"vin": "1HGCY1F30RA00001"}}),
    "strict.vin-long": (SEARCH, {"filters": {"vin": "1HGCY1F30RA0000177"}}),
    "strict.vin-letter": (SEARCH, {"filters": {"vin": "IHGCY1F30RA000017"}}),
    "strict.vin-lower-case": (SEARCH, {"filters": {"vin": "1hgcy1f30ra000017"}}),
    "strict.vin-type": (SEARCH, {"filters": {"vin": ["1HGCY1F30RA000017"]}}),
    "strict.stock-type": (SEARCH, {"filters": {"stock": 1234}}),
    "strict.query-201": (SEARCH, {"filters": {"query": "a" * 201}}),
    "strict.query-type": (SEARCH, {"filters": {"query": ["honda"]}}),
    "strict.facets-condition-unknown": (FACETS, {"filters": {"condition": ["mint"]}}),
    "strict.facets-condition-type": (FACETS, {"filters": {"condition": "used"}}),
    # The vehicle.
    "strict.vehicle-vin-type": (VEHICLE, {"vin": 17}),
    "strict.vehicle-stock-type": (VEHICLE, {"stock": ["A1"]}),
    "strict.vehicle-id-type": (VEHICLE, {"vehicle_id": {"id": "A1"}}),
    "strict.vehicle-zip-type": (VEHICLE, {"vin": "1HGCY1F30RA000017", "zip": 37203}),
}
"""Requests with one defect, by the id of the requirement that refuses them."""

for _name in WORD_FILTERS:
    REFUSED[f"strict-list.{name_of(_name)}"] = (SEARCH, {"filters": {_name: "new" if _name == "condition" else "car"}})
for _name in RANGE_FILTERS:
    if not _name.startswith("year"):
        REFUSED[f"strict-negative.{name_of(_name)}"] = (SEARCH, {"filters": {_name: -1}})

ACCEPTED: dict[str, tuple[str, Members]] = {
    "bounds.year-1900": (SEARCH, {"filters": {"year_min": 1900}}),
    "bounds.year-2100": (SEARCH, {"filters": {"year_max": 2100}}),
    "bounds.price-zero": (SEARCH, {"filters": {"price_max": 0}}),
    "bounds.mileage-zero": (SEARCH, {"filters": {"mileage_max": 0}}),
    "bounds.large-price": (SEARCH, {"filters": {"price_max": 2_000_000_000}}),
    "bounds.skip-zero": (SEARCH, {"pagination": {"skip": 0}}),
    "bounds.vin": (SEARCH, {"filters": {"vin": "ABCDEFGHJKLMNPRST"}}),
    "bounds.other-script": (SEARCH, {"filters": {"make": ["Škoda", "トヨタ"]}}),
    "bounds.sort-offered-price": (SEARCH, {"sort": {"field": "offered_price", "order": "asc"}}),
}
"""Valid requests at a bound."""

EARLY: dict[str, Members] = {
    "vehicle_type": {"vehicle_type": ["car"]},
    "displacement_cc_min": {"displacement_cc_min": 900},
    "displacement_cc_max": {"displacement_cc_max": 900},
    "electric_range_mi_min": {"electric_range_mi_min": 100},
    "electric_range_mi_max": {"electric_range_mi_max": 100},
    "dc_fast_charge": {"dc_fast_charge": True},
    "charge_port": {"charge_port": ["ccs"]},
}
"""Filters that the published versions before 1.2 do not know."""

for _name, _filters in EARLY.items():
    REFUSED[f"early-filter.{name_of(_name)}"] = (SEARCH, {"filters": _filters})


def _refused(skill: str, members: Members) -> CheckFunction:
    async def run(target: Target) -> None:
        await expect_refused(target, skill, **members)

    return run


def _accepted(skill: str, members: Members) -> CheckFunction:
    async def run(target: Target) -> None:
        await target.ask(skill, **members)

    return run


for _id, (_skill, _members) in REFUSED.items():
    check(_id)(_refused(_skill, _members))
for _id, (_skill, _members) in ACCEPTED.items():
    check(_id)(_accepted(_skill, _members))
