"""Defects for the checks of pages: agents that cut the results of a search into wrong pages, or miscount them."""

from itertools import count, cycle
from typing import Any

from dealer_agent.self_test.defect import Agent, AgentResponse, Breaking, Call, Change, broken
from dealer_agent.self_test.reading import SEARCH, Members, ask, changes, exactly, members_of, reads, refuses

_BEYOND = {"skip": 10_000_000, "limit": 10}
_YEARS = {"field": "year", "order": "desc"}


def _changes_page(change: Change, **pagination: int) -> Breaking:
    """Changes the `data` of responses to searches that have exactly this pagination, and no other member."""
    return changes(SEARCH, exactly({"pagination": pagination}), change)


def _reads_page(as_pagination: Members, **pagination: int) -> Breaking:
    """Reads the pagination of such a search as another one."""
    return reads(SEARCH, exactly({"pagination": pagination}), lambda _: {"pagination": as_pagination})


def _set(**members: Any) -> Change:
    """Sets members of the page in a response."""
    return lambda page: page.update(members)


broken("search.total")(_changes_page(_set(total=-1), skip=0, limit=9))
broken("search.vehicles")(_changes_page(_set(vehicles={}), skip=0, limit=9))
broken("search.echo")(_changes_page(lambda page: page.pop("skip"), skip=0, limit=9))
broken("search.type-only")(reads(SEARCH, exactly({}), lambda _: {"filters": {"condition": ["used"]}}))
broken("search.skip-echo")(_changes_page(_set(skip=0), skip=3, limit=5))
broken("search.limit-echo")(_changes_page(_set(limit=100), skip=3, limit=5))
broken("search.largest-limit-echo")(_changes_page(_set(limit=5), limit=999))
broken("search.page-size")(_changes_page(lambda page: page["vehicles"].append(page["vehicles"][0]), skip=0, limit=2))
broken("search.page-full")(_changes_page(lambda page: page["vehicles"].pop(), skip=1, limit=4))
broken("search.default-skip")(_changes_page(lambda page: page["vehicles"].reverse(), limit=6))
broken("search.one-default")(_reads_page({"skip": 4, "limit": 7}, skip=4))
broken("search.skip-alone")(_reads_page({"skip": 3}, skip=4))
broken("search.default-limit")(reads(SEARCH, exactly({}), lambda _: {"pagination": {"limit": 100}}))
broken("search.skip-past-end")(_reads_page({"skip": 0, "limit": 10}, **_BEYOND))
broken("search.skip-past-end-total")(_changes_page(_set(total=0), **_BEYOND))
broken("search.total-of-pages")(_changes_page(lambda page: page.update(total=page["total"] - 2), skip=2, limit=3))
broken("search.pages-differ")(_reads_page({"skip": 4, "limit": 5}, skip=5, limit=5))
broken("search.pages-in-order")(
    reads(
        SEARCH,
        exactly({"sort": _YEARS, "pagination": {"skip": 6, "limit": 3}}),
        lambda members: {**members, "pagination": {"skip": 5, "limit": 3}},
    )
)
broken("search.empty-filters")(refuses(SEARCH, exactly({"filters": {}})))
broken("search.empty-pagination")(refuses(SEARCH, exactly({"pagination": {}})))
broken("search.empty-privacy")(refuses(SEARCH, exactly({"privacy": {}})))
broken("search.smallest-limit")(refuses(SEARCH, exactly({"pagination": {"limit": 1}})))
broken("search.largest-limit")(refuses(SEARCH, exactly({"pagination": {"limit": 1000}})))
broken("privacy.anonymous")(refuses(SEARCH, exactly({"privacy": {"anonymous": True}})))
broken("privacy.not-anonymous")(refuses(SEARCH, exactly({"privacy": {"anonymous": False}})))
broken("privacy.same-answer")(
    reads(
        SEARCH,
        exactly({"privacy": {"anonymous": True}, "pagination": {"limit": 5}}),
        lambda members: {**members, "filters": {"condition": ["new"]}},
    )
)


@broken("search.last-vehicle")
async def loses_the_last_vehicle(call: Call, agent: Agent) -> AgentResponse:
    """Sends an empty page for a `skip` that leaves only the last vehicle."""
    members, answer = members_of(call, SEARCH), await agent(call)
    if not members or list(members) != ["pagination"] or answer.data is None:
        return answer
    is_last = members["pagination"] == {"skip": answer.data["total"] - 1, "limit": 10}
    return answer.with_data(_set(vehicles=[])) if is_last else answer


_second = cycle((False, True))


@broken("search.same-found")
async def loses_a_vehicle_every_second_time(call: Call, agent: Agent) -> AgentResponse:
    """Finds one vehicle less every second time."""
    answer = await agent(call)
    if members_of(call, SEARCH) == {"pagination": {"skip": 0, "limit": 100}} and next(_second):
        return answer.with_data(lambda page: page.update(total=page["total"] - 1, vehicles=page["vehicles"][1:]))
    return answer


broken("search.all-found")(
    reads(
        SEARCH,
        lambda members: not members.get("filters"),
        lambda members: {**members, "filters": {"vehicle_type": ["car"]}},
    )
)


@broken("search.same-twice")
async def reverses_every_second_page(call: Call, agent: Agent) -> AgentResponse:
    """Answers the same search in the opposite order every second time."""
    answer = await agent(call)
    if members_of(call, SEARCH) == {"pagination": {"skip": 0, "limit": 7}} and next(_second):
        return answer.with_data(lambda page: page["vehicles"].reverse())
    return answer


_moves = count(0, 5)


@broken("search.pages-differ", name="search.pages-differ.by-chance")
async def has_no_order(call: Call, agent: Agent) -> AgentResponse:
    """Moves all vehicles by five before each search without a sort."""
    members, answer = members_of(call, SEARCH), await agent(call)
    if members is None or "sort" in members or answer.data is None:
        return answer
    vehicles = (await ask(call, agent, {**members, "pagination": {"skip": 0, "limit": 100}}))["vehicles"]
    start = (answer.data["skip"] - next(_moves)) % max(1, len(vehicles))
    most = min(len(vehicles), answer.data["limit"])
    return answer.with_data(lambda page: page.update(vehicles=(2 * vehicles)[start : start + most]))
