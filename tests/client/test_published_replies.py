"""Every response that the published schemas of the public protocol allow has a type in the client."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.published_files import SCHEMAS, absent

from dealer_agent.client import results
from dealer_agent.client.decoding import decode_lenient
from dealer_agent.protocol.skill import SKILLS, Skill

pytestmark = pytest.mark.outside_protocol("the client library")

VERSIONS = ("v1.0", "v1.1", "v1.3")
EXAMPLES = sorted(SCHEMAS.glob("v*/examples/*-response.*json"))

FORMATS = {
    "date-time": st.datetimes().map(lambda at: f"{at:%Y-%m-%dT%H:%M:%S}Z".rjust(20, "0")),
    "date": st.dates().map(str),
    "uri": st.just("https://dealer.example/a.jpg"),
    "timezone": st.just("America/Chicago"),
}

if not SCHEMAS.exists():
    pytest.skip(absent(SCHEMAS), allow_module_level=True)


@cache
def schema_file(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def instances(schema: Any, path: Path) -> st.SearchStrategy[Any]:
    """The JSON values of a published schema, as far as these schemas go. `path` is its file."""
    if "$ref" in schema:
        name, _, inside = schema["$ref"].partition("#")
        place = (path.parent / name).resolve() if name else path
        target = schema_file(place)
        for step in inside.strip("/").split("/") if inside else ():
            target = target[step]
        return st.deferred(lambda: instances(target, place))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "allOf" in schema:
        parts = [instances(part, path) for part in schema["allOf"]]
        return st.tuples(*parts).map(lambda values: {name: item for value in values for name, item in value.items()})
    for choice in ("oneOf", "anyOf"):
        if choice in schema:
            return st.one_of([instances(option, path) for option in schema[choice]])
    kinds = schema.get("type", "object")
    return st.one_of([plain(kind, schema, path) for kind in ([kinds] if isinstance(kinds, str) else kinds)])


def plain(kind: str, schema: Any, path: Path) -> st.SearchStrategy[Any]:
    match kind:
        case "string" if "format" in schema:
            return FORMATS[schema["format"]]
        case "string":
            return st.text(max_size=5)
        case "integer":
            # An SDK may carry integers as doubles.
            whole = st.integers(schema.get("minimum", 0), 10**6)
            return whole | whole.map(float)
        case "number":
            return st.integers(0, 10**6) | st.floats(0, 10**6)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(instances(schema.get("items", {}), path), min_size=schema.get("minItems", 0), max_size=2)
    members = {name: instances(member, path) for name, member in schema.get("properties", {}).items()}
    required = {name: members.get(name, st.just("new")) for name in schema.get("required", ())}
    optional = {name: member for name, member in members.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.id)
def test_a_reply_that_a_published_schema_allows_is_decoded(skill: Skill, version: str) -> None:
    path = SCHEMAS / version / "schemas" / f"{skill.stem}-response.schema.json"

    @settings(max_examples=10)
    @given(reply=instances(schema_file(path), path))
    def decoded(reply: Any) -> None:
        kind = getattr(results, skill.data.__name__)
        answer = decode_lenient(reply["data"], kind)
        assert isinstance(answer, kind)
        assert not getattr(answer, "skipped", ())

    decoded()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parts[-3]} {path.name}")
def test_a_published_example_of_a_reply_is_decoded(path: Path) -> None:
    reply = schema_file(path)
    while "type" not in reply:
        reply = reply.get("result") or reply["message"].get("parts", [{}])[0]["data"]
    (skill,) = [skill for skill in SKILLS if skill.response_type == reply["type"]]
    kind = getattr(results, skill.data.__name__)
    answer = decode_lenient(reply["data"], kind)
    assert isinstance(answer, kind)
    assert not getattr(answer, "skipped", ())
