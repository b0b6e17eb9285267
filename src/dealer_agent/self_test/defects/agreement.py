"""Defects for the checks of agreement: agents whose answers contradict each other, or are wrong only on later pages."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dealer_agent.self_test.defect import Agent, AgentResponse, Breaking, Call, Change, broken
from dealer_agent.self_test.defects.cards import OF_0_1_0, changed_card, is_card
from dealer_agent.self_test.reading import (
    FACETS,
    SEARCH,
    VEHICLE,
    Chosen,
    Members,
    ask,
    changes,
    members_of,
    reads,
    reads_filters,
)


def _filters(members: Members) -> dict[str, Any]:
    """The filters of a search; empty if it has none."""
    filters = members.get("filters")
    return filters if isinstance(filters, dict) else {}


def _skip(members: Members) -> int:
    """The skip of a search."""
    return int((members.get("pagination") or {}).get("skip", 0))


def _later(*names: str) -> Chosen:
    """Later pages of searches with exactly these filters."""
    return lambda members: set(_filters(members)) == set(names) and _skip(members) > 0


def _all_vehicles(change: Callable[[dict[str, Any]], object]) -> Change:
    """Changes each listing of a page."""
    return lambda page: [change(each) for each in page["vehicles"]]


def _cheaper(listing: dict[str, Any]) -> None:
    """Lowers the price of a listing."""
    if "price" in listing:
        listing["price"] -= 500


# Pages


def _without_pagination(members: Members) -> bool:
    """Searches without any member."""
    return not members


broken("search.page-as-said")(changes(SEARCH, _without_pagination, lambda page: page.update(limit=10)))
broken("search.page-as-said", name="search.page-as-said.skip")(
    changes(SEARCH, _without_pagination, lambda page: page.update(skip=1))
)
broken("search.page-as-said", name="search.page-as-said.cap")(
    changes(
        SEARCH,
        lambda members: members == {"pagination": {"limit": 37}},
        lambda page: page.update(vehicles=page["vehicles"][:25]),
    )
)


@broken("filters.later-pages")
async def finds_unpriced_ones_later(call: Call, agent: Agent) -> AgentResponse:
    """Puts a vehicle without a price on later pages of a search by price."""
    members, answer = members_of(call, SEARCH), await agent(call)
    if members is None or not _later("price_max")(members):
        return answer
    stock = (await ask(call, agent, {"pagination": {"limit": 100}}))["vehicles"]
    unpriced = next(each for each in stock if "price" not in each)
    return answer.with_data(lambda page: page["vehicles"] and page["vehicles"].__setitem__(-1, unpriced))


broken("filters.later-pages", name="filters.later-pages.condition")(
    reads_filters(_later("condition"), lambda _: {"condition": ["new", "used"]})
)


@broken("filters.later-pages", name="filters.later-pages.twice")
async def repeats_a_vehicle_of_the_first_page(call: Call, agent: Agent) -> AgentResponse:
    """Begins later pages of a search by price with the first vehicle of the first page."""
    members, answer = members_of(call, SEARCH), await agent(call)
    if members is None or not _later("price_max")(members):
        return answer
    first = (await ask(call, agent, {"filters": _filters(members), "pagination": {"limit": 1}}))["vehicles"][0]
    return answer.with_data(lambda page: page["vehicles"] and page["vehicles"].__setitem__(0, first))


def _pages_by_year(members: Members) -> bool:
    """Searches for later pages, sorted by year."""
    return members.get("sort") == {"field": "year", "order": "asc"} and _skip(members) > 0


@broken("sort.pages-complete")
async def loses_vehicles_between_pages(call: Call, agent: Agent) -> AgentResponse:
    """Begins later pages one vehicle too early, so that the last one is on no page."""
    members = members_of(call, SEARCH)
    if members is None or not _pages_by_year(members):
        return await agent(call)
    return await agent(call.with_payload(lambda payload: payload["pagination"].update(skip=_skip(members) - 1)))


# The same vehicles everywhere


broken("search.same-values")(
    changes(
        SEARCH,
        lambda members: members.get("sort") == {"field": "price", "order": "desc"} and "filters" not in members,
        _all_vehicles(lambda listing: listing.update(model=f"{listing.get('model')}!")),
    )
)
broken("search.same-values", name="search.same-values.query")(
    changes(
        SEARCH,
        lambda members: list(_filters(members)) == ["query"] and "sort" not in members,
        _all_vehicles(lambda listing: listing.update(mileage=1) if "mileage" in listing else None),
    )
)
broken("search.same-values", name="search.same-values.absent")(
    changes(
        SEARCH,
        lambda members: members.get("sort") == {"field": "price", "order": "desc"} and "filters" not in members,
        _all_vehicles(lambda listing: listing.pop("mileage", None)),
    )
)
broken("privacy.same-vehicles")(
    changes(SEARCH, lambda members: members.get("privacy") == {"anonymous": False}, _all_vehicles(_cheaper))
)


def _details_of(condition: str, change: Change) -> Breaking:
    """Changes the response about a vehicle of a condition that is asked for by its VIN alone, as the checks do."""

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        honest = await agent(call)
        members = members_of(call, VEHICLE)
        data = honest.data if members is not None else None
        is_chosen = isinstance(data, dict) and data.get("condition") == condition and set(members or ()) == {"vin"}
        return honest.with_data(change) if is_chosen else honest

    return answer


broken("vehicle.same-listing", name="vehicle.same-listing.certified")(_details_of("cpo", _cheaper))
broken("vehicle.same-listing", name="vehicle.same-listing.fees")(
    _details_of(
        "used",
        lambda listing: listing.update(fees=[{"name": "Preparation", "amount": 1}]) if "fees" in listing else None,
    )
)


# Filters and queries


def _is_list(test: Callable[[list[Any]], object]) -> Chosen:
    """Searches whose makes pass a test."""

    def chosen(members: Members) -> bool:
        words = _filters(members).get("make")
        return isinstance(words, list) and bool(test(words))

    return chosen


def _query(test: Callable[[str], object]) -> Chosen:
    """Searches whose query passes a test."""
    return lambda members: isinstance(_filters(members).get("query"), str) and bool(test(_filters(members)["query"]))


def _finds_nothing(_: Members) -> dict[str, Any]:
    """A search that finds nothing."""
    return {"filters": {"make": ["Qzxvwk"]}}


broken("filter.repeated-value")(
    reads(SEARCH, _is_list(lambda words: len(words) == 2 and words[0] == words[1]), _finds_nothing)
)
broken("filters.order")(
    reads_filters(
        _is_list(lambda words: len(words) == 3),
        lambda filters: {"make": filters["make"] if filters["make"][0] > filters["make"][-1] else filters["make"][:1]},
    )
)
BODIES = ("convertible", "coupe", "hatchback", "minivan", "sedan", "suv", "truck", "van", "wagon")
broken("query.word-order")(
    reads(SEARCH, _query(lambda query: " " in query and query.split()[0].lower() in BODIES), _finds_nothing)
)
broken("query.spaces")(reads(SEARCH, _query(lambda query: query.startswith("  ")), _finds_nothing))
broken("query.sorted")(
    reads(
        SEARCH,
        lambda members: "query" in _filters(members) and "sort" in members,
        lambda members: {**members, "sort": {"field": "price", "order": "desc"}},
    )
)

# Facets


def _with_condition(members: Members) -> bool:
    """Searches by condition alone."""
    return list(_filters(members)) == ["condition"] and _filters(members)["condition"] != ["Qzxvwk"]


broken("facets.filtered-counts")(
    changes(FACETS, _with_condition, lambda facets: facets["models"].append({"value": "Another", "count": 500}))
)
broken("facets.filtered-counts", name="facets.filtered-counts.range")(
    changes(FACETS, _with_condition, lambda facets: facets["year_range"].update(min=1901))
)
broken("facets.found")(
    reads_filters(
        lambda members: (
            list(_filters(members)) == ["exterior_color"] and (members.get("pagination") or {}).get("limit") == 1
        ),
        lambda _: {"make": ["Qzxvwk"]},
    )
)
broken("facets.agree")(
    reads(
        FACETS,
        lambda members: set(_filters(members)) == {"condition", "price_max"},
        lambda members: {"filters": {"condition": members["filters"]["condition"]}},
    )
)
broken("facets.agree", name="facets.agree.query")(
    reads(
        FACETS,
        lambda members: set(_filters(members)) == {"query", "year_max"},
        lambda members: {"filters": {"query": members["filters"]["query"]}},
    )
)
broken("facets.no-zero")(
    changes(
        FACETS,
        lambda members: not _filters(members),
        lambda facets: facets["models"].append({"value": "Edsel", "count": 0}),
    )
)


def _raises_prices(page: dict[str, Any]) -> None:
    """Adds 500 dollars to each price."""
    for each in page["vehicles"]:
        each["price"] = each.get("price", 0) + 500


@broken("bindings.same-listings")
async def has_other_prices(call: Call, agent: Agent) -> AgentResponse:
    """Has other prices over JSON-RPC."""
    answer = await agent(call)
    return answer.with_data(_raises_prices) if call.skill == SEARCH and call.is_rpc else answer


@broken("bindings.same-vocabularies", vocabulary="autoagent")
async def has_no_prices_for_some(call: Call, agent: Agent) -> AgentResponse:
    """Has no prices for buyers who speak the vocabulary autoagent."""
    answer = await agent(call)
    if call.skill != SEARCH or b"vnd.autoagent" not in call.body:
        return answer
    return answer.with_data(_all_vehicles(lambda listing: listing.pop("price", None)))


@broken("bindings.same-revisions")
async def has_other_prices_in_0_1_0(call: Call, agent: Agent) -> AgentResponse:
    """Has other prices at the addresses that only the card of revision 0.1.0 names."""
    if "/old" in call.path:
        answer = await agent(replace(call, url=call.url.replace("/old", "")))
        return answer.with_data(_raises_prices) if call.skill == SEARCH else answer
    answer = await agent(call)
    return changed_card(answer, _moves_interfaces) if is_card(call, OF_0_1_0) else answer


def _moves_interfaces(card: Any) -> None:
    """Gives the interfaces of a card of revision 0.1.0 other addresses."""
    for each in card["supported_interfaces"]:
        each["url"] = f"{each['url'].rstrip('/')}/old"
