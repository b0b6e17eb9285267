"""What a CRM gets of a lead, whatever happens to the lead and to its deliveries. On both databases.

A story is a random sequence of changes and attempts. `SOAK_CASES` asks for more stories.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from tests.delivery.crm import Sending, a_time, arrived, profile_of
from tests.delivery.receivers import HttpReceiver, MailReceiver, always, receiving_http, receiving_mail
from tests.skills.intake_setup import IntakeSetup, open_intake
from tests.skills.sample_dealers import a_lead, customer
from tests.skills.visiting import LOT
from tests.storage.calls import lock_at

from dealer_agent.dealers.profile import HttpChannel, Profile
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.deliveries.outbox import retry_deliveries
from dealer_agent.storage.deliveries.sent_deliveries import send_again

STORIES = int(os.environ.get("SOAK_CASES", "120")) // 40
CHANNELS = ("email", "phone", "sms")
PEOPLE = "people@dealer.example.com"
DEALER = "ridgeline"


class Story(Sending):
    """One lead, the channels that its customer allows, and what the CRM got of it."""

    def __init__(
        self, intake: IntakeSetup, profile: Profile, crm: HttpReceiver, mail: MailReceiver, chance: Random
    ) -> None:
        super().__init__(intake, profile, mail)
        self.crm, self.mail, self.chance = crm, mail, chance
        number = chance.randrange(10**7)
        self.email, self.phone = f"sam.{number}@example.com", f"+1202{number:07}"
        self.allowed: set[str] = set()
        self.lead_id = ""
        self.told: list[str] = []
        crm.taken.clear()
        mail.taken.clear()

    def take(self, *channels: str, **members: Any) -> None:
        """The customer agrees to these channels now."""
        now = datetime.now(UTC)
        lead = a_lead(customer=customer(email=self.email, phone=self.phone), **members)
        lead["consent"]["allowed_channels"] = channels
        answer = self.intake.take(lead, now, LOT, granted_at=now.isoformat())
        assert self.lead_id in ("", answer["lead_id"]), "it is one lead"
        self.lead_id = answer["lead_id"]
        self.allowed.update(channels)

    def begin(self) -> None:
        visit = {"appointment_type": "test_drive", "appointment_at": a_time()}
        self.take(*self.some_channels(), **({"appointment": visit} if self.chance.random() < 0.5 else {}))

    def go_on(self) -> None:
        """One change, or one attempt of everything that waits."""
        now, store = datetime.now(UTC), self.intake.store
        what = self.chance.choice(("try", "try", "try", "withdraw", "consent", "say", "retry", "again", "cancel"))
        self.told.append(what)
        match what:
            case "try" if self.rows(state="waiting"):
                self.crm.behaviour = always(self.chance.choice(("take", "reject", "fail", "die")))
                self.mail.behaviour = always(self.chance.choice(("take", "fail", "die")))
                before = len(self.crm.taken)
                self.attempt()
                self.check_points(before)
            case "withdraw":
                channel = self.chance.choice(CHANNELS)
                self.allowed.discard(channel)
                lock_at(
                    now,
                    store,
                    DEALER,
                    withdraw,
                    self.lead_id,
                    [channel],
                    by="staff",
                    reason=None,
                    profile=self.profile,
                )
            case "consent":
                self.take(self.chance.choice(CHANNELS))
            case "say" if self.allowed:
                self.take(*sorted(self.allowed), message=f"Message {len(self.told)}")
            case "retry":
                lock_at(now, store, DEALER, retry_deliveries)
            case "again":
                lock_at(now, store, DEALER, send_again, lead_id=self.lead_id)
            case "cancel":
                for visit in self.intake.visits_of(self.lead_id):
                    if visit.status == "confirmed":
                        self.cancel(visit.appointment_id, now)

    def cancel(self, appointment_id: str, now: datetime) -> None:
        self.intake.intake.change_visit(lambda visits: visits.cancel(appointment_id), notify=True, now=now)

    def end(self) -> None:
        self.crm.behaviour = self.mail.behaviour = always("take")
        if self.rows(state="waiting"):
            before = len(self.crm.taken)
            self.all()
            self.check_points(before)

    def some_channels(self) -> list[str]:
        return self.chance.sample(CHANNELS, self.chance.randint(1, 3))

    def check_points(self, first: int) -> None:
        """What came now names only contact points that may be used now."""
        for _, document in arrived(self.crm)[first:]:
            points = document.get("customer", {})
            assert "email" not in points or "email" in self.allowed
            assert "phone" not in points or self.allowed & {"phone", "sms"}

    def check_all(self) -> None:
        bodies: dict[str, set[bytes]] = defaultdict(set)
        for posted in self.crm.taken:
            bodies[posted.headers["x-delivery-id"]].add(posted.body)
        mails: dict[str, set[bytes]] = defaultdict(set)
        for mail in self.mail.taken:
            mails[mail.message["Message-ID"]].add(mail.raw)
        assert {len(each) for each in (*bodies.values(), *mails.values())} == {1}, "the bytes under one id never differ"
        documents = dict(arrived(self.crm))
        statuses = [document["status"] for document in documents.values() if document["type"] == "lead"]
        assert statuses == ["new", *["resend"] * (len(statuses) - 1)]
        *_, (_, last) = arrived(self.crm)
        assert set(last["allowed_channels"]) == self.allowed, "the CRM knows who may be contacted"
        words = [mail.message.get_body() for mail in self.mail.taken if mail.recipients == [PEOPLE]]
        assert words[-1] is not None
        assert (self.email in words[-1].get_content()) is ("email" in self.allowed), "so do people"


@pytest.fixture
def house(database_url: str) -> Iterator[tuple[IntakeSetup, Profile, HttpReceiver, MailReceiver]]:
    crm, mail = HttpReceiver(always("take")), MailReceiver(always("take"))
    with receiving_http(crm), receiving_mail(mail):
        profile = profile_of(HttpChannel(name="crm", url=crm.url, format="json"), notify=(PEOPLE,))
        with open_intake(database_url, profile, confirms_by_mail=True) as intake:
            yield intake, profile, crm, mail


@pytest.mark.requirement("contact-points-with-consent", "consent-end-keeps-lead")
def test_a_crm_knows_in_the_end_who_may_be_contacted_and_never_gets_more(
    house: tuple[IntakeSetup, Profile, HttpReceiver, MailReceiver],
) -> None:
    for _ in range(STORIES):
        seed = Random().getrandbits(32)
        story = Story(*house, Random(seed))
        story.begin()
        for _ in range(story.chance.randint(4, 9)):
            story.go_on()
        story.end()
        try:
            story.check_all()
        except AssertionError as failure:
            failure.add_note(f"seed {seed}: {', '.join(story.told)}")
            raise
