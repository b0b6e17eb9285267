"""A lead changes while it is delivered to a CRM (docs/protocol.md#contact-points-with-consent). On both databases."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.delivery.crm import PHONE, SAM, Sending, a_time, arrived, lead_of_sam, profile_of
from tests.delivery.receivers import HttpReceiver, always, one_after_the_other, receiving_http
from tests.skills.intake_setup import TOKEN, IntakeSetup, open_intake
from tests.skills.visiting import LOT
from tests.storage.calls import at_time, lock_at
from tests.storage.samples import NO_NOTICES

from dealer_agent.dealers.profile import HttpChannel, Profile
from dealer_agent.dealers.routing import NewDelivery
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.deliveries.outbox import enqueue, retry_deliveries


class Crm(Sending):
    """An intake whose one CRM takes JSON."""

    def __init__(self, intake: IntakeSetup, receiver: HttpReceiver) -> None:
        super().__init__(intake, profile_of(HttpChannel(name="crm", url=receiver.url, format="json")))
        self.receiver = receiver

    def take(self, *channels: str, **members: object) -> str:
        lead_id: str = self.intake.take(lead_of_sam(*channels, **members), datetime.now(UTC), LOT)["lead_id"]
        return lead_id

    def fail(self, *how: str) -> None:
        """How the next attempts fail; the ones after them succeed."""
        self.receiver.behaviour = one_after_the_other(*how, "take")

    def statuses(self) -> list[str]:
        """The status of each document that came, repeats dropped by their ids."""
        documents = dict(arrived(self.receiver))
        return [document["status"] for document in documents.values()]

    def bodies(self) -> dict[str, set[bytes]]:
        """The bytes that came under each delivery id."""
        found: dict[str, set[bytes]] = defaultdict(set)
        for one in self.receiver.taken:
            found[one.headers["x-delivery-id"]].add(one.body)
        return found


@pytest.fixture
def crm(database_url: str) -> Iterator[Crm]:
    with receiving_http(HttpReceiver(always("take"))) as receiver:
        channel = HttpChannel(name="crm", url=receiver.url, format="json")
        with open_intake(database_url, profile_of(channel)) as intake:
            yield Crm(intake, receiver)


@pytest.mark.parametrize("how", ["fail", "reject", "refuse", "die"])
def test_a_lead_arrives_as_new_first_and_as_resend_after_that(crm: Crm, how: str) -> None:
    """Also when its first attempt failed before something was added to it."""
    crm.take(message="Is it still there?")
    crm.fail(how)
    crm.attempt()
    crm.take(message="I could come on Monday.")
    crm.all()
    assert crm.statuses() == ["new", "resend"]
    (_, first), *_, (_, last) = arrived(crm.receiver)
    assert first["messages"] == ["Is it still there?"]
    assert last["messages"] == ["Is it still there?", "I could come on Monday."]


@pytest.mark.parametrize("again", ["attempt", "retry"])
def test_the_bytes_under_one_delivery_id_never_differ(crm: Crm, again: str) -> None:
    """Not when the lead is added to between two attempts, nor when a person asked for the second attempt."""
    crm.take(message="Is it still there?")
    crm.fail("die", "die", "die")
    for number in range(3):
        crm.attempt()
        if again == "retry":
            lock_at(datetime.now(UTC), crm.intake.store, "ridgeline", retry_deliveries)
        crm.take(message=f"Message {number}")
    crm.all()
    assert {len(bodies) for bodies in crm.bodies().values()} == {1}
    assert crm.statuses().count("new") == 1
    _, last = arrived(crm.receiver)[-1]
    assert last["messages"][-1] == "Message 2"


def test_a_lead_is_new_at_a_rooftop_that_never_had_it(crm: Crm) -> None:
    lead_id = crm.take()
    crm.all()
    south, north = crm.profile.rooftops
    elsewhere = profile_of(*south.deliver.http).rooftops[0]
    crm.profile = type(crm.profile)(
        id="ridgeline",
        name="Ridgeline Motors",
        feed_price="advertised",
        rooftops=(elsewhere, type(north)(name=north.name, timezone=north.timezone, deliver=south.deliver)),
    )
    with_deliveries(crm, lead_id, north.name)
    crm.all()
    assert crm.statuses() == ["new", "new"]


def withdraw_phone(crm: Crm, lead_id: str, profile: Profile) -> None:
    """The dealer records that the customer withdrew the phone. `profile` says which channels get a notice."""
    lock_at(
        datetime.now(UTC),
        crm.intake.store,
        "ridgeline",
        withdraw,
        lead_id,
        ["phone"],
        by="staff",
        reason=None,
        profile=profile,
    )


def with_deliveries(crm: Crm, lead_id: str, rooftop: str) -> None:
    """Another rooftop is to get a lead because of a visit there."""

    crm.intake.writer.submit(
        "ridgeline",
        lambda tx: enqueue(at_time(tx, datetime.now(UTC)), lead_id, [NewDelivery("resend", rooftop, "crm", "E1")]),
    ).result(60)


@pytest.mark.parametrize(("how", "status"), [("fail", "new"), ("die", "resend")])
def test_a_withdrawal_between_two_attempts_gives_the_delivery_a_new_id(crm: Crm, how: str, status: str) -> None:
    lead_id = crm.take()
    crm.fail(how)
    crm.attempt()
    (first,) = crm.rows()
    withdraw_phone(crm, lead_id, NO_NOTICES)
    crm.all()
    delivery_id, document = arrived(crm.receiver)[-1]
    assert delivery_id != first.delivery_id
    assert "phone" not in document["customer"]
    assert (document["status"], document["do_not_contact_by"]) == (status, ["phone", "sms"])
    (dropped,) = crm.rows(delivery_id=first.delivery_id)
    assert (dropped.state, dropped.problem) == (
        "dropped",
        "the consent allows other contact data than before: sent again under another id",
    )
    assert {len(bodies) for bodies in crm.bodies().values()} == {1}


@pytest.mark.requirement("consent-end-keeps-lead")
def test_a_lead_whose_consent_ends_before_it_is_sent_is_delivered_without_contact_points(crm: Crm) -> None:
    made = lead_of_sam("email", "phone", appointment={"appointment_type": "test_drive", "appointment_at": a_time()})
    now = datetime.now(UTC)
    expires = {"expires_at": (now - timedelta(seconds=5)).isoformat()}
    crm.intake.take(made | {"consent": made["consent"] | expires}, now - timedelta(seconds=10), LOT)
    crm.all()
    ((_, document),) = arrived(crm.receiver)
    assert document["status"] == "new"
    assert not {"email", "phone"} & set(document["customer"])
    assert (document["allowed_channels"], document["do_not_contact_by"]) == ([], ["email", "phone", "sms"])
    assert [visit["status"] for visit in document["appointments"]] == ["confirmed"]


@pytest.mark.requirement("contact-points-with-consent")
@pytest.mark.parametrize(
    ("channels", "left"),
    [(("email",), {"email"}), (("phone",), {"phone"}), (("sms",), {"phone"}), (("email", "sms"), {"email", "phone"})],
)
def test_a_contact_point_without_consent_is_not_delivered(crm: Crm, channels: tuple[str, ...], left: set[str]) -> None:
    crm.take(*channels)
    crm.all()
    ((_, document),) = arrived(crm.receiver)
    assert {"email", "phone"} & set(document["customer"]) == left


def test_a_contact_point_that_came_later_needs_a_consent_that_came_with_it(crm: Crm) -> None:
    """The consent for the first number does not hold for the second."""
    crm.take("email", "phone")
    crm.all()
    other = lead_of_sam("email") | {"customer": SAM | {"phone": "+12025550199"}}
    crm.intake.take(other, datetime.now(UTC), LOT)
    crm.all()
    _, document = arrived(crm.receiver)[-1]
    assert "phone" not in document["customer"]
    assert document["allowed_channels"] == ["email"]


@pytest.mark.requirement("duplicate-adds")
@pytest.mark.parametrize("token", [TOKEN, None], ids=["token", "no token"])
@pytest.mark.parametrize("withdrawn", [True, False])
def test_a_channel_that_a_later_consent_allows_is_delivered(crm: Crm, token: str | None, withdrawn: bool) -> None:
    """Nothing else is new in the later lead."""
    channels = ("email", "phone") if withdrawn else ("email",)
    lead_id = crm.intake.take(lead_of_sam(*channels), datetime.now(UTC), LOT, token=token)["lead_id"]
    crm.all()
    if withdrawn:
        withdraw_phone(crm, lead_id, crm.profile)
        crm.all()
    now = datetime.now(UTC)
    for _ in range(2):
        crm.intake.take(lead_of_sam("phone"), now, LOT, token=token, granted_at=now.isoformat())
    crm.all()
    *before, (_, document) = arrived(crm.receiver)
    assert document["allowed_channels"] == ["email", "phone"]
    assert document["customer"]["phone"] == PHONE
    assert document["status"] == "resend"
    assert len(before) == (2 if withdrawn else 1), "the same consent again says nothing new"
