"""Notices to the receivers of a lead: a withdrawal, an erasure (docs/protocol.md#withdrawal). On both databases."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.delivery.crm import EMAIL, PHONE, Sending, a_time, arrived, lead_of_sam, profile_of
from tests.delivery.receivers import (
    HttpReceiver,
    MailReceiver,
    always,
    one_after_the_other,
    receiving_http,
    receiving_mail,
)
from tests.skills.intake_setup import IntakeSetup, open_intake
from tests.skills.visiting import LOT
from tests.storage.calls import at_time, lock_at

from dealer_agent.dealers.profile import HttpChannel, Profile
from dealer_agent.dealers.routing import visit_cancelled_notices
from dealer_agent.storage.deliveries import outbox
from dealer_agent.storage.deliveries.notices import erase, withdraw
from dealer_agent.storage.deliveries.sent_deliveries import send_again
from dealer_agent.storage.schema import outbox as outbox_table

DEALER = "ridgeline"


class House(Sending):
    """A dealer with a CRM that takes JSON, one that wants no notices, a folder for ADF, and people."""

    def __init__(
        self, intake: IntakeSetup, profile: Profile, crm: HttpReceiver, mail: MailReceiver, folder: Path
    ) -> None:
        super().__init__(intake, profile, mail)
        self.crm, self.mail, self.folder = crm, mail, folder

    def take(self, **members: Any) -> dict[str, Any]:
        return self.intake.take(lead_of_sam("email", "phone", **members), datetime.now(UTC), LOT)

    def events(self) -> list[dict[str, Any]]:
        """The documents that are no leads, in order."""
        return [document for _, document in arrived(self.crm) if document["type"] != "lead"]

    def withdraw(self, lead_id: str, *channels: str) -> None:
        now = datetime.now(UTC)
        lock_at(
            now, self.intake.store, DEALER, withdraw, lead_id, channels, by="staff", reason=None, profile=self.profile
        )

    def filed(self, kind: str) -> list[bytes]:
        """The files of this kind of delivery."""
        rows = self.rows(kind=kind, channel="folder")
        return [(self.folder / f"{row.delivery_id}.xml").read_bytes() for row in rows]


@pytest.fixture
def house(database_url: str, tmp_path: Path) -> Iterator[House]:
    crm, mail, folder = HttpReceiver(always("take")), MailReceiver(always("take")), tmp_path / "leads"
    with receiving_http(crm), receiving_mail(mail):
        channels = (
            HttpChannel(name="crm", url=crm.url, format="json"),
            HttpChannel(name="quiet", url=crm.url, notices=()),
        )
        profile = profile_of(*channels, notify=("people@dealer.example.com",), folder=folder)
        with open_intake(database_url, profile) as intake:
            yield House(intake, profile, crm, mail, folder)


def json_only(house: House) -> None:
    """The second channel shares the receiver: what it got is ADF, and no test reads it."""
    house.crm.taken[:] = [one for one in house.crm.taken if one.headers["content-type"] == "application/json"]


def test_a_withdrawal_is_delivered_to_the_receivers_of_the_lead(house: House) -> None:
    lead_id = house.take()["lead_id"]
    house.all()
    house.withdraw(lead_id, "phone")
    house.all()
    json_only(house)
    assert house.events() == [
        {
            "type": "consent_withdrawn",
            "version": 1,
            "lead_id": lead_id,
            "withdrawn_channels": ["phone"],
            "allowed_channels": ["email"],
            "do_not_contact_by": ["phone", "sms"],
        }
    ]
    assert {row.channel for row in house.rows(kind="withdrawal")} == {"crm", "folder", "notify"}
    (adf,) = house.filed("withdrawal")
    assert b'status="resend"' in adf
    assert b"withdrew the consent to be contacted by phone" in adf
    assert PHONE.encode() not in adf
    (_, people) = house.mail.taken
    text = people.message.get_content()
    assert "consent withdrawn" in people.message["Subject"]
    assert "Do not contact by phone or text message." in text


@pytest.mark.requirement("withdrawal-every-lead")
def test_a_withdrawal_counts_for_the_customers_other_leads(house: House) -> None:
    """One was delivered, and its receivers are told. One waits, and is delivered without the phone number."""
    first = house.take()["lead_id"]
    sent = house.take(vehicle_of_interest={"stock": "S1"})["lead_id"]
    house.all()
    waits = house.take(vehicle_of_interest={"stock": "S2"})["lead_id"]
    house.withdraw(first, "phone")
    house.all()
    json_only(house)
    assert {event["lead_id"] for event in house.events()} == {first, sent}
    documents = {document["lead_id"]: document for _, document in arrived(house.crm) if document["type"] == "lead"}
    assert documents[waits]["do_not_contact_by"] == ["phone", "sms"]
    assert PHONE not in msgspec.json.encode(documents[waits]).decode()


def test_a_withdrawal_of_channels_that_were_never_allowed_is_not_delivered(house: House) -> None:
    lead_id = house.take()["lead_id"]
    house.all()
    house.withdraw(lead_id, "sms")
    assert house.rows(kind="withdrawal") == []


def test_a_withdrawal_is_delivered_even_if_the_consent_has_expired(house: House) -> None:
    """A CRM that got the lead before does not know that the consent has expired since."""
    now = datetime.now(UTC)
    made = lead_of_sam("email", "phone")
    expires = {"expires_at": (now - timedelta(seconds=5)).isoformat()}
    answer = house.intake.take(made | {"consent": made["consent"] | expires}, now - timedelta(seconds=10), LOT)
    house.all()
    house.withdraw(answer["lead_id"], "phone")
    house.withdraw(answer["lead_id"], "phone")
    assert sorted(row.channel for row in house.rows(kind="withdrawal")) == ["crm", "folder", "notify"]


def test_a_lead_that_was_not_delivered_yet_contains_the_withdrawal(house: House) -> None:
    lead_id = house.take()["lead_id"]
    house.withdraw(lead_id, "phone")
    house.all()
    json_only(house)
    ((_, lead),) = arrived(house.crm)
    assert (lead["type"], lead["do_not_contact_by"]) == ("lead", ["phone", "sms"])
    assert house.rows(kind="withdrawal") == []


def test_an_erasure_message_has_only_the_id_of_the_lead(house: House) -> None:
    visit = {"appointment_type": "test_drive", "appointment_at": a_time()}
    answer = house.take(appointment=visit)
    house.all()
    erased = lock_at(
        datetime.now(UTC), house.intake.store, DEALER, erase, answer["lead_id"], house.profile, consent_too=False
    )
    house.all()
    json_only(house)
    assert erased is not None
    assert {channel: has for (_, channel), has in erased.copies.items()} == dict.fromkeys(
        ("crm", "quiet", "folder", "notify"), True
    )
    assert house.events() == [{"type": "lead_erased", "version": 1, "lead_id": answer["lead_id"]}]
    (adf,) = house.filed("erasure")
    mails = [mail.message.get_content() for mail in house.mail.taken[1:]]
    assert sum("Erase your copy" in mail for mail in mails) == 1
    (ended,) = [mail for mail in mails if "Test drive cancelled" in mail]
    assert "12:00 PM" in ended
    for told in (adf.decode(), *mails):
        assert answer["lead_id"] in told
        assert not {word for word in ("Sam", "Sample", EMAIL, PHONE) if word in told}
    assert (
        lock_at(
            datetime.now(UTC), house.intake.store, DEALER, erase, answer["lead_id"], house.profile, consent_too=False
        )
        is None
    )


def test_after_the_erasure_of_an_undelivered_lead_staff_get_only_the_cancelled_visit(house: House) -> None:
    visit = {"appointment_type": "test_drive", "appointment_at": a_time()}
    answer = house.take(appointment=visit)
    lock_at(datetime.now(UTC), house.intake.store, DEALER, erase, answer["lead_id"], house.profile, consent_too=False)
    house.all()
    assert {(row.kind, row.channel) for row in house.rows(state="sent")} == {("visit_cancelled", "notify")}
    (mail,) = house.mail.taken
    assert "Test drive cancelled" in mail.message.get_content()


def test_without_staff_addresses_the_channels_get_the_cancelled_visit() -> None:
    profile = profile_of(HttpChannel(name="crm", url="https://crm.example.com"))
    (row,) = visit_cancelled_notices(profile, profile.rooftops[0].name, "A1")
    assert (row.kind, row.channel, row.event_id) == ("visit_cancelled", "crm", "A1")


def test_an_erasure_message_to_a_receiver_that_may_have_a_copy_follows_the_lead(house: House) -> None:
    """While a delivery is under way nobody knows whether it arrives. The notice waits for its end."""
    lead_id, now = house.take()["lead_id"], datetime.now(UTC)
    address = house.profile.rooftops[0].name, "crm"
    (delivery,) = house.intake.writer.submit(
        DEALER, lambda tx: outbox.claim(at_time(tx, now), timedelta(minutes=5), address, 1)
    ).result(60)
    erased = lock_at(now, house.intake.store, DEALER, erase, lead_id, house.profile, consent_too=False)
    assert erased is not None
    assert erased.copies == {address: False}
    (notice,) = house.rows(kind="erasure")

    def claimed(at: datetime) -> list[str]:
        found = house.intake.writer.submit(
            DEALER, lambda tx: outbox.claim(at_time(tx, at), timedelta(minutes=5), address, 9)
        ).result(60)
        return [each.delivery_id for each in found]

    assert claimed(now + timedelta(minutes=1)) == []
    house.intake.writer.submit(DEALER, lambda tx: outbox.settle_sent(at_time(tx, now), delivery)).result(60)
    assert claimed(now + timedelta(minutes=1)) == [notice.delivery_id]


@pytest.mark.parametrize("by", ["lead", "delivery"])
def test_what_was_sent_is_sent_again_under_a_new_id_as_a_resend(house: House, by: str) -> None:
    lead_id, now = house.take()["lead_id"], datetime.now(UTC)
    (first,) = house.rows(channel="crm")
    assert lock_at(now, house.intake.store, DEALER, send_again, lead_id=lead_id) == [], "it waits"
    house.all()
    if by == "lead":
        made = lock_at(now, house.intake.store, DEALER, send_again, lead_id=lead_id, channel="crm")
    else:
        made = lock_at(now, house.intake.store, DEALER, send_again, delivery_id=first.delivery_id)
    house.all()
    json_only(house)
    (one, new), (two, again) = arrived(house.crm)
    assert [two] == made
    assert (one, new["status"], again["status"]) == (first.delivery_id, "new", "resend")
    assert {**new, "status": ""} == {**again, "status": ""}


def documents(house: House) -> list[bytes]:
    """The documents in the outbox, as they are stored."""
    with house.intake.store.read(DEALER) as tx:
        found = tx.connection.execute(outbox_table.select()).all()
    return [bytes(row.document) for row in found if row.document is not None]


def test_the_document_of_a_waiting_lead_is_encrypted(house: House) -> None:
    house.take()
    house.crm.behaviour = one_after_the_other("fail")
    house.attempt()
    waiting = documents(house)
    assert waiting
    assert not [document for document in waiting if b"Sam" in document or EMAIL.encode() in document]


def test_the_document_of_a_sent_lead_is_deleted_from_the_outbox(house: House) -> None:
    house.take()
    house.crm.behaviour = one_after_the_other("fail", "fail", "take")
    house.attempt()
    assert documents(house)
    house.all()
    assert documents(house) == []


def test_the_notices_of_a_channel_are_a_setting() -> None:
    channel = msgspec.convert({"name": "crm", "url": "https://crm.example.com", "notices": ["erasure"]}, HttpChannel)
    assert channel.notices == ("erasure",)
    assert HttpChannel(name="crm", url="").notices == ("withdrawal", "erasure")
