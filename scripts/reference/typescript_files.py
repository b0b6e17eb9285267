"""The generated part of the TypeScript client, in `clients/typescript/src/generated`, from the published schemas.

`types.ts` has the types of requests and responses. `tables.ts` has the skills and what the client checks at run time.
`refusals.ts` has one class for each error code.
"""

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.reference.other_agents import NOT_DEMANDED, WIDER

from dealer_agent import __version__
from dealer_agent.protocol.errors import ERRORS, ProtocolError
from dealer_agent.protocol.offers import OFFERS_EXTENSION, QUOTE_TYPE
from dealer_agent.protocol.schemas import published_schemas
from dealer_agent.protocol.skill import ALL_SKILLS

Schema = dict[str, Any]

FOLDER = Path(__file__).parents[2] / "clients" / "typescript" / "src" / "generated"
HEADER = "// Written by `make docs` from the published schemas. Do not edit.\n"

_SCALARS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_EXTENDED = {"VehicleDetail": "Vehicle"}
"""A type of a response, and the one that it extends."""
_SAFE_INTEGER = 2**53 - 1
"""JavaScript has no exact integers above."""


def typescript_files() -> dict[Path, str]:
    """The file and the text of each generated module."""
    requests, responses = _definitions()
    types = [HEADER, _WORD, _TIMESTAMP]
    types += [_declaration(name, schema, is_request=True) for name, schema in requests.items()]
    for name, schema in responses.items():
        inherited = responses[_EXTENDED[name]]["properties"] if name in _EXTENDED else {}
        own = {member: content for member, content in schema["properties"].items() if member not in inherited}
        types.append(_declaration(name, schema | {"properties": own}, is_request=False))
    shapes = {"SearchRequest": _strict_shape(_without_type(published_schemas()["inventory.search.request.json"]))}
    shapes |= {name: _strict_shape(requests[name]) for name in ("Filters", "Pagination", "Sort", "Privacy")}
    shapes |= {name: _lenient_shape(schema) for name, schema in responses.items()}
    return {
        FOLDER / "types.ts": "\n".join(types),
        FOLDER / "tables.ts": _tables(shapes),
        FOLDER / "refusals.ts": _refusals(ERRORS.values()),
    }


_WORD = """\
/** One of the known words, or another word that a later version of the protocol adds. */
export type Word<Known extends string> = Known | (string & Record<never, never>);
"""
_TIMESTAMP = """\
/** A time: a `Date`, or a text of RFC 3339 such as `2026-11-20T15:00:00Z`. */
export type Timestamp = string | Date;
"""


def _definitions() -> tuple[dict[str, Schema], dict[str, Schema]]:
    """The named schemas of all requests and of all responses, each once."""
    requests: dict[str, Schema] = {}
    responses: dict[str, Schema] = {}
    published = published_schemas()
    for skill in ALL_SKILLS:
        request = published[f"{skill.request_type}.json"]
        requests |= request.get("$defs", {})
        response = published[f"{skill.response_type}.json"]
        responses |= response.get("$defs", {})
        data = response["properties"]["data"]
        responses[data["title"]] = data
    lead = published["lead.submit.request.json"]
    requests["Lead"] = _without_type(lead)
    return requests, {name: _as_others_send_it(name, schema) for name, schema in responses.items()}


def _without_type(payload: Schema) -> Schema:
    properties = {name: schema for name, schema in payload["properties"].items() if name != "type"}
    return payload | {"properties": properties, "required": [name for name in payload["required"] if name != "type"]}


def _as_others_send_it(name: str, schema: Schema) -> Schema:
    """The schema of a response, as wide as other dealer agents need it: the same as the Python client accepts."""
    optional: set[str] = set()
    properties = dict(schema["properties"])
    for base, members in NOT_DEMANDED.items():
        if base.__name__ in (name, _EXTENDED.get(name)):
            optional |= members
    for kind, wider in WIDER.items():
        if name == kind.__name__:
            properties |= {member: {"type": [_JSON_TYPES[each] for each in wider[member].__args__]} for member in wider}
    required = [member for member in schema.get("required", []) if member not in optional]
    return schema | {"properties": properties, "required": required}


def _declaration(name: str, schema: Schema, *, is_request: bool) -> str:
    """The interface of a named schema, or a type where some members need or exclude each other."""
    alternatives = _alternatives(schema)
    required = schema.get("required", [])
    lines: list[str] = []
    for member, content in schema["properties"].items():
        lines += _comment(content.get("description"), "  ")
        optional = "" if member in required else "?"
        # A caller may give undefined for an absent member of a request. A response has no undefined.
        absent = " | undefined" if optional and is_request else ""
        lines.append(f"  {member}{optional}: {_type(content, is_request=is_request)}{absent};")
    body = "\n".join(lines)
    comment = "\n".join(_comment(schema["description"]))
    if alternatives:
        return f"{comment}\nexport type {name} = {{\n{body}\n}} & ({' | '.join(alternatives)});\n"
    extends = f" extends {_EXTENDED[name]}" if name in _EXTENDED else ""
    return f"{comment}\nexport interface {name}{extends} {{\n{body}\n}}\n"


def _alternatives(schema: Schema) -> list[str]:
    """The types of which an object has one: members of which one is required."""
    for condition in schema.get("allOf", []):
        names = [option["required"][0] for option in condition.get("anyOf", [])]
        return [f"{{ {name}: {_type(schema['properties'][name], is_request=True)} }}" for name in names]
    return []


