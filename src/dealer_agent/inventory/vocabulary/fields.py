"""Canonical words by field, and how values are compared (contract, parts 6 and 7). Pure functions."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from dealer_agent.inventory.vocabulary.bodies import BODY
from dealer_agent.inventory.vocabulary.drivetrain import CHARGE_PORT, DRIVELINE, DRIVELINE_INCLUDES, FUEL, TRANSMISSION
from dealer_agent.inventory.vocabulary.makes import MAKE
from dealer_agent.inventory.vocabulary.sale import CONDITION, STATUS, VEHICLE_TYPE
from dealer_agent.inventory.vocabulary.tables import LONGEST, Table
from dealer_agent.inventory.vocabulary.text import fold

TABLES: Mapping[str, Table] = MappingProxyType(
    {
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
)


@lru_cache(maxsize=32_768)
def _known(field: str, text: str) -> str | None:
    return TABLES[field].read(text)


def known(field: str, text: str) -> str | None:
    """The canonical word that `text` stands for in `field`, or None when it is no known word."""
    # Long texts are no words, and must not fill the cache.
    return _known(field, text) if len(text) <= LONGEST else None


def canonical(field: str, text: str) -> str:
    """The canonical word that `text` stands for in `field`; a text that is no known word is given back stripped."""
    word = known(field, text)
    return text.strip() if word is None else word


@lru_cache(maxsize=32_768)
def _short_value_key(field: str, text: str) -> str:
    table, folded = TABLES.get(field), fold(text)
    word = None if table is None else table.read_folded(text, folded)
    return folded if word is None else fold(word)


def value_key(field: str, text: str) -> str:
    """What a listing's value is compared by: the folded canonical word, or the folded text.

    A value of nothing but punctuation (Kia sells a Soul with the trim `!`) is compared by that.
    """
    key = _short_value_key(field, text) if len(text) <= LONGEST else fold(text)
    return key or text.strip().casefold()


def wanted_keys(field: str, text: str) -> frozenset[str]:
    """The `value_key`s that a filter's value finds in `field`: one, but `2wd` also finds fwd and rwd."""
    key = value_key(field, text)
    return DRIVELINE_INCLUDES.get(key, frozenset({key})) if field == "driveline" else frozenset({key})
