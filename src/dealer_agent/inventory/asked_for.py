"""What a search asked for, in canonical words only. Pure.

A word is one of the vocabularies, a well-known model, or a value of the dealer's own stock. Any other text is OTHER, so
that nothing is kept that a stranger wrote.
"""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import UNSET, Struct
from msgspec.structs import asdict

from dealer_agent.inventory.canonical_words.query import canonical_terms
from dealer_agent.inventory.canonical_words.tables import find_canonical, usual_model
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.protocol.requests import Filters

OTHER = "other"
MOST_VALUES = 10
"""How many values of one filter are read."""
PRICE_BANDS = (5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 40_000, 50_000, 75_000, 100_000)
"""The limits of price bands, in whole US dollars."""


class AskedValues(NamedTuple):
    """The words of a search, its price band, and the names of its filters."""

    make: frozenset[str]
    model: frozenset[str]
    body: frozenset[str]
    price: frozenset[str]
    filters: frozenset[str]


def asked_for(filters: Filters, catalogue: Catalogue | None) -> AskedValues:
    """The words of a filter block. Without the catalogue, words of the stock are OTHER."""

    def words(field: str, texts: Iterable[str]) -> set[str]:
        chosen = list(texts)[:MOST_VALUES]
        return {find_canonical(field, text) or _stocked(field, text, catalogue) or OTHER for text in chosen}

    make, body = words("make", filters.make or ()), words("body", filters.body or ())
    if filters.query:
        make |= canonical_terms("make", filters.query)
        body |= canonical_terms("body", filters.query)
    model = {_model(make, text, catalogue) for text in list(filters.model or ())[:MOST_VALUES]}
    return AskedValues(
        make=frozenset(make),
        model=frozenset(model),
        body=frozenset(body),
        price=frozenset(price_band(filters)),
        filters=frozenset(used_filters(filters)),
    )


def used_filters(filters: Struct) -> list[str]:
    """The names of the filters that constrain a search. An empty list, an empty text and false do not."""
    return [
        name
        for name, value in asdict(filters).items()
        if value is not UNSET and value is not False and value not in ([], "")
    ]


def price_band(filters: Filters) -> list[str]:
    """The price band that a search asks for, `up to 20000` or `from 30000`; empty without a price limit.

    A highest price counts before a least price.
    """
    if filters.price_max is not UNSET:
        return [next((f"up to {limit}" for limit in PRICE_BANDS if filters.price_max <= limit), "above 100000")]
    if filters.price_min is not UNSET:
        return [next((f"from {limit}" for limit in reversed(PRICE_BANDS) if filters.price_min >= limit), "from 0")]
    return []


def has_price(filters: Filters) -> bool:
    """Whether a search has a price limit."""
    return filters.price_min is not UNSET or filters.price_max is not UNSET


def _model(makes: set[str], text: str, catalogue: Catalogue | None) -> str:
    """A model with its make before it if the search names one make: `Honda: Accord`."""
    if len(makes) != 1:
        return _stocked("model", text, catalogue) or OTHER
    (make,) = makes
    return f"{make}: {usual_model(make, text) or _stocked('model', text, catalogue) or OTHER}"


def _stocked(field: str, text: str, catalogue: Catalogue | None) -> str | None:
    return None if catalogue is None else catalogue.spelling(field, text)
