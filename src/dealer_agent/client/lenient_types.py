"""The types with which the client decodes responses: the service's own types, as wide as other agents need. Pure.

A lenient type is a subclass of the service's type. It accepts any word where that has a list of words, any number where
that has bounds, and unknown members. It does not demand what only this service always sends.
"""

from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields

from dealer_agent.protocol.responses import (
    DealerContact,
    FloatRange,
    IntRange,
    Named,
    PostalAddress,
    Schedule,
    TextCount,
    TimeSlot,
    YearCount,
)
from dealer_agent.protocol.skill import SearchPage
from dealer_agent.protocol.vehicle import Vehicle

Decoded = TypeVar("Decoded")

NOT_DEMANDED: Final[Mapping[type[Struct], frozenset[str]]] = {
    Vehicle: frozenset({"vehicle_id", "rooftop", "updated_at"}),
    SearchPage: frozenset({"skip", "limit"}),
    Named: frozenset({"name"}),
    Schedule: frozenset({"name"}),
    PostalAddress: frozenset({"address_line_1", "city", "state", "zip"}),
    TimeSlot: frozenset({"end"}),
    DealerContact: frozenset({"name"}),
}
"""Members that this service always sends, and that published versions of the protocol do not demand. If one is absent,
it is UNSET, whatever its type says."""

WIDER: Final[Mapping[type[Struct], Mapping[str, Any]]] = {
    TextCount: {"value": str | int | float | bool},
    YearCount: {"value": str | int},
    IntRange: {"min": int | float, "max": int | float},
    FloatRange: {"min": int | float, "max": int | float},
}
"""Members that have more types in published versions."""


@cache
def lenient_struct(kind: type[Struct]) -> type[Struct]:
    """The lenient subclass of a type of `protocol.responses` or `protocol.skill`."""
    optional = {name for base, names in NOT_DEMANDED.items() if issubclass(kind, base) for name in names}
    wider = WIDER.get(kind, {})
    members: list[Any] = []
    for field in fields(kind):
        widened = wider.get(field.name) or _lenient(field.type)
        if field.name in optional:
            members.append((field.name, widened | UnsetType, UNSET))
        elif field.required:
            members.append((field.name, widened))
        else:
            # No type of a response has a default that is made by a function.
            members.append((field.name, widened, field.default))
    made: type[Struct] = msgspec.defstruct(
        kind.__name__, members, bases=(kind,), frozen=True, kw_only=True, module=__name__
    )
    return made


def _lenient(kind: Any) -> Any:
    """The lenient type of a member, such as `str` for a list of words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        zoned = [mark for mark in arguments[1:] if isinstance(mark, Meta) and mark.tz]
        plain = _lenient(arguments[0])
        return Annotated[plain, Meta(tz=True)] if zoned else plain
    if origin is Literal:
        return str
    if origin in (Union, UnionType) and {str, int, float, bool} == set(arguments):
        return Any  # Any scalar here, and also a list in other versions.
    if origin in (Union, UnionType):
        return Union[tuple(_lenient(option) for option in arguments)]  # noqa: UP007 - the options are computed
    if origin is not None:
        return origin[tuple(argument if argument is ... else _lenient(argument) for argument in arguments)]
    if isinstance(kind, type) and issubclass(kind, Struct):
        return lenient_struct(kind)
    return kind


def decode_lenient(value: Any, kind: type[Decoded]) -> Decoded:
    """A value of JSON as a type of the service. Raises msgspec.ValidationError with a pointer.

    A null counts as an absent member, and 2020.0 as an integer: some agents carry numbers as doubles.
    """
    lenient: Any = lenient_struct(kind)  # type: ignore[arg-type]  # Every answer is a Struct.
    try:
        return msgspec.convert(value, lenient)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        return msgspec.convert(_tidy(value), lenient)  # type: ignore[no-any-return]


def _tidy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _tidy(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
