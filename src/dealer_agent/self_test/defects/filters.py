"""Defects for the checks of filters: agents that return vehicles that a filter excludes, or lose others."""

from typing import Any

from dealer_agent.self_test.defect import Agent, AgentResponse, Call, broken
from dealer_agent.self_test.reading import (
    ENDS,
    LISTS,
    NOBODY,
    SEARCH,
    STOCK,
    Chosen,
    ask,
    changes,
    id_of,
    member_of,
    members_of,
    only_filter,
    reads_filters,
    values_of,
    with_filters,
    without_filter,
)

LOWEST = {"year": 1900}
HIGHEST = {"year": 2100}


def _words(name: str, number: int) -> Chosen:
    """Searches with one list filter that has this number of valid words.

    The search for used vehicles alone, and that for certified ones, belong to `filter.condition-exact`.
    """
    known = values_of(name) if name in ("condition", "vehicle_type") else set()

    def chosen(members: Any) -> bool:
        words = only_filter(members, name)
        return (
            isinstance(words, list)
            and len(words) == number
            and all(isinstance(word, str) and word != NOBODY and (not known or word in known) for word in words)
            and words not in (["used"], ["cpo"])
        )

    return chosen


def _end(name: str) -> Chosen:
    """Searches with one end of a range, whose value excludes something."""

    def chosen(members: Any) -> bool:
        end = only_filter(members, name)
        member = member_of(name)
        return type(end) is int and LOWEST.get(member, 0) < end < HIGHEST.get(member, 2_000_000_000)

    return chosen


def _widest(name: str) -> int:
    """The end of a range that excludes no value."""
    member = member_of(name)
    return LOWEST.get(member, 0) if name.endswith("_min") else HIGHEST.get(member, 2_000_000_000)


for _name in LISTS:
    broken(f"filter.{id_of(_name)}")(reads_filters(_words(_name, 1), lambda _: {}))
    broken(f"filter-list.{id_of(_name)}")(
        reads_filters(_words(_name, 2), lambda filters: {name: words[:1] for name, words in filters.items()})
    )
for _name in ENDS:
    broken(f"range.{id_of(_name)}")(
        reads_filters(_end(_name), lambda filters: {name: _widest(name) for name in filters})
    )


def _finds_absent_values(name: str) -> None:
    """Registers the defect that a range filter also finds a vehicle without the value."""
    member = member_of(name)

    @broken(f"range-absent.{id_of(name)}")
    async def finds_an_absent_value(call: Call, agent: Agent) -> AgentResponse:
        members, answer = members_of(call, SEARCH), await agent(call)
        if members is None or not _end(name)(members):
            return answer
        stock = (await ask(call, agent, {"pagination": {"limit": 100}}))["vehicles"]

        def change(page: dict[str, Any]) -> None:
            page["vehicles"].append(next(vehicle for vehicle in stock if member not in vehicle))
            page["total"] += 1

        return answer.with_data(change)


for _name in ENDS:
    if member_of(_name) != "year":
        _finds_absent_values(_name)

_KNOWN_MAKES, _KNOWN_MODELS = values_of("make"), values_of("model")


def _other_case(members: Any) -> bool:
    """Searches for a make in other upper and lower case than in the stock."""
    words = only_filter(members, "make")
    return isinstance(words, list) and len(words) == 1 and str(words[0]).swapcase() in _KNOWN_MAKES - {words[0]}


def _without_punctuation(members: Any) -> bool:
    """Searches for a model in another spelling than in the stock."""
    words = only_filter(members, "model")
    return isinstance(words, list) and len(words) == 1 and words[0] not in _KNOWN_MODELS


def _nothing(filters: dict[str, Any]) -> dict[str, Any]:
    """The same filters with a make that no vehicle has, so that nothing is found."""
    return {**filters, "make": [NOBODY]}


