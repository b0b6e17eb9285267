"""The generated part of the Python client, in `src/dealer_agent/client`, from the types of the protocol.

`results.py` has the types of responses, and `arguments.py` those of requests.
"""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Meta, Struct, UnsetType
from msgspec.structs import FieldInfo, fields
from scripts.reference.other_agents import NOT_DEMANDED, WIDER

from dealer_agent.protocol.offers import LeadOffer
from dealer_agent.protocol.requests import (
    FILTER_MEANINGS,
    SORT_FIELDS,
    Appointment,
    Consent,
    Customer,
    Filters,
    SourceAgent,
    TradeIn,
    VehicleOfInterest,
)
from dealer_agent.protocol.skill import ALL_SKILLS, SearchPage, VehicleDetail
from dealer_agent.protocol.vehicle import FIELDS, Scalar, Vehicle, VehicleMembers

FOLDER = Path(__file__).parents[2] / "src" / "dealer_agent" / "client"

_RESULTS = '''\
"""The types of responses. Written by `make docs` from the types of the protocol. Do not edit.

A member that a response does not have is None. A word that is not in the protocol is kept as it is.
"""

from datetime import date
from typing import Any

from dealer_agent.client.result import Result, SkippedListing
from dealer_agent.protocol.vehicle_field import Moment
'''
_ARGUMENTS = '''\
"""The types of arguments. Written by `make docs` from the types of the protocol. Do not edit.

A member that is None is not sent. A time is a `datetime` with a time zone, or a text of RFC 3339.
"""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Literal, NotRequired, TypedDict
'''
_EXTENDED: dict[type[Struct], type[Struct]] = {
    VehicleDetail: Vehicle,
    VehicleOfInterest: VehicleMembers,
    TradeIn: VehicleMembers,
}
"""A type, and the one that it extends."""
_ADDED: dict[type[Struct], str] = {
    SearchPage: "    skipped: tuple[SkippedListing, ...] = ()\n"
    '    """The listings of the page that cannot be read. They are not in `vehicles`."""',
}
"""Members that are not in the response."""
_ARGUMENT_TYPES = (Filters, Customer, Consent, SourceAgent, VehicleOfInterest, TradeIn, Appointment, LeadOffer)


def python_files() -> dict[Path, str]:
    """The file and the text of each generated module."""
    results: dict[type[Struct], None] = {}
    for skill in ALL_SKILLS:
        _collect(skill.data, results)
    arguments: dict[type[Struct], None] = {}
    for kind in _ARGUMENT_TYPES:
        _collect(kind, arguments)
    names = ", ".join(f'"{name}", "-{name}"' for name in SORT_FIELDS)
    order = f'SortOrder = Literal[{names}]\n"""A field, with a minus for descending order."""'
    return {
        FOLDER / "results.py": _formatted("\n\n".join((_RESULTS, *map(_result, results)))),
        FOLDER / "arguments.py": _formatted("\n\n".join((_ARGUMENTS + "\n" + order, *map(_argument, arguments)))),
    }


def _formatted(text: str) -> str:
    command = (sys.executable, "-m", "ruff", "format", "--line-length", "120", "-")
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603


