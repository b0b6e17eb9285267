"""Defects for the checks of strictness: agents that accept what they must refuse, or refuse what they must accept."""

from collections.abc import Mapping
from typing import Any

from dealer_agent.self_test.defect import broken
from dealer_agent.self_test.reading import (
    ENDS,
    FACETS,
    INFORMATION,
    LISTS,
    SEARCH,
    VEHICLE,
    VIN,
    Chosen,
    Members,
    id_of,
    member_of,
    only_filter,
    reads,
    refuses,
    with_filters,
)

OVERLOOKED: Mapping[str, tuple[str, Any]] = {
    "strict.unknown-member": ("colour_of_seats", "red"),
    "strict.unknown-filter": ("filters.colour_of_seats", ["red"]),
    "strict.unknown-in-pagination": ("pagination.colour_of_seats", 1),
    "strict.unknown-in-sort": ("sort.colour_of_seats", 1),
    "strict.unknown-in-privacy": ("privacy.colour_of_seats", 1),
    "strict.facets-unknown-member": ("colour_of_seats", "red"),
    "strict.facets-unknown-filter": ("filters.colour_of_seats", ["red"]),
    "strict.facets-pagination": ("pagination", {"skip": 0, "limit": 10}),
    "strict.vehicle-unknown-member": ("colour_of_seats", "red"),
    "strict.information-unknown-member": ("colour_of_seats", "red"),
    "strict.information-filters": ("filters", {}),
    "strict.sort-without-order": ("sort", {"field": "year"}),
    "strict.sort-without-field": ("sort", {"order": "asc"}),
    "strict.sort-empty": ("sort", {}),
    "strict.sort-unknown-field": ("sort", {"field": "color", "order": "asc"}),
    "strict.sort-unknown-order": ("sort", {"field": "year", "order": "up"}),
    "strict.sort-type": ("sort", "year"),
    "strict.sort-offered-price": ("sort", {"field": "offered_price", "order": "asc"}),
    "strict.skip-negative": ("pagination.skip", -1),
    "strict.skip-text": ("pagination.skip", "0"),
    "strict.limit-zero": ("pagination.limit", 0),
    "strict.limit-1001": ("pagination.limit", 1001),
    "strict.pagination-type": ("pagination", [0, 10]),
    "strict.privacy-type": ("privacy", True),
    "strict.anonymous-type": ("privacy.anonymous", "yes"),
    "strict.filters-type": ("filters", ["honda"]),
    "strict.year-1899": ("filters.year_min", 1899),
    "strict.year-2101": ("filters.year_max", 2101),
    "strict.year-text": ("filters.year_max", "2020"),
    "strict.year-fraction": ("filters.year_min", 2020.5),
    "strict.price-text": ("filters.price_max", "30000"),
    "strict.price-boolean": ("filters.price_min", True),
    "strict.mileage-text": ("filters.mileage_max", "10"),
    "strict.condition-unknown": ("filters.condition", ["mint"]),
    "strict.vehicle-type-unknown": ("filters.vehicle_type", ["boat"]),
    "strict.dc-fast-charge-type": ("filters.dc_fast_charge", "true"),
    "strict.word-number": ("filters.make", [7]),
    "strict.vin-short": ("filters.vin", "1HGCY1F30RA00001"),
    "strict.vin-long": ("filters.vin", "1HGCY1F30RA0000177"),
    "strict.vin-letter": ("filters.vin", "IHGCY1F30RA000017"),
    "strict.vin-lower-case": ("filters.vin", "1hgcy1f30ra000017"),
    "strict.vin-type": ("filters.vin", ["1HGCY1F30RA000017"]),
    "strict.stock-type": ("filters.stock", 1234),
    "strict.query-type": ("filters.query", ["honda"]),
    "strict.facets-condition-unknown": ("filters.condition", ["mint"]),
    "strict.facets-condition-type": ("filters.condition", "used"),
    "strict.vehicle-vin-type": ("vin", 17),
    "strict.vehicle-stock-type": ("stock", ["A1"]),
    "strict.vehicle-id-type": ("vehicle_id", {"id": "A1"}),
    "strict.vehicle-zip-type": ("zip", 37203),
    "strict.filter-null": ("filters.model", None),
    "strict.query-201": ("filters.query", "a" * 201),
}
"""By requirement, the path of a member and its invalid value. A broken agent answers as if the member were absent."""

