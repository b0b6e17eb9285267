"""A lead without a free time is stored under its key (docs/protocol.md#idempotency-unavailable). On both databases."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.skills.intake_setup import TOKEN, IntakeSetup
from tests.skills.sample_dealers import consent, customer
from tests.skills.visiting import LOT, NOW, at, lead_with_visit, rooftop, visit
from tests.storage.calls import list_leads, lock_at, read

from dealer_agent.dealers.profile import Policies, Profile, VisitRules
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.leads.records import StoredLead
from dealer_agent.protocol.errors import AppointmentTimeUnavailable, IdempotencyConflict
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.privacy.erasure import erase_lead

OpenIntake = Callable[..., IntakeSetup]
FULL = Profile(
    id="ridgeline",
    name="Ridgeline Motors",
    feed_price="advertised",
    rooftops=(rooftop("Ridgeline North", {"test_drive": VisitRules(duration_minutes=480, horizon_days=1)}, "north"),),
)
"""Tuesday from nine is all that can be had."""
NO_WINDOW = msgspec.structs.replace(FULL, policies=Policies(duplicate_window_hours=0))
SOON = NOW + timedelta(minutes=5)

senders = pytest.mark.parametrize("token", [TOKEN, None], ids=["token", "no token"])


def keyed(**members: Any) -> dict[str, Any]:
    """A lead with a key that asks for the one time."""
    return lead_with_visit(visit(at("09:00")), idempotency_key="key-1", **members)


def taken(intake: IntakeSetup) -> dict[str, Any]:
    """Somebody else has the one time."""
    return intake.take(lead_with_visit(visit(at("09:00"))), NOW, LOT)


def refused(
    intake: IntakeSetup, lead: dict[str, Any], lot: Catalogue = LOT, *, token: str | None, now: datetime = SOON
) -> AppointmentTimeUnavailable:
    with pytest.raises(AppointmentTimeUnavailable) as caught:
        intake.take(lead, now, lot, token=token)
    return caught.value


def stored(intake: IntakeSetup, lead_id: str) -> StoredLead:
    found = read(intake.store, "ridgeline", get_lead, lead_id)
    assert found is not None
    return found


@senders
@pytest.mark.parametrize("profile", [FULL, NO_WINDOW], ids=["window", "no window"])
@pytest.mark.requirement("idempotency-unavailable")
def test_three_retries_of_one_key_make_one_lead_whatever_the_window(
    new_intake: OpenIntake, profile: Profile, token: str | None
) -> None:
    intake = new_intake(profile)
    first = taken(intake)
    lead = keyed(message="Hello")
    errors = [refused(intake, lead, token=token) for _ in range(4)]
    assert len({error.message for error in errors}) == 1
    (lead_id,) = {error.details["lead_id"] for error in errors}
    assert {one.lead_id for one in read(intake.store, "ridgeline", list_leads, 10)} == {first["lead_id"], lead_id}
    assert [len(stored(intake, lead_id).consents), len(stored(intake, lead_id).events)] == [1, 0], (
        "a retry adds nothing"
    )
    assert [one.status for one in intake.visits_of(lead_id)] == ["unavailable"]
    assert [row.kind for row in intake.deliveries() if row.lead_id == lead_id] == ["lead"]
    with pytest.raises(IdempotencyConflict):
        intake.take(lead | {"message": "Another payload"}, SOON, LOT, token=token)


@senders
@pytest.mark.requirement("idempotency-unavailable")
def test_a_retry_books_a_time_that_became_free_on_the_same_lead(new_intake: OpenIntake, token: str | None) -> None:
    intake = new_intake(NO_WINDOW, confirms_by_mail=True)
    first = taken(intake)
    lead = keyed()
    lead_id = refused(intake, lead, token=token).details["lead_id"]
    intake.cancel_visit(first, SOON)
    intake.all_sent()
    answer = intake.answer(lead, SOON, LOT, token=token)
    data = msgspec.json.decode(answer.data)
    assert (data["lead_id"], data["status"]) == (lead_id, "received")
    assert data["appointment"]["confirmed_at"] == at("09:00")
    assert [one.status for one in intake.visits_of(lead_id)] == ["replaced", "confirmed"]
    waiting = [row.kind for row in intake.deliveries() if row.lead_id == lead_id and row.state == "waiting"]
    assert sorted(waiting) == ["confirm", "resend"], "the CRM and the customer learn the time"
    again = intake.answer(lead, SOON + timedelta(days=20), LOT, token=token)
    assert again == answer._replace(is_repeated=True), "from now on it is the answer"
    assert len(stored(intake, lead_id).consents) == 1


@pytest.mark.both_databases
@pytest.mark.requirement("idempotency-unavailable")
def test_a_retry_does_not_check_the_consent_again_and_sends_no_mail_after_it_expired(new_intake: OpenIntake) -> None:
    """The lead was taken with a valid consent. Its end takes the channels away, and not the visit."""
    intake = new_intake(FULL, confirms_by_mail=True)
    first = taken(intake)
    lead = keyed(consent=consent(expires_at=(NOW + timedelta(minutes=1)).isoformat()))
    lead_id = refused(intake, lead, token=None, now=NOW).details["lead_id"]
    intake.cancel_visit(first, SOON)
    intake.all_sent()
    answer = intake.take(lead, SOON, LOT, token=None)
    assert (answer["lead_id"], answer["appointment"]["status"]) == (lead_id, "confirmed")
    assert [row.kind for row in intake.deliveries() if row.state == "waiting"] == ["resend"]


@senders
@pytest.mark.requirement("idempotency-unavailable")
def test_a_retry_books_no_drive_of_a_vehicle_that_is_gone(new_intake: OpenIntake, token: str | None) -> None:
    intake = new_intake(FULL)
    first = taken(intake)
    lead = keyed()
    lead_id = refused(intake, lead, token=token).details["lead_id"]
    intake.cancel_visit(first, SOON)
    error = refused(intake, lead, Catalogue.build([]), token=token)
    assert error.details["lead_id"] == lead_id
    assert "The vehicle you asked about is not in our stock" in error.message
    assert [one.status for one in intake.visits_of(lead_id)] == ["unavailable"]


@pytest.mark.requirement("idempotency-unavailable")
def test_a_retry_does_not_move_the_visit_of_a_later_request(new_intake: OpenIntake) -> None:
    intake = new_intake(FULL)
    first = taken(intake)
    lead = keyed()
    lead_id = refused(intake, lead, token=TOKEN).details["lead_id"]
    intake.cancel_visit(first, SOON)
    later = lead | {"idempotency_key": "key-2", "appointment": visit(at("09:00"), duration_minutes=60)}
    assert intake.take(later, SOON, LOT)["appointment"]["confirmed_at"] == at("09:00")
    assert refused(intake, lead, token=TOKEN).details["lead_id"] == lead_id
    standing = [one for one in intake.visits_of(lead_id) if one.is_active]
    assert [(one.status, one.starts_at) for one in standing] == [("confirmed", datetime.fromisoformat(at("09:00")))]


@pytest.mark.requirement("idempotency-unavailable")
def test_a_retry_after_an_erasure_is_a_lead_of_its_own(new_intake: OpenIntake) -> None:
    intake = new_intake(FULL)
    taken(intake)
    lead = keyed(customer=customer(email="sam@example.com"))
    lead_id = refused(intake, lead, token=None).details["lead_id"]
    lock_at(SOON, intake.store, "ridgeline", erase_lead, lead_id)
    assert refused(intake, lead, token=None).details["lead_id"] != lead_id
