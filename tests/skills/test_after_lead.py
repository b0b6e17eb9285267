"""What the sender of a lead sees and does after it (docs/protocol.md#after-the-lead). On both databases."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest
from sqlalchemy import create_engine, func, select
from tests.skills.intake_setup import TOKEN, IntakeSetup, caller_with
from tests.skills.sample_dealers import a_lead, customer, everything_stored
from tests.skills.test_cancellation import SOON, WITH_PEOPLE, id_of, lead_of_sam, waiting_deliveries
from tests.skills.test_customer_actions import booked
from tests.skills.test_quarantine import refuse, release
from tests.skills.visiting import LOT, NOW, PROFILE, at, lead_with_visit, visit
from tests.storage.calls import lock_at, read

from dealer_agent.callers import ANONYMOUS, Caller, issued, signed
from dealer_agent.dealers.profile import VisitRules
from dealer_agent.leads.lead_secrets import LeadSecrets
from dealer_agent.leads.received_lead import PreparedLead
from dealer_agent.leads.records import MOST_ADDITIONS
from dealer_agent.leads.statuses import DONE, NO_SHOW, ClosedStatus
from dealer_agent.offering.lead_desk import LeadDesk
from dealer_agent.protocol.after_lead import LeadStatusRequest, VisitCancelRequest, VisitMoveRequest
from dealer_agent.protocol.errors import (
    AppointmentTimeUnavailable,
    IdempotencyConflict,
    LeadNotFound,
    MissingRequiredField,
    ProtocolError,
    VisitEnded,
    VisitNotFound,
)
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.storage.database_url import database_url
from dealer_agent.storage.errors import TokenRevoked
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.privacy.erasure import erase_lead
from dealer_agent.storage.schema import idempotency
from dealer_agent.storage.tokens import revoke_token
from dealer_agent.visits.changes import VisitChange, VisitChanges

OpenIntake = Callable[..., IntakeSetup]
WAIT = 60.0
SECRETS = LeadSecrets("ridgeline", b"k" * 32)
SENDER = caller_with(TOKEN)
OTHERS = [
    ANONYMOUS,
    caller_with("01KE7AQ2N0V5X3J8R6T4Y9W1ZZ"),
    signed("https://agent.example"),
    issued("https://login.example", "agent"),
]


class Sender:
    """The sender of leads, with what it asks afterwards."""

    def __init__(self, intake: IntakeSetup, caller: Caller = SENDER, secret: str | None = None) -> None:
        self.desk = LeadDesk(intake.intake.context.profile, intake.store, intake.intake, SECRETS)
        self.caller = caller
        self.secret: Any = {} if secret is None else {"secret": secret}

    def status(self, lead_id: str, now: datetime = SOON) -> dict[str, Any]:
        request = LeadStatusRequest(lead_id, **self.secret)
        return decoded(asyncio.run(self.desk.status(request, self.caller, now, WAIT)))

    async def moving(self, lead_id: str, to: str, key: str, now: datetime = SOON, **members: Any) -> dict[str, Any]:
        request = VisitMoveRequest(lead_id, to, key, **members, **self.secret)
        return decoded(await self.desk.move(request, self.caller, now, WAIT))

    def move(self, lead_id: str, to: str, key: str = "move", now: datetime = SOON, **members: Any) -> dict[str, Any]:
        return asyncio.run(self.moving(lead_id, to, key, now, **members))

    def cancel(self, lead_id: str, key: str = "cancel", now: datetime = SOON, **members: Any) -> dict[str, Any]:
        request = VisitCancelRequest(lead_id, key, **members, **self.secret)
        return decoded(asyncio.run(self.desk.cancel(request, self.caller, now, WAIT)))

    def refused(self, lead_id: str, now: datetime = SOON) -> list[ProtocolError]:
        """The errors of all three skills."""
        asks: list[Callable[[], object]] = [
            lambda: self.status(lead_id, now),
            lambda: self.move(lead_id, at("13:00"), now=now),
            lambda: self.cancel(lead_id, now=now),
        ]
        return [_refusal(ask) for ask in asks]


def _refusal(ask: Callable[[], object]) -> ProtocolError:
    with pytest.raises(ProtocolError) as refused:
        ask()
    return refused.value


def decoded(answer: bytes) -> dict[str, Any]:
    return msgspec.json.decode(answer, type=dict[str, Any])


def anonymous(intake: IntakeSetup, lead: dict[str, Any], now: datetime = NOW) -> dict[str, Any]:
    """The response to a lead of an anonymous sender that names the extension."""
    typed = msgspec.convert(lead, LeadSubmitRequest)
    prepared = PreparedLead.of(typed, lead, ANONYMOUS, b"", secrets=SECRETS)
    return decoded(asyncio.run(intake.intake.submit(prepared, LOT, now, WAIT)).data)


def responses(intake: IntakeSetup) -> int:
    """The number of responses that are stored for idempotency keys."""
    with create_engine(database_url(intake.url)).connect() as connection:
        return connection.execute(select(func.count()).select_from(idempotency)).scalar_one()


def dated(lead: dict[str, Any]) -> dict[str, Any]:
    return lead | {"consent": lead["consent"] | {"granted_at": "2026-03-01T00:00:00Z"}}


@pytest.mark.both_databases
@pytest.mark.requirement("lead-status", "lead-status-visit")
def test_the_sender_sees_its_lead_and_its_visit(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    assert Sender(intake).status(drive["lead_id"]) == {
        "lead_id": drive["lead_id"],
        "status": "received",
        "received_at": "2026-03-02T15:00:00Z",
        "visit": {
            "appointment_id": id_of(drive),
            "appointment_type": "test_drive",
            "status": "confirmed",
            "at": at("10:00"),
            "duration_minutes": 60,
            "place": {"name": "Ridgeline South"},
        },
    }
    plain = intake.take(a_lead(), NOW)
    assert "visit" not in Sender(intake).status(plain["lead_id"])
    with pytest.raises(VisitNotFound):
        Sender(intake).cancel(plain["lead_id"])


@pytest.mark.requirement("lead-status-visit")
def test_a_visit_that_needs_another_time_has_free_ones(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    intake.take(lead_with_visit(visit(at("10:00")), "N1"), NOW, LOT)
    second = intake.take(
        lead_with_visit(visit(at("10:00")), "N2", customer=customer(email="kim@example.com")), NOW, LOT
    )
    assert second["appointment"]["status"] == "proposed"
    shown = Sender(intake).status(second["lead_id"])["visit"]
    assert (shown["status"], "at" in shown) == ("proposed", False)
    assert shown["alternatives"] == second["appointment"]["proposed_times"]
    # Somebody else takes one of them.
    taken = shown["alternatives"][0]
    intake.take(lead_with_visit(visit(taken), "N1", customer=customer(email="lee@example.com")), NOW, LOT)
    assert taken not in Sender(intake).status(second["lead_id"])["visit"]["alternatives"]
    moved = Sender(intake).move(second["lead_id"], shown["alternatives"][1])["visit"]
    assert (moved["status"], moved["at"]) == ("confirmed", shown["alternatives"][1])
    assert [one.status for one in intake.visits_of(second["lead_id"])] == ["replaced", "confirmed"]


@pytest.mark.requirement("lead-status-visit")
def test_what_staff_recorded_of_a_visit_is_not_shown(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    later = NOW + timedelta(days=2)
    before = Sender(intake).status(drive["lead_id"], later)
    for how in CLOSED:
        intake.intake.change_visit(partial(close, id_of(drive), how), notify=True, now=later)
        assert Sender(intake).status(drive["lead_id"], later) == before


CLOSED: tuple[ClosedStatus, ...] = (DONE, NO_SHOW)


def close(appointment_id: str, how: ClosedStatus, changes: VisitChanges) -> VisitChange:
    return changes.close(appointment_id, how)


@pytest.mark.requirement("lead-sender", "error-lead-not-found")
@pytest.mark.parametrize("caller", OTHERS, ids=[caller.kind for caller in OTHERS])
def test_a_lead_of_another_sender_is_as_an_unknown_one(new_intake: OpenIntake, caller: Caller) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    if caller.token_id is not None:
        intake._know(caller.token_id, NOW)
    before = everything_stored(intake.url)
    stranger = Sender(intake, caller, SECRETS.of(drive["lead_id"]))
    foreign, unknown = stranger.refused(drive["lead_id"]), stranger.refused("01KE7AQ2N0V5X3J8R6T4Y9W1ZX")
    for error in (*foreign, *unknown):
        assert isinstance(error, LeadNotFound)
        assert (error.message, error.details) == (foreign[0].message, foreign[0].details)
    assert everything_stored(intake.url) == before


@pytest.mark.requirement("lead-secret", "lead-sender")
def test_an_anonymous_sender_proves_its_lead_with_the_secret(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    lead = dated(lead_of_sam(visit(at("10:00"))))
    answer = anonymous(intake, lead)
    lead_id, secret = answer["lead_id"], answer["lead_secret"]
    other = anonymous(
        intake, dated(lead_with_visit(visit(at("15:00")), "N1", customer=customer(email="kim@example.com")))
    )
    for wrong in (None, "x", secret[:-1], secret + "A", secret.lower(), "é" * 32, "\ud800", other["lead_secret"]):
        errors = Sender(intake, ANONYMOUS, wrong).refused(lead_id)
        assert {type(error) for error in errors} == {LeadNotFound}
    sender = Sender(intake, ANONYMOUS, secret)
    assert sender.status(lead_id)["visit"]["at"] == at("10:00")
    assert sender.move(lead_id, at("13:00"))["visit"]["at"] == at("13:00")
    # The same agent may have proved who it is meanwhile.
    assert Sender(intake, SENDER, secret).status(lead_id)["visit"]["at"] == at("13:00")
    assert secret.encode() not in repr(everything_stored(intake.url)).encode()


@pytest.mark.requirement("lead-secret")
def test_a_duplicate_without_proof_gets_no_secret(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    lead = dated(lead_of_sam(visit(at("10:00"))))
    first, second = anonymous(intake, lead), anonymous(intake, lead | {"message": "Me again."}, SOON)
    assert (second["status"], second["lead_id"]) == ("duplicate", first["lead_id"])
    assert "lead_secret" in first
    assert "lead_secret" not in second


@pytest.mark.requirement("lead-secret", "idempotency-same-payload", "idempotency-unavailable")
def test_a_repeated_request_repeats_the_secret(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    lead = dated(lead_of_sam(visit(at("10:00")), idempotency_key="one"))
    typed = msgspec.convert(lead, LeadSubmitRequest)

    def send(secrets: LeadSecrets | None) -> bytes:
        prepared = PreparedLead.of(typed, lead, ANONYMOUS, b"", secrets=secrets)
        return asyncio.run(intake.intake.submit(prepared, LOT, NOW, WAIT)).data

    first = send(SECRETS)
    assert send(SECRETS) == send(None) == first
    assert decoded(first)["lead_secret"] == SECRETS.of(decoded(first)["lead_id"])


@pytest.mark.requirement("lead-secret", "idempotency-unavailable")
def test_a_lead_without_a_free_time_has_its_secret_in_the_error_and_in_the_later_response(
    new_intake: OpenIntake,
) -> None:
    north = msgspec.structs.replace(PROFILE.rooftops[0], visits={"test_drive": VisitRules(horizon_days=0)})
    intake = new_intake(msgspec.structs.replace(PROFILE, rooftops=(north, *PROFILE.rooftops[1:])))
    lead = dated(lead_with_visit(visit(at("10:00")), "N1", idempotency_key="one"))
    with pytest.raises(AppointmentTimeUnavailable) as refused:
        anonymous(intake, lead)
    lead_id = refused.value.details["lead_id"]
    assert refused.value.details["lead_secret"] == SECRETS.of(lead_id)
    with pytest.raises(AppointmentTimeUnavailable) as again:
        anonymous(intake, lead)
    assert again.value.details["lead_secret"] == SECRETS.of(lead_id)
    shown = Sender(intake, ANONYMOUS, SECRETS.of(lead_id)).status(lead_id)["visit"]
    assert (shown["status"], "alternatives" in shown) == ("requested", False)


@pytest.mark.requirement("lead-sender")
def test_an_erased_lead_is_as_an_unknown_one_and_its_responses_are_deleted(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    Sender(intake).move(drive["lead_id"], at("13:00"))
    assert responses(intake) == 1
    lock_at(SOON, intake.store, "ridgeline", erase_lead, drive["lead_id"])
    assert {type(error) for error in Sender(intake).refused(drive["lead_id"])} == {LeadNotFound}
    assert responses(intake) == 0


@pytest.mark.requirement("lead-sender", "lead-secret")
def test_the_lead_of_another_dealer_is_as_an_unknown_one(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    answer = anonymous(intake, dated(lead_of_sam(visit(at("10:00")))))
    drive = intake.take(lead_with_visit(visit(at("12:00")), "N1"), NOW, LOT)
    other = new_intake(msgspec.structs.replace(PROFILE, id="lakeside"))
    other._know(TOKEN, NOW)
    for caller, lead in ((ANONYMOUS, answer), (SENDER, drive)):
        errors = Sender(other, caller, answer["lead_secret"]).refused(lead["lead_id"])
        assert {type(error) for error in errors} == {LeadNotFound}
    assert LeadSecrets("lakeside", SECRETS.key).of(answer["lead_id"]) != answer["lead_secret"]


@pytest.mark.requirement("visit-move")
def test_the_agent_moves_a_visit_as_its_customer_would(new_intake: OpenIntake) -> None:
    intake = new_intake(WITH_PEOPLE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    lead_id, south = drive["lead_id"], "Ridgeline South"
    intake.all_sent()
    moved = Sender(intake).move(lead_id, at("13:00"))["visit"]
    assert booked(intake, drive) == [("replaced", "03 10:00"), ("confirmed", "03 13:00")]
    assert intake.places("test_drive") == 4
    stored = read(intake.store, "ridgeline", get_lead, lead_id)
    assert stored is not None
    # Two events of one moment.
    (change,) = [event.event_id for event in stored.events if b'"confirmed_at"' in (event.changes or b"")]
    assert waiting_deliveries(intake) == {
        (lead_id, "resend", south, "south", change),
        (lead_id, "notify", south, "notify", change),
        (lead_id, "confirm", south, "customer", moved["appointment_id"]),
    }
    assert Sender(intake).status(lead_id)["visit"] == moved


@pytest.mark.requirement("visit-move")
def test_a_visit_at_that_time_already_stays_as_it_is(new_intake: OpenIntake) -> None:
    intake = new_intake(WITH_PEOPLE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    deliveries = waiting_deliveries(intake)
    of_same_time: dict[str, Any] = {"one": {}, "two": {"duration_minutes": 60}}
    for key, members in of_same_time.items():
        shown = Sender(intake).move(drive["lead_id"], at("10:00"), key, **members)["visit"]
        assert shown["appointment_id"] == id_of(drive)
    assert waiting_deliveries(intake) == deliveries
    shorter = Sender(intake).move(drive["lead_id"], at("10:00"), "three", duration_minutes=30)["visit"]
    assert (shorter["at"], shorter["duration_minutes"]) == (at("10:00"), 30)
    assert intake.places("test_drive") == 2


@pytest.mark.requirement("visit-move-not-free")
@pytest.mark.parametrize(
    "start",
    [
        at("08:30"),
        at("12:00"),
        at("10:10"),
        at("09:00", 2),
        at("10:00", 14),
        "0002-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
    ],
    ids=["closed", "taken", "off the grid", "past", "beyond the horizon", "long ago", "never"],
)
def test_a_time_that_is_not_free_changes_nothing_and_names_free_ones(new_intake: OpenIntake, start: str) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.take(lead_with_visit(visit(at("12:00")), "S2", customer=customer(email="kim@example.com")), NOW, LOT)
    before = everything_stored(intake.url)
    with pytest.raises(AppointmentTimeUnavailable) as refused:
        Sender(intake).move(drive["lead_id"], start)
    assert everything_stored(intake.url) == before
    details = refused.value.details
    assert details["lead_id"] == drive["lead_id"]
    assert 1 <= len(details["alternatives"]) <= 3
    assert at("10:00") not in details["alternatives"]
    # The same key may be used again, and a time that was named is free.
    assert Sender(intake).move(drive["lead_id"], details["alternatives"][0])["visit"]["status"] == "confirmed"


@pytest.mark.both_databases
@pytest.mark.requirement("visit-move-not-free", "customer-links-one-place")
def test_of_two_agents_that_move_to_one_place_at_once_one_gets_it(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    one = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    two = intake.take(lead_with_visit(visit(at("12:00")), "S2", customer=customer(email="kim@example.com")), NOW, LOT)
    sender = Sender(intake)

    async def both() -> list[Any]:
        moves = [sender.moving(drive["lead_id"], at("15:00"), drive["lead_id"]) for drive in (one, two)]
        return list(await asyncio.gather(*moves, return_exceptions=True))

    outcomes = asyncio.run(both())
    assert [type(each) for each in outcomes].count(AppointmentTimeUnavailable) == 1
    assert intake.places("test_drive") == 8


@pytest.mark.both_databases
@pytest.mark.requirement("visit-move-not-free", "visit-idempotency")
def test_two_processes_move_to_one_place_and_use_one_key_at_once(new_intake: OpenIntake) -> None:
    """Each intake has a writer of its own."""
    intake, other = new_intake(PROFILE), new_intake(PROFILE)
    one = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    two = intake.take(lead_with_visit(visit(at("12:00")), "S2", customer=customer(email="kim@example.com")), NOW, LOT)
    senders = Sender(intake), Sender(other)

    def outcome(sender: Sender, lead: dict[str, Any], to: str, key: str) -> Any:
        try:
            return sender.move(lead["lead_id"], to, key)
        except ProtocolError as error:
            return error

    with ThreadPoolExecutor() as pool:
        for clock in ("15:00", "16:00", "14:00", "11:00"):
            start = at(clock)
            pairs = zip(senders, (one, two), strict=True)
            rival = [pool.submit(outcome, sender, lead, start, lead["lead_id"] + clock) for sender, lead in pairs]
            found = [each.result() for each in rival]
            assert [type(each) for each in found].count(AppointmentTimeUnavailable) == 1, found
            assert intake.places("test_drive") == 8
        repeated = [pool.submit(outcome, sender, one, at("09:00", 4), "same") for sender in senders]
        first, second = (each.result() for each in repeated)
        assert first == second
    assert [visit.status for visit in intake.visits_of(one["lead_id"])].count("confirmed") == 1


@pytest.mark.both_databases
@pytest.mark.requirement("visit-idempotency")
def test_one_key_moves_once_also_when_it_comes_twice_at_once(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    sender = Sender(intake)

    async def both() -> list[Any]:
        return list(await asyncio.gather(*(sender.moving(drive["lead_id"], at("15:00"), "one") for _ in range(2))))

    first, second = asyncio.run(both())
    assert first == second
    assert [status for status, _ in booked(intake, drive)] == ["replaced", "confirmed"]
    # The visit moves on; the first key still repeats its response.
    sender.move(drive["lead_id"], at("13:00"), "two")
    assert sender.move(drive["lead_id"], at("15:00"), "one") == first
    assert booked(intake, drive)[-1] == ("confirmed", "03 13:00")
    with pytest.raises(IdempotencyConflict):
        sender.move(drive["lead_id"], at("16:00"), "one")
    with pytest.raises(IdempotencyConflict):
        sender.cancel(drive["lead_id"], "one")


@pytest.mark.requirement("visit-idempotency", "idempotency-owner")
def test_keys_of_leads_and_of_visits_are_the_same_keys_of_a_caller_and_of_no_other(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00")), idempotency_key="one"), NOW, LOT)
    with pytest.raises(IdempotencyConflict):
        Sender(intake).move(drive["lead_id"], at("13:00"), "one")
    other = anonymous(
        intake, dated(lead_with_visit(visit(at("10:00")), "N1", customer=customer(email="kim@example.com")))
    )
    stranger = Sender(intake, ANONYMOUS, other["lead_secret"])
    assert stranger.move(other["lead_id"], at("13:00"), "one")["visit"]["status"] == "confirmed"


@pytest.mark.requirement("visit-cancel", "visit-by-agent")
def test_the_agent_cancels_a_visit_as_its_customer_would(new_intake: OpenIntake) -> None:
    intake = new_intake(WITH_PEOPLE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    lead_id, south = drive["lead_id"], "Ridgeline South"
    intake.all_sent()
    shown = Sender(intake).cancel(lead_id, reason="Zyxwreason")["visit"]
    assert (shown["status"], shown["at"], shown["appointment_id"]) == ("cancelled", at("10:00"), id_of(drive))
    assert intake.places("test_drive") == 0
    assert waiting_deliveries(intake) == {
        (lead_id, "resend", south, "south", id_of(drive)),
        (lead_id, "notify", south, "notify", id_of(drive)),
        (lead_id, "cancel", south, "customer", id_of(drive)),
    }
    assert "Zyxwreason" not in repr(everything_stored(intake.url))
    stored = read(intake.store, "ridgeline", get_lead, lead_id)
    assert stored is not None
    assert msgspec.json.decode(stored.events[-1].changes or b"") == {
        "by_agent": {"did": "cancelled", "appointment_id": id_of(drive), "reason": "Zyxwreason"}
    }
    lock_at(SOON, intake.store, "ridgeline", erase_lead, lead_id)
    erased = read(intake.store, "ridgeline", get_lead, lead_id)
    assert erased is not None
    assert [event.changes for event in erased.events] == [None]


@pytest.mark.requirement("visit-cancel", "visit-move")
def test_a_visit_without_a_time_is_cancelled(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    asked = intake.take(lead_of_sam(visit()), NOW, LOT)
    assert Sender(intake).status(asked["lead_id"])["visit"]["status"] == "requested"
    assert Sender(intake).cancel(asked["lead_id"])["visit"]["status"] == "cancelled"


@pytest.mark.requirement("visit-ended", "error-visit-ended")
def test_a_visit_that_has_ended_is_not_changed(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    begun = datetime.fromisoformat(at("10:05"))
    sender, lead_id = Sender(intake), drive["lead_id"]

    def why(change: Callable[[], object]) -> str:
        with pytest.raises(VisitEnded) as ended:
            change()
        reason: str = ended.value.details["reason"]
        return reason

    assert why(lambda: sender.cancel(lead_id, now=begun)) == "begun"
    assert why(lambda: sender.move(lead_id, at("15:00"), now=begun)) == "begun"
    sender.move(lead_id, at("13:00"), "one")
    assert why(lambda: sender.cancel(lead_id, appointment_id=id_of(drive))) == "moved"
    sender.cancel(lead_id, "two")
    assert why(lambda: sender.cancel(lead_id, "three")) == "cancelled"
    assert why(lambda: sender.move(lead_id, at("15:00"), "four")) == "cancelled"


@pytest.mark.requirement("visit-chosen", "error-visit-not-found")
def test_a_lead_with_several_visits_needs_the_id_of_one(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    talk = intake.take(lead_of_sam(visit(at("15:00"), "sales")), SOON, LOT)
    sender, lead_id = Sender(intake), talk["lead_id"]
    assert lead_id == drive["lead_id"]
    shown = sender.status(lead_id)
    assert shown["visit"]["appointment_id"] == id_of(talk)
    assert [each["appointment_id"] for each in shown["other_visits"]] == [id_of(drive)]
    with pytest.raises(MissingRequiredField):
        sender.cancel(lead_id)
    with pytest.raises(MissingRequiredField):
        sender.move(lead_id, at("16:00"))
    assert sender.cancel(lead_id, appointment_id=id_of(drive))["visit"]["status"] == "cancelled"
    assert sender.move(lead_id, at("16:00"))["visit"]["appointment_type"] == "sales", "only one is left"
    with pytest.raises(VisitNotFound):
        sender.cancel(lead_id, "other", appointment_id="01KE7AQ2N0V5X3J8R6T4Y9W1ZX")


@pytest.mark.requirement("visit-chosen")
def test_a_visit_of_another_lead_of_the_same_sender_is_not_found(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    other = intake.take(lead_with_visit(visit(at("12:00")), "N1", customer=customer(email="kim@example.com")), NOW, LOT)
    with pytest.raises(VisitNotFound):
        Sender(intake).cancel(drive["lead_id"], appointment_id=id_of(other))


@pytest.mark.requirement("visit-chosen", "visit-move")
def test_the_sender_who_books_the_visit_that_its_duplicate_requested_has_only_that_one(
    new_intake: OpenIntake,
) -> None:
    """The duplicate has no secret, so its visit is only requested. The move to the time of the visit books it."""
    intake = new_intake(PROFILE)
    lead = dated(lead_of_sam(visit(at("10:00"))))
    first = anonymous(intake, lead)
    added = anonymous(intake, lead | {"appointment": visit(at("13:00"))}, SOON)
    assert added["appointment"]["status"] == "requested"
    sender = Sender(intake, ANONYMOUS, first["lead_secret"])
    moved = sender.move(first["lead_id"], at("13:00"), appointment_id=id_of(added))
    assert "other_visits" not in moved
    assert booked(intake, first) == [("replaced", "03 10:00"), ("confirmed", "03 13:00")]
    assert intake.places("test_drive") == 4


@pytest.mark.requirement("lead-status", "after-lead-quarantine")
@pytest.mark.parametrize("decision", [None, release])
def test_a_lead_in_quarantine_is_answered_as_any_other(new_intake: OpenIntake, decision: Any) -> None:
    seen, intake = [], new_intake(WITH_PEOPLE, confirms_by_mail=True)
    for quarantined in (False, True):
        drive = intake.take(lead_with_visit(visit(at("10:00")), "S1"), NOW, LOT, quarantined=quarantined)
        if quarantined and decision is not None:
            decision(intake, drive, NOW + timedelta(minutes=1))
        sender, lead_id = Sender(intake), drive["lead_id"]
        answers = [sender.status(lead_id), sender.move(lead_id, at("13:00"), "1" + lead_id)]
        answers.append(sender.cancel(lead_id, "2" + lead_id))
        for each in answers:
            assert each.pop("lead_id") == lead_id
            each["visit"].pop("appointment_id")
        seen.append(answers)
        if quarantined and decision is None:
            assert not [row for row in waiting_deliveries(intake) if row[0] == lead_id]
    assert seen[0] == seen[1]


@pytest.mark.requirement("lead-status")
def test_a_refusal_looks_like_a_cancellation_by_staff(new_intake: OpenIntake) -> None:
    seen, intake = [], new_intake(WITH_PEOPLE, confirms_by_mail=True)
    for quarantined in (False, True):
        drive = intake.take(lead_with_visit(visit(at("10:00")), "S1"), NOW, LOT, quarantined=quarantined)
        if quarantined:
            refuse(intake, drive)
        else:
            intake.cancel_visit(drive, SOON)
        shown = Sender(intake).status(drive["lead_id"])
        with pytest.raises(VisitEnded) as ended:
            Sender(intake).move(drive["lead_id"], at("13:00"))
        shown.pop("lead_id")
        shown["visit"].pop("appointment_id")
        seen.append((shown, ended.value.message, ended.value.details))
    assert seen[0] == seen[1]


@pytest.mark.both_databases
@pytest.mark.requirement("lead-sender")
def test_a_revoked_token_changes_nothing(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    lock_at(SOON, intake.store, "ridgeline", revoke_token, TOKEN)
    before = everything_stored(intake.url)
    with pytest.raises(TokenRevoked):
        Sender(intake).move(drive["lead_id"], at("13:00"))
    assert everything_stored(intake.url) == before


def test_a_lead_with_the_most_additions_is_not_moved_and_can_be_cancelled(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    sender, lead_id = Sender(intake), drive["lead_id"]
    for number in range(MOST_ADDITIONS // 2):
        sender.move(lead_id, at("13:00" if number % 2 else "15:00"), f"{number}")
    with pytest.raises(AppointmentTimeUnavailable) as refused:
        sender.move(lead_id, at("16:00"))
    assert "alternatives" not in refused.value.details
    assert sender.cancel(lead_id)["visit"]["status"] == "cancelled"
