"""Decodes the data of a response, also that of other dealer agents and later versions. Pure."""

from typing import Any, TypeVar

import msgspec

from dealer_agent.client.result import Result, SkippedListing
from dealer_agent.client.results import SearchPage, Vehicle

Decoded = TypeVar("Decoded", bound=Result)


def decode_lenient(value: Any, kind: type[Decoded]) -> Decoded:
    """A value of JSON as a type of `client.results`. Raises msgspec.ValidationError with a pointer.

    A null counts as an absent member, and 2020.0 as an integer: some agents carry numbers as doubles. A listing of a
    page that cannot be read is in `skipped`.
    """
    if issubclass(kind, SearchPage):
        return _page(value, kind)
    return _decoded(value, kind)


def _decoded(value: Any, kind: type[Decoded]) -> Decoded:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return msgspec.convert(_without_nulls(value), kind)


def _page(value: Any, kind: type[Decoded]) -> Decoded:
    """A page of a search. Most pages are decoded at once, and listing by listing only one that is not right."""
    # `skipped` is a member of this client, and not of the protocol.
    own = {name: item for name, item in value.items() if name != "skipped"} if isinstance(value, dict) else value
    try:
        return _decoded(own, kind)
    except msgspec.ValidationError:
        if not isinstance(own, dict) or not isinstance(own.get("vehicles"), list):
            raise
    vehicles: list[Vehicle] = []
    skipped: list[SkippedListing] = []
    for index, listing in enumerate(own["vehicles"]):
        try:
            vehicles.append(_decoded(listing, Vehicle))
        except (msgspec.ValidationError, RecursionError) as error:
            skipped.append(SkippedListing(index=index, reason=str(error), listing=listing))
    page = _decoded(own | {"vehicles": []}, kind)
    return msgspec.structs.replace(page, vehicles=vehicles, skipped=tuple(skipped))


def _without_nulls(value: Any) -> Any:
    """A value of JSON without members that are null. A whole number that is carried as a double becomes an integer."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
