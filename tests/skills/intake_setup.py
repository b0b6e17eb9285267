"""The lead intake on a real store, at times of the test's own."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import create_engine, func, select, update
from tests.skills.sample_dealers import CIPHER, replaced_first
from tests.storage.calls import read
from tests.storage.current import make_current

from dealer_agent.callers import ANONYMOUS, Caller, token_caller
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.lead_intake.intake import LeadIntake
from dealer_agent.leads.received_lead import PreparedLead
from dealer_agent.leads.records import VisitRecord
from dealer_agent.protocol.response_bodies import SkillResult
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.storage.database_url import database_url as parsed_url
from dealer_agent.storage.deliveries.outbox import DeliveryRecord, list_deliveries
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.visits import visits_of
from dealer_agent.storage.schema import outbox, places
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import ADD_TOKEN
from dealer_agent.visits.changes import VisitChange

EMPTY_LOT = Catalogue.build([])
TOKEN = "01KE7AQ2N0V5X3J8R6T4Y9W1ZT"
"""The id of the token of the one sender, where a test says nothing of senders."""
GRANTED_AT = "2026-03-01T00:00:00Z"
"""When the customer agreed, where a test says nothing else."""


def caller_with(token_id: str | None) -> Caller:
    """The sender with this token; None is a sender without one."""
    return ANONYMOUS if token_id is None else token_caller(token_id)


@dataclass
class IntakeSetup:
    """A dealer's intake and the store behind it."""

    url: str
    intake: LeadIntake
    store: Store
    writer: LeadWriter
    tokens: set[tuple[str, str]] = field(default_factory=set)

    def take(
        self,
        lead: dict[str, Any],
        now: datetime,
        lot: Catalogue = EMPTY_LOT,
        *,
        token: str | None = TOKEN,
        granted_at: str = GRANTED_AT,
        quarantined: bool = False,
    ) -> dict[str, Any]:
        """The `data` of the response."""
        answer = self.answer(lead, now, lot, token=token, granted_at=granted_at, quarantined=quarantined)
        answered: dict[str, Any] = msgspec.json.decode(answer.data)
        return answered

    def answer(
        self,
        lead: dict[str, Any],
        now: datetime,
        lot: Catalogue = EMPTY_LOT,
        *,
        token: str | None = TOKEN,
        granted_at: str = GRANTED_AT,
        quarantined: bool = False,
    ) -> SkillResult:
        """The response to the sender with this token; None is a sender without one."""
        plain = lead | {"consent": lead["consent"] | {"granted_at": granted_at}}
        typed = msgspec.convert(plain, LeadSubmitRequest)
        if token is not None:
            self._know(token, now)
        prepared = PreparedLead.of(typed, plain, caller_with(token), b"", quarantined=quarantined)
        return asyncio.run(self.intake.submit(prepared, lot, now, 60))

    def _know(self, token_id: str, now: datetime) -> None:
        """Adds the token, unless the dealer of the intake has it."""
        dealer_id = self.intake._context.profile.id
        if (dealer_id, token_id) not in self.tokens:
            added = {"token_id": token_id, "name": "a buyer", "token_hash": token_id.encode(), "purpose": "skills"}
            with self.store.write(dealer_id, now) as tx:
                tx.execute(ADD_TOKEN, {**added, "created_at": now})
            self.tokens.add((dealer_id, token_id))

    def visits_of(self, lead_id: str) -> list[VisitRecord]:
        """The visits that a lead asked for, oldest first."""
        return replaced_first(read(self.store, "ridgeline", visits_of, lead_id))

    def places(self, kind: str) -> int:
        """How many places in quarters of an hour are taken."""
        with create_engine(parsed_url(self.url)).connect() as connection:
            return connection.execute(select(func.count()).where(places.c.kind == kind)).scalar_one()

    def cancel_visit(self, answer: dict[str, Any], now: datetime, *, tell: bool = True) -> VisitChange:
        """The dealer cancels the visit that was answered so."""
        visit_id = answer["appointment"]["appointment_id"]
        return self.intake.change_visit(lambda visits: visits.cancel(visit_id), notify=tell, now=now)

    def all_sent(self) -> None:
        """What was to be sent is sent."""
        with create_engine(parsed_url(self.url)).begin() as connection:
            connection.execute(update(outbox).values(state="sent", attempts=1))

    def deliveries(self) -> list[DeliveryRecord]:
        """What is to be sent."""
        return read(self.store, "ridgeline", list_deliveries, 1000)


@contextmanager
def open_intake(url: str, profile: Profile, *, confirms_by_mail: bool = False) -> Iterator[IntakeSetup]:
    """The intake of a dealer at the database `url`."""
    make_current(url)
    with Store.open(url, CIPHER) as store:
        store.check_keys(profile.id)
        writer = store.lead_writer()
        try:
            yield IntakeSetup(url, LeadIntake(profile, writer, confirms_by_mail=confirms_by_mail), store, writer)
        finally:
            writer.close()
