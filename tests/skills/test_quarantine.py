"""A lead of a sender in quarantine is answered as any other, and nobody gets it until a person decides.

See docs/protocol.md#quarantine. On both databases.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.skills.intake_setup import TOKEN, IntakeSetup
from tests.skills.sample_dealers import a_lead, consent, customer
from tests.skills.test_cancellation import WITH_PEOPLE, id_of, lead_of_sam
from tests.skills.test_customer_actions import cancel as customer_cancels
from tests.skills.visiting import LOT, NOW, at, lead_with_visit, visit
from tests.storage.calls import list_leads, lock_at, read, read_at

from dealer_agent.lead_intake.decisions import DecidedLead, Decisions
from dealer_agent.leads.consent import channels_of
from dealer_agent.leads.lead_view import lead_view
from dealer_agent.leads.timetable import Timetable
from dealer_agent.storage.deliveries.notices import erase
from dealer_agent.storage.leads.lead_record import lead_details
from dealer_agent.storage.leads.monthly_reports import count_leads
from dealer_agent.storage.leads.quarantine import count_waiting, list_waiting, waiting_by_caller
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.leads.visits import list_booked, list_calendar
from dealer_agent.storage.leads.visits import list_waiting as list_visits_to_arrange
from dealer_agent.storage.privacy.consents import verify_chain
from dealer_agent.storage.privacy.erasure import dispose
from dealer_agent.storage.transaction import Transaction
from dealer_agent.visits.changes import ChangeRefused
from dealer_agent.visits.notifications import IntakeContext

OpenIntake = Callable[..., IntakeSetup]
LATER = NOW + timedelta(minutes=5)
CONTEXT = IntakeContext(WITH_PEOPLE, Timetable(WITH_PEOPLE), confirms_by_mail=True)
CALLER = f"token:{TOKEN}"


@pytest.fixture
def intake(new_intake: OpenIntake) -> IntakeSetup:
    """A dealer with CRMs, staff and mails to customers."""
    return new_intake(WITH_PEOPLE, confirms_by_mail=True)


def decide(
    intake: IntakeSetup, how: Callable[[Decisions], DecidedLead | None], now: datetime = LATER
) -> DecidedLead | None:
    return lock_at(now, intake.store, "ridgeline", lambda tx: how(Decisions(tx, CONTEXT, "kim")))


def release(intake: IntakeSetup, answer: dict[str, Any], now: datetime = LATER) -> DecidedLead | None:
    return decide(intake, lambda decisions: decisions.release(answer["lead_id"]), now)


def refuse(intake: IntakeSetup, answer: dict[str, Any], now: datetime = LATER) -> DecidedLead | None:
    return decide(intake, lambda decisions: decisions.refuse(answer["lead_id"], "spam"), now)


def sent(intake: IntakeSetup) -> list[tuple[str, str, str]]:
    """Rooftop, channel and kind of all deliveries."""
    return sorted((each.rooftop, each.channel, each.kind) for each in intake.deliveries())


def waiting(intake: IntakeSetup) -> list[str]:
    return [lead.lead_id for lead in read(intake.store, "ridgeline", list_waiting, 1000)]


def seen_by_staff(intake: IntakeSetup) -> list[Any]:
    """Everything that staff can list or count of leads and visits."""

    def look(tx: Transaction) -> list[Any]:
        month = timedelta(days=31)
        return [
            [lead.lead_id for lead in list_leads(tx, 100)],
            [each.appointment.appointment_id for each in list_booked(tx, NOW - month)],
            [
                each.appointment.appointment_id
                for each in list_calendar(tx, since=NOW - month, until=NOW + month, most=100)
            ],
            [each.appointment.appointment_id for each in list_visits_to_arrange(tx, NOW - month)],
            tuple(count_leads(tx, NOW - month, NOW + month)),
        ]

    return read_at(LATER, intake.store, "ridgeline", look)


NOTHING = [[], [], [], [], (0, 0, 0, 0)]


@pytest.mark.both_databases
@pytest.mark.requirement("quarantine-holds")
@pytest.mark.parametrize("token", [TOKEN, None])
def test_nobody_gets_or_sees_the_lead_of_a_sender_in_quarantine_and_its_visit_has_its_places(
    intake: IntakeSetup, token: str | None
) -> None:
    answer = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT, token=token, quarantined=True)
    assert answer["appointment"]["status"] == "confirmed"
    assert intake.places("test_drive") > 0
    assert sent(intake) == []
    assert seen_by_staff(intake) == NOTHING
    assert waiting(intake) == [answer["lead_id"]]
    assert read(intake.store, "ridgeline", count_waiting, CALLER if token else None) == 1


@pytest.mark.requirement("quarantine-release")
@pytest.mark.parametrize("token", [TOKEN, None])
def test_a_release_sends_what_the_arrival_would_have_sent(new_intake: OpenIntake, token: str | None) -> None:
    intake = new_intake(WITH_PEOPLE, confirms_by_mail=True)
    answer = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT, token=token, quarantined=True)
    done = release(intake, answer)
    assert done is not None
    held, seen = sent(intake), seen_by_staff(intake)
    assert done.deliveries == len(held) > 0
    assert release(intake, answer) is None, "nothing is sent twice"
    other = intake.take(lead_with_visit(visit(at("12:00")), "S1"), NOW, LOT, token=token)
    assert sorted(held * 2) == sent(intake)
    assert seen[0] == [answer["lead_id"]]
    assert seen[1] == [id_of(answer)]
    assert {delivery.lead_id for delivery in intake.deliveries()} == {answer["lead_id"], other["lead_id"]}
    assert waiting(intake) == []


@pytest.mark.requirement("quarantine-additions")
def test_what_the_sender_adds_waits_too_and_a_release_sends_it_with_the_rest(intake: IntakeSetup) -> None:
    first = lead_of_sam(visit(at("10:00")))
    answer = intake.take(first, NOW, LOT, quarantined=True)
    for quarantined in (True, False):
        moved = first | {"message": f"Later, please: {quarantined}", "appointment": visit(at("12:00"))}
        added = intake.take(moved, NOW, LOT, quarantined=quarantined)
        assert (added["status"], added["lead_id"]) == ("duplicate", answer["lead_id"])
        assert sent(intake) == []
        assert seen_by_staff(intake) == NOTHING
    release(intake, answer)
    assert [kind for *_, kind in sent(intake)].count("confirm") == 1
    assert [kind for *_, kind in sent(intake)].count("lead") == 1
    lead = read(intake.store, "ridgeline", get_lead, answer["lead_id"])
    assert lead is not None
    assert len(lead.events) == 2


@pytest.mark.both_databases
@pytest.mark.requirement("quarantine-additions")
def test_a_lead_that_staff_have_waits_again_when_its_sender_in_quarantine_adds_to_it(intake: IntakeSetup) -> None:
    first = lead_of_sam(visit(at("10:00")))
    answer = intake.take(first, NOW, LOT)
    before = sent(intake)
    # An addition waits, and nothing is sent.
    added = intake.take(first | {"message": "Buy my pills."}, LATER, LOT, quarantined=True)
    assert (added["status"], added["lead_id"]) == ("duplicate", answer["lead_id"])
    assert sent(intake) == before
    assert waiting(intake) == [answer["lead_id"]]
    # A refused addition leaves the lead as it was.
    refuse(intake, answer, LATER)
    lead = read(intake.store, "ridgeline", get_lead, answer["lead_id"])
    assert lead is not None
    assert lead.events == (), "what was refused is gone"
    leads, booked_visits, *_ = seen_by_staff(intake)
    assert (leads, booked_visits) == ([answer["lead_id"]], [id_of(answer)])
    # A released one is sent as the lead again.
    intake.all_sent()
    intake.take(first | {"message": "Really."}, LATER, LOT, quarantined=True)
    release(intake, answer)
    assert {kind for *_, kind in sent(intake)} - {kind for *_, kind in before} == {"resend"}
    assert [kind for *_, kind in sent(intake)].count("confirm") == 1, "the customer has the mail about the visit"


@pytest.mark.both_databases
@pytest.mark.requirement("quarantine-refusal")
def test_a_consent_that_came_with_what_was_refused_allows_nothing(intake: IntakeSetup) -> None:
    def asked(*channels: str, **members: Any) -> dict[str, Any]:
        person = customer(email="sam@example.com", phone="+12025550123")
        return a_lead(customer=person, consent=consent(allowed_channels=[*channels]), **members)

    def channels(now: datetime) -> tuple[str, ...]:
        lead = read_at(now, intake.store, "ridgeline", get_lead, answer["lead_id"])
        assert lead is not None
        return channels_of(lead, now)

    answer = intake.take(asked("email"), NOW, LOT)
    for minutes in (5, 15):
        later = NOW + timedelta(minutes=minutes)
        intake.take(asked("email", "phone", message="Call me."), later, LOT, quarantined=True)
        refuse(intake, answer, later + timedelta(minutes=5))
        assert channels(later + timedelta(minutes=6)) == ("email",)
    with intake.store.read("ridgeline", later) as tx:
        assert verify_chain(tx).problem is None
    assert intake.take(asked("email"), later, LOT)["status"] == "duplicate", "no sender learns of a refusal"
    # The same consent counts if it comes again and is released.
    last = NOW + timedelta(minutes=25)
    intake.take(asked("email", "phone", message="Call me."), last, LOT, quarantined=True)
    release(intake, answer, last)
    assert channels(last) == ("email", "phone")


@pytest.mark.requirement("quarantine-refusal")
def test_refusing_a_lead_frees_its_places_notifies_nobody_and_is_final(intake: IntakeSetup) -> None:
    answer = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT, quarantined=True)
    done = refuse(intake, answer)
    assert done is not None
    assert [each.appointment_id for each in done.cancelled] == [id_of(answer)]
    assert intake.places("test_drive") == 0
    assert intake.take(lead_with_visit(visit(at("10:00"))), NOW, LOT)["appointment"]["status"] == "confirmed"
    assert {delivery.lead_id for delivery in intake.deliveries()}.isdisjoint({answer["lead_id"]})
    assert answer["lead_id"] not in seen_by_staff(intake)[0]
    assert waiting(intake) == []
    assert release(intake, answer) is None
    assert refuse(intake, answer) is None
    kept = read(intake.store, "ridgeline", get_lead, answer["lead_id"])
    assert kept is not None
    assert kept.lead.customer is not None, "it stays as a proof"


@pytest.mark.requirement("quarantine-additions")
def test_what_comes_after_a_refusal_waits_for_a_person_again(intake: IntakeSetup) -> None:
    first = lead_of_sam(visit(at("10:00")))
    answer = intake.take(first, NOW, LOT, quarantined=True)
    refuse(intake, answer)
    intake.take(first | {"message": "Are you there?"}, LATER, LOT)
    assert waiting(intake) == [answer["lead_id"]]
    assert sent(intake) == []
    done = refuse(intake, answer)
    assert done is not None
    assert not done.was_known, "staff never had it"
    assert seen_by_staff(intake) == NOTHING


@pytest.mark.both_databases
@pytest.mark.requirement("quarantine-release")
def test_a_visit_whose_time_passed_meanwhile_is_one_that_staff_must_arrange(intake: IntakeSetup) -> None:
    answer = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT, quarantined=True)
    done = release(intake, answer, NOW + timedelta(days=3))
    assert done is not None
    assert [each.appointment_id for each in done.passed] == [id_of(answer)]
    (asked,) = intake.visits_of(answer["lead_id"])
    assert (asked.status, asked.starts_at) == ("requested", None)
    assert asked.read_reply().status == "requested"
    assert intake.places("test_drive") == 0
    assert "confirm" not in {kind for *_, kind in sent(intake)}
    assert id_of(answer) in seen_by_staff(intake)[3]


@pytest.mark.outside_protocol("staff")
def test_staff_cannot_change_a_visit_that_is_held_and_its_customer_can(intake: IntakeSetup) -> None:
    answer = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT, quarantined=True)
    with pytest.raises(ChangeRefused, match=f"dealer-agent leads show {answer['lead_id']}"):
        intake.cancel_visit(answer, LATER)
    customer_cancels(intake, answer)
    assert intake.places("test_drive") == 0
    assert sent(intake) == []


@pytest.mark.requirement("quarantine-holds")
def test_an_erasure_of_a_lead_that_waits_notifies_nobody_and_ends_the_wait(intake: IntakeSetup) -> None:
    answer = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT, quarantined=True)
    lock_at(LATER, intake.store, "ridgeline", lambda tx: erase(tx, answer["lead_id"], WITH_PEOPLE, consent_too=False))
    assert sent(intake) == []
    assert intake.places("test_drive") == 0
    assert waiting(intake) == []
    assert release(intake, answer) is None


@pytest.mark.both_databases
@pytest.mark.outside_protocol("disposal")
def test_a_lead_that_waits_too_long_is_disposed_of_by_age_as_any_other(intake: IntakeSetup) -> None:
    intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT, quarantined=True)
    much_later = NOW + timedelta(days=10)
    done = dispose(
        intake.store,
        "ridgeline",
        leads_unused_since=much_later,
        consents_before=NOW - timedelta(days=1),
        now=much_later,
    )
    assert done.leads == 1
    assert waiting(intake) == []


@pytest.mark.requirement("quarantine-holds")
def test_a_lead_of_another_sender_is_not_said_to_be_of_the_same_person_as_one_that_waits(intake: IntakeSetup) -> None:
    intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT, quarantined=True)
    other = intake.take(lead_of_sam(visit(at("12:00"))), NOW, LOT, token=None)
    lead = read(intake.store, "ridgeline", get_lead, other["lead_id"])
    assert lead is not None
    assert lead.lead.may_be_same_person_as is None


@pytest.mark.requirement("quarantine-holds")
def test_a_part_of_a_visit_that_a_sender_in_quarantine_moves_waits_with_it(intake: IntakeSetup) -> None:
    drive = intake.take(lead_of_sam(visit(at("10:00"), duration_minutes=30), stock="S1"), NOW, LOT)
    part = intake.take(lead_of_sam(visit(at("10:00"), kind="trade_in"), stock=None), NOW, LOT)
    assert part["appointment"]["status"] == "confirmed"
    before = sent(intake)
    intake.take(lead_of_sam(visit(at("12:00")), stock="S1"), LATER, LOT, quarantined=True)
    assert sent(intake) == before
    assert set(waiting(intake)) == {drive["lead_id"], part["lead_id"]}


@pytest.mark.both_databases
@pytest.mark.outside_protocol("alerts")
def test_waiting_leads_are_counted_by_sender(intake: IntakeSetup) -> None:
    intake.take(a_lead(), NOW, quarantined=True)
    intake.take(a_lead(), LATER, quarantined=True)
    intake.take(a_lead(), LATER, token=None, quarantined=True)
    intake.take(a_lead(), LATER)
    found = read(intake.store, "ridgeline", waiting_by_caller)
    assert [(each.caller, each.number, each.oldest) for each in found] == [(CALLER, 2, NOW), (None, 1, LATER)]


@pytest.mark.both_databases
@pytest.mark.requirement("quarantine-release")
def test_of_two_people_who_release_a_lead_at_once_one_does(intake: IntakeSetup) -> None:
    answers = [intake.take(a_lead(), NOW, quarantined=True) for _ in range(5)]
    with ThreadPoolExecutor(4) as people:
        done = list(people.map(lambda answer: release(intake, answer), answers * 4))
    assert sum(each is not None for each in done) == len(answers)
    assert len(sent(intake)) == len(answers)


@pytest.mark.both_databases
@pytest.mark.requirement("quarantine-release")
def test_a_release_that_is_stopped_in_the_middle_has_done_nothing(intake: IntakeSetup) -> None:
    answer = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT, quarantined=True)

    def release_and_fail(tx: Transaction) -> None:
        assert Decisions(tx, CONTEXT, "kim").release(answer["lead_id"]) is not None
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lock_at(LATER, intake.store, "ridgeline", release_and_fail)
    assert waiting(intake) == [answer["lead_id"]]
    assert sent(intake) == []
    assert release(intake, answer) is not None


@pytest.mark.requirement("quarantine-holds")
def test_a_delivery_from_before_the_quarantine_says_nothing_that_came_later(intake: IntakeSetup) -> None:
    first = lead_of_sam(visit(at("10:00"))) | {"message": "Hello."}
    answer = intake.take(first, NOW, LOT)
    intake.take(first | {"message": "Buy my pills.", "appointment": visit(at("12:00"))}, LATER, LOT, quarantined=True)
    with intake.store.read("ridgeline", LATER) as tx:
        lead = lead_details(tx, answer["lead_id"])
    assert lead is not None
    view = lead_view(lead.before_quarantine(), WITH_PEOPLE)
    assert view.messages == ("Hello.",)
    assert view.visits == (), "the sender gave it up"
