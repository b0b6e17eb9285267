"""Defects for the checks of free text: agents that search the words of a query wrongly."""

from collections.abc import Callable
from typing import Any

from dealer_agent.self_test.defect import Breaking, broken
from dealer_agent.self_test.reading import (
    SEARCH,
    only_filter,
    reads_filters,
    refuses,
    values_of,
    with_filters,
    without_filter,
)

_MAKES, _MODELS, _VINS, _STOCKS = (values_of(name) for name in ("make", "model", "vin", "stock"))
_LOWER = {make.lower() for make in _MAKES}


def _finds_nothing(chosen: Callable[[str], bool]) -> Breaking:
    """An agent that finds nothing for chosen queries."""
    return _reads_as(chosen, lambda _: "qzxvwkj")


def _reads_as(chosen: Callable[[str], bool], otherwise: Callable[[str], str]) -> Breaking:
    """Reads the text of some queries as another text."""

    def chosen_search(members: Any) -> bool:
        query = only_filter(members, "query")
        return isinstance(query, str) and chosen(query)

    return reads_filters(chosen_search, lambda filters: {"query": otherwise(filters["query"])})


broken("query.longest")(refuses(SEARCH, lambda members: len(str(only_filter(members, "query"))) == 200))
broken("query.longest-letters")(refuses(SEARCH, lambda members: len(str(only_filter(members, "query")).encode()) > 200))
broken("query.empty")(_finds_nothing(lambda query: query == ""))
broken("query.nothing")(_reads_as(lambda query: query == "qzxvwkj", lambda _: ""))
broken("query.make")(_finds_nothing(lambda query: query.lower() in _LOWER))
broken("query.model")(_finds_nothing(lambda query: query in _MODELS - _MAKES))
broken("query.vin")(_finds_nothing(lambda query: query in _VINS))
broken("query.stock")(_finds_nothing(lambda query: query in _STOCKS))
broken("query.every-word")(
    _reads_as(lambda query: query.endswith(" qzxvwkj"), lambda query: query.removesuffix(" qzxvwkj"))
)
broken("query.two-words")(_finds_nothing(lambda query: len(query.split()) == 2 and "qzxvwkj" not in query))
broken("query.case")(_finds_nothing(lambda query: query.swapcase() in _MAKES - {query}))
broken("query.prefix")(_finds_nothing(lambda query: query not in _LOWER and query in {make[:-1] for make in _LOWER}))
broken("query.with-filter")(reads_filters(with_filters("query", "year_max"), without_filter("year_max")))
broken("query.later-pages")(
    reads_filters(
        lambda members: with_filters("query")(members) and 0 < (members.get("pagination") or {}).get("skip", 0) < 1_000,
        without_filter("query"),
    )
)
