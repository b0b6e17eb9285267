"""The members of requests as JSON values, from the arguments of the library's methods. Pure."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import msgspec
from msgspec import Struct

from dealer_agent.client.errors import InvalidRequest, ReportedProblem
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.requests import SORT_FIELDS, Filters, Sort


def json_value(value: Any, pointer: str = "") -> Any:
    """An argument as a value of JSON, without members that are None. Times become texts.

    Raises InvalidRequest for a time without a time zone, except in `requested_windows`, which have one of their own.
    """
    if isinstance(value, Struct):
        # Members that are UNSET are left out.
        value = msgspec.to_builtins(value, builtin_types=(datetime, date))
    if isinstance(value, Mapping):
        return {name: json_value(item, f"{pointer}/{name}") for name, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [json_value(item, f"{pointer}/{index}") for index, item in enumerate(value)]
    if not isinstance(value, date):
        return value
    if isinstance(value, datetime) and pointer.endswith("/inventory_date"):
        return value.date().isoformat()
    if isinstance(value, datetime) and value.utcoffset() is None and "/requested_windows/" not in pointer:
        problem = ReportedProblem(pointer, "The time needs a time zone, such as datetime.now(UTC)")
        raise InvalidRequest(f"Wrong time: {problem}", [problem])
    return value.isoformat()


def named_vehicle(vin: str | None, stock: str | None, vehicle_id: str | None) -> dict[str, Any]:
    """The members that name a vehicle. Raises InvalidRequest if none does."""
    if vin is None and stock is None and vehicle_id is None:
        raise InvalidRequest("Give a vin, a stock number or a vehicle_id.")
    return {"vin": vin, "stock": stock, "vehicle_id": vehicle_id}


def filter_members(filters: Mapping[str, Any]) -> dict[str, Any]:
    """The member `filters` of a request. Raises InvalidRequest for an unknown filter or a wrong value."""
    for name in filters:
        if name not in Filters.__struct_fields__:
            raise InvalidRequest(f"There is no filter {name}{did_you_mean(name, Filters.__struct_fields__)}")
    try:
        checked = msgspec.convert({name: value for name, value in filters.items() if value is not None}, Filters)
    except msgspec.ValidationError as error:
        reason, _, location = str(error).rpartition(" - at `$")
        problem = ReportedProblem(re.sub(r"[.\[]", "/", location.rstrip("`")).replace("]", ""), reason)
        raise InvalidRequest(f"Wrong filter: {problem}", [problem]) from None
    given = msgspec.to_builtins(checked)
    return {"filters": given} if given else {}


def search_members(
    sort: str | Sort | None, skip: int | None, limit: int | None, filters: Mapping[str, Any]
) -> dict[str, Any]:
    """The members of a search. Raises InvalidRequest."""
    members = filter_members(filters)
    if sort is not None:
        members["sort"] = msgspec.to_builtins(_sort(sort))
    page = {name: value for name, value in (("skip", skip), ("limit", limit)) if value is not None}
    return members | ({"pagination": page} if page else {})


def _sort(sort: str | Sort) -> Sort:
    """The order that a caller names, such as `-price` for descending prices. Raises InvalidRequest."""
    if isinstance(sort, Sort):
        return sort
    name = sort.removeprefix("-")
    if name not in SORT_FIELDS:
        raise InvalidRequest(f"Vehicles cannot be sorted by {name}{did_you_mean(name, SORT_FIELDS)}")
    return Sort(name, "desc" if sort.startswith("-") else "asc")
