"""The texts beside the structured results: what a model gets from a host that shows it only the text."""

from datetime import UTC, datetime

import pytest

from dealer_agent.mcp_tools.words import SkillData, SkillError, error_text, more_text, result_text
from dealer_agent.protocol.skill import (
    DEALER_INFORMATION,
    INVENTORY_FACETS,
    INVENTORY_SEARCH,
    INVENTORY_VEHICLE,
    LEAD_SUBMIT,
    SKILLS,
    Skill,
)

pytestmark = pytest.mark.outside_protocol("MCP")

NOW = datetime(2026, 3, 2, 15, tzinfo=UTC)
ACCORD = {"vehicle_id": "v1", "year": 2024, "make": "Honda", "model": "Accord", "condition": "used", "price": 28500}


@pytest.mark.parametrize(
    ("skill", "data", "lines"),
    [
        (
            DEALER_INFORMATION,
            {
                "name": "Test Motors",
                "rooftops": [
                    {
                        "name": "North",
                        "address": {"address_line_1": "1 Main St", "city": "Nashville", "state": "TN", "zip": "37203"},
                        "phones": [{"name": "sales", "value": "+12025550140"}],
                        "schedules": [{"name": "sales", "value": {"monday": {"open": "09:00", "close": "20:00"},
                                                                  "tuesday": {"open": "09:00", "close": "20:00"},
                                                                  "sunday": None}}],
                        "fees": [{"name": "Documentation fee", "amount": 399}],
                        "capabilities": ["sales", "service"],
                    }
                ],
            },
            [
                "Test Motors",
                "Rooftop: North, 1 Main St, Nashville, TN, 37203",
                "- sales: +12025550140",
                "- hours of sales: Mon-Tue 09:00-20:00, Sun closed",
                "- fees: Documentation fee $399",
                "- capabilities: sales, service",
            ],
        ),
        (
            INVENTORY_FACETS,
            {"makes": [{"value": "Honda", "count": 3}, {"value": "Ford", "count": 1}],
             "years_range": {"min": 2019, "max": 2026}, "prices_range": {"min": 9000, "max": 51200}},
            ["makes: Honda (3), Ford (1)", "years_range: 2019 to 2026", "prices_range: 9000 to 51,200"],
        ),
        (INVENTORY_FACETS, {}, ["No vehicle matches. Leave a filter out."]),
        (
            INVENTORY_SEARCH,
            {"total": 7, "skip": 2, "limit": 2, "vehicles": [ACCORD, {"vehicle_id": "v2", "stock": "S 1"}]},
            [
                "7 vehicles match. Here are 3 to 4:",
                "3. 2024 Honda Accord, used, $28,500, vehicle_id v1",
                "4. vehicle, price unknown, stock S 1, vehicle_id v2",
                "For more, call again with pagination.skip 4.",
            ],
        ),
        (
            INVENTORY_SEARCH,
            {"total": 0, "skip": 0, "limit": 2, "vehicles": []},
            ["No vehicle matches. Leave a filter out."],
        ),
        (
            INVENTORY_SEARCH,
            {"total": 3, "skip": 9, "limit": 2, "vehicles": []},
            ["3 vehicles match. None is on this page."],
        ),
        (
            INVENTORY_VEHICLE,
            ACCORD | {"mileage": 9000, "features": ["Sunroof", "Heated seats"], "offered_price": 28000,
                      "photos": ["https://example.com/1.jpg", "https://example.com/2.jpg"], "dc_fast_charge": True},
            ["2024 Honda Accord, used, $28,500, 9,000 miles, vehicle_id v1", "- features: Sunroof, Heated seats",
             "- offered_price: $28,000", "- photos: 2, the first: https://example.com/1.jpg", "- dc_fast_charge: yes"],
        ),
        (
            LEAD_SUBMIT,
            {"lead_id": "L1", "status": "received",
             "appointment": {"appointment_id": "A1", "status": "confirmed",
                             "confirmed_at": "2026-03-03T10:00:00-06:00"},
             "dealer": {"name": "Test Motors", "phone": "+12025550140"}},
            ["The dealer has the lead.",
             "Visit: confirmed Tuesday, March 3, 2026, 10:00 AM (2026-03-03T10:00:00-06:00).",
             "Lead id: L1.",
             "- dealer: Test Motors +12025550140"],
        ),
    ],
    ids=range(8),
)  # fmt: skip
def test_each_result_is_told_to_the_model_in_sentences(skill: Skill, data: dict[str, object], lines: list[str]) -> None:
    assert result_text(skill, SkillData(data)).splitlines() == lines


