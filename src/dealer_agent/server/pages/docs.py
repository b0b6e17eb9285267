"""Makes the page at `/docs`: the documentation of the API, from the OpenAPI document and the classes of errors."""

from typing import Any

from markupsafe import Markup, escape

from dealer_agent.apidocs import examples
from dealer_agent.apidocs.components import SKILL_COUNT, payload_component, response_component
from dealer_agent.apidocs.openapi import JSON_RPC_STATUSES, server_root
from dealer_agent.apidocs.sdk_programs import python_program, typescript_program
from dealer_agent.protocol.card import TOKEN_VARIABLE, CardFacts
from dealer_agent.protocol.errors import ERRORS
from dealer_agent.protocol.json_body import NESTING_LIMIT
from dealer_agent.protocol.skill import DEALER_INFORMATION, INVENTORY_FACETS, INVENTORY_SEARCH
from dealer_agent.protocol.vocabulary import Vocabularies
from dealer_agent.server.pages.site import render

_UNBOUNDED = 2**63 - 1
_QUICK_START = (DEALER_INFORMATION, INVENTORY_FACETS, INVENTORY_SEARCH)
_MANY_SHARED = 20
"""For a schema that shares this many members with a listing, the page shows only the other members."""

Json = dict[str, Any]


def docs_page(openapi: Json, facts: CardFacts, vocabularies: Vocabularies) -> str:
    """The page for the service that `openapi` describes. The examples are in the default vocabulary."""
    schemas: dict[str, Json] = openapi["components"]["schemas"]
    vocabulary = vocabularies.default
    done: set[str] = set()
    parts = [
        {
            "skill": skill,
            "bearer": skill.id in facts.bearer_skills,
            "request_tables": _tables(payload_component(skill), schemas, done),
            "response_tables": _tables(response_component(skill), schemas, done),
            "payload": examples.json_text(examples.example_payload(skill)),
            "response": examples.json_text(examples.example_response(skill, vocabulary)),
        }
        for skill in facts.skills
    ]
    shown = INVENTORY_SEARCH if INVENTORY_SEARCH in facts.skills else facts.skills[0]
    quick = [skill for skill in facts.skills if skill in _QUICK_START]
    asks_for_token = any(skill.id in facts.bearer_skills for skill in quick)
    body = examples.example_body(shown, vocabulary)
    return render(
        "docs.html",
        facts,
        introduction=openapi["info"]["description"].split("\n\n"),
        vocabulary=vocabulary,
        both=vocabularies.both,
        parts=parts,
        skill_count=SKILL_COUNT.lower(),
        quick_start=[
            (
                skill,
                examples.curl_command(facts.http_json_url, skill, vocabulary, bearer=skill.id in facts.bearer_skills),
            )
            for skill in quick
        ],
        quick_start_asks_for_token=asks_for_token,
        python_program=python_program(server_root(facts), quick, vocabulary, bearer=asks_for_token),
        typescript_program=typescript_program(server_root(facts), quick, vocabulary, bearer=asks_for_token),
        token_variable=TOKEN_VARIABLE,
        envelope=examples.json_text(body),
        call=examples.json_text(examples.example_call(body)),
        errors=ERRORS.values(),
        error=examples.json_text(examples.example_error(422, vocabulary)),
        rpc_error=examples.json_text(examples.example_json_rpc_error(vocabulary)),
        nesting_limit=NESTING_LIMIT,
        json_rpc_statuses=JSON_RPC_STATUSES,
    )


def _tables(name: str, schemas: dict[str, Json], done: set[str]) -> list[Json]:
    """The field tables of a schema and of the schemas in it. Each is once on the page: `done` has their names.

    `shared` is the number of members that a table leaves out because they are those of a listing.
    """
    if name in done:
        return []
    done.add(name)
    schema = schemas[name]
    properties: Json = schema.get("properties", {})
    listing: Json = schemas.get("Vehicle", {}).get("properties", {})
    common = {member for member, value in properties.items() if _differ_in_bounds_only(listing.get(member), value)}
    if name == "Vehicle" or len(common) < _MANY_SHARED:
        common = set()
    required = schema.get("required", [])
    fields = [
        {"name": member, "required": member in required, "type": type_words(value), "meaning": _meaning(value)}
        for member, value in properties.items()
        if member not in common
    ]
    description = schema.get("description", "")
    tables = [{"name": name, "description": description, "fields": fields, "shared": len(common)}]
    for member, value in properties.items():
        for named in _references(value) if member not in common else ():
            tables += _tables(named, schemas, done)
    return tables


# docs/reference/bounds.md has the bounds of a lead's vehicle.
_IGNORED_KEYWORDS = frozenset({"description", "maxLength", "maxItems", "maxProperties", "propertyNames"})
_BELOW = frozenset({"items", "additionalProperties"})


def _differ_in_bounds_only(one: Json | None, other: Json) -> bool:
    """Whether two schemas differ only in bounds and texts."""

    def bare(schema: Json) -> Json:
        members = {name: value for name, value in schema.items() if name not in _IGNORED_KEYWORDS}
        for name in _BELOW & members.keys():
            members[name] = bare(members[name])
        return members

    return one is not None and bare(one) == bare(other)


def _meaning(schema: Json) -> str:
    words = schema.get("description", "")
    return words if words.endswith(".") or not words else f"{words}."


def _references(schema: Json) -> list[str]:
    named = [schema["$ref"].rpartition("/")[2]] if "$ref" in schema else []
    within = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return named + [name for inner in within for name in _references(inner)]


def type_words(schema: Json) -> Markup:
    """A member's type and bounds, with links to the objects that it names."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return Markup('<a href="#{0}">{0}</a>').format(name)
    if "const" in schema:
        return Markup("<code>{}</code>").format(schema["const"])
    if "enum" in schema:
        return Markup(" | ").join(Markup("<code>{}</code>").format(option) for option in schema["enum"])
    if "anyOf" in schema:
        return Markup(" or ").join(type_words(branch) for branch in schema["anyOf"])
    if "items" in schema:
        items = type_words(schema["items"])
        counts = ["at least one"] if schema.get("minItems") else []
        counts += [f"at most {schema['maxItems']}"] if "maxItems" in schema else []
        return Markup(", ").join([Markup("array of {}").format(items), *counts])
    kinds = schema.get("type", "any value")
    text = kinds if isinstance(kinds, str) else " or ".join(kinds)
    return escape(", ".join([text, *_bounds(schema)]))


def _bounds(schema: Json) -> list[str]:
    """The bounds of a value in words."""
    words = []
    least, most = schema.get("minimum"), schema.get("maximum", _UNBOUNDED)
    if least is not None:
        words.append(f"at least {least}" if most == _UNBOUNDED else f"{least} to {most}")
    if "maxLength" in schema:
        fewest = f"{schema['minLength']} to" if "minLength" in schema else "at most"
        words.append(f"{fewest} {schema['maxLength']} characters")
    elif "minLength" in schema:
        words.append("not empty")
    if "pattern" in schema:
        words.append(f"matching {schema['pattern']}")
    if "format" in schema:
        words.append(_FORMATS[schema["format"]])
    return words


_FORMATS = {
    "email": "e-mail address",
    "phone": "phone number",
    "date": "ISO 8601 date",
    "date-time": "ISO 8601 with an offset",
    "date-time-local": "ISO 8601",
    "timezone": "IANA zone",
}
