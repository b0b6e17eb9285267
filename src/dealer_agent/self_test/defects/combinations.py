"""Defects that simple requests do not show: agents that are wrong only for some values, filters or bindings."""

import itertools
from typing import Any

from dealer_agent.self_test.changing import answers, asks, calls, error_payload, with_status
from dealer_agent.self_test.defect import broken
from dealer_agent.self_test.reading import (
    ENDS,
    FACETS,
    LISTS,
    SEARCH,
    SORTS,
    STOCK,
    VEHICLE,
    Chosen,
    Members,
    changes,
    id_of,
    only_filter,
    reads,
    reads_filters,
    with_filters,
    without_filter,
)

LARGE = 100
"""The limit of most searches of the checks."""


def _page(members: Members) -> dict[str, Any]:
    """The pagination of a search; empty if it has none."""
    node = members.get("pagination")
    return node if isinstance(node, dict) else {}


def _limit(members: Members) -> Any:
    """The limit of a search."""
    return _page(members).get("limit")


def _is_later(members: Members) -> bool:
    """Searches for later pages."""
    return _page(members).get("skip", 0) not in (0, "0", None)


# Some values only


def _rarest(column: str) -> str:
    """The least frequent value of a column in the stock."""
    words = [row[column] for row in STOCK if row[column] and row["status"] != "sold"]
    return min(sorted(set(words), reverse=True), key=words.count)


def _is_rarest(name: str) -> Chosen:
    """Searches by the least frequent value of a member."""
    words = [_rarest("rooftop" if name == "rooftops" else name)]
    return lambda members: only_filter(members, name) == words


def _exclusive(name: str) -> Any:
    """A range that does not include its ends."""
    step = 1 if name.endswith("_min") else -1
    return reads_filters(
        lambda members: (
            type(only_filter(members, name)) is int and 1900 < only_filter(members, name) < 2100
            if name.startswith("year")
            else type(only_filter(members, name)) is int and only_filter(members, name) > 0
        ),
        lambda filters: {name: filters[name] + step},
    )


for _name in LISTS:
    broken(f"filter-values.{id_of(_name)}")(reads_filters(_is_rarest(_name), lambda _: {"make": ["Qzxvwk"]}))
for _name in ENDS:
    broken(f"range-values.{id_of(_name)}")(_exclusive(_name))

# Beside other members


def _small_page_of(field: str, order: str) -> Chosen:
    """Searches without filters for a page of 3 vehicles in this order."""
    sort = {"field": field, "order": order}
    return lambda members: members.get("sort") == sort and "filters" not in members and _limit(members) == 3


def _backwards(members: dict[str, Any]) -> Members:
    """The same search in the opposite order."""
    order = "asc" if members["sort"]["order"] == "desc" else "desc"
    return {**members, "sort": {**members["sort"], "order": order}}


for _field in SORTS:
    for _order in ("asc", "desc"):
        broken(f"sort-pages.{id_of(_field)}-{_order}")(reads(SEARCH, _small_page_of(_field, _order), _backwards))

broken("filters.pairs")(
    reads_filters(
        lambda members: {"condition", "year_min"} < {*(members.get("filters") or ())}, without_filter("year_min")
    )
)
broken("filters.with-all-else")(
    reads_filters(lambda members: "sort" in members and with_filters("body")(members), without_filter("body"))
)
broken("query.with-all-filters")(reads_filters(with_filters("query", "fuel"), without_filter("fuel")))
broken("filters.everywhere")(
    reads_filters(
        lambda members: _limit(members) == LARGE and with_filters("query", "year_max")(members),
        without_filter("year_max"),
    )
)
broken("search.total-everywhere")(
    changes(
        SEARCH,
        lambda members: "sort" in members and with_filters("year_max")(members) and _limit(members) == LARGE,
        lambda page: page.update(total=page["total"] + 1, limit=len(page["vehicles"])),
    )
)
broken("search.page-everywhere")(
    changes(
        SEARCH,
        lambda members: _limit(members) == LARGE and "sort" not in members and with_filters("query")(members),
        lambda page: page.update(skip=1),
    )
)
broken("sort.everywhere")(
    reads(
        SEARCH,
        lambda members: {"filters", "privacy", "sort"} <= set(members),
        lambda members: {name: value for name, value in members.items() if name != "sort"},
    )
)
broken("search.limit-echo-of-pages")(
    changes(SEARCH, lambda members: _is_later(members) and _limit(members) == 3, lambda page: page.update(limit=1))
)

# One binding only


calls(
    "bindings.same-answers",
    lambda call: call.with_payload(lambda payload: payload["filters"].pop("fuel", None)),
    lambda call: call.is_rpc and call.skill == SEARCH and isinstance(call.payload.get("filters"), dict),
    binding="HTTP+JSON",
)
answers(
    "json-rpc.id-everywhere",
    lambda answer: answer.with_document(lambda document: document.update(id=6)),
    lambda call: call.is_rpc and call.skill == FACETS,
)

answers(
    "json-rpc.id-everywhere",
    lambda answer: answer.with_document(lambda document: document.update(id=None) if "error" in document else None),
    lambda call: call.is_rpc and call.skill == VEHICLE and "id" in call.document,
    name="json-rpc.id-everywhere.null",
)

# Details and facets


def _requests_by(name: str) -> Chosen:
    """Requests that have this member alone."""
    return lambda members: set(members) == {name}


def _as_text(facets: dict[str, Any]) -> None:
    """Writes the counts of facets as texts."""
    for facet in facets.values():
        for entry in facet if isinstance(facet, list) else ():
            entry["count"] = str(entry["count"])


def _cheaper(listing: dict[str, Any]) -> None:
    """Lowers the price of a listing."""
    if "price" in listing:
        listing["price"] -= 500


broken("facets.numbers")(changes(FACETS, lambda _: True, _as_text))
broken("facets.complete")(changes(FACETS, lambda _: True, lambda facets: facets.pop("trims")))
broken("vehicle.essential")(changes(VEHICLE, _requests_by("vin"), lambda listing: listing.pop("price", None)))
broken("vehicle.same-by-identifier")(changes(VEHICLE, _requests_by("stock"), _cheaper))
broken("vehicle.member-forms")(
    changes(VEHICLE, _requests_by("vin"), lambda listing: listing.update(updated_at="this morning"))
)
_number = itertools.count()
broken("listing.vehicle-id-stable")(
    changes(
        SEARCH,
        lambda members: members == {"pagination": {"limit": 21}},
        lambda page: [each.update(vehicle_id=f"unit-{next(_number)}") for each in page["vehicles"]],
    )
)

# Errors


UNKNOWN_COLOURS = asks("inventory.facets.request", filters={"colour_of_seats": ["red"]})
answers("errors.status-class", with_status(501), asks("inventory.vehicle.request", stock="QZXVWK-0"))
answers(
    "errors.retryable-same",
    error_payload(lambda node: node.update(retryable=True)),
    asks("inventory.search.request", sort={"field": "year"}),
)
answers(
    "errors.pointers",
    error_payload(lambda node: node["details"].update(instancePath="/pagination")),
    UNKNOWN_COLOURS,
)
answers(
    "errors.received-everywhere",
    error_payload(lambda node: node["details"].update(received=7)),
    asks("inventory.search.request", filters={"year_min": 1899}),
)