broken("filter.case")(reads_filters(_other_case, _nothing))
broken("filter.punctuation")(reads_filters(_without_punctuation, _nothing))
broken("filter.unknown-value")(
    reads_filters(lambda members: only_filter(members, "make") == [NOBODY], without_filter("make"))
)
broken("filter.empty-list")(reads_filters(lambda members: only_filter(members, "make") == [], _nothing))
SYNONYMS = {
    "make": ["Chevy", "VW", "Mercedes"],
    "driveline": ["All-Wheel Drive", "Front-Wheel Drive", "Rear-Wheel Drive"],
    "fuel": ["Electric", "Gasoline", "Diesel Fuel"],
    "transmission": ["6-Speed Manual", "Automatic Transmission"],
    "body": ["Sport Utility", "Pickup", "Saloon"],
}
for _name, _synonyms in SYNONYMS.items():
    broken(f"filter.synonym-{_name}")(
        reads_filters(
            lambda members, name=_name, synonyms=_synonyms: only_filter(members, name) in [[word] for word in synonyms],  # type: ignore[misc]
            _nothing,
        )
    )

broken("filter.condition-exact")(
    reads_filters(
        lambda members: only_filter(members, "condition") in (["used"], ["cpo"]),
        lambda _: {"condition": ["used", "cpo"]},
    )
)


_SOME = {row["stock"] for row in STOCK[3::5]}
broken("filter.stock", name="filter.stock.some")(
    reads_filters(lambda members: only_filter(members, "stock") in _SOME, lambda _: {"stock": NOBODY})
)


def _finds_longer(name: str, word: str, longer: str) -> None:
    """Registers an agent that finds the vehicles of two values for one."""
    broken(f"filter.{name}-exact")(
        reads_filters(lambda members: only_filter(members, name) == [word], lambda _: {name: [word, longer]})
    )


_finds_longer("model", "Mustang", "Mustang Mach-E")
_finds_longer("trim", "GT", "GT Plus")
broken("filter.dc-fast-charge")(
    reads_filters(lambda members: only_filter(members, "dc_fast_charge") is True, lambda _: {})
)
broken("filter.dc-fast-charge-false")(
    reads_filters(lambda members: only_filter(members, "dc_fast_charge") is False, lambda _: {"dc_fast_charge": True})
)
for _name in ("vin", "stock"):
    _known = values_of(_name)
    broken(f"filter.{_name}")(
        reads_filters(
            lambda members, name=_name, known=_known: (
                isinstance(only_filter(members, name), str) and only_filter(members, name) in known
            ),  # type: ignore[misc]
            lambda _: {},
        )
    )


def _drops_vehicles_without_a_type(page: dict[str, Any]) -> None:
    """Removes vehicles without a vehicle type from a page."""
    before = len(page["vehicles"])
    page["vehicles"] = [vehicle for vehicle in page["vehicles"] if "vehicle_type" in vehicle]
    page["total"] -= before - len(page["vehicles"])


broken("filter.vehicle-type-absent")(
    changes(SEARCH, lambda members: only_filter(members, "vehicle_type") == ["car"], _drops_vehicles_without_a_type)
)

broken("range.both-ends")(reads_filters(with_filters("year_min", "year_max"), without_filter("year_min")))
broken("range.minimum-above-maximum")(
    reads_filters(
        with_filters("price_min", "price_max"),
        lambda filters: {"price_min": filters["price_max"], "price_max": 2 * filters["price_min"]},
    )
)
broken("range.zero")(
    reads_filters(lambda members: only_filter(members, "price_min") == 0, lambda _: {"price_min": 30_000})
)
broken("range.price-with-fees")(
    reads_filters(
        lambda members: set(members.get("filters") or ()) == {"price_max"},
        lambda filters: {"price_max": filters["price_max"] + 599},
    )
)
broken("filters.make-and-condition")(reads_filters(with_filters("make", "condition"), without_filter("condition")))
broken("filters.two-lists")(reads_filters(with_filters("make", "body"), without_filter("body")))
broken("filters.list-and-range")(reads_filters(with_filters("condition", "price_max"), without_filter("condition")))
broken("filters.two-ranges")(reads_filters(with_filters("year_min", "price_max"), without_filter("price_max")))
broken("filters.stock-contradiction")(reads_filters(with_filters("stock", "make"), without_filter("make")))
broken("filters.contradiction")(reads_filters(with_filters("vin", "make"), without_filter("make")))
broken("filters.many")(reads_filters(lambda members: len(members.get("filters") or ()) > 5, lambda _: {}))
