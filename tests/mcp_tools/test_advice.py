"""What a model reads about arguments that are wrong: where they belong, and what is nearest."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dealer_agent.mcp_tools.advice import advised
from dealer_agent.mcp_tools.tools import TOOL_BY_NAME, TOOLS
from dealer_agent.mcp_tools.words import SkillError
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.problems import validation_error
from dealer_agent.protocol.request_problems import payload_problems

pytestmark = pytest.mark.outside_protocol("MCP")


def said(tool_name: str, arguments: dict[str, Any]) -> dict[str, str]:
    """The message about each problem of the arguments, by its pointer."""
    skill = TOOL_BY_NAME[tool_name].skill
    problems = payload_problems(skill, arguments | {"type": skill.request_type})
    error: ProtocolError = validation_error(problems, "payload")
    shown = advised(TOOL_BY_NAME[tool_name], SkillError(error.code, str(error), error.details))
    return {each["instancePath"]: each["message"] for each in shown.details["errors"]}


@pytest.mark.parametrize(
    ("arguments", "pointer", "message"),
    [
        ({"price_max": 20000}, "/price_max", "is in the wrong place: move it to /filters/price_max"),
        ({"limit": 5}, "/limit", "is in the wrong place: move it to /pagination/limit"),
        ({"filters": {"sort": "price"}}, "/filters/sort", "is in the wrong place: move it to /sort"),
        ({"max_price": 20000}, "/max_price", "is not known here; did you mean /filters/price_max?"),
        ({"filters": {"maxPrice": 1}}, "/filters/maxPrice", "is not known here; did you mean /filters/price_max?"),
        ({"filters": {"drivetrain": 1}}, "/filters/drivetrain", "is not known here; did you mean /filters/driveline?"),
        ({"filters": {"body_style": 1}}, "/filters/body_style", "is not known here; did you mean /filters/body?"),
        ({"filters": {"features": []}}, "/filters/features", "is not known here; did you mean /filters/query?"),
        ({"filters": {"mileage_min": 1}}, "/filters/mileage_min", "is not known here; there is only "
         "/filters/mileage_max"),
        ({"filters": {"zip": "37203"}}, "/filters/zip", "is not known here; inventory_vehicle has /zip"),
        ({"query": "used hybrid SUV under 30k"}, "/query", "is in the wrong place: move it to /filters/query, with one "
         "to three words; prices, years and other limits have their own filters"),
        ({"filters": {"mpg_min": 30}}, "/filters/mpg_min", "is not a filter of this dealer; words of a listing can be "
         "in /filters/query. If none fits, tell the person"),
        ({"filters": {"make": "Toyota"}}, "/filters/make", 'must be an array, such as ["Toyota"]'),
        ({"filters": {"price_max": "$20,000"}}, "/filters/price_max", "must be an integer, such as 20000"),
        ({"sort": "price"}, "/sort", 'must be an object, such as {"field": "price", "order": "asc"}'),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("/") else "",
)  # fmt: skip
def test_a_wrong_argument_of_a_search_has_its_right_place(
    arguments: dict[str, Any], pointer: str, message: str
) -> None:
    assert said("inventory_search", arguments)[pointer] == message


def test_wrong_arguments_of_a_lead_have_their_right_places() -> None:
    arguments = {
        "customer": {"name": "Jo Doe"},
        "vehicle_id": "v1",
        "appointment": {"type": "test_drive", "date": "Saturday"},
    }
    messages = said("lead_submit", arguments)
    assert messages["/customer/name"].endswith("did you mean /customer/first_name or /customer/last_name?")
    assert messages["/vehicle_id"].endswith("move it to /vehicle_of_interest/vehicle_id")
    assert messages["/appointment/type"].endswith("did you mean /appointment/appointment_type?")
    assert messages["/appointment/date"].endswith("did you mean /appointment/requested_windows?")


def test_words_about_a_vehicle_lead_to_the_search() -> None:
    assert said("inventory_vehicle", {"query": "red"})["/query"] == (
        "is not known here; inventory_search has /filters/query"
    )


@given(name=some.text(max_size=90), tool=some.sampled_from(TOOLS))
def test_no_message_tells_a_model_to_remove_an_argument(name: str, tool: Any) -> None:
    problem = {"instancePath": f"/filters/{name}", "message": "is not known here; remove it"}
    error = advised(tool, SkillError("SCHEMA_VALIDATION_FAILED", "Wrong.", {"errors": [problem]}))
    assert "remove it" not in error.details["errors"][0]["message"]


@pytest.mark.parametrize("errors", [None, "x", [1], [{}], [{"instancePath": 5, "message": None, "received": {}}]])
def test_an_error_of_a_foreign_dealer_agent_is_shown(errors: Any) -> None:
    assert advised(TOOLS[2], SkillError("OTHER", "Wrong.", {"errors": errors})).code == "OTHER"
