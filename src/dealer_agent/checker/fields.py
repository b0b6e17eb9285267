"""The members, filters, sorts and facets that are checked, from the protocol's table of vehicle fields. Pure.

A new field has its requirements and checks without further code. One whose type has no form here raises KeyError when
the requirements are read, so the build fails.
"""

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any, get_args

from dealer_agent.checker import forms
from dealer_agent.checker.forms import Form
from dealer_agent.checker.revision import REVISIONS
from dealer_agent.protocol.vehicle import FIELDS, Fee, Scalar
from dealer_agent.protocol.vehicle_field import AnyOf, Exact, IsTrue, Range

ORDERS = {"asc": "ascending", "desc": "descending"}

_OF_TYPE: Mapping[Any, tuple[Form, str]] = {
    str: (forms.text, "a string"),
    int: (forms.whole, "a whole number"),
    float: (forms.number, "a number that is not negative"),
    bool: (forms.truth, "true or false"),
    date: (forms.day, "a date"),
    datetime: (forms.moment, "a timestamp with an offset"),
    tuple[Fee, ...]: (forms.array_of(forms.fee), "an array of `{name, amount}`"),
    tuple[str, ...]: (forms.array_of(forms.text), "an array of strings"),
    dict[str, Scalar]: (forms.scalars, "an object of strings, numbers and booleans"),
}
_OF_FIELD: Mapping[str, tuple[Form, str]] = {
    "vehicle_id": (forms.name, "a string that is not empty"),
    "rooftop": (forms.name, "a string that is not empty"),
    "vehicle_type": (forms.one_of(*get_args(FIELDS["vehicle_type"].value_type)), "a type of the protocol"),
    "vin": (forms.vin, "a VIN"),
    "year": (forms.year, "a year from 1900 to 2100"),
    **dict.fromkeys(("price", "list_price", "msrp"), (forms.whole, "whole dollars")),
    "mileage": (forms.whole, "whole miles"),
    "photos": (forms.array_of(forms.url), "an array of absolute URLs"),
    "vdp_url": (forms.url, "an absolute URL"),
}
"""Forms that the type of a field does not tell."""


def form_of(name: str, value_type: Any) -> tuple[Form, str]:
    """The form of a field's values, and its name. Raises KeyError for a type that is not known here."""
    if name in _OF_FIELD:
        return _OF_FIELD[name]
    if words := [each for each in get_args(value_type) if isinstance(each, str)]:
        return forms.one_of(*words), ", ".join(f"`{each}`" for each in words[:-1]) + f" or `{words[-1]}`"
    return _OF_TYPE[value_type]


MEMBERS: Mapping[str, tuple[Form, str]] = {name: form_of(name, field.value_type) for name, field in FIELDS.items()}
"""The members of a listing, with the form of each and its name."""

_FILTERED = [field for field in FIELDS.values() if field.filter]
_FILTERED.sort(key=lambda field: field.filter.position if field.filter else 0)

WORD_FILTERS = {each.filter.name or each.name: each.name for each in _FILTERED if isinstance(each.filter, AnyOf)}
"""The filters that are lists of words, with the member of a listing that each is about."""

RANGE_FILTERS = {
    f"{each.name}_{end}": each.name
    for each in _FILTERED
    if isinstance(each.filter, Range)
    for end in (("min", "max") if each.filter.minimum else ("max",))
}
"""The filters that are ends of ranges, with the member of a listing that each is about."""

CLOSED: Mapping[str, tuple[str, ...]] = {
    name: get_args(FIELDS[name].value_type) for name in ("condition", "vehicle_type")
}
"""The values of members whose filter has a closed list of values."""

TRUE_FILTERS = [each.name for each in _FILTERED if isinstance(each.filter, IsTrue)]
EXACT_FILTERS = [each.name for each in _FILTERED if isinstance(each.filter, Exact)]

COUNTED = {
    each.counts.name: each.name
    for each in sorted(FIELDS.values(), key=lambda each: each.counts.position if each.counts else 0)
    if each.counts
}
"""The facets that count values, with the member of a listing that each is about."""

