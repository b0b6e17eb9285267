"""The searches of DMC-12 as searches of this service. Pure."""

from collections.abc import Mapping
from math import ceil, floor
from typing import Any, Final

from dealer_agent.dmc12.records import YEARS
from dealer_agent.protocol.skill import INVENTORY_SEARCH

Json = dict[str, Any]

LONGEST_QUERY: Final = 200
"""The characters of a query that are used: the words within them."""
_CONDITION_OF: Final[Mapping[str, str]] = {"new": "new", "used": "used", "certified": "cpo", "cpo": "cpo"}


def search_payload(arguments: Mapping[str, Any]) -> Json | None:
    """The payload of `inventory.search` for the arguments of search_inventory or list_inventory.

    None if nothing can match: no unit of this service has the condition, or the bounds of the year exclude each other.
    """
    condition = arguments.get("condition", "any")
    if condition != "any" and condition not in _CONDITION_OF:
        return None
    filters = {
        "year_min": max(YEARS[0], arguments.get("min_year", 0), arguments.get("year", 0)),
        "year_max": min(YEARS[-1], arguments.get("max_year", YEARS[-1]), arguments.get("year", YEARS[-1])),
        # Always sent, also as 0: with it, a search leaves out listings without a price.
        "price_min": ceil(arguments.get("min_price", 0)),
    }
    if filters["year_min"] > filters["year_max"]:
        return None
    optional: Json = {name: [arguments[name]] for name in ("make", "model", "trim") if arguments.get(name, "").strip()}
    if condition != "any":
        optional["condition"] = [_CONDITION_OF[condition]]
    if "max_price" in arguments:
        optional["price_max"] = floor(arguments["max_price"])
    if "max_mileage" in arguments:
        optional["mileage_max"] = int(arguments["max_mileage"])
    if query := _query(arguments.get("query", "")):
        optional["query"] = query
    sort_by = arguments.get("sort_by", "relevance")
    payload: Json = {"type": INVENTORY_SEARCH.request_type, "filters": {**filters, **optional}}
    if sort_by != "relevance" or not query:
        field = "price" if sort_by == "relevance" else sort_by
        payload["sort"] = {"field": field, "order": arguments.get("sort_order", "asc")}
    return payload


def _query(text: str) -> str:
    """The words of a query that fit."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_QUERY else text[: LONGEST_QUERY + 1].rpartition(" ")[0] or text[:LONGEST_QUERY]
