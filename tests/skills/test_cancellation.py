"""Who gets news of a visit that is cancelled or moved (docs/protocol.md#customer-links-cancel). On both databases."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.skills.intake_setup import IntakeSetup
from tests.skills.sample_dealers import a_lead, consent, customer
from tests.skills.visiting import LOT, NOW, PROFILE, at, lead_with_visit, listing, visit
from tests.storage.calls import lock_at
from tests.storage.samples import NO_NOTICES

from dealer_agent.dealers.profile import Deliver
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.privacy.erasure import erase_lead
from dealer_agent.visits.changes import ChangeRefused

pytestmark = pytest.mark.outside_protocol("cancelled visits")

OpenIntake = Callable[..., IntakeSetup]
SAM = {"customer": customer(email="sam@example.com")}
SOON = NOW + timedelta(minutes=5)
SOUTH = PROFILE.rooftops[1]
WITH_PEOPLE = msgspec.structs.replace(
    PROFILE,
    rooftops=(
        PROFILE.rooftops[0],
        msgspec.structs.replace(
            SOUTH, deliver=Deliver(directory=SOUTH.deliver.directory, notify=("sales@example.com",))
        ),
        *PROFILE.rooftops[2:],
    ),
)


def lead_of_sam(appointment: dict[str, Any], stock: str | None = "S1", **members: Any) -> dict[str, Any]:
    """A lead of the one customer."""
    return lead_with_visit(appointment, stock, **SAM, **members)


class Waiting(NamedTuple):
    """A delivery that is still to be sent. `because_of` is the id of an event or a visit, or empty."""

    lead_id: str
    kind: str
    rooftop: str
    channel: str
    because_of: str


def waiting_deliveries(intake: IntakeSetup) -> set[Waiting]:
    waiting = (row for row in intake.deliveries() if row.state == "waiting")
    return {Waiting(row.lead_id, row.kind, row.rooftop, row.channel, row.event_id or "") for row in waiting}


def id_of(answer: dict[str, Any]) -> str:
    appointment_id: str = answer["appointment"]["appointment_id"]
    return appointment_id


def test_a_cancellation_notifies_crm_staff_and_customer(new_intake: OpenIntake) -> None:
    intake = new_intake(WITH_PEOPLE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.all_sent()
    done = intake.cancel_visit(drive, SOON)
    assert (done.visit.appointment_id, done.parts) == (id_of(drive), ())
    assert done.mailed == {id_of(drive)}
    south = (drive["lead_id"], "Ridgeline South", id_of(drive))
    assert waiting_deliveries(intake) == {
        (south[0], kind, south[1], channel, south[2])
        for kind, channel in (("resend", "south"), ("notify", "notify"), ("cancel", "customer"))
    }
    (cancelled,) = intake.visits_of(drive["lead_id"])
    assert (cancelled.status, cancelled.cancelled_at, intake.places("test_drive")) == ("cancelled", SOON, 0)


@pytest.mark.parametrize(
    ("confirms", "members"),
    [
        (False, {}),
        (
            True,
            {
                "customer": customer(email="sam@example.com", phone="+12025550123"),
                "consent": consent(allowed_channels=["phone"]),
            },
        ),
        (True, {"customer": customer(phone="+12025550123")}),
    ],
    ids=["the dealer confirms nothing by mail", "no consent to mail", "no address"],
)
def test_a_customer_who_may_not_be_written_to_gets_no_mail(
    new_intake: OpenIntake, confirms: bool, members: dict[str, Any]
) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=confirms)
    lead = a_lead(**({"appointment": visit(at("10:00")), "vehicle_of_interest": {"stock": "S1"}} | members))
    drive = intake.take(lead, NOW, LOT)
    intake.all_sent()
    assert intake.cancel_visit(drive, SOON).mailed == frozenset()
    assert {row.kind for row in waiting_deliveries(intake)} == {"resend"}


def test_a_customer_who_revoked_e_mail_since_gets_no_mail(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.all_sent()
    lock_at(
        SOON,
        intake.store,
        "ridgeline",
        withdraw,
        drive["lead_id"],
        ["email"],
        by="staff",
        reason=None,
        profile=NO_NOTICES,
    )
    assert intake.cancel_visit(drive, SOON).mailed == frozenset()
    assert {row.kind for row in waiting_deliveries(intake)} == {"resend"}


def test_a_customer_who_gave_an_address_later_gets_a_mail(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    phone = {"phone": "+12025550123"}
    drive = intake.take(lead_with_visit(visit(at("10:00")), "S1", customer=customer(**phone)), NOW, LOT)
    both = customer(**phone, email="sam@example.com")
    intake.take(a_lead(customer=both, vehicle_of_interest={"stock": "S1"}), NOW, LOT)
    assert intake.cancel_visit(drive, SOON).mailed == {id_of(drive)}


def test_a_visit_can_be_cancelled_without_notifications(new_intake: OpenIntake) -> None:
    intake = new_intake(WITH_PEOPLE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.all_sent()
    assert intake.cancel_visit(drive, SOON, tell=False).mailed == frozenset()
    assert waiting_deliveries(intake) == set()
    assert [one.status for one in intake.visits_of(drive["lead_id"])] == ["cancelled"]


def test_a_cancellation_adds_no_delivery_to_a_lead_that_is_still_to_be_sent(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.cancel_visit(drive, SOON)
    assert waiting_deliveries(intake) == {(drive["lead_id"], "lead", "Ridgeline South", "south", "")}


@pytest.mark.parametrize("appointment", [visit(), visit(at("08:00"))])
def test_the_cancellation_of_a_visit_without_a_time_notifies_the_crm_only(
    new_intake: OpenIntake, appointment: dict[str, Any]
) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    asked = intake.take(lead_of_sam(appointment), NOW, LOT)
    intake.all_sent()
    assert intake.cancel_visit(asked, SOON).mailed == frozenset()
    assert {row.kind for row in waiting_deliveries(intake)} == {"resend"}


def test_the_cancellation_of_a_visit_at_another_rooftop_notifies_both_rooftops(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    intake.take(a_lead(**SAM), NOW, LOT)
    elsewhere = intake.take(lead_of_sam(visit(at("10:00"), "sales"), None), NOW, LOT)
    intake.all_sent()
    intake.cancel_visit(elsewhere, SOON)
    assert {(row.kind, row.rooftop, row.channel) for row in waiting_deliveries(intake)} == {
        ("resend", "Ridgeline North", "north"),
        ("resend", "Ridgeline South", "south"),
    }


@pytest.mark.parametrize("stock", [None, "S1"])
def test_an_appraisal_ends_with_the_cancelled_visit_that_it_is_part_of(
    new_intake: OpenIntake, stock: str | None
) -> None:
    """Also where it is the same lead's: then the lead is sent once."""
    intake = new_intake(PROFILE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    appraisal = intake.take(lead_of_sam(visit(at("10:00"), "trade_in"), stock), NOW, LOT)
    intake.all_sent()
    done = intake.cancel_visit(drive, SOON)
    assert [part.appointment_id for part in done.parts] == [id_of(appraisal)]
    assert done.mailed == {id_of(drive), id_of(appraisal)}
    assert {one.status for one in intake.visits_of(appraisal["lead_id"])} == {"cancelled"}
    waiting = waiting_deliveries(intake)
    assert {(lead_id, why) for lead_id, kind, *_, why in waiting if kind == "cancel"} == {
        (drive["lead_id"], id_of(drive)),
        (appraisal["lead_id"], id_of(appraisal)),
    }
    resent = [row.lead_id for row in waiting if row.kind == "resend"]
    assert sorted(resent) == sorted({drive["lead_id"], appraisal["lead_id"]})


def test_an_appraisal_that_is_cancelled_leaves_the_test_drive_that_it_is_part_of(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    appraisal = intake.take(lead_of_sam(visit(at("10:00"), "trade_in"), None), NOW, LOT)
    assert intake.cancel_visit(appraisal, SOON).parts == ()
    assert [one.status for one in intake.visits_of(drive["lead_id"])] == ["confirmed"]
    assert intake.places("test_drive") == 4


def test_a_visit_that_is_not_there_to_be_cancelled_is_refused_in_words_that_say_why(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    moved = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.take(lead_of_sam(visit(at("12:00"))), SOON, LOT)
    cancelled = intake.take(lead_with_visit(visit(at("14:00")), "S1"), NOW, LOT)
    intake.cancel_visit(cancelled, SOON)
    past = intake.take(lead_with_visit(visit(at("16:00")), "S1"), NOW, LOT)
    nowhere = {"appointment": {"appointment_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}}
    intake.all_sent()
    over = NOW.replace(day=3, hour=23)
    for answer, when, why in (
        (moved, SOON, f"Visit {id_of(moved)} was replaced by another visit"),
        (cancelled, SOON, f"Visit {id_of(cancelled)} is cancelled already"),
        (past, over, f"Visit {id_of(past)} is over"),
        (nowhere, SOON, f"There is no visit {id_of(nowhere)}"),
    ):
        with pytest.raises(ChangeRefused) as refused:
            intake.cancel_visit(answer, when)
        assert str(refused.value) == f"{why}: see dealer-agent appointments list"
    assert waiting_deliveries(intake) == set()
    ended = intake.cancel_visit(past, over - timedelta(minutes=1)).visit
    assert ended.status == "cancelled", "its end is free again"


def test_cancelling_the_visit_of_an_erased_customer_notifies_nobody(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    under_way = NOW.replace(day=3, hour=16, minute=30)
    lock_at(under_way, intake.store, "ridgeline", erase_lead, drive["lead_id"])
    assert intake.cancel_visit(drive, under_way).mailed == frozenset()
    assert waiting_deliveries(intake) == set()
    assert [one.status for one in intake.visits_of(drive["lead_id"])] == ["cancelled"]


@pytest.mark.parametrize("confirms", [True, False])
def test_the_customer_of_an_appraisal_that_moves_with_a_test_drive_is_mailed_both_new_times(
    new_intake: OpenIntake, confirms: bool
) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=confirms)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    appraisal = intake.take(lead_of_sam(visit(at("10:00"), "trade_in"), None), NOW, LOT)
    intake.all_sent()
    moved = intake.take(lead_of_sam(visit(at("13:00"))), SOON, LOT)
    later = intake.visits_of(appraisal["lead_id"])[-1]
    mails = {(row.lead_id, row.because_of) for row in waiting_deliveries(intake) if row.kind == "confirm"}
    both = {(drive["lead_id"], id_of(moved)), (appraisal["lead_id"], later.appointment_id)}
    assert mails == (both if confirms else set())


def test_an_appraisal_moves_to_the_rooftop_to_which_the_vehicle_was_brought(new_intake: OpenIntake) -> None:
    """The rooftop of the lead of the appraisal hears of that, and so does the rooftop that is to appraise."""
    intake = new_intake(PROFILE)
    intake.take(lead_of_sam(visit(at("10:00")), "S1"), NOW, LOT)
    appraisal = intake.take(lead_of_sam(visit(at("10:00"), "trade_in"), None), NOW, LOT)
    intake.all_sent()
    brought = Catalogue.build([listing("S1", "Ridgeline North")])
    intake.take(lead_of_sam(visit(at("13:00")), "S1"), SOON, brought)
    later = intake.visits_of(appraisal["lead_id"])[-1]
    assert (later.rooftop, later.status) == ("Ridgeline North", "confirmed")
    assert {row.channel for row in waiting_deliveries(intake) if row.lead_id == appraisal["lead_id"]} == {
        "north",
        "south",
    }


@pytest.mark.both_databases
def test_erasing_a_lead_leaves_the_appraisal_that_another_lead_has_within_its_test_drive(
    new_intake: OpenIntake,
) -> None:
    """That customer is to come at that time: they keep it, and it can be moved and cancelled as any other."""
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    appraisal = intake.take(lead_of_sam(visit(at("10:15"), "trade_in"), None), NOW, LOT)
    taken = intake.take(lead_with_visit(visit(at("10:00"), "trade_in"), None), NOW, LOT)
    assert taken["appointment"]["status"] == "confirmed", "the only place for appraisals, at that time too"
    lock_at(SOON, intake.store, "ridgeline", erase_lead, drive["lead_id"])
    (kept,) = intake.visits_of(appraisal["lead_id"])
    assert (kept.status, kept.shares, kept.appointment_id) == ("confirmed", None, id_of(appraisal))
    assert kept.starts_at == NOW.replace(day=3, hour=16, minute=15)
    assert (intake.places("test_drive"), intake.places("trade_in")) == (0, 4)
    again = intake.take(lead_with_visit(visit(at("10:00")), "S1"), SOON, LOT)
    assert again["appointment"]["status"] == "confirmed", "nobody drives then any more"

    # The time that it holds counts as taken, and once only.
    blocked = intake.take(lead_with_visit(visit(at("10:30"), "trade_in"), None), SOON, LOT)
    assert blocked["appointment"]["status"] == "proposed"
    moved = intake.take(lead_of_sam(visit(at("10:00"), "trade_in"), None), SOON, LOT)
    assert moved["appointment"]["status"] == "proposed", "two are there at that time"
    intake.cancel_visit(appraisal, SOON)
    assert intake.places("trade_in") == 2
