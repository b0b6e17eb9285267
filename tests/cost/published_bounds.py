"""The table of bounds in docs/limits.md, made from the published schemas.

`python -m tests.cost.published_bounds` prints it.
"""

from collections.abc import Iterator
from typing import Any

from dealer_agent.protocol.envelope_problems import ENVELOPE_SCHEMA
from dealer_agent.protocol.schemas import request_schema
from dealer_agent.protocol.skill import SKILLS

_WORDS = {
    "maxLength": "{:,} characters",
    "maxItems": "{:,} entries",
    "maxProperties": "{:,} members",
    "minimum": "at least {}",
    "maximum": "at most {:,}",
    "pattern": "`{}`",
}


def rows() -> list[str]:
    """One row for each member of a request whose value has a bound."""
    found = list(_rows("envelope", ENVELOPE_SCHEMA, ENVELOPE_SCHEMA, ""))
    for skill in SKILLS:
        schema = request_schema(skill)
        found += _rows(skill.id, schema, schema, "")
    return ["| In | Member | Bound |", "|---|---|---|", *found]


def _rows(where: str, document: Any, schema: Any, path: str) -> Iterator[str]:
    schema = _resolved(document, schema)
    bounds = [words.format(schema[name]) for name, words in _WORDS.items() if name in schema]
    if "propertyNames" in schema:
        bounds.append(f"names of {schema['propertyNames']['maxLength']:,} characters")
    if bounds:
        yield f"| {where} | `{path or '/'}` | {', '.join(bounds)} |"
    for branch in schema.get("anyOf", ()):
        if "type" in branch or "$ref" in branch:
            yield from _rows(where, document, branch, path)
    for name, member in schema.get("properties", {}).items():
        yield from _rows(where, document, member, f"{path}/{name}")
    if isinstance(schema.get("items"), dict):
        yield from _rows(where, document, schema["items"], f"{path}/*")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _rows(where, document, schema["additionalProperties"], f"{path}/(others)")


def _resolved(document: Any, schema: Any) -> Any:
    if "$ref" not in schema:
        return schema
    for step in schema["$ref"].split("/")[1:]:
        document = document[step]
    return document


if __name__ == "__main__":
    print("\n".join(rows()))
