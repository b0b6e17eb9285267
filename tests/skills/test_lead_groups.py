"""Leads that wait together are decided one after the other and written together (docs/protocol.md#durability)."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, create_engine, event, func, select
from tests.delivery.crm import lead_of_sam, profile_of
from tests.skills.intake_setup import EMPTY_LOT, TOKEN, IntakeSetup, caller_with, open_intake
from tests.skills.sample_dealers import a_lead
from tests.storage.calls import at_time, list_leads, read

from dealer_agent.dealers.profile import HttpChannel, Profile
from dealer_agent.lead_intake.intake import LeadIntake
from dealer_agent.leads.received_lead import PreparedLead
from dealer_agent.protocol.errors import IdempotencyConflict
from dealer_agent.protocol.response_bodies import SkillResult
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.storage.database_url import database_url as parsed_url
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.privacy.consents import allowed_channels, record_withdrawal_event, verify_chain
from dealer_agent.storage.schema import consent_events, idempotency, lead_contacts, leads, outbox
from dealer_agent.storage.transaction import Transaction

PROFILE = profile_of(HttpChannel(name="crm", url="http://crm.example.com/leads"))
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
TABLES = (leads, lead_contacts, consent_events, outbox, idempotency)


class SampleFailureError(Exception):
    """Something that a write raises."""


class Group:
    """Writes that the writer takes as one group."""

    def __init__(self, intake: IntakeSetup) -> None:
        self._desk = intake
        self.futures: list[Future[Any]] = []

    def add(self, write: Callable[[Transaction], object], dealer_id: str = PROFILE.id) -> None:
        self.futures.append(self._desk.writer.submit(dealer_id, write, NOW))

    def take(
        self,
        lead: dict[str, Any],
        after: Callable[[], None] = lambda: None,
        *,
        token: str | None = TOKEN,
        profile: Profile = PROFILE,
    ) -> None:
        """Adds a lead; `after` runs at the end of its write."""
        plain = lead | {"consent": lead["consent"] | {"granted_at": "2026-03-01T00:00:00Z"}}
        typed = msgspec.convert(plain, LeadSubmitRequest)
        intake = LeadIntake(profile, self._desk.writer, confirms_by_mail=False)
        write = intake.write_of_lead(PreparedLead.of(typed, plain, caller_with(token), b""), EMPTY_LOT, NOW)

        def run(tx: Transaction) -> object:
            answer = write(tx)
            after()
            return answer

        self.add(run, profile.id)

    def answers(self) -> list[dict[str, Any] | str]:
        """The data of each response, or the name of the exception."""
        found: list[dict[str, Any] | str] = []
        for future in self.futures:
            failure = future.exception(60)
            if failure is not None:
                found.append(type(failure).__name__)
            else:
                answer = future.result()
                assert isinstance(answer, SkillResult)
                found.append(msgspec.json.decode(answer.data))
        return found


@pytest.fixture
def intake(database_url: str) -> Iterator[IntakeSetup]:
    with open_intake(database_url, PROFILE) as opened:
        yield opened


@contextmanager
def group_of(intake: IntakeSetup) -> Iterator[Group]:
    """What is added within the block is one group, which is stored at its end."""
    go_on, entered = threading.Event(), threading.Event()

    def hold(_: Transaction) -> None:
        entered.set()
        assert go_on.wait(60)

    intake.writer.submit(PROFILE.id, hold)
    assert entered.wait(60)
    group = Group(intake)
    try:
        yield group
    finally:
        go_on.set()
    wait(group.futures, 60)


def counts(intake: IntakeSetup) -> dict[str, int]:
    """How many rows each table has."""
    with create_engine(parsed_url(intake.url)).connect() as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one() for table in TABLES
        }


def id_of(answer: dict[str, Any] | str) -> str:
    assert isinstance(answer, dict)
    return str(answer["lead_id"])


def fail() -> None:
    raise SampleFailureError


@pytest.mark.both_databases
@pytest.mark.requirement("durable-before-answer")
def test_a_job_that_fails_after_it_stored_something_leaves_the_others_stored_once(intake: IntakeSetup) -> None:
    with group_of(intake) as group:
        for number in range(5):
            after = fail if number == 2 else lambda: None
            group.take(a_lead(idempotency_key=f"key-{number}"), after)
    answers = group.answers()
    assert answers.pop(2) == "SampleFailureError"
    assert len({id_of(answer) for answer in answers}) == 4
    assert {lead.lead_id for lead in read(intake.store, PROFILE.id, list_leads, 10)} == {
        id_of(answer) for answer in answers
    }
    # A contact and its sender; one consent, delivery and answer.
    assert counts(intake) == {"leads": 4, "lead_contacts": 8, "consent_events": 4, "outbox": 4, "idempotency": 4}
    report = read(intake.store, PROFILE.id, verify_chain)
    assert (report.rows, report.first_broken) == (4, None)


@pytest.mark.both_databases
@pytest.mark.requirement("duplicate-same-token")
def test_leads_of_one_person_in_one_group_are_duplicates_of_the_first(intake: IntakeSetup) -> None:
    with group_of(intake) as group:
        for text in ("Is it there?", "Is it there?", "Call me."):
            group.take(lead_of_sam(message=text))
        group.take(a_lead())
    answers = group.answers()
    assert [answer["status"] for answer in answers if isinstance(answer, dict)] == [
        "received",
        "duplicate",
        "duplicate",
        "received",
    ]
    first = id_of(answers[0])
    assert [id_of(answer) == first for answer in answers] == [True, True, True, False]
    kept = read(intake.store, PROFILE.id, get_lead, first)
    assert kept is not None
    assert [event.changes for event in kept.events] == [b'{"message":"Call me."}']
    assert len(kept.consents) == 1
    # One delivery is enough: its document is made when it is sent, and then has everything.
    assert [row.kind for row in intake.deliveries() if row.lead_id == first] == ["lead"]
    assert read(intake.store, PROFILE.id, verify_chain).problem is None


@pytest.mark.both_databases
@pytest.mark.requirement("duplicate-same-token")
def test_a_group_may_have_one_customer_and_one_key_at_two_dealers_and_neither_learns_of_the_other(
    intake: IntakeSetup,
) -> None:
    """The writer looks up the customers and keys of a group together."""
    other = msgspec.structs.replace(PROFILE, id="lakeside")
    with group_of(intake) as group:
        for _ in range(2):
            for profile in (PROFILE, other):
                group.take(lead_of_sam(idempotency_key="key"), profile=profile)
        group.take(lead_of_sam(), profile=other)
    ours, theirs, ours_again, theirs_again, duplicate = group.answers()
    assert (ours_again, theirs_again) == (ours, theirs)
    assert id_of(ours) != id_of(theirs)
    assert id_of(duplicate) == id_of(theirs)
    for dealer_id, lead_id in ((PROFILE.id, id_of(ours)), (other.id, id_of(theirs))):
        assert [lead.lead_id for lead in read(intake.store, dealer_id, list_leads, 10)] == [lead_id]
        assert read(intake.store, dealer_id, verify_chain).rows == 1


@pytest.mark.both_databases
@pytest.mark.requirement("idempotency-same-payload")
def test_one_key_twice_in_one_group_makes_one_lead(intake: IntakeSetup) -> None:
    same = a_lead(idempotency_key="key")
    with group_of(intake) as group:
        group.take(a_lead())
        for payload in (same, same, same | {"message": "another"}):
            group.take(payload)
        group.take(a_lead())
    answers = group.answers()
    assert answers[1] == answers[2]
    assert answers[3] == IdempotencyConflict.__name__
    assert counts(intake) == {"leads": 3, "lead_contacts": 6, "consent_events": 3, "outbox": 3, "idempotency": 1}


@pytest.mark.both_databases
@pytest.mark.requirement("withdrawal-lasts")
def test_a_withdrawal_counts_for_the_leads_behind_it_in_its_group(intake: IntakeSetup) -> None:
    """The vehicles differ, so each is a lead of its own."""
    first = id_of(intake.take(lead_of_sam(), NOW))
    at = NOW - timedelta(hours=1)
    with group_of(intake) as group:
        group.take(lead_of_sam(message="before", vehicle_of_interest={"stock": "A"}))
        group.add(lambda tx: record_withdrawal_event(at_time(tx, at), first, ["email"], by="Alex", reason=None))
        group.take(lead_of_sam(message="after", vehicle_of_interest={"stock": "B"}))
    before, _, after = (future.result(60) for future in group.futures)
    channels = []
    for answer in (before, after):
        lead_id = msgspec.json.decode(answer.data)["lead_id"]
        channels.append(read(intake.store, PROFILE.id, allowed_channels, lead_id, NOW))
    assert channels == [{"email", "phone"}, {"phone"}]
    assert read(intake.store, PROFILE.id, verify_chain).problem is None


def test_the_rows_of_a_group_of_new_leads_are_written_together(sqlite_url: str) -> None:
    """One run of statements for each table: a lead that reads first would write the rows of the others."""
    written: list[str] = []

    def note(statement: str) -> None:
        verb, _, table, *_ = statement.split()
        if verb == "INSERT" and (not written or written[-1] != table):
            written.append(table)

    def trace(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        driver.set_trace_callback(lambda statement: note(f"{statement} - -"))

    with open_intake(sqlite_url, PROFILE) as intake:
        intake.take(a_lead(), NOW)
        event.listen(intake.store._leads, "begin", trace)
        with group_of(intake) as group:
            for number in range(12):
                at = f"2026-03-{3 + number // 3:02}T{9 + number % 3 * 2:02}:00:00-06:00"
                visit = {"appointment_type": "trade_in_appraisal", "appointment_at": at}
                group.take(a_lead(idempotency_key=f"key-{number}", appointment=visit))
        answers = [answer for answer in group.answers() if isinstance(answer, dict)]
        assert [answer["appointment"]["status"] for answer in answers] == ["confirmed"] * 12
    assert sorted(written) == sorted(
        ["leads", "lead_contacts", "consent_events", "appointments", "places", "outbox", "idempotency"]
    )


@pytest.mark.both_databases
@pytest.mark.parametrize(("later", "status"), [("12:00", "proposed"), ("12:15", "proposed"), ("12:30", "confirmed")])
def test_leads_of_one_group_do_not_get_one_place_twice(intake: IntakeSetup, later: str, status: str) -> None:
    """A visit of half an hour takes the only place at its time, also from a visit that only overlaps with it."""
    with group_of(intake) as group:
        for at in ("12:00", "12:00", later, "15:00"):
            visit = {"appointment_type": "trade_in_appraisal", "appointment_at": f"2026-03-04T{at}:00-06:00"}
            group.take(a_lead(appointment=visit))
    answered = [answer["appointment"]["status"] for answer in group.answers() if isinstance(answer, dict)]
    assert answered == ["confirmed", "proposed", status, "confirmed"]
