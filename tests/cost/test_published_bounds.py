"""docs/reference/bounds.md has the bounds of the code. Every member has one (docs/protocol.md#request-bounds)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cost.asking import KINDS

from dealer_agent.dealers.profile import MOST_ROOFTOPS
from dealer_agent.leads import customer_links
from dealer_agent.offers import pricing, pricing_settings
from dealer_agent.protocol import json_body, json_rpc, problems
from dealer_agent.protocol.schemas import request_schema
from dealer_agent.protocol.skill import SKILLS
from dealer_agent.server import body, connection, customer_routes, fast_path
from dealer_agent.visits import customer_actions

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = (DOCS / "reference" / "bounds.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("values", json_body.VALUES_LIMIT),
        ("opening brackets", json_body.VALUES_LIMIT),
        ("levels of objects and arrays", json_body.NESTING_LIMIT),
        ("characters of a JSON-RPC `id`", json_rpc.CALL_ID_LENGTH),
        ("problems in an error", problems.PROBLEMS_SHOWN),
        ("characters of a received value in an error", problems.RECEIVED_LIMIT),
        ("bytes of a body that count once against the rate", body.COUNTED_BYTES),
        ("bytes of a body that is decoded before it is counted", fast_path.FAST_BODY_BYTES),
        ("bytes of a head", connection.BoundedConnection.head_limit_bytes),
        ("lines of a dealer", pricing_settings.MOST_LINES),
        ("an amount", pricing_settings.MOST_AMOUNT),
        ("digits of a rate after its point", pricing_settings.MOST_DECIMALS),
        ("the price of a vehicle that has an all-in price", pricing.MOST_PRICE),
    ],
)
def test_the_other_bounds_are_those_of_the_code(words: str, number: int) -> None:
    assert f"| {words} | {number:,} |" in DOCUMENT


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (
            "states, ZIP codes and prefixes, rooftops of a line",
            (pricing_settings.MOST_STATES, pricing_settings.MOST_ZIPS, MOST_ROOFTOPS),
        ),
        ("characters of a label, of a legal basis", (pricing_settings.LONGEST_LABEL, pricing_settings.LONGEST_BASIS)),
    ],
)
def test_bounds_in_one_row_are_those_of_the_code(words: str, numbers: tuple[int, ...]) -> None:
    assert f"| {words} | {', '.join(f'{number:,}' for number in numbers)} |" in DOCUMENT


@pytest.mark.parametrize("kind", KINDS)
def test_the_most_expensive_request_of_each_kind_has_a_row(kind: str) -> None:
    assert f"\n| {kind} |" in DOCUMENT


def unbounded(schema: Any, path: str) -> Iterator[str]:
    kinds = schema.get("type", ())
    if "string" in kinds and not {"maxLength", "enum", "const", "pattern"} & schema.keys():
        yield path
    if "array" in kinds and "maxItems" not in schema:
        yield path
    if "object" in kinds and schema.get("additionalProperties") is not False and "maxProperties" not in schema:
        yield path
    for name in ("properties", "$defs"):
        for member, one in schema.get(name, {}).items():
            yield from unbounded(one, f"{path}/{member}")
    for one in (schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", ())):
        if isinstance(one, dict):
            yield from unbounded(one, f"{path}/*")


@pytest.mark.requirement("request-bounds")
@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.id)
def test_everything_in_a_request_has_a_bound(skill: Any) -> None:
    assert list(unbounded(request_schema(skill), skill.id)) == []


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("days of free times that a page offers", customer_actions.MOVE_DAYS),
        ("free times that a page offers", customer_actions.MOST_TIMES),
        ("bytes of a form", customer_routes.FORM_LIMIT_BYTES),
        ("fields of a form", customer_routes.MOST_FIELDS),
        ("characters of a token", customer_links.LONGEST_TOKEN),
    ],
)
def test_the_bounds_of_customers_links_are_those_of_the_code(words: str, number: int) -> None:
    assert f"| {words} | {number:,} |" in (DOCS / "how-to" / "customer-links.md").read_text("utf-8")
