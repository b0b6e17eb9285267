"""How long answers are stored, and how long a lead has duplicates (docs/protocol.md#idempotency-30-days)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from sqlalchemy import text
from tests.logs import captured_logs
from tests.skills.intake_setup import IntakeSetup
from tests.skills.sample_dealers import a_lead, consent, customer
from tests.storage.calls import read_at, write_at

from dealer_agent.dealers.profile import DealerRooftop, Policies, Profile
from dealer_agent.leads.adf import render_adf
from dealer_agent.leads.lead_json import render_json
from dealer_agent.leads.lead_view import lead_view
from dealer_agent.leads.mails import staff_mail
from dealer_agent.leads.spreadsheet import cells
from dealer_agent.protocol.errors import IdempotencyConflict, InvalidConsent
from dealer_agent.storage.clock import confirm_clock
from dealer_agent.storage.leads.lead_record import lead_details
from dealer_agent.storage.privacy.erasure import purge

NOW = datetime(2026, 3, 2, 15, 0, tzinfo=UTC)
PROFILE = Profile(
    id="ridgeline",
    name="Ridgeline Motors",
    feed_price="advertised",
    rooftops=(DealerRooftop(name="Ridgeline North", timezone="America/Chicago"),),
)


def purged(at: IntakeSetup, now: datetime) -> None:
    write_at(now, at.store, "ridgeline", confirm_clock)
    before = now - timedelta(days=90)
    purge(at.store, "ridgeline", refusals_before=before, accesses_before=before, counts_before=before, now=now)


@pytest.mark.both_databases
@pytest.mark.requirement("idempotency-30-days")
def test_the_first_answer_to_a_key_is_kept_for_thirty_days(new_intake: Callable[[Profile], IntakeSetup]) -> None:
    at = new_intake(PROFILE)
    lead = a_lead(idempotency_key="key-1")
    first = at.take(lead, NOW)
    last_moment = NOW + timedelta(days=30)
    for now in (NOW + timedelta(days=29), last_moment):
        purged(at, now)
        assert at.take(lead, now) == first
    with pytest.raises(IdempotencyConflict):
        at.take(lead | {"message": "Hello"}, last_moment)
    after = at.take(lead | {"message": "Hello"}, last_moment + timedelta(seconds=1))
    assert after["lead_id"] != first["lead_id"]
    assert at.take(lead | {"message": "Hello"}, last_moment + timedelta(days=1)) == after


@pytest.mark.requirement("idempotency-before-consent")
def test_a_consent_that_expired_meanwhile_does_not_spoil_the_first_answer(
    new_intake: Callable[[Profile], IntakeSetup],
) -> None:
    at = new_intake(PROFILE)
    expired = NOW + timedelta(hours=1)
    lead = a_lead(idempotency_key="key-1", consent=consent(expires_at=expired.isoformat()))
    first = at.take(lead, NOW)
    assert at.take(lead, expired) == first
    for fresh in (lead | {"idempotency_key": "key-2"}, {k: v for k, v in lead.items() if k != "idempotency_key"}):
        with pytest.raises(InvalidConsent):
            at.take(fresh, expired)


@pytest.mark.requirement("timestamp-any-year", "timestamp-leap-second")
@pytest.mark.parametrize("zone", ["America/Chicago", "Pacific/Guam"])
def test_a_lead_with_the_last_times_of_the_calendar_is_kept_and_delivered(
    new_intake: Callable[[Profile], IntakeSetup], zone: str
) -> None:
    profile = msgspec.structs.replace(PROFILE, rooftops=(DealerRooftop(name="Ridgeline North", timezone=zone),))
    at = new_intake(profile)
    leap = "9999-12-31T23:59:60Z"
    window = {"start": "9999-12-31T23:00:00Z", "end": leap}
    lead = a_lead(
        consent=consent(expires_at="9999-12-31T23:59:59.123456Z"),
        submitted_at=leap,
        appointment={"appointment_type": "sales", "requested_windows": [window]},
    )
    lead_id = at.take(lead, NOW)["lead_id"]
    whole = read_at(NOW, at.store, "ridgeline", lead_details, lead_id)
    assert whole is not None
    (event,) = whole.stored.consents
    assert event.expires_at == datetime(9999, 12, 31, 23, 59, 59, 123456, tzinfo=UTC)
    view = lead_view(whole, profile)
    assert view.channels == ("email",)
    assert cells(view)["lead_id"] == lead_id
    for document in (render_adf(view), render_json(view), staff_mail(view).text.encode()):
        assert b"9999" in document


@pytest.mark.requirement("duplicate-window")
@pytest.mark.parametrize(
    ("policies", "window"),
    [(Policies(), timedelta(hours=24)), (Policies(duplicate_window_hours=2), timedelta(hours=2))],
    ids=["default", "set"],
)
def test_a_lead_has_duplicates_within_the_dealers_window_counted_from_the_first(
    new_intake: Callable[[Profile], IntakeSetup], policies: Policies, window: timedelta
) -> None:
    at = new_intake(msgspec.structs.replace(PROFILE, policies=policies))
    both = {"email": "sam@example.com", "phone": "+12025550123"}
    lead = a_lead(customer=customer(**both))
    by_phone = lead | {"customer": customer(phone=both["phone"])}
    by_email = lead | {"customer": customer(email=both["email"])}
    first = at.take(by_email, NOW)
    assert at.take(lead, NOW + window / 2) == first | {"status": "duplicate"}
    assert at.take(by_phone, NOW + window) == first | {"status": "duplicate"}
    later = NOW + window + timedelta(seconds=1)
    second = at.take(lead, later)
    assert second["status"] == "received"
    assert second["lead_id"] != first["lead_id"]
    assert at.take(by_phone, later + window)["lead_id"] == second["lead_id"]


@pytest.mark.requirement("duplicate-window")
def test_a_dealer_without_a_window_knows_no_duplicates_even_of_one_moment(
    new_intake: Callable[[Profile], IntakeSetup],
) -> None:
    at = new_intake(msgspec.structs.replace(PROFILE, policies=Policies(duplicate_window_hours=0)))
    lead = a_lead()
    assert [at.take(lead, NOW)["status"] for _ in range(2)] == ["received", "received"]


def test_a_refusal_that_cannot_be_stored_is_logged_without_a_word_of_the_lead(
    new_intake: Callable[[Profile], IntakeSetup],
) -> None:
    at = new_intake(PROFILE)
    at.writer.close()
    with captured_logs() as lines:
        at.intake.note_refused("INVALID_CONSENT", NOW)
    lost = {"event": "refusal not stored", "log_level": "error", "code": "INVALID_CONSENT", "error": "StoreClosed"}
    assert lines == [lost]


def test_a_refusal_that_cannot_be_stored_is_logged(new_intake: Callable[[Profile], IntakeSetup]) -> None:
    at = new_intake(PROFILE)
    with captured_logs() as lines:
        # The column of the time takes no time without a zone.
        at.intake.note_refused("INVALID_CONSENT", NOW.replace(tzinfo=None))
        at.writer.close()
    lost = {"event": "refusal not stored", "log_level": "error", "code": "INVALID_CONSENT", "error": "ValueError"}
    assert lines == [lost]


def test_a_refusal_that_is_stored_is_not_logged(new_intake: Callable[[Profile], IntakeSetup]) -> None:
    at = new_intake(PROFILE)
    with captured_logs() as lines:
        at.intake.note_refused("INVALID_CONSENT", NOW)
        at.writer.close()
    assert lines == []
    with at.store.read("ridgeline") as tx:
        assert tx.connection.execute(text("SELECT count(*) FROM refusals")).scalar() == 1
    purged(at, NOW + timedelta(days=91))
    with at.store.read("ridgeline") as tx:
        assert tx.connection.execute(text("SELECT count(*) FROM refusals")).scalar() == 0
