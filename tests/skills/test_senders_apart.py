"""The leads of others do not affect a sender's leads (docs/protocol.md#duplicates). On both databases.

There are places enough here, and the test drives of others are with another vehicle, so that nobody takes a time from
somebody else. The link between leads that may be of one person is the only other thing that may differ.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.leads.lead_views import confirmation_of
from tests.skills.intake_setup import TOKEN, IntakeSetup
from tests.skills.sample_dealers import a_lead, customer
from tests.skills.visiting import LOT, NOW, PROFILE, at, rooftop, visit, windows
from tests.soak import SOAK
from tests.storage.calls import read, read_at

from dealer_agent.dealers.profile import VisitRules
from dealer_agent.lead_intake.intake import LeadIntake
from dealer_agent.leads.adf import render_adf
from dealer_agent.leads.lead_view import lead_view
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.requests import VisitKind
from dealer_agent.storage.deliveries.outbox import list_deliveries
from dealer_agent.storage.leads.lead_record import lead_details

OpenIntake = Callable[..., IntakeSetup]
ROOM: Mapping[VisitKind, VisitRules] = {
    "test_drive": VisitRules(places=50),
    "trade_in": VisitRules(places=50, duration_minutes=30),
}
PLENTY = msgspec.structs.replace(PROFILE, rooftops=(rooftop("Ridgeline South", ROOM, "south"),))
ULID = "[0-9A-HJKMNP-TV-Z]{26}"
_dealers = count(1)
EXAMPLES = 100 if SOAK else 30

EMAIL, PHONE = {"email": "sam@example.com"}, {"phone": "+12025550123"}
POINTS = (EMAIL, PHONE, EMAIL | PHONE, {"email": "pat@example.com"}, PHONE | {"email": "pat@example.com"})


class Sent(NamedTuple):
    """One lead: its sender's token, agent and customer, and what it says."""

    token: str | None
    agent: str
    points: dict[str, str]
    name: str
    stock: str | None
    message: str
    appointment: dict[str, Any] | None
    key: str | None

    @property
    def sender(self) -> object:
        """The sender (docs/protocol.md#duplicates)."""
        return self.token or (self.agent, tuple(sorted(self.points.items())))

    def with_other_vehicle(self) -> "Sent":
        """The lead about another vehicle, if its test drive takes one (docs/protocol.md#one-vehicle-one-buyer)."""
        takes_vehicle = self.stock is not None and self.appointment in DRIVES
        return self._replace(stock="S2") if takes_vehicle else self

    def payload(self) -> dict[str, Any]:
        """The request."""
        members: dict[str, Any] = {"message": self.message} if self.message else {}
        if self.appointment is not None:
            members["appointment"] = self.appointment
        if self.stock is not None:
            members["vehicle_of_interest"] = {"stock": self.stock}
        if self.key is not None:
            members["idempotency_key"] = self.key
        who = customer(**self.points) | {"first_name": self.name}
        return a_lead(customer=who, source_agent=self.agent, **members)


DRIVES = (visit(at("10:00")), visit(at("12:00")))
APPOINTMENTS = (
    None,
    *DRIVES,
    visit(),
    visit(at("10:15"), "trade_in"),
    windows((at("09:00"), at("18:00")), kind="trade_in"),
)

leads_sent = st.builds(
    Sent,
    token=st.sampled_from((None, None, TOKEN, "01KE7AQ2N0V5X3J8R6T4Y9W1ZU")),
    agent=st.sampled_from(("Agent", "Other")),
    points=st.sampled_from(POINTS),
    name=st.sampled_from(("Sam", "Mallory")),
    stock=st.sampled_from(("S1", None)),
    message=st.sampled_from(("", "Is it there?", "Cancel it")),
    appointment=st.sampled_from(APPOINTMENTS),
    key=st.sampled_from((None, None, "key-1")),
)


def story(at_desk: IntakeSetup, dealer_id: str, sequence: Sequence[Sent | None], teller: object) -> list[str]:
    """What the sender `teller` is answered, and all that the dealer sees of its leads and sends because of them.

    None in the sequence is a lead that is left out. Ids are numbered in the order in which they appear.
    """
    profile = msgspec.structs.replace(PLENTY, id=dealer_id)
    at_desk.store.check_keys(dealer_id)
    intake = LeadIntake(profile, at_desk.writer, confirms_by_mail=True)
    new_intake = IntakeSetup(at_desk.url, intake, at_desk.store, at_desk.writer)
    told: list[object] = []
    own: list[str] = []
    for number, sent in enumerate(sequence):
        if sent is None:
            continue
        now = NOW + timedelta(minutes=number)
        try:
            answer = new_intake.answer(sent.payload(), now, LOT, token=sent.token)
        except ProtocolError as refusal:
            if sent.sender == teller:
                told.append((type(refusal), str(refusal)))
            continue
        if sent.sender == teller:
            told.append((answer.data.decode(), answer.message))
            own.append(msgspec.json.decode(answer.data)["lead_id"])
    end = NOW + timedelta(hours=1)
    sent_rows = read(at_desk.store, dealer_id, list_deliveries, 1000)
    for lead_id in dict.fromkeys(own):
        whole = read_at(end, at_desk.store, dealer_id, lead_details, lead_id)
        assert whole is not None
        view = replace(lead_view(whole, profile), may_be_same_person_as=None)
        told += [render_adf(view).decode(), view.customer, view.channels, len(whole.stored.consents)]
        rows = [row for row in sent_rows if row.lead_id == lead_id]
        told += sorted((row.created_at, row.kind, row.rooftop, row.channel, row.event_id is None) for row in rows)
        if any(one.status == "confirmed" for one in view.visits):
            told.append(confirmation_of(view))
    numbers: dict[str, str] = {}
    # The signature of a link depends on the dealer's id and on the ids in the link.
    text = re.sub(rf"({ULID}\.{ULID}\.\d+)\.[\w-]{{43}}", r"\1", "\n".join(map(str, told)))
    return re.sub(ULID, lambda ulid: numbers.setdefault(ulid[0], f"#{len(numbers)}"), text).split("\n")


@pytest.mark.requirement("duplicate-stranger")
def test_a_senders_leads_are_the_same_with_and_without_those_of_others(new_intake: OpenIntake) -> None:
    intake = new_intake(PLENTY)

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
    @given(st.lists(leads_sent, min_size=2, max_size=6), st.integers(0, 5))
    def check(sequence: list[Sent], chosen: int) -> None:
        teller = sequence[chosen % len(sequence)].sender
        alone = [sent if sent.sender == teller else None for sent in sequence]
        among = [sent if sent.sender == teller else sent.with_other_vehicle() for sent in sequence]
        number = next(_dealers)
        among_others = story(intake, f"among-{number}", among, teller)
        assert among_others == story(intake, f"alone-{number}", alone, teller)

    check()