RANGES = {
    f"{each.name}_range": each.name
    for each in sorted(FIELDS.values(), key=lambda each: each.minmax.position if each.minmax else 0)
    if each.minmax
}
"""The facets that are ranges."""

SORTS = [name for name, field in FIELDS.items() if field.field.sort]


def by_id(subject: str, names: Iterable[str]) -> dict[str, str]:
    """Names by the ids of their requirements, such as `filter.make`, for `check_each`."""
    return {f"{subject}.{id_of(name)}": name for name in names}


def is_searchable(member: str, value: object) -> bool:
    """Whether the filter of a member may have this value. A listing may have a wrong one."""
    return member not in CLOSED or value in CLOSED[member]


def id_of(name: str) -> str:
    """The name of a field, a filter or a facet as a part of the id of a requirement."""
    return name.replace("_", "-")


def may_be_unknown(member: str) -> bool:
    """Whether it is a number that a listing may lack. Every vehicle has a year."""
    return FIELDS[member].value_type in (int, float) and member != "year"


def _revisions(member: str) -> list[str]:
    """The revisions that know the filter and the facet of a member. Empty: all of them."""
    return [name for name in REVISIONS if name not in _without(member)] if _without(member) else []


def _without(member: str) -> list[str]:
    """The published versions that do not know the filter and the facet of a member."""
    return [name for name, revision in REVISIONS.items() if member in revision.unsearchable]


def _value(name: str) -> Any:
    """A valid value of a filter."""
    return ["car"] if name in WORD_FILTERS else 900 if name in RANGE_FILTERS else True


def _listing(member: str) -> str:
    """The id of the requirement of a member of a listing."""
    return f"listing.{id_of(member)}"


def _of_members(names: Mapping[str, str]) -> list[dict[str, Any]]:
    """The values that fill the sentences of requirements: one set for each filter or facet.

    `names` has its member of a listing by its name.
    """
    return [
        {
            "name": name,
            "id": id_of(name),
            "member": member,
            "listing": _listing(member),
            "search": f"{'range' if name in RANGE_FILTERS else 'filter'}.{id_of(name)}",
            "revisions": _revisions(member),
        }
        for name, member in names.items()
    ]


def _end(name: str) -> dict[str, str]:
    return {"end": "minimum", "bound": "at least"} if name.endswith("_min") else {"end": "maximum", "bound": "at most"}


_RANGE_FILTER_ROWS = [each | _end(each["name"]) for each in _of_members(RANGE_FILTERS)]
_FILTERS = [
    *_of_members(WORD_FILTERS),
    *_RANGE_FILTER_ROWS,
    *_of_members({name: name for name in (*TRUE_FILTERS, *EXACT_FILTERS)}),
]
_SORT_ROWS = [
    {
        "name": name,
        "id": f"{id_of(name)}-{order}",
        "member": name,
        "listing": _listing(name),
        "order": order,
        "ordered": ordered,
    }
    for name in SORTS
    for order, ordered in ORDERS.items()
]

PARAMETERS: Mapping[str, list[dict[str, Any]]] = {
    "member": [{"name": name, "id": id_of(name), "form": words} for name, (_, words) in MEMBERS.items()],
    "list filter": _of_members(WORD_FILTERS),
    "range filter": _RANGE_FILTER_ROWS,
    "range filter from 0": [each for each in _RANGE_FILTER_ROWS if may_be_unknown(each["member"])],
    "filter": _FILTERS,
    "filter of facets": [*_FILTERS, {"name": "query", "id": "query", "search": "query.make"}],
    "early filter": [
        each | {"revisions": _without(each["member"]), "value": _value(each["name"])}
        for each in _FILTERS
        if _without(each["member"])
    ],
    "counted facet": _of_members(COUNTED),
    "range facet": [each | {"id": id_of(each["member"])} for each in _of_members(RANGES)],
    "sort": _SORT_ROWS,
    "sort by an amount": [each for each in _SORT_ROWS if may_be_unknown(each["member"])],
}
"""The parameters of generated requirements, by what each of them is about: the `each` of `requirement.py`."""
