"""The rooftop in `vehicle_of_interest.rooftop` (docs/protocol.md#visit-rooftop). On both databases."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.skills.intake_setup import IntakeSetup
from tests.skills.sample_dealers import SampleDealer, a_lead
from tests.skills.visiting import LOT, NOW, PROFILE, at, lead_with_visit, visit
from tests.storage.calls import read

from dealer_agent.leads.lead_response import NAME_LENGTH
from dealer_agent.protocol.responses import MESSAGE_LENGTH
from dealer_agent.storage.leads.stored_leads import get_lead

OpenIntake = Callable[..., IntakeSetup]


@pytest.mark.requirement("visit-rooftop")
@pytest.mark.parametrize(
    ("wish", "kind", "place", "status"),
    [
        ({"rooftop": "Ridgeline South"}, "test_drive", "Ridgeline South", "confirmed"),
        ({"rooftop": " ridgeline-SOUTH "}, "test_drive", "Ridgeline South", "confirmed"),
        ({"rooftop": "Ridgeline West", "make": "Honda"}, "trade_in", "Ridgeline West", "confirmed"),
        ({"rooftop": "Ridgeline East"}, "test_drive", "Ridgeline East", "requested"),
        ({"rooftop": "Ridgeline South", "stock": "N1"}, "test_drive", "Ridgeline North", "confirmed"),
        ({"rooftop": "Ridgeline West", "stock": "unknown"}, "trade_in", "Ridgeline West", "confirmed"),
        ({"rooftop": "Ridgeline"}, "trade_in", "Ridgeline South", "confirmed"),
        ({"rooftop": ""}, "trade_in", "Ridgeline South", "confirmed"),
        ({"rooftop": "Ridgeline West"}, None, "Ridgeline West", None),
        ({"rooftop": "Ridgeline West", "stock": "S1"}, None, "Ridgeline South", None),
        ({"rooftop": "Ridgeline"}, None, "Ridgeline North", None),
    ],
)
def test_the_unit_decides_then_the_buyer_then_what_the_rooftops_offer(
    new_intake: OpenIntake, wish: dict[str, Any], kind: str | None, place: str, status: str | None
) -> None:
    intake = new_intake(PROFILE)
    lead = a_lead(vehicle_of_interest=wish) | ({} if kind is None else {"appointment": visit(at("10:00"), kind)})
    answer = intake.take(lead, NOW, LOT)
    assert answer["dealer"]["name"] == place
    assert answer.get("appointment", {}).get("status") == status
    stored = read(intake.store, "ridgeline", get_lead, answer["lead_id"])
    assert stored is not None
    assert stored.lead.rooftop == place, "its CRM gets the lead"
    assert [one.rooftop for one in intake.visits_of(answer["lead_id"])] == ([] if kind is None else [place])


@pytest.mark.requirement("unknown-rooftop", "lead-reply-message")
@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({"rooftop": "Ridgeline"}, 'We have no location named "Ridgeline".'),
        ({"rooftop": 'The "Best"\n\tplace\u202e'}, "We have no location named \"The 'Best' place\"."),
        ({"rooftop": "x" * 2000}, f'We have no location named "{"x" * (NAME_LENGTH - 1)}…".'),
        ({"rooftop": "Ridgeline", "stock": "N1"}, None),
        ({"rooftop": "Ridgeline South"}, None),
        ({"rooftop": " \t"}, None),
        ({"make": "Honda"}, None),
    ],
)
@pytest.mark.parametrize("members", [{}, {"appointment": visit(at("10:00"))}], ids=["no visit", "a visit"])
def test_the_message_names_an_unknown_rooftop(
    new_intake: OpenIntake, wish: dict[str, Any], expected: str | None, members: dict[str, Any]
) -> None:
    message = new_intake(PROFILE).answer(a_lead(vehicle_of_interest=wish, **members), NOW, LOT).message
    assert message is not None
    assert len(message) <= MESSAGE_LENGTH
    assert ("no location" in message) == (expected is not None)
    assert expected is None or message.endswith(expected)


@pytest.mark.requirement("visit-rooftop")
def test_an_appraisal_is_no_part_of_a_test_drive_at_another_rooftop_than_the_buyer_names(
    new_intake: OpenIntake,
) -> None:
    intake = new_intake(PROFILE)
    sam = a_lead()["customer"]
    intake.take(lead_with_visit(visit(at("10:00")), "S1", customer=sam), NOW, LOT)
    wish = {"vehicle_of_interest": {"rooftop": "Ridgeline West"}}
    appraisal = lead_with_visit(visit(at("10:00"), "trade_in"), None, customer=sam) | wish
    answer = intake.take(appraisal, NOW, LOT)
    (kept,) = intake.visits_of(answer["lead_id"])
    assert (kept.rooftop, kept.shares) == ("Ridgeline West", None)


@pytest.mark.requirement("visit-rooftop")
def test_a_rooftop_is_a_text(sqlite_dealer: SampleDealer) -> None:
    refused = sqlite_dealer.send(a_lead(vehicle_of_interest={"rooftop": 7}))
    assert (refused.code, refused.pointer) == ("SCHEMA_VALIDATION_FAILED", "/vehicle_of_interest/rooftop")
    refused = sqlite_dealer.send(a_lead(vehicle_of_interest={"rooftop": "x" * 2001}))
    assert (refused.code, refused.pointer) == ("SCHEMA_VALIDATION_FAILED", "/vehicle_of_interest/rooftop")
