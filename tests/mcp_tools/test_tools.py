"""The table of the MCP tools: names, hints and schemas, made of those of the skills."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator
from tests.protocol.bodies import payload

from dealer_agent.mcp_tools.tools import (
    ALL_TOOLS,
    DETAILS,
    FILLED_IN_BY_THE_SERVER,
    KEY,
    OFFER_TOOLS,
    TOOLS,
    Tool,
    instructions,
)
from dealer_agent.protocol.schemas import request_schema, response_schema
from dealer_agent.protocol.skill import EXTENSION_SKILLS, INVENTORY_CHANGES, INVENTORY_SEARCH, SKILLS

pytestmark = pytest.mark.outside_protocol("MCP")
EACH = pytest.mark.parametrize("tool", ALL_TOOLS, ids=lambda tool: tool.name)


VALID = {
    "offer_hold": {"quote_id": "q1"},
    "offer_release": {"hold_id": "h1"},
    "offer_status": {"hold_id": "h1"},
    "lead_status": {"lead_id": "l1", "secret": "s1"},
    "visit_move": {"lead_id": "l1", "appointment_at": "2026-11-28T10:00:00-06:00"},
    "visit_cancel": {"lead_id": "l1", "reason": "Bought another."},
}


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object of a schema."""
    for one in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from nodes(one)
    if isinstance(schema, dict):
        yield schema


def test_every_skill_is_one_tool() -> None:
    assert [tool.skill for tool in TOOLS] == list(SKILLS)
    assert [tool.skill for tool in OFFER_TOOLS] == [each for each in EXTENSION_SKILLS if each is not INVENTORY_CHANGES]


@EACH
def test_a_name_is_one_that_all_hosts_accept(tool: Tool) -> None:
    assert re.fullmatch(r"[a-z_]{1,40}", tool.name)
    assert tool.name == tool.skill.id.replace(".", "_")


@EACH
def test_schemas_have_no_references_and_no_choice_at_the_top(tool: Tool) -> None:
    for schema in (tool.input_schema, tool.output_schema):
        assert schema["type"] == "object"
        assert not {"allOf", "anyOf", "oneOf"} & schema.keys()
        assert not [node for node in nodes(schema) if {"$ref", "$defs"} & node.keys()]


@EACH
def test_an_input_schema_has_the_published_members_except_those_the_server_fills_in(tool: Tool) -> None:
    published = request_schema(tool.skill)["properties"].keys()
    made = {"type", *(FILLED_IN_BY_THE_SERVER if tool.skill.is_lead else {KEY} & published)}
    assert made <= published
    own = {DETAILS} if tool.skill is INVENTORY_SEARCH else set()
    assert tool.input_schema["properties"].keys() == published - made | own
    assert tool.input_schema["additionalProperties"] is False


@EACH
def test_an_input_schema_accepts_the_arguments_of_a_valid_request(tool: Tool) -> None:
    sent = payload(tool.skill.id, **VALID.get(tool.name, {}))
    arguments = {name: value for name, value in sent.items() if name != "type" and name not in FILLED_IN_BY_THE_SERVER}
    assert Draft202012Validator(tool.input_schema).is_valid(arguments)
    assert not Draft202012Validator(tool.input_schema).is_valid(arguments | {"unknown": 1})


@EACH
def test_an_output_schema_has_the_members_of_the_reply(tool: Tool) -> None:
    published = response_schema(tool.skill)
    reference = published["properties"]["data"]
    data = published["$defs"][reference["$ref"].rpartition("/")[2]] if "$ref" in reference else reference
    message = {"message"} if tool.skill.is_lead else set()
    assert tool.output_schema["properties"].keys() == data["properties"].keys() | message


@pytest.mark.parametrize(
    ("hint", "of_reading", "of_lead"),
    [
        ("readOnlyHint", True, False),
        ("idempotentHint", True, False),
        ("openWorldHint", False, True),
        ("destructiveHint", False, False),
    ],
)
def test_hints_say_that_only_a_lead_has_an_effect(hint: str, of_reading: bool, of_lead: bool) -> None:
    assert [tool.annotations[hint] for tool in TOOLS] == [of_reading] * 4 + [of_lead]


@pytest.mark.parametrize(
    ("hint", "tools"),
    [
        ("readOnlyHint", {"offer_quote", "offer_status", "lead_status"}),
        ("destructiveHint", {"visit_move", "visit_cancel"}),
        ("openWorldHint", {"visit_move", "visit_cancel"}),
        ("idempotentHint", {tool.name for tool in OFFER_TOOLS} - {"offer_quote"}),
    ],
)
def test_hints_say_what_the_tools_of_offers_change(hint: str, tools: set[str]) -> None:
    assert {tool.name for tool in OFFER_TOOLS if tool.annotations[hint]} == tools


def test_the_instructions_name_the_dealer_and_every_tool() -> None:
    words = instructions("Test Motors", frozenset())
    assert "Test Motors" in words
    assert [tool.name for tool in TOOLS if tool.name not in words] == []


@pytest.mark.parametrize(
    "fact",
    [
        "mandatory dealer fees are inside it: never add `fees`",
        "Times of visits are local times of the rooftop, written like 2026-11-28T10:00:00",
        '`query` is one to three words of a listing, such as "sunroof", never a sentence',
        "If nothing is found, take out one filter at a time",
        "do not search without it",
    ],
)
def test_the_instructions_say_what_models_got_wrong(fact: str) -> None:
    assert fact in instructions("Test Motors", frozenset())


def test_what_a_model_reads_before_its_first_call_is_bounded() -> None:
    def size(tools: tuple[Tool, ...]) -> int:
        shown = [{"name": each.name, "description": each.description, "input": each.input_schema} for each in tools]
        return len(json.dumps(shown))

    assert size(TOOLS) < 15_000
    assert size(OFFER_TOOLS) < 5_000
    assert len(instructions("Test Motors", frozenset({"offer.quote"}))) < 3_500
