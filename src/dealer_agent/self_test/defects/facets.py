"""Defects for the checks of facets: agents that count the values of the stock wrongly, or send a malformed response."""

from typing import Any

from dealer_agent.self_test.defect import Change, broken
from dealer_agent.self_test.reading import (
    ENDS,
    FACET_NAMES,
    FACETS,
    LISTS,
    NOBODY,
    OTHERS,
    Chosen,
    Members,
    changes,
    exactly,
    id_of,
    only_filter,
    reads,
    refuses,
)


def _whole(members: Members) -> bool:
    """Requests for the facets of the whole stock."""
    return members in ({}, {"filters": {}})


def _one_more(name: str) -> Change:
    """Counts one vehicle too many for the first value of a facet."""

    def change(facets: dict[str, Any]) -> None:
        facets[name][0]["count"] += 1

    return change


def _wider(name: str) -> Change:
    """Makes the highest value of a range too high."""

    def change(facets: dict[str, Any]) -> None:
        facets[name]["max"] += 1

    return change


def _filtered(name: str) -> Chosen:
    """Requests by this filter alone that find something."""
    return lambda members: only_filter(members, name) not in (None, [NOBODY])


def _many_more(facets: dict[str, Any]) -> None:
    """Counts far too many vehicles with a status."""
    facets.setdefault("statuses", [{"value": "available", "count": 0}])[0]["count"] += 1000


for _name in FACET_NAMES:
    _wrong = _wider(_name) if _name.endswith("_range") else _one_more(_name)
    broken(f"facet.{id_of(_name)}")(changes(FACETS, _whole, _wrong))
for _name in (*LISTS, *ENDS, *OTHERS):
    broken(f"facets-filter.{id_of(_name)}")(changes(FACETS, _filtered(_name), _many_more))


def _first_alone(payload: dict[str, Any]) -> dict[str, Any]:
    """The request with the first of two conditions."""
    return payload | {"filters": {"condition": payload["filters"]["condition"][:1]}}


def _two_conditions(members: Members) -> bool:
    return isinstance(words := only_filter(members, "condition"), list) and len(words) == 2


broken("facets-filter.condition", name="facets-filter.condition.two")(reads(FACETS, _two_conditions, _first_alone))
broken("facet.makes", name="facet.makes.left-out")(changes(FACETS, _whole, lambda facets: facets["makes"].pop(0)))
broken("facets.type-only")(refuses(FACETS, exactly({})))
broken("facets.empty-filters")(reads(FACETS, exactly({"filters": {}}), lambda _: {"filters": {"condition": ["used"]}}))
broken("facets.some")(changes(FACETS, _whole, lambda facets: facets.clear()))
broken("facets.entries")(changes(FACETS, _whole, lambda facets: facets["trims"][-1].pop("count")))
broken("facets.entry-members")(changes(FACETS, _whole, lambda facets: facets["trims"][-1].update(label="Trim")))
broken("facets.range-form")(changes(FACETS, _whole, lambda facets: facets.update(mileage_range=[1, 2])))
broken("facets.range-members")(changes(FACETS, _whole, lambda facets: facets["mileage_range"].update(mean=3)))
broken("facets.values-once")(
    changes(FACETS, _whole, lambda facets: facets["trims"].append({**facets["trims"][0], "count": 0}))
)
broken("facets.highest-first")(changes(FACETS, _whole, lambda facets: facets["trims"].reverse()))
broken("facets.years")(
    changes(FACETS, _whole, lambda facets: [each.update(value=str(each["value"])) for each in facets["years"]])
)
broken("facets.known-members")(changes(FACETS, _whole, lambda facets: facets.update(colours=[])))
broken("facets.by-revision")(
    changes(FACETS, _whole, lambda facets: facets.update(charge_ports=[{"value": "ccs", "count": 1}]))
)
broken("facets.filters-kept")(reads(FACETS, lambda members: only_filter(members, "body"), lambda _: {}))
broken("facets.empty", name="facets.empty.refused")(
    refuses(FACETS, lambda members: only_filter(members, "make") == [NOBODY])
)
broken("facets.empty")(reads(FACETS, lambda members: only_filter(members, "make") == [NOBODY], lambda _: {}))
broken("facets.filtered-range")(
    changes(FACETS, lambda members: only_filter(members, "price_max") is not None, _wider("price_range"))
)
