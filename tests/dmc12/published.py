"""Validators of the published schemas of DMC-12, which are not a part of the project."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
from tests.published_files import FOLDER

SCHEMAS = FOLDER / "spec" / "dmc12" / "schemas"


@cache
def schema_of(name: str) -> dict[str, Any]:
    """A published schema by the name of its file."""
    document: dict[str, Any] = json.loads((SCHEMAS / name).read_text("utf-8"))
    return document


def _read(uri: str) -> Any:
    return schema_of(Path(uri).name)


@cache
def _validator(name: str, part: str) -> Any:
    whole = schema_of(name)
    schema: dict[str, Any] = whole["properties"][part] if part else whole
    about: dict[str, Any] = {key: whole[key] for key in ("$schema", "$id", "$defs") if key in whole}
    return jsonschema_rs.Draft202012Validator({**about, **schema}, validate_formats=True, retriever=_read)


def check(value: object, name: str, part: str = "output") -> None:
    """Fails unless a value is valid by a part of a published schema; without a part, by all of it."""
    problems = [f"{error.instance_path}: {error.message}"[:300] for error in _validator(name, part).iter_errors(value)]
    assert problems == [], (name, problems, str(value)[:500])


RECORD, ERROR = "inventory.json", "error.json"

ANSWERS: dict[str, tuple[str, str]] = {
    "list_stores": ("stores.json", "output"),
    "get_vehicle_by_vin": (RECORD, "output"),
    "get_pricing_disclosure": ("pricing_disclosure.json", ""),
    "request_quote": ("quote.json", "output"),
    "create_reservation": ("reservation.json", "output"),
    "release_reservation": ("reservation.json", "output"),
    "get_reservation_status": ("reservation.json", "output"),
    "initiate_deal_handoff": ("deal-handoff.json", "output"),
}
"""The schema of the answer of each tool that answers one thing."""


def check_answer(tool: str, data: dict[str, Any]) -> None:
    """Fails unless the `data` of a tool is an error, or an answer as the schemas have it."""
    if "error_code" in data:
        check(data, ERROR, "")
    elif tool in ("search_inventory", "list_inventory"):
        for record in data["items"]:
            check(record, RECORD)
    elif tool == "check_availability":
        assert set(data["statuses"].values()) <= {"available", "pending", "off-lot", "sold", "unknown"}
    else:
        check(data, *ANSWERS[tool])
