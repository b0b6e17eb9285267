"""The questions to every engine, from one mix: as a filter block, and as SQL."""

import random
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from benchmarks.stock_maker import COLOURS, MODELS, queries, searches, vin_of
from dealer_agent.protocol.requests import Filters, Sort

PAGE = 20


class Question(NamedTuple):
    """A search, or the facets of its matches."""

    filters: Filters
    skip: int = 0
    sort: Sort | UnsetType = UNSET


def mixed(count: int) -> list[Question]:
    """Filters of every kind, and some without filters. Half of them have an order, most of them ask for the first
    page."""
    dice = random.Random(19)
    asked = []
    for filters, skip, sort in islice(searches(), count):
        asked.append(Question(Filters() if dice.random() < 0.15 else filters, skip, sort))
    return asked


def texts(count: int) -> list[str]:
    """Free text."""
    return [str(filters.query) for filters in islice(queries(), count)]


def vins(stock: int, count: int) -> list[str]:
    """Units of the stock, and sometimes an unknown one."""
    dice = random.Random(17)
    return [vin_of(dice.randrange(stock + stock // 20 + 1)) for _ in range(count)]


def narrow(count: int) -> Iterator[Question]:
    """Searches that match a few in a thousand."""
    dice = random.Random(23)
    for _ in range(count):
        make = dice.choice(list(MODELS))
        year = dice.randrange(2008, 2027)
        yield Question(Filters(make=[make], model=[dice.choice(MODELS[make])], year_min=year, year_max=year))


def broad(count: int) -> Iterator[Question]:
    """Searches that match about half of the stock."""
    dice = random.Random(29)
    for _ in range(count):
        low = dice.randrange(4_000, 30_000)
        yield Question(Filters(price_min=low, price_max=low + 40_000), dice.choice((0, 20, 40)))


def condition(filters: Filters) -> tuple[str, list[object]]:
    """The filters of the mix as SQL with its arguments. The generated stock has canonical words."""
    said: list[str] = []
    arguments: list[object] = []

    def add(words: str, *values: object) -> None:
        said.append(words)
        arguments.extend(values)

    for member in ("make", "model", "condition", "body", "driveline", "fuel"):
        wanted = getattr(filters, member)
        if wanted:
            spelled = [value.lower() if member == "driveline" else value for value in wanted]
            add(f"{member} IN ({', '.join('?' * len(spelled))})", *spelled)
    if filters.exterior_color:
        shades = [shade for shade in COLOURS if all(word in shade.lower().split() for word in filters.exterior_color)]
        add(f"exterior_color IN ({', '.join('?' * len(shades))})", *shades)
    for member in ("price", "year", "electric_range_mi"):
        for end, sign in (("min", ">="), ("max", "<=")):
            bound = getattr(filters, f"{member}_{end}")
            if bound is not UNSET:
                add(f"{member} {sign} ?", bound)
    if filters.mileage_max is not UNSET:
        add("mileage <= ?", filters.mileage_max)
    if filters.dc_fast_charge:
        add("dc_fast_charge = 1")
    return " AND ".join(said) or "1 = 1", arguments


def order(sort: Sort | UnsetType) -> str:
    """The order as SQL: absent values last, ties by vehicle id."""
    if sort is UNSET:
        return "changed_at DESC, vehicle_id"
    return f"{sort.field} {sort.order.upper()} NULLS LAST, vehicle_id"


def words_of(text: str) -> list[str]:
    """The words of a query without its fillers, as a simple engine would search for them."""
    return [word for word in text.lower().replace("-", " ").split() if word != "with"]
