"""The types with which the client decodes replies: the service's own types, without closed lists and bounds. Pure.

A later version of the protocol can have new words and new members. A lenient type is a subclass of the service's type
that accepts any string where that has a list of words, and any number where that has bounds. Unknown members are
ignored.
"""

from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

Decoded = TypeVar("Decoded")


@cache
def lenient_struct(kind: type[Struct]) -> type[Struct]:
    """A subclass of a type of `protocol.responses` or `protocol.skill` that decodes what later versions may send."""
    members: list[Any] = []
    for field in fields(kind):
        widened = _lenient(field.type)
        if not field.required:
            default = (
                field.default
                if field.default is not msgspec.NODEFAULT
                else msgspec.field(default_factory=field.default_factory)
            )
            members.append((field.name, widened, default))
        else:
            members.append((field.name, widened))
    made: type[Struct] = msgspec.defstruct(
        kind.__name__, members, bases=(kind,), frozen=True, kw_only=True, module=__name__
    )
    return made


def _lenient(kind: Any) -> Any:
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