def _type(schema: Schema, *, is_request: bool) -> str:
    """The type of a value, as an expression."""
    if "$ref" in schema:
        name: str = schema["$ref"].rpartition("/")[2]
        excluded = schema.get("not", {}).get("required", [])
        return f"{name} & ({' | '.join(f'{{ {each}?: undefined }}' for each in excluded)})" if excluded else name
    if "anyOf" in schema:
        return " | ".join(_type(option, is_request=is_request) for option in schema["anyOf"])
    if "enum" in schema:
        words = " | ".join(json.dumps(word) for word in schema["enum"])
        return words if is_request else f"Word<{words}>"
    if isinstance(schema["type"], list):
        return " | ".join(dict.fromkeys(_SCALARS[each] for each in schema["type"]))
    if schema["type"] == "array":
        item = _type(schema["items"], is_request=is_request)
        listed = f"readonly {item}[]" if item.isidentifier() else f"readonly ({item})[]"
        return listed if is_request else listed.removeprefix("readonly ")
    if schema["type"] == "object":
        # Published versions have other values here than scalars.
        value = _type(schema["additionalProperties"], is_request=True) if is_request else "unknown"
        return f"Record<string, {value}>"
    is_time = is_request and schema.get("format", "").startswith("date-time")
    return "Timestamp" if is_time else _SCALARS[schema["type"]]


def _strict_shape(schema: Schema) -> Schema:
    """What the client checks of a request before it sends anything: everything that the schema says."""
    if "$ref" in schema:
        return {"$ref": schema["$ref"].rpartition("/")[2]}
    left_out = {"$schema", "$defs", "title", "description"}
    kept = {name: value for name, value in schema.items() if name not in left_out}
    kept = {name: value for name, value in kept.items() if name != "maximum" or value <= _SAFE_INTEGER}
    if "properties" in kept:
        kept["properties"] = {name: _strict_shape(content) for name, content in kept["properties"].items()}
    return kept


def _lenient_shape(schema: Schema) -> Schema:
    """What the client checks of a response: that members are there and of the right type.

    Words, bounds and further members do not matter: a later version may have more of them.
    """
    if "$ref" in schema:
        return {"$ref": schema["$ref"].rpartition("/")[2]}
    if "anyOf" in schema:
        return {"anyOf": [_lenient_shape(option) for option in schema["anyOf"]]}
    shape: Schema = {"type": schema.get("type", "string")}
    if "items" in schema:
        shape["items"] = _lenient_shape(schema["items"])
    if "properties" in schema:
        shape["properties"] = {name: _lenient_shape(content) for name, content in schema["properties"].items()}
    return shape | ({"required": schema["required"]} if schema.get("required") else {})


def _refusals(kinds: Iterable[type[ProtocolError]]) -> str:
    classes = (
        "\n".join(
            (
                *_comment(kind.description()),
                f"export class {kind.__name__} extends Refused {{",
                # Without a member of its own, TypeScript takes each of these classes for the others.
                f'  declare readonly code: "{kind.code}";',
                "}\n",
            )
        )
        for kind in kinds
    )
    return "\n".join((HEADER, 'import { Refused } from "../errors.js";\n', *classes))


def _tables(shapes: Mapping[str, Schema]) -> str:
    skills = {
        skill.id: {"stem": skill.stem, "isLead": skill.is_lead, "isExtension": skill.is_extension}
        for skill in ALL_SKILLS
    }
    numbers: dict[int, str] = {}
    for kind in ERRORS.values():
        for number in (kind.json_rpc, kind.json_rpc_autoagent):
            if number is not None and number != ProtocolError.json_rpc:
                numbers.setdefault(number, kind.code)
    records = (
        f"  {kind.code}: {{ kind: refusals.{kind.__name__}, retryable: {str(kind.retryable).lower()}, "
        f"advice: {json.dumps(kind.action)} }},"
        for kind in ERRORS.values()
    )
    parts = (
        HEADER,
        'import type { RefusalRecord } from "../errors.js";',
        'import type { Shape } from "../shapes.js";',
        'import * as refusals from "./refusals.js";\n',
        "/** The version of this package. */",
        f"export const VERSION = {json.dumps(__version__)};\n",
        "/** The URI of the extension for offers, and the `typ` of the signature of a quote. */",
        f"export const OFFERS_EXTENSION = {json.dumps(OFFERS_EXTENSION)};",
        f"export const QUOTE_TYPE = {json.dumps(QUOTE_TYPE)};\n",
        "/** Each skill: the stem of its media types, and whether it submits a lead or is of the extension. */",
        f"export const SKILLS = {_rows(skills)} as const;\n",
        "/** What the client checks: filters before it sends them, and responses as far as its types promise. */",
        "export const SHAPES: Readonly<Record<string, Shape>> = {",
        *(f"  {name}: {json.dumps(shape)}," for name, shape in shapes.items()),
        "};\n",
        "/** Each known error code: its class, whether the same request may succeed later, and what to do next. */",
        "export const REFUSALS: Readonly<Record<string, RefusalRecord>> = {",
        *records,
        "};\n",
        "/** The error codes of JSON-RPC numbers that stand for one code. */",
        f"export const CODE_OF_NUMBER: Readonly<Record<string, string>> = {_rows(numbers)};\n",
    )
    return "\n".join(parts)


def _rows(table: Mapping[Any, Any]) -> str:
    """An object with one line for each member."""
    return "\n".join(("{", *(f'  "{name}": {json.dumps(value)},' for name, value in table.items()), "}"))


def _comment(text: str | None, indent: str = "") -> Iterator[str]:
    if text is None:
        return
    lines = textwrap.wrap(text, 120 - len(indent) - 7, break_long_words=False, break_on_hyphens=False)
    if len(lines) == 1:
        yield f"{indent}/** {lines[0]} */"
        return
    yield f"{indent}/**"
    yield from (f"{indent} * {line}" for line in lines)
    yield f"{indent} */"