@pytest.mark.parametrize(
    ("visit", "said"),
    [
        ({"status": "confirmed", "confirmed_window": {"start": "2026-11-28T10:00:00-06:00"}},
         "Visit: confirmed Saturday, November 28, 2026, 10:00 AM (2026-11-28T10:00:00-06:00)."),
        ({"status": "proposed", "proposed_slots": [{"start": "2026-11-28T12:00:00-06:00"},
                                                   {"start": "2026-11-30T00:15:00-06:00"}]},
         "Visit: proposed Saturday, November 28, 2026, 12:00 PM (2026-11-28T12:00:00-06:00); "
         "Monday, November 30, 2026, 12:15 AM (2026-11-30T00:15:00-06:00).\nNothing is booked: "),
        ({"status": "requested"}, "Visit: requested."),
    ],
    ids=range(3),
)  # fmt: skip
def test_a_visit_in_words_has_the_day_of_the_week(visit: dict[str, object], said: str) -> None:
    assert said in result_text(LEAD_SUBMIT, SkillData({"lead_id": "L1", "status": "received", "appointment": visit}))


def test_a_search_without_a_match_says_what_to_change() -> None:
    def advice(filters: dict[str, object]) -> str:
        return more_text(INVENTORY_SEARCH, {"total": 0}, {"filters": filters}, NOW)

    assert "`query` has 5 words" in advice({"query": "used hybrid SUV under 30k"})
    assert "The filters are make, price_max: call inventory_facets with all but one" in advice(
        {"make": ["Kia"], "fuel": [], "price_max": 9}
    )
    assert "without filters" in advice({"make": ["Kia"]})
    assert more_text(INVENTORY_SEARCH, {"total": 1}, {}, NOW) == ""


def test_the_hours_of_a_dealer_come_with_the_local_time() -> None:
    rooftops = [{"timezone": "America/Chicago"}, {"timezone": "America/New_York"}, {"timezone": "Nowhere/At_All"}, {}]
    assert more_text(DEALER_INFORMATION, {"rooftops": rooftops}, {}, NOW).splitlines() == [
        "",
        "Local time (America/Chicago): Monday, March 2, 2026, 9:00 AM CST",
        "Local time (America/New_York): Monday, March 2, 2026, 10:00 AM EST",
    ]


DEEP: dict[str, object] = {}
for _ in range(2_000):
    DEEP = {"inside": [DEEP]}


@pytest.mark.parametrize(
    "data",
    [{}, {"vehicles": 7, "total": "x"}, {"makes": 5}, {"rooftops": [1], "name": 2}, DEEP, {"doors": 10**5_000}],
    ids=range(6),
)
@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.id)
def test_what_a_foreign_dealer_agent_sends_in_another_form_has_a_text_too(
    skill: Skill, data: dict[str, object]
) -> None:
    assert result_text(skill, SkillData(data))


def test_long_values_are_cut() -> None:
    data = ACCORD | {"description": "x" * 20_000, "features": [f"feature {n}" for n in range(200)]}
    words = result_text(INVENTORY_VEHICLE, SkillData(data))
    assert len(words) < 3_000
    assert " and 160 more" in words


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (
            SkillError("RATE_LIMITED", "Too many requests. Try again in 12 s.", {"retry_after_seconds": 12}),
            ["RATE_LIMITED: Too many requests. Try again in 12 s.", "retry_after_seconds: 12",
             "What to do: Wait for the seconds in Retry-After, which details.retry_after_seconds repeats."],
        ),
        (
            SkillError("SCHEMA_VALIDATION_FAILED", "Wrong.", {"in": "payload", "errors_left_out": 2, "errors": [
                {"instancePath": "/filters/mak", "message": "is not known here", "received": ["Honda"]},
                {"instancePath": "", "message": "must be an object"},
            ]}),
            ["SCHEMA_VALIDATION_FAILED: The arguments are wrong.",
             "- /filters/mak: is not known here (received ['Honda'])",
             "- the arguments: must be an object", "- and 2 more problems",
             "What to do: repair every problem, then call again."],
        ),
        (SkillError("SOMETHING_NEW", "Of a later version."), ["SOMETHING_NEW: Of a later version."]),
    ],
    ids=range(3),
)  # fmt: skip
def test_each_error_is_told_to_the_model_in_sentences(error: SkillError, lines: list[str]) -> None:
    assert error_text(error).splitlines() == lines
