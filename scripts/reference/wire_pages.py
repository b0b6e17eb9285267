"""The pages for developers of buyer agents: skills, errors and fields, from the OpenAPI document."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from scripts.reference.markdown import code, page, table
from tests.protocol.publishing import documents

from dealer_agent.apidocs.examples import STATUSES
from dealer_agent.feeds.files.layouts import CANONICAL
from dealer_agent.protocol.errors import ERRORS
from dealer_agent.protocol.requests import filter_members
from dealer_agent.protocol.skill import SKILLS, Skill
from dealer_agent.protocol.vehicle import FIELDS
from dealer_agent.protocol.vehicle_field import VehicleField

LARGEST = 2**63 - 1


def skills_page() -> str:
    """Each skill with the members of its request and of its response."""
    introduction = (
        "A request names one skill in the `type` of its data part. The tables list every member, its type and its "
        "bounds. [The protocol](../protocol.md) has the rules. A running service publishes the same as JSON Schemas "
        "under `/schemas/` and as an OpenAPI document at `/openapi.json`. `/docs` has an example for each skill."
    )
    shown = {"InventorySearchRequest"}
    envelope = (
        "## The envelope",
        "A request is an A2A message with one data part. These are the members for `inventory.search`. "
        "The other skills have the same members with their own media types.",
        *_members("SendInventorySearch", shown),
    )
    shown.remove("InventorySearchRequest")
    return page("Skills", introduction, (*envelope, *("\n\n".join(_skill(skill, shown)) for skill in SKILLS)))


def errors_page() -> str:
    """Each error code with its numbers, its meaning and what to do."""
    introduction = (
        "An error has a code, a message for people, and an `error_id`. The log of the service has the same id. "
        "`details` has what a program needs to repair the request. See [the protocol](../protocol.md#errors). "
        "[Published versions](published-versions.md) have other numbers, and one more code, `INVALID_CONDITION`."
    )
    codes = table(
        ("Code", "HTTP", "JSON-RPC", "JSON-RPC, `autoagent`", "Send again later", "Meaning", "What to do"),
        (
            (
                code(kind.code),
                str(kind.http),
                str(kind.json_rpc),
                str(kind.json_rpc_autoagent or kind.json_rpc),
                "yes" if kind.retryable else "no",
                kind.meaning,
                kind.action,
            )
            for kind in ERRORS.values()
        ),
    )
    statuses = table(
        ("Status", "Meaning", "Codes"),
        (
            (str(http), status.meaning, ", ".join(code(kind.code) for kind in status.kinds()))
            for http, status in STATUSES.items()
        ),
    )
    return page("Errors", introduction, ("## Codes", codes, "## HTTP statuses", statuses))


def fields_page() -> str:
    """Each row of the table of vehicle fields."""
    introduction = (
        "A listing has these fields. A field that is not known is absent, never null. A dealer may add fields. "
        "*Feed columns* are the names in the [canonical feed layout](feeds.md#the-canonical-layout). "
        "A filter narrows `inventory.search` and `inventory.facets`. Free text finds words of the fields that are "
        "marked with *text*."
    )
    types = _schema("Vehicle")["properties"]
    rows = [
        (
            code(row.name),
            row.field.label,
            _type(types[row.name]),
            ", ".join(map(code, CANONICAL.columns[row.feed.member or row.name])) if row.feed else "",
            "; ".join(_uses(row)),
            row.field.description,
        )
        for row in FIELDS.values()
    ]
    header = ("Field", "Name", "Type", "Feed columns", "In requests", "Meaning")
    return page("Fields of a vehicle", introduction, (table(header, rows),))


def _uses(row: VehicleField) -> Iterator[str]:
    facets = [row.counts.name] if row.counts else []
    facets += [f"{row.name}_range"] if row.minmax else []
    if row.filter:
        yield f"filter {', '.join(map(code, filter_members(row)))}"
    if facets:
        yield f"facet {', '.join(map(code, facets))}"
    if row.field.sort:
        yield "sort"
    if row.field.search:
        yield "text"


@cache
def _schemas() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(documents()["openapi.json"])
    schemas: dict[str, Any] = document["components"]["schemas"]
    return schemas


def _schema(name: str) -> Any:
    return _schemas()[name]


def _skill(skill: Skill, shown: set[str]) -> Iterator[str]:
    name = skill.payload.__name__
    yield f"## {skill.id}\n\n{skill.description}"
    yield "\n\n".join(_members(name, shown))
    yield "\n\n".join(_members(name.removesuffix("Request") + "Response", shown))


def _members(name: str, shown: set[str]) -> Iterator[str]:
    """The section of one schema, then of the schemas that it names for the first time."""
    if name in shown:
        return
    shown.add(name)
    schema = _schema(name)
    yield f"### {name}"
    if "description" in schema:
        yield str(schema["description"])
    required = schema.get("required", ())
    rows = [
        (code(member), _type(one), "yes" if member in required else "no", one.get("description", ""))
        for member, one in schema.get("properties", {}).items()
    ]
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        rows.append((f"other members{_bounds(schema)}", _type(others), "no", ""))
    yield table(("Member", "Type", "Required", "Meaning"), rows) if rows else _type(schema)
    for inner in _named(schema):
        yield from _members(inner, shown)


def _named(schema: Any) -> Iterator[str]:
    match schema:
        case {"$ref": str(ref)}:
            yield ref.rpartition("/")[2]
        case dict():
            for key, inner in schema.items():
                if key != "not":
                    yield from _named(inner)
        case list():
            for inner in schema:
                yield from _named(inner)


def _type(schema: dict[str, Any]) -> str:
    """The type of a value, with its bounds."""
    match schema:
        case {"$ref": str(ref)}:
            name = ref.rpartition("/")[2]
            return f"[{name}](skills.md#{name.lower()})"
        case {"anyOf": list(branches)}:
            return " or ".join(_type(one) for one in branches)
        case {"const": value}:
            return code(value)
        case {"enum": list(values)}:
            return ", ".join(map(code, values))
        case {"type": "array", "items": items}:
            return f"list{_bounds(schema)} of {_type(items)}"
        case {"type": list(kinds)}:
            text = " or ".join(kinds)
        case {"type": str(kind), "format": str(form)}:
            text = f"{kind} ({form})"
        case {"type": str(kind)}:
            text = kind
        case _:
            text = "any value"
    return text + _bounds(schema)


def _bounds(schema: dict[str, Any]) -> str:
    words = {
        "maxLength": "at most {:,} characters",
        "maxItems": "at most {:,} entries",
        "maxProperties": "at most {:,} members",
        "minimum": "at least {:,}",
        "maximum": "at most {:,}",
        "pattern": "`{}`",
    }
    bounds = [words[name].format(schema[name]) for name in words if name in schema and schema[name] != LARGEST]
    if "propertyNames" in schema:
        bounds.append(f"names of at most {schema['propertyNames']['maxLength']:,} characters")
    return f" ({', '.join(bounds)})" if bounds else ""
