"""What a search must answer, computed from the whole stock: each rule of a page as a judgement. Pure.

The rules hold for every valid search, whatever filters, sort, page and privacy it combines. Where the specification
leaves something open, such as synonyms and free text, a rule accepts all of it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.differences import LONGEST_WORD, are_clearly_different, joined
from dealer_agent.checker.fields import (
    EXACT_FILTERS,
    ORDERS,
    RANGE_FILTERS,
    SORTS,
    TRUE_FILTERS,
    WORD_FILTERS,
    is_searchable,
)
from dealer_agent.checker.searches import Matches, ReadPage, key_of, number_of, range_matches, shown, word_matches
from dealer_agent.checker.target import Listing, TargetStock
from dealer_agent.protocol.vehicle import FIELDS

ESSENTIAL = (
    *(
        "vin",
        "stock",
        "vehicle_id",
        "year",
        "make",
        "model",
        "condition",
        "price",
        "mileage",
        "rooftop",
        "vehicle_type",
    ),
    *("list_price", "msrp", "updated_at", "electric_range_mi", "dc_fast_charge", "charge_port", "displacement_cc"),
)
"""Members that the specification names."""

VOLATILE = ("updated_at", "changed_at")
"""Members that may change from answer to answer."""


def comparable(value: Any) -> Any:
    """What of a value is the same in all answers: no times, no order, and of a URL not its query, which may expire."""
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items() if name not in VOLATILE}
    if isinstance(value, list):
        return sorted(map(comparable, value), key=repr)
    if forms.moment(value):
        return "a time"
    return value.partition("?")[0] if forms.url(value) else value


def differ(one: Any, other: Any) -> bool:
    """Whether two values differ in more than times, order and the queries of URLs."""
    # Most are equal as they are, which is far cheaper to see.
    return bool(one != other) and comparable(one) != comparable(other)


@dataclass(frozen=True)
class Answered:
    """A search that was answered: the members of its request beside `type`, its page, and the stock at that time."""

    members: Mapping[str, Any]
    page: ReadPage
    stock: TargetStock

    @property
    def filters(self) -> Mapping[str, Any]:
        """The filters of the request; empty if it has none."""
        return self.members.get("filters") or {}

    @property
    def skip(self) -> int:
        """The skip of the request, or its default."""
        return int((self.members.get("pagination") or {}).get("skip", 0))


MOST_WORDS, LONGEST_QUERY, LARGEST = 20, 200, 2**53
"""Bounds of filters that every dealer accepts."""

_PAGES = {"skip": range(2**31), "limit": range(1, 1001)}


def is_valid(members: Mapping[str, Any]) -> bool:
    """Whether the members of a search have the forms of the specification, so that rules can judge the answer."""
    if members.keys() - {"filters", "pagination", "sort", "privacy"} or not all(
        isinstance(each, dict) for each in members.values()
    ):
        return False
    filters, pagination, privacy = (members.get(name, {}) for name in ("filters", "pagination", "privacy"))
    sort = members.get("sort", {"field": "price", "order": "asc"})
    return (
        all(_is_filter(name, value) for name, value in filters.items())
        and all(name in _PAGES and type(value) is int and value in _PAGES[name] for name, value in pagination.items())
        and (sort.keys() == {"field", "order"} and sort["field"] in SORTS and sort["order"] in ORDERS)
        and all(name == "anonymous" and isinstance(value, bool) for name, value in privacy.items())
    )


def _is_filter(name: str, value: Any) -> bool:
    if name in WORD_FILTERS:
        words = value if forms.array_of(forms.text)(value) else []
        is_short = len(words) <= MOST_WORDS and all(len(each) <= LONGEST_WORD for each in words)
        return bool(words) and is_short and all(is_searchable(WORD_FILTERS[name], each) for each in words)
    if name in RANGE_FILTERS:
        form = forms.year if RANGE_FILTERS[name] == "year" else forms.whole
        return type(value) is int and value < LARGEST and form(value)
    if name in TRUE_FILTERS:
        return value is True
    is_text = forms.text(value) and len(value) <= LONGEST_QUERY and value.isprintable()
    return forms.vin(value) if name == "vin" else name in (*EXACT_FILTERS, "query") and is_text


def matcher(filters: Mapping[str, Any]) -> Matches:
    """Whether a listing matches all of these filters."""

    def matches(listing: Listing) -> bool | None:
        results = [_matches(name, value, listing) for name, value in filters.items()]
        return False if False in results else None if None in results else True

    return matches


def _matches(name: str, value: Any, listing: Listing) -> bool | None:
    """Whether a listing matches one filter of a search; None if that is not certain."""
    if name == "condition":
        return listing.get(name) in value
    if name in WORD_FILTERS:
        return word_matches(WORD_FILTERS[name], value, listing)
    if name in RANGE_FILTERS:
        unpriced = RANGE_FILTERS[name] == "price" and listing.get("price") is None
        return False if unpriced else range_matches(name, value, listing)
    if name in TRUE_FILTERS:
        return listing.get(name) is True
    if name not in EXACT_FILTERS:
        return None
    own = listing.get(name)
    return True if own == value else False if not own or are_clearly_different(name, own, value) else None


# The values by which listings are sorted

Reading = Callable[[Any], Any]
"""A way to compare two values: what is compared instead of them."""


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Numbers inside a text are compared as numbers."""
    return [(0, int(each), "") if each.isdigit() else (1, 0, each) for each in re.findall(r"\d+|\D+", text.casefold())]


