"""Canonical words, and how values are compared (docs/protocol.md#vocabulary). Pure functions."""

from collections.abc import Mapping
from functools import lru_cache

from dealer_agent.inventory.vocabulary.bodies import BODY
from dealer_agent.inventory.vocabulary.drivetrain import CHARGE_PORT, DRIVELINE, DRIVELINE_INCLUDES, FUEL, TRANSMISSION
from dealer_agent.inventory.vocabulary.makes import MAKE
from dealer_agent.inventory.vocabulary.sale import CONDITION, STATUS, VEHICLE_TYPE
from dealer_agent.inventory.vocabulary.tables import LONGEST, Table
from dealer_agent.inventory.vocabulary.text import fold

TABLES: Mapping[str, Table] = {
    "make": MAKE,
    "transmission": TRANSMISSION,
    "fuel": FUEL,
    "driveline": DRIVELINE,
    "body": BODY,
    "charge_port": CHARGE_PORT,
    "condition": CONDITION,
    "vehicle_type": VEHICLE_TYPE,
    "status": STATUS,
}
"""Vocabularies by name. Colours are matched by their words instead: see `colours`."""


@lru_cache(maxsize=32_768)
def _known(vocabulary: str, text: str) -> str | None:
    return TABLES[vocabulary].read(text)


def known(vocabulary: str, text: str) -> str | None:
    """The canonical word for `text`. None for a text that the vocabulary does not know."""
    # A long text is never a word, and must not fill the cache.
    return _known(vocabulary, text) if len(text) <= LONGEST else None


def canonical(vocabulary: str, text: str) -> str:
    """The canonical word for `text`. A text that the vocabulary does not know is returned stripped."""
    word = known(vocabulary, text)
    return text.strip() if word is None else word


@lru_cache(maxsize=32_768)
def _short_value_key(vocabulary: str | None, text: str) -> str:
    table, folded = TABLES.get(vocabulary or ""), fold(text)
    word = None if table is None else table.read_folded(text, folded)
    return folded if word is None else fold(word)


def value_key(vocabulary: str | None, text: str) -> str:
    """The key by which a listing's value is compared: the folded canonical word, else the folded text.

    The key of a value of punctuation alone is that value: Kia sells a Soul with the trim `!`.
    """
    key = _short_value_key(vocabulary, text) if len(text) <= LONGEST else fold(text)
    return key or text.strip().casefold()


def wanted_keys(vocabulary: str | None, text: str) -> frozenset[str]:
    """The `value_key`s that a filter's value finds: one, but `2wd` also finds fwd and rwd."""
    key = value_key(vocabulary, text)
    return DRIVELINE_INCLUDES.get(key, frozenset({key})) if vocabulary == "driveline" else frozenset({key})
