"""Defects for the checks of sorting: agents that put the results of a search in a wrong order."""

from collections.abc import Callable
from typing import Any

from dealer_agent.self_test.defect import broken
from dealer_agent.self_test.reading import SEARCH, SORTS, Chosen, changes, id_of, reads, with_filters


def _sorted_by(field: str, order: str) -> Chosen:
    """The first large page of all vehicles in an order."""
    pagination = {"skip": 0, "limit": 100}
    return lambda members: members == {"sort": {"field": field, "order": order}, "pagination": pagination}


def _sort_reversed(members: dict[str, Any]) -> dict[str, Any]:
    """The same search in the opposite order."""
    order = "asc" if members["sort"]["order"] == "desc" else "desc"
    return {**members, "sort": {**members["sort"], "order": order}}


def _absent_first(field: str) -> Callable[[dict[str, Any]], None]:
    """Puts vehicles without the value first, where they must be last."""

    def change(page: dict[str, Any]) -> None:
        page["vehicles"].sort(key=lambda each: field in each)

    return change


def _without_absent(page: dict[str, Any]) -> None:
    """Leaves out vehicles without a price, which a sort must keep."""
    page["vehicles"] = [each for each in page["vehicles"] if "price" in each]
    page["total"] = len(page["vehicles"])


for _field in SORTS:
    for _order in ("asc", "desc"):
        _part = f"{id_of(_field)}-{_order}"
        broken(f"sort.{_part}")(reads(SEARCH, _sorted_by(_field, _order), _sort_reversed))
        if _field in ("price", "list_price", "msrp", "mileage"):
            broken(f"sort-absent.{_part}")(changes(SEARCH, _sorted_by(_field, _order), _absent_first(_field)))

broken("sort.keeps-all")(changes(SEARCH, _sorted_by("price", "asc"), _without_absent))
broken("sort.with-filters")(
    reads(
        SEARCH,
        lambda members: with_filters("year_max")(members) and members.get("sort") == {"field": "year", "order": "desc"},
        lambda members: {name: value for name, value in members.items() if name != "sort"},
    )
)
