"""Which leads have the same sender. No other sender changes or reads a lead (docs/protocol.md#duplicates). On both
databases.

A phone number and an e-mail address are no secrets. Only a token shows who sends.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.skills.intake_setup import TOKEN, IntakeSetup
from tests.skills.sample_dealers import a_lead, customer
from tests.skills.visiting import LOT, NOW, PROFILE, at, lead_with_visit, visit, windows
from tests.storage.calls import lock_at, read, read_at
from tests.storage.samples import NO_NOTICES

from dealer_agent.leads.adf import render_adf
from dealer_agent.leads.lead_json import render_json
from dealer_agent.leads.lead_view import lead_view
from dealer_agent.leads.mails import staff_mail
from dealer_agent.leads.received_lead import contact_points
from dealer_agent.leads.records import MOST_ADDITIONS
from dealer_agent.leads.spreadsheet import cells
from dealer_agent.protocol.requests import Customer
from dealer_agent.protocol.response_bodies import SkillResult
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.leads.lead_record import lead_details
from dealer_agent.storage.leads.persons import find_leads_of
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.privacy.consents import allowed_channels
from dealer_agent.storage.privacy.erasure import erase_lead

OpenIntake = Callable[..., IntakeSetup]
SOON, LATER = NOW + timedelta(minutes=5), NOW + timedelta(minutes=6)
EMAIL, PHONE = {"email": "sam@example.com"}, {"phone": "+12025550123"}
VICTIM = customer(**EMAIL, **PHONE)
AGENT = "Example Agent"
OTHER_TOKEN = "01KE7AQ2N0V5X3J8R6T4Y9W1ZU"
STRANGER = {"first_name": "Mallory", "last_name": "Stranger"}

STRANGERS = [
    pytest.param(TOKEN, OTHER_TOKEN, VICTIM, AGENT, id="another token"),
    pytest.param(TOKEN, None, VICTIM, AGENT, id="no token"),
    pytest.param(None, OTHER_TOKEN, VICTIM, AGENT, id="a token where the first had none"),
    pytest.param(None, None, VICTIM, "Another Agent", id="another agent"),
    pytest.param(None, None, PHONE | STRANGER, AGENT, id="the number only"),
    pytest.param(None, None, EMAIL | STRANGER, AGENT, id="the address only"),
    pytest.param(None, None, PHONE | STRANGER | {"email": "mallory@example.com"}, AGENT, id="an address of their own"),
]
"""The token of the first lead, then another sender: its token, the customer that it names, its agent."""

strangers = pytest.mark.parametrize(("token", "other_token", "named", "agent"), STRANGERS)


def drive(time: str | None, who: dict[str, Any] = VICTIM, **members: Any) -> dict[str, Any]:
    """A lead of a customer who asks for a test drive of one vehicle."""
    return lead_with_visit(visit(time), "S1", customer=who, **members)


def seen(intake: IntakeSetup, lead_id: str) -> object:
    """All that the dealer, the CRM and the people see of a lead."""
    whole = read_at(SOON, intake.store, "ridgeline", lead_details, lead_id)
    assert whole is not None
    sent = [row for row in intake.deliveries() if row.lead_id == lead_id]
    return whole, render_adf(lead_view(whole, PROFILE)), sorted(sent)


def data_of(answer: SkillResult) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(answer.data)
    return data


@strangers
@pytest.mark.requirement("duplicate-stranger")
def test_another_sender_gets_a_lead_of_its_own_and_neither_changes_nor_learns_the_first(
    new_intake: OpenIntake, token: str | None, other_token: str | None, named: dict[str, Any], agent: str
) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    first = intake.take(drive(at("10:00")), NOW, LOT, token=token)
    before = seen(intake, first["lead_id"])
    lead = drive(at("12:00"), named, message="Cancel it", trade_in={"make": "Ford"}, source_agent=agent)
    answer = intake.answer(lead, SOON, LOT, token=other_token)
    data = data_of(answer)
    assert (data["status"], data["appointment"]["confirmed_at"]) == ("received", at("12:00"))
    assert data["lead_id"] != first["lead_id"]
    assert seen(intake, first["lead_id"]) == before
    assert intake.places("test_drive") == 8, "nothing was moved"

    # Word for word what anybody is told who asks for that time.
    nobody = drive(at("14:00"), customer(email="nobody@example.com"), message="Hello", trade_in={"make": "Ford"})
    words = (intake.answer(nobody, SOON, LOT, token=other_token).message or "").replace("2:00 PM", "12:00 PM")
    assert answer.message == words


@strangers
@pytest.mark.requirement("duplicate-stranger")
def test_the_dealer_and_the_crm_see_that_two_leads_may_be_of_the_same_person(
    new_intake: OpenIntake, token: str | None, other_token: str | None, named: dict[str, Any], agent: str
) -> None:
    intake = new_intake(PROFILE)
    first = intake.take(drive(None), NOW, LOT, token=token)["lead_id"]
    second = intake.take(drive(None, named, source_agent=agent), SOON, LOT, token=other_token)["lead_id"]
    kept = {lead_id: read_at(SOON, intake.store, "ridgeline", lead_details, lead_id) for lead_id in (first, second)}
    links = [one.stored.lead.may_be_same_person_as for one in kept.values() if one is not None]
    assert links == [None, first]
    whole = kept[second]
    assert whole is not None
    view = lead_view(whole, PROFILE)
    words = f"may be the same person as lead {first}"
    assert words in " ".join(render_adf(view).decode().split())
    assert words in " ".join(staff_mail(view).text.split())
    assert msgspec.json.decode(render_json(view))["may_be_same_person_as"] == first
    assert cells(view)["may_be_same_person_as"] == first


@pytest.mark.requirement("duplicate-same-token", "duplicate-adds")
@pytest.mark.parametrize("named", [VICTIM, PHONE | STRANGER, EMAIL | STRANGER])
def test_with_the_same_token_one_contact_point_is_enough_and_a_changed_visit_moves(
    new_intake: OpenIntake, named: dict[str, Any]
) -> None:
    intake = new_intake(PROFILE)
    first = intake.take(drive(at("10:00")), NOW, LOT)
    again = intake.take(drive(at("12:00"), named, source_agent="Renamed"), SOON, LOT)
    assert (again["status"], again["lead_id"]) == ("duplicate", first["lead_id"])
    assert again["appointment"]["confirmed_at"] == at("12:00")
    assert [one.status for one in intake.visits_of(first["lead_id"])] == ["replaced", "confirmed"]


@pytest.mark.requirement("duplicate-no-token")
@pytest.mark.parametrize("time", [at("12:00"), at("10:00"), None], ids=["another time", "the same time", "no time"])
def test_without_a_token_the_same_sender_adds_a_message_and_a_visit_that_is_only_asked_for(
    new_intake: OpenIntake, time: str | None
) -> None:
    """The sender may be somebody who knows agent, address and number: it changes nothing and learns nothing."""
    intake = new_intake(PROFILE, confirms_by_mail=True)
    first = intake.take(drive(at("10:00"), trade_in={"make": "Kia"}), NOW, LOT, token=None)
    intake.all_sent()
    renamed = VICTIM | STRANGER | {"address": {"city": "Elsewhere"}}
    lead = drive(time, renamed, message="Is it there?", trade_in={"make": "Ford"})
    answer = intake.answer(lead, SOON, LOT, token=None)
    data = data_of(answer)
    assert (data["status"], data["lead_id"]) == ("duplicate", first["lead_id"])
    asked = data.pop("appointment")
    assert asked == {"appointment_id": asked["appointment_id"], "status": "requested"}
    assert asked["appointment_id"] != first["appointment"]["appointment_id"]
    booked = [one for one in intake.visits_of(first["lead_id"]) if one.status == "confirmed"]
    assert [one.starts_at for one in booked] == [NOW.replace(day=3, hour=16)]
    assert intake.places("test_drive") == 4
    stored = read(intake.store, "ridgeline", get_lead, first["lead_id"])
    assert stored is not None
    (event,) = stored.events
    changes = msgspec.json.decode(event.changes or b"")
    assert changes["message"] == "Is it there?"
    assert changes.keys() <= {"message", "appointment"}, "customer and trade-in stay as they were"
    assert [row.kind for row in intake.deliveries() if row.state == "waiting"] == ["resend"], "no mail to the customer"

    # The response is the one that a lead without any visit gets.
    nothing_booked = customer(email="nobody@example.com")
    intake.take(a_lead(customer=nothing_booked, vehicle_of_interest={"stock": "S1"}), NOW, LOT, token=None)
    plain = intake.answer(lead | {"customer": nothing_booked}, SOON, LOT, token=None)
    assert plain.message == answer.message


@pytest.mark.requirement("duplicate-no-token")
def test_without_a_token_the_rooftop_of_the_first_lead_is_not_disclosed(new_intake: OpenIntake) -> None:
    """The rooftop may be the one that the customer visits."""
    intake = new_intake(PROFILE)
    first = intake.take(lead_with_visit(visit(at("10:00"), "trade_in"), None, customer=VICTIM), NOW, LOT, token=None)
    assert first["dealer"]["name"] == "Ridgeline South"
    again = intake.take(a_lead(customer=VICTIM), SOON, LOT, token=None)
    assert (again["status"], again["dealer"]["name"]) == ("duplicate", "Ridgeline North")


@pytest.mark.requirement("duplicate-no-token")
def test_copies_without_a_token_are_one_lead_with_one_visit_and_one_delivery(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    answers = [intake.take(drive(at("10:00")), NOW, LOT, token=None) for _ in range(20)]
    assert len({answer["lead_id"] for answer in answers}) == 1
    assert [answer["appointment"]["status"] for answer in answers] == ["confirmed", *["requested"] * 19]
    visits = intake.visits_of(answers[0]["lead_id"])
    assert [one.status for one in visits] == ["replaced", "confirmed"], "noted once, and nobody has to arrange it"
    assert len(intake.deliveries()) == 1
    assert len({answer["appointment"]["appointment_id"] for answer in answers}) == 2


@strangers
def test_an_appraisal_is_no_part_of_a_test_drive_that_another_sender_asked_for(
    new_intake: OpenIntake, token: str | None, other_token: str | None, named: dict[str, Any], agent: str
) -> None:
    """Otherwise, the answer would tell where the customer will be, and when."""
    intake = new_intake(PROFILE)
    intake.take(drive(at("10:00")), NOW, LOT, token=token)
    whole_week = windows((at("09:00"), "2026-03-09T18:00:00-06:00"), kind="trade_in")
    answer = intake.take(
        lead_with_visit(whole_week, None, customer=named, source_agent=agent), SOON, LOT, token=other_token
    )
    (kept,) = intake.visits_of(answer["lead_id"])
    assert (kept.kind, kept.shares) == ("trade_in", None)


def test_without_a_token_an_appraisal_is_part_of_no_test_drive(new_intake: OpenIntake) -> None:
    """Who knows agent, address and number could ask for the whole week, and read the time from the response."""
    intake = new_intake(PROFILE)
    intake.take(drive(at("10:00")), NOW, LOT, token=None)
    whole_week = windows((at("09:00"), "2026-03-09T18:00:00-06:00"), kind="trade_in")
    answer = intake.take(lead_with_visit(whole_week, None, customer=VICTIM), SOON, LOT, token=None)
    assert answer["appointment"]["confirmed_window"]["start"] == at("09:00"), "the first that is free"
    (kept,) = intake.visits_of(answer["lead_id"])
    assert kept.shares is None


@pytest.mark.requirement("duplicate-stranger")
def test_a_contact_point_that_a_stranger_brings_is_not_attached_to_the_first_lead(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    first = intake.take(drive(None), NOW, LOT)["lead_id"]
    own = customer(email="mallory@example.com")
    second = intake.take(drive(None, own | PHONE), SOON, LOT, token=OTHER_TOKEN)["lead_id"]
    third = intake.take(drive(None, own), LATER, LOT, token=None)["lead_id"]
    found = read(intake.store, "ridgeline", find_leads_of, ["email:mallory@example.com"])
    assert found == [second, third]
    linked = read(intake.store, "ridgeline", get_lead, third)
    assert linked is not None
    assert linked.lead.may_be_same_person_as == second
    assert read(intake.store, "ridgeline", find_leads_of, ["phone:+12025550123"]) == [first, second], (
        "erasing finds both"
    )


@pytest.mark.requirement("duplicate-stranger")
def test_a_stranger_does_not_use_up_the_additions_of_a_lead(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    first = intake.take(drive(None), NOW, LOT)
    for number in range(MOST_ADDITIONS + 1):
        intake.take(drive(None, PHONE | STRANGER, message=str(number)), NOW, LOT, token=None)
    again = intake.take(drive(None, message="Is it there?"), SOON, LOT)
    assert (again["status"], again["lead_id"]) == ("duplicate", first["lead_id"])


@strangers
@pytest.mark.requirement("duplicate-stranger")
def test_a_strangers_consent_changes_no_channel_of_the_first_lead(
    new_intake: OpenIntake, token: str | None, other_token: str | None, named: dict[str, Any], agent: str
) -> None:
    intake = new_intake(PROFILE)
    lead = drive(None)
    lead["consent"] |= {"allowed_channels": ["email", "phone"]}
    first = intake.take(lead, NOW, LOT, token=token)["lead_id"]
    lock_at(SOON, intake.store, "ridgeline", withdraw, first, ["phone"], by="staff", reason=None, profile=NO_NOTICES)
    strangers_lead = drive(None, named, source_agent=agent)
    strangers_lead["consent"] |= {"allowed_channels": ["email", "phone", "sms"]}
    second = intake.take(strangers_lead, LATER, LOT, token=other_token)["lead_id"]
    assert read(intake.store, "ridgeline", allowed_channels, first, LATER) == {"email"}
    # A revocation is the person's: it holds on every lead with a consent from before.
    assert read(intake.store, "ridgeline", allowed_channels, second, LATER) == {"email", "sms"}


@strangers
@pytest.mark.requirement("duplicate-stranger")
def test_a_cancelled_visit_is_mailed_to_the_address_of_its_own_lead_only(
    new_intake: OpenIntake, token: str | None, other_token: str | None, named: dict[str, Any], agent: str
) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    first = intake.take(drive(at("10:00")), NOW, LOT, token=token)
    second = intake.take(drive(at("12:00"), named, source_agent=agent), SOON, LOT, token=other_token)
    intake.all_sent()
    intake.cancel_visit(first, LATER)
    rows = [row for row in intake.deliveries() if row.state == "waiting"]
    assert {row.lead_id for row in rows} == {first["lead_id"]}
    whole = read_at(LATER, intake.store, "ridgeline", lead_details, second["lead_id"])
    assert whole is not None
    view = lead_view(whole, PROFILE)
    assert [one.status for one in view.visits] == ["confirmed"]
    assert view.customer == msgspec.convert(named, Customer)


@pytest.mark.parametrize("erased", [0, 1])
def test_erasing_one_of_two_linked_leads_removes_the_link(new_intake: OpenIntake, erased: int) -> None:
    intake = new_intake(PROFILE)
    ids = [intake.take(drive(None), NOW, LOT, token=token)["lead_id"] for token in (TOKEN, None)]
    lock_at(SOON, intake.store, "ridgeline", erase_lead, ids[erased])
    links = [read(intake.store, "ridgeline", get_lead, lead_id) for lead_id in ids]
    assert [stored.lead.may_be_same_person_as for stored in links if stored is not None] == [None, None]
    found = read(intake.store, "ridgeline", find_leads_of, contact_points(msgspec.convert(VICTIM, Customer)))
    assert found == [ids[1 - erased]]
