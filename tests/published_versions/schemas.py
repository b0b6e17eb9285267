"""The schemas and examples that the public protocol publishes. They are beside the project, and not a part of it."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema_rs
from tests.published_files import SCHEMAS, needs

needs_schemas = needs(SCHEMAS)

SCHEMAS_OF = {"1.0": "1.0", "1.1": "1.1", "1.2": "1.3", "1.3": "1.3", "next": "1.3"}
"""The published schemas that a version is compared with. 1.2 has those of 1.3 without fees."""

ERROR_TYPE_URL = "https://autoagentprotocol.org/extensions/aap/error"
PRIMITIVE = "_primitives"


def examples(version: str, kind: str) -> Iterator[tuple[str, Any]]:
    """The name and the content of each published example whose name contains `kind`."""
    for path in sorted((SCHEMAS / f"v{version}" / "examples").glob(f"*{kind}*.json")):
        yield path.name.removesuffix(".example.json"), json.loads(path.read_text("utf-8"))


@cache
def schemas(version: str) -> dict[str, Any]:
    """The schemas that a version is compared with, by the names of their files."""
    found = {}
    for path in (SCHEMAS / f"v{SCHEMAS_OF[version]}" / "schemas").rglob("*.json"):
        found[path.name.removesuffix(".schema.json")] = json.loads(path.read_text("utf-8"))
    if version == "1.2":
        # A vehicle may have unknown members. `talking` looks for fees in responses.
        del found["vehicle"]["properties"]["fees"]
        del found["dealer-information"]["$defs"]["rooftop"]["properties"]["fees"]
        _name_extension(found["agent-card"], "https://autoagentprotocol.org/extensions/aap/v1.2")
    if version == "next":
        found["error"]["properties"]["@type"] = {"const": ERROR_TYPE_URL}
        found["error"]["required"].append("@type")
        _name_extension(found["agent-card"], "https://draft.autoagentprotocol.invalid/extensions/aap/latest")
    return found


def _name_extension(card: Any, uri: str) -> None:
    card["properties"]["capabilities"]["properties"]["extensions"]["contains"]["properties"]["uri"] = {"const": uri}


@cache
def validator(version: str, name: str) -> jsonschema_rs.Validator:
    """What judges a document of a version. `name` is that of a schema's file: `lead-submit-response`."""
    found = schemas(version)
    registry = jsonschema_rs.Registry([(schema["$id"], schema) for schema in found.values()])
    return jsonschema_rs.Draft202012Validator(found[name], registry=registry, validate_formats=True)


def defects(version: str, name: str, document: Any) -> list[str]:
    """What is wrong with a document, each with its pointer."""
    errors = validator(version, name).iter_errors(document)
    return [f"/{'/'.join(map(str, error.instance_path))}: {error.message[:300]}" for error in errors]