def _collect(kind: Any, found: dict[type[Struct], None]) -> None:
    """Adds the types of objects in a type, each after those that it needs."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        if kind in _EXTENDED:
            _collect(_EXTENDED[kind], found)
        for member in fields(kind):
            _collect(member.type, found)
        found[kind] = None
    else:
        for inner in get_args(kind):
            _collect(inner, found)


def _result(kind: type[Struct]) -> str:
    """The class of a type of a response. It is as wide as other dealer agents need it."""
    base, own_fields = _base_and_fields(kind)
    optional = {name for each, names in NOT_DEMANDED.items() if issubclass(kind, each) for name in names}
    lines = [
        f"class {kind.__name__}({base.__name__ if base else 'Result'}, frozen=True, kw_only=True):",
        *_docstring(kind),
    ]
    for member in own_fields:
        expression = _response_type(WIDER.get(kind, {}).get(member.name, member.type))
        if member.name in optional or not member.required:
            expression = f"{expression.removesuffix(' | None')} | None = None"
        lines += [f"    {member.name}: {expression}", *_meaning(kind, member.name)]
    return "\n".join((*lines, _ADDED.get(kind, "")))


def _argument(kind: type[Struct]) -> str:
    """The dictionary of the members of a request's part."""
    base, own_fields = _base_and_fields(kind)
    lines = [f"class {kind.__name__}({base.__name__ if base else 'TypedDict'}):", *_docstring(kind)]
    for member in own_fields:
        expression = _request_type(member.type)
        typed = expression if member.required else f"NotRequired[{expression} | None]"
        lines += [f"    {member.name}: {typed}", *_meaning(kind, member.name)]
    return "\n".join(lines)


def _base_and_fields(kind: type[Struct]) -> tuple[type[Struct] | None, list[FieldInfo]]:
    """The type that a type extends, and the fields that it adds."""
    base = _EXTENDED.get(kind)
    inherited = base.__struct_fields__ if base else ()
    return base, [member for member in fields(kind) if member.name not in inherited]


def _docstring(kind: type[Struct]) -> Iterator[str]:
    words = " ".join((kind.__doc__ or "").split())
    yield textwrap.indent("\n".join(textwrap.wrap(f'"""{words}"""', 115, break_on_hyphens=False)), "    ")


def _meaning(kind: type[Struct], member: str) -> Iterator[str]:
    """What a member means, after its line, if the table of fields says so."""
    of_vehicle = issubclass(kind, Vehicle) and member in FIELDS
    words = FILTER_MEANINGS.get(member) if kind is Filters else FIELDS[member].field.description if of_vehicle else ""
    if words:
        yield textwrap.indent("\n".join(textwrap.wrap(f'"""{words}"""', 115, break_on_hyphens=False)), "    ")


def _options(kind: Any) -> list[Any]:
    return [option for option in get_args(kind) if option is not UnsetType]


def _response_type(kind: Any) -> str:
    """The type of a value in a response, as an expression."""
    match get_origin(kind):
        case None:
            return "None" if kind is type(None) else "Moment" if kind is datetime else kind.__name__
        case origin if origin is Annotated:
            return _response_type(get_args(kind)[0])
        case origin if origin is Literal:
            return "str"
        case origin if origin in (Union, UnionType):
            options = _options(kind)
            return " | ".join(dict.fromkeys(map(_response_type, options)))
        case origin if origin is dict:
            return "dict[str, Any]"  # Published versions have other values here than scalars.
        case origin:
            inner = ("..." if each is ... else _response_type(each) for each in get_args(kind))
            return f"{origin.__name__}[{', '.join(inner)}]"


def _request_type(kind: Any) -> str:
    """The type of a value in a request, as an expression."""
    match get_origin(kind):
        case None:
            return "str | date" if kind is date else kind.__name__
        case origin if origin is Annotated:
            marks = [mark.extra_json_schema or {} for mark in get_args(kind)[1:] if isinstance(mark, Meta)]
            is_time = any(str(mark.get("format", "")).startswith("date-time") for mark in marks)
            return "str | datetime" if is_time else _request_type(get_args(kind)[0])
        case origin if origin is Literal:
            return f"Literal[{', '.join(map(repr, get_args(kind)))}]"
        case origin if origin in (Union, UnionType):
            return " | ".join(map(_request_type, _options(kind)))
        case origin if origin is dict:
            return f"Mapping[str, {' | '.join(each.__name__ for each in get_args(Scalar))}]"
        case _:
            # Not a sequence: a text is one too.
            item = _request_type(get_args(kind)[0])
            return f"list[{item}] | tuple[{item}, ...]"
