"""Search, facets and lookup in their simplest form (docs/protocol.md).

Lists, loops and `sorted`, one rule a function, nothing kept from one question to the next. Listings and filters are
mappings with the members' names of the wire; absent members are absent. Only *which words mean the same* is asked of
the vocabulary: canonical words, paint names, the terms of a query and the words by which a value is found.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dealer_agent.inventory.canonical_words.query import index_words, query_terms
from dealer_agent.inventory.canonical_words.tables import canonical, colour_words

Listing = Mapping[str, Any]
FilterBlock = Mapping[str, Any]

WITH_SYNONYMS = ("make", "transmission", "fuel", "driveline", "body", "charge_port")
WITHOUT_SYNONYMS = {"model": "model", "trim": "trim", "rooftops": "rooftop"}
COLOURS = ("exterior_color", "interior_color")
RANGES = {
    "electric_range_mi": "electric_range_mi",
    "displacement_cc": "displacement_cc",
    "year": "year",
    "price": "price",
    "mileage": "mileage",
}

NAMES = ("make", "model", "trim")
FACTS = (
    "year", "condition", "body", "fuel", "driveline", "transmission", "engine", "exterior_color", "interior_color",
    "stock", "vin",
)  # fmt: skip
PROSE = ("features", "description")


def oracle_search(
    listings: Sequence[Listing],
    filters: FilterBlock,
    skip: int,
    limit: int,
    sort: tuple[str, str] | None,
) -> tuple[int, list[str]]:
    """Count of the matching set, and the vehicle ids of the page; `sort` is field and order.

    For a query without `sort`, docs/protocol.md does not define the whole order: `must_precede` has what it defines.
    """
    found = [listing for listing in listings if matches(listing, filters)]
    ordered = in_default_order(found) if sort is None else in_order(found, *sort)
    return len(found), [listing["vehicle_id"] for listing in ordered][skip : skip + limit]


def in_default_order(listings: Iterable[Listing]) -> list[Listing]:
    """Newest `changed_at` first, absent last, ties by ascending vehicle id (docs/protocol.md#inventory-search)."""
    by_id = sorted(listings, key=lambda listing: listing["vehicle_id"])
    dated = [listing for listing in by_id if "changed_at" in listing]
    undated = [listing for listing in by_id if "changed_at" not in listing]
    newest_first: list[Listing] = []
    for moment in sorted({listing["changed_at"] for listing in dated}, reverse=True):
        newest_first += [listing for listing in dated if listing["changed_at"] == moment]
    return newest_first + undated


def in_order(listings: Iterable[Listing], field: str, order: str) -> list[Listing]:
    """Absent last, ties by ascending vehicle id, in both directions; strings by casefold (docs/protocol.md#sort)."""
    by_id = sorted(listings, key=lambda listing: listing["vehicle_id"])
    ordered: list[Listing] = []
    for value in sorted(
        {_sort_value(listing[field]) for listing in by_id if field in listing}, reverse=order == "desc"
    ):
        ordered += [listing for listing in by_id if field in listing and _sort_value(listing[field]) == value]
    return ordered + [listing for listing in by_id if field not in listing]


def _sort_value(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def matches(listing: Listing, filters: FilterBlock) -> bool:
    """Whether the listing meets every filter of the block (docs/protocol.md#filters)."""
    for member in WITH_SYNONYMS:
        if filters.get(member) and not any(_means(member, wanted, listing.get(member)) for wanted in filters[member]):
            return False
    for member, looked_at in WITHOUT_SYNONYMS.items():
        if filters.get(member) and not any(_same(wanted, listing.get(looked_at)) for wanted in filters[member]):
            return False
    for member in COLOURS:
        if filters.get(member) and not any(_coloured(wanted, listing.get(member)) for wanted in filters[member]):
            return False
    if filters.get("condition") and listing.get("condition") not in filters["condition"]:
        return False
    if filters.get("vehicle_type") and listing.get("vehicle_type", "car") not in filters["vehicle_type"]:
        return False
    for prefix, member in RANGES.items():
        least, most = filters.get(f"{prefix}_min"), filters.get(f"{prefix}_max")
        if (least is not None or most is not None) and member not in listing:
            return False
        if least is not None and listing[member] < least:
            return False
        if most is not None and listing[member] > most:
            return False
    if filters.get("dc_fast_charge") is True and listing.get("dc_fast_charge") is not True:
        return False
    if "vin" in filters and listing.get("vin", "").upper() != filters["vin"]:
        return False
    if "stock" in filters and ("stock" not in listing or listing["stock"].casefold() != filters["stock"].casefold()):
        return False
    return all(term_class(listing, term) > 0 for term in query_terms(filters.get("query", "")))


def fold(text: str) -> str:
    """Without case, accents, spacing and punctuation."""
    return "".join(char for char in unicodedata.normalize("NFKD", text.casefold()) if char.isalnum()).casefold()


def split_words(text: str) -> list[str]:
    """The folded words between spacing and punctuation."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return "".join(c if c.isalnum() else " " for c in plain).split()


def _same(wanted: str, listed: str | None) -> bool:
    """Whole values without case, accents, spacing and punctuation; where nothing is left, the punctuation itself."""
    if listed is None:
        return False
    if fold(wanted) == "" and fold(listed) == "":
        return wanted.strip() != "" and wanted.strip() == listed.strip()
    return fold(wanted) == fold(listed)


def _means(member: Any, wanted: str, listed: str | None) -> bool:
    """Whole values through synonyms; `2wd` finds fwd, rwd and 2wd."""
    if listed is None:
        return False
    wanted, listed = canonical(member, wanted), canonical(member, listed)
    if member == "driveline" and wanted == "2wd":
        return listed in ("2wd", "fwd", "rwd")
    return _same(wanted, listed)


def _coloured(wanted: str, listed: str | None) -> bool:
    """All words of the wanted colour stand in the listing's; grey is gray; no word is no colour."""
    words = ["gray" if word == "grey" else word for word in split_words(wanted)]
    return listed is not None and words != [] and all(word in colour_words(listed) for word in words)


def term_class(listing: Listing, term: Iterable[str]) -> int:
    """How well one term of a query is found: 6 a whole word of make, model or trim, 5 the start of one, 4 and 3 another
    fact, 2 and 1 prose, 0 not at all (docs/protocol.md#query-best-first; the catalogue's documented order of hits).
    """
    best = 0
    for worth, members in ((6, NAMES), (4, FACTS), (2, PROSE)):
        for word in _found_through(listing, members):
            for wanted in term:
                if word == wanted:
                    best = max(best, worth)
                # Words with `=` are the vocabulary's signs for canonical words: never the start of anything.
                elif "=" not in word and word.startswith(wanted):
                    best = max(best, worth - 1)
    return best


def _found_through(listing: Listing, members: Iterable[str]) -> list[str]:
    words: list[str] = []
    for member in members:
        if member in listing:
            value = listing[member]
            for text in value if member == "features" else [str(value)]:
                words += index_words(member, text)
    return words


def must_precede(first: Listing, second: Listing, query: str) -> bool:
    """Whether of two matches for a query the first is the better one whatever hits weigh: no term worse, one better.

    Matches that are equal in every term stand in the default order.
    """
    terms = query_terms(query)
    ones = [term_class(first, term) for term in terms]
    others = [term_class(second, term) for term in terms]
    if ones == others:
        return in_default_order([second, first])[0] is first
    return all(one >= other for one, other in zip(ones, others, strict=True))


def oracle_facets(listings: Sequence[Listing], filters: FilterBlock) -> dict[str, Any]:
    """The facets of the matching set (docs/protocol.md#inventory-facets), as they go over the wire."""
    found = [listing for listing in listings if matches(listing, filters)]
    facets: dict[str, Any] = {}
    for facet, member in {
        "makes": "make",
        "models": "model",
        "trims": "trim",
        "years": "year",
        "conditions": "condition",
        "vehicle_types": "vehicle_type",
        "transmissions": "transmission",
        "fuels": "fuel",
        "dc_fast_charge": "dc_fast_charge",
        "charge_ports": "charge_port",
        "drivelines": "driveline",
        "bodies": "body",
        "exterior_colors": "exterior_color",
        "interior_colors": "interior_color",
        "rooftops": "rooftop",
        "statuses": "status",
    }.items():
        values = [listing[member] for listing in found if member in listing]
        if member == "vehicle_type":
            values = [listing.get(member, "car") for listing in found]
        if member == "dc_fast_charge":
            values = ["true" if value else "false" for value in values]
        if values:
            counted = [{"value": value, "count": values.count(value)} for value in set(values)]
            facets[facet] = sorted(counted, key=lambda one: (-one["count"], _sort_value(one["value"]), one["value"]))
    for facet, member in {
        "price_range": "price",
        "mileage_range": "mileage",
        "year_range": "year",
        "displacement_cc_range": "displacement_cc",
        "electric_range_mi_range": "electric_range_mi",
    }.items():
        values = [listing[member] for listing in found if member in listing]
        if values:
            facets[facet] = {"min": min(values), "max": max(values)}
    return facets


def oracle_find(
    listings: Sequence[Listing], gone: Sequence[Listing], identifiers: Mapping[str, str]
) -> tuple[str, set[str]]:
    """`listed`, `gone` or `unknown`, and the possible vehicle ids (docs/protocol.md#inventory-vehicle).

    The first identifier that matches decides; what is on the lot comes before what is gone.
    """
    for member in ("vin", "stock", "vehicle_id"):
        if member in identifiers:
            for state, units in (("listed", in_default_order(listings)), ("gone", list(gone))):
                ids = [unit["vehicle_id"] for unit in units if _identified(unit, member, identifiers[member])]
                if ids:
                    return state, {ids[0]} if state == "listed" else set(ids)
    return "unknown", set()


def _identified(unit: Listing, member: str, wanted: str) -> bool:
    if member not in unit:
        return False
    if member == "vin":
        return bool(unit[member].upper() == wanted.upper())
    return bool(unit[member].casefold() == wanted.casefold() if member == "stock" else unit[member] == wanted)