REFUSED: Mapping[str, tuple[str, Any]] = {
    "bounds.year-1900": ("filters.year_min", 1900),
    "bounds.year-2100": ("filters.year_max", 2100),
    "bounds.price-zero": ("filters.price_max", 0),
    "bounds.mileage-zero": ("filters.mileage_max", 0),
    "bounds.large-price": ("filters.price_max", 2000000000),
    "bounds.skip-zero": ("pagination", {"skip": 0}),
    "bounds.vin": ("filters.vin", "ABCDEFGHJKLMNPRST"),
    "bounds.other-script": ("filters.make", ["Škoda", "トヨタ"]),
    "bounds.sort-offered-price": ("sort", {"field": "offered_price", "order": "asc"}),
}
"""By requirement, the path of a member and its valid value. A broken agent refuses requests that have it."""


def _has(path: str, value: Any) -> Chosen:
    """Whether a request has this value, of the same type, at a path, and no other member but a VIN.

    So the requests of other checks are answered as before.
    """
    names = path.split(".")

    def chosen(members: Members) -> bool:
        node: Any = members
        if not set(members) <= {names[0], "vin"}:
            return False
        for name in names:
            if not isinstance(node, dict) or name not in node:
                return False
            node = node[name]
        return bool(node == value) and type(node) is type(value)

    return chosen


def _skill_of(requirement_id: str) -> str:
    """The skill whose requests a requirement is about."""
    name = requirement_id.removeprefix("strict.")
    if name.startswith("vehicle-") and not name.startswith("vehicle-type"):
        return VEHICLE
    return FACETS if name.startswith("facets-") else INFORMATION if name.startswith("information-") else SEARCH


def _overlooks(requirement_id: str, chosen: Chosen) -> None:
    """Adds the defect that some invalid requests are answered as if the wrong member were absent."""
    skill = _skill_of(requirement_id)

    def without(members: Members) -> Members:
        vin = members.get("vin")
        return {"vin": vin if isinstance(vin, str) else VIN} if skill == VEHICLE else {}

    broken(requirement_id)(reads(skill, chosen, without))


for _id, (_path, _value) in OVERLOOKED.items():
    _overlooks(_id, _has(_path, _value))
for _id, (_path, _value) in REFUSED.items():
    broken(_id)(refuses(SEARCH, _has(_path, _value)))


def _is_text(name: str) -> Chosen:
    """Searches by this filter alone, with a text."""
    return lambda members: isinstance(only_filter(members, name), str)


def _is_negative(name: str) -> Chosen:
    """Searches by this filter alone, with -1."""
    return lambda members: only_filter(members, name) == -1


def _is_there(name: str) -> Chosen:
    """Searches by this filter alone."""
    return lambda members: only_filter(members, name) is not None


for _name in LISTS:
    _overlooks(f"strict-list.{id_of(_name)}", _is_text(_name))
for _name in ENDS:
    if member_of(_name) != "year":
        _overlooks(f"strict-negative.{id_of(_name)}", _is_negative(_name))
# An early filter is one of version 1.2 in a request of an earlier version, whose schema forbids it. A broken agent
# answers as if it were absent.
for _name in ("vehicle_type", "charge_port", "dc_fast_charge", *ENDS):
    if member_of(_name) in ("vehicle_type", "charge_port", "dc_fast_charge", "displacement_cc", "electric_range_mi"):
        _overlooks(f"early-filter.{id_of(_name)}", _is_there(_name))
broken("strict.unknown-filter-beside")(reads(SEARCH, with_filters("make", "colour_of_seats"), lambda _: {}))
broken("strict.unknown-member-beside")(
    reads(SEARCH, lambda members: {"colour_of_seats", "filters"} <= members.keys(), lambda _: {})
)