def value_of(listing: Listing, field: str) -> Any:
    """The value by which a listing is sorted. None if it is absent, blank, or cannot be compared."""
    value, kind = listing.get(field), FIELDS[field].value_type
    if kind is str:
        return value if forms.name(value) else None
    if kind is datetime:
        try:
            return datetime.fromisoformat(str(value).replace("Z", "+00:00")).timestamp()
        except ValueError:
            return None
    return number_of(listing, field)


def sort_values(listings: Iterable[Listing], field: str) -> list[Any]:
    """The values of a sort, texts without case: those that differ in it only may come in any order."""
    values = [value_of(each, field) for each in listings]
    return [each.casefold() if isinstance(each, str) else each for each in values]


def is_in_order(order: str, first: Any, second: Any) -> bool:
    """Whether `first` may come before `second`. Texts may be compared in any of the usual ways."""
    if order == "desc":
        first, second = second, first
    readings: Sequence[Reading] = (str.casefold, str, joined, _natural) if isinstance(first, str) else (float,)
    return any(reading(first) <= reading(second) for reading in readings)


# Rules


def _finds_matching(search: Answered) -> bool | str:
    matches = matcher(search.filters)
    wrong = next((each for each in search.page.vehicles if matches(each) is False), None)
    return wrong is None or f"{shown(search.members)} finds {key_of(wrong)}, which does not match."


def _finds_all(search: Answered) -> bool | str:
    """Expects that a search finds all listings that match, and no more. Returns True, or what is wrong."""
    matches, listings, total = matcher(search.filters), search.stock.listings or [], search.page.total
    if total is None:
        return True
    matching = [matches(each) for each in listings]
    least, most = matching.count(True), len(matching) - matching.count(False)
    if total < least or (search.stock.is_complete and total > most):
        expected = f"{least}" if least == most else f"{least} to {most}"
        return f"{shown(search.members)} has the total {total}, and {expected} listings match."
    if search.skip or total > len(search.page.vehicles) or not search.stock.is_complete:
        return True
    missing = {key_of(each) for each, good in zip(listings, matching, strict=True) if good} - set(search.page.keys)
    return not missing or f"{shown(search.members)} does not find {min(missing)}, which matches."


def _is_the_page(search: Answered) -> bool | str:
    """Expects that a page has the vehicles that its skip, limit and total say. Returns True, or what is wrong."""
    page, wanted = search.page.data, search.members.get("pagination") or {}
    count, total = len(search.page.vehicles), search.page.total
    twice = [key for key, times in Counter(search.page.keys).items() if times > 1]
    if twice:
        return f"The page of {shown(search.members)} has {twice[0]} twice."
    wrong = [name for name in ("skip", "limit") if name in page and not forms.whole(page[name])]
    if wrong or not isinstance(page.get("vehicles"), list):
        name = (*wrong, "vehicles")[0]
        return f"`{name}` of the answer to {shown(search.members)} is {page.get(name)!r:.100}."
    limit: Any = page.get("limit", wanted.get("limit"))
    if not forms.whole(limit) or total is None:
        return True
    if page.get("skip", search.skip) != search.skip or limit > wanted.get("limit", limit):
        return f"The answer to {shown(search.members)} has skip {page.get('skip')!r} and limit {limit!r}."
    most = max(0, min(int(limit), total - search.skip))
    words = f"The page of {shown(search.members)} has {count} vehicles. Its limit is {limit} and its total {total}."
    return (count == most if "limit" in page else count <= most) or words


def _is_sorted(search: Answered) -> bool | str:
    """Expects the order that the search asks for, vehicles without a value last. Returns True, or what is wrong."""
    sort = search.members.get("sort")
    if not sort:
        return True
    field, order = sort["field"], sort["order"]
    known = [each for each in search.page.vehicles if value_of(each, field) is not None]
    for first, second in pairwise(known):
        if not is_in_order(order, value_of(first, field), value_of(second, field)):
            return f"{shown(search.members)} returns {first[field]!r} before {second[field]!r}."
    early = [each for each in search.page.vehicles[: len(known)] if each.get("price") is None]
    if field == "price" and early:
        return f"{shown(search.members)} returns {key_of(early[0])}, without price, too early."
    return True


def _is_in_stock(search: Answered) -> bool | str:
    """Expects that a search without filters found each vehicle, too. Returns True, or what is wrong."""
    known = {*map(key_of, search.stock.listings or [])} if search.stock.is_complete else {*search.page.keys}
    more = next((key for key in search.page.keys if key not in known), None)
    return more is None or f"{shown(search.members)} finds {more}, which a search without filters does not find."


def _has_values_of_stock(search: Answered) -> bool | str:
    """Expects the same values of each vehicle as in the listings before. Returns True, or what is wrong."""
    stock = {key_of(listing): listing for listing in search.stock.listings or []}
    for vehicle in search.page.vehicles:
        listing = stock.get(key_of(vehicle), vehicle)
        lacking = [name for name in ESSENTIAL if (listing.get(name) is None) != (vehicle.get(name) is None)]
        if lacking:
            where = f"{shown(search.members)} or in other searches, and not in both"
            return f"{lacking[0]} of {key_of(vehicle)} is in {where}."
        for name in listing.keys() & vehicle.keys() - set(VOLATILE):
            if differ(vehicle[name], listing[name]):
                words = f"{name} of {key_of(vehicle)} is {vehicle[name]!r:.200} in {shown(search.members)}"
                return f"{words}, and else {listing[name]!r:.200}."
    return True


RULES: Mapping[str, Callable[[Answered], bool | str]] = {
    "filters.everywhere": _finds_matching,
    "search.total-everywhere": _finds_all,
    "search.all-found": _is_in_stock,
    "search.page-everywhere": _is_the_page,
    "sort.everywhere": _is_sorted,
    "search.same-values": _has_values_of_stock,
}
"""The rules by the id of their requirement."""
