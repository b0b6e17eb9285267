"""What defects of the reading skills share: which requests they break, and how."""

import csv
import io
from collections.abc import Callable, Mapping
from typing import Any

from dealer_agent.protocol.schemas import request_schema, response_schema
from dealer_agent.protocol.skill import SKILL_BY_ID
from dealer_agent.self_test.changing import When, changes_answers, changes_calls
from dealer_agent.self_test.defect import Agent, Breaking, Call, Change
from dealer_agent.self_test.stock import small_stock

Members = Mapping[str, Any]
"""The members of a payload beside `type`."""

Chosen = Callable[[Members], bool]
"""Whether a broken agent breaks the request with these members. Functions have the requests as their name."""

SEARCH, FACETS, VEHICLE, INFORMATION = "inventory.search", "inventory.facets", "inventory.vehicle", "dealer.information"
NOBODY = "Qzxvwk"
"""A word that no listing has."""

_FILTERS = request_schema(SKILL_BY_ID[SEARCH])["$defs"]["Filters"]["properties"]
LISTS = [name for name, schema in _FILTERS.items() if schema["type"] == "array"]
"""The filters that are lists of words, as the honest agent publishes them."""
ENDS = [name for name in _FILTERS if name.endswith(("_min", "_max"))]
OTHERS = [name for name in _FILTERS if name not in (*LISTS, *ENDS)]
FACET_NAMES = list(response_schema(SKILL_BY_ID[FACETS])["properties"]["data"]["properties"])
MEMBERS = list(response_schema(SKILL_BY_ID[SEARCH])["$defs"]["Vehicle"]["properties"])
"""The members of a listing, as the honest agent publishes them."""
SORTS = request_schema(SKILL_BY_ID[SEARCH])["$defs"]["Sort"]["properties"]["field"]["enum"]

STOCK = list(csv.DictReader(io.StringIO(small_stock().decode())))
"""The rows of the honest agent's feed. An absent value is empty."""

VIN = next(row["vin"] for row in STOCK if row["status"] == "available")


def member_of(end: str) -> str:
    """The member that an end of a range is about."""
    return end.removesuffix("_min").removesuffix("_max")


def id_of(name: str) -> str:
    """The name of a filter, a facet or a member as a part of an id."""
    return name.replace("_", "-")


def values_of(column: str) -> set[str]:
    """The values of a column of the feed."""
    return {row[column] for row in STOCK}


def members_of(call: Call, skill: str) -> dict[str, Any] | None:
    """The members of the payload of a request of a skill, without `type`. None for other requests."""
    if call.skill != skill:
        return None
    return {name: value for name, value in call.payload.items() if name != "type"}


def only_filter(members: Members, name: str) -> Any:
    """The value of a filter that is the only one of a search without sort. None in other searches."""
    filters = members.get("filters")
    if "sort" in members or not isinstance(filters, dict) or list(filters) != [name]:
        return None
    return filters[name]


def with_filters(*names: str) -> Chosen:
    """Requests that have exactly these filters."""
    return lambda members: isinstance(members.get("filters"), dict) and set(members["filters"]) == set(names)


def exactly(expected: Members) -> Chosen:
    """Requests that have exactly these members."""
    return lambda members: members == expected


def reads(skill: str, chosen: Chosen, otherwise: Callable[[dict[str, Any]], Members]) -> Breaking:
    """An agent that reads chosen requests of a skill as others."""

    def change(payload: dict[str, Any]) -> None:
        members = otherwise({name: payload.pop(name) for name in list(payload) if name != "type"})
        payload.update(members)

    return changes_calls(_requests_of_skill(skill, chosen), lambda call: call.with_payload(change))


def _requests_of_skill(skill: str, chosen: Chosen) -> When:
    """The chosen requests of a skill."""
    return lambda call: (members := members_of(call, skill)) is not None and chosen(members)


def reads_filters(chosen: Chosen, otherwise: Callable[[dict[str, Any]], Members]) -> Breaking:
    """An agent that reads the filters of chosen searches as others."""
    return reads(SEARCH, chosen, lambda members: {**members, "filters": otherwise(members["filters"])})


def without_filter(*names: str) -> Callable[[dict[str, Any]], Members]:
    """Filters without some of them."""
    return lambda filters: {name: value for name, value in filters.items() if name not in names}


def refuses(skill: str, chosen: Chosen) -> Breaking:
    """An agent that refuses chosen requests of a skill."""
    return reads(skill, chosen, lambda members: {**members, "refuse_this": True})


def changes(skill: str, chosen: Chosen, change: Change) -> Breaking:
    """An agent that changes the `data` of its responses to chosen requests of a skill."""
    return changes_answers(_requests_of_skill(skill, chosen), lambda answer: answer.with_data(change))


def anything(_: Members) -> bool:
    """All requests."""
    return True


async def ask(call: Call, agent: Agent, members: Members) -> Any:
    """The `data` of the honest agent's response to another request of the same skill."""

    def change(payload: dict[str, Any]) -> None:
        kind = payload["type"]
        payload.clear()
        payload.update({"type": kind, **members})

    return (await agent(call.with_payload(change))).data
