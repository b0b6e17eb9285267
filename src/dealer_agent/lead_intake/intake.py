"""The lead desk: one job of the writer for each lead (docs/protocol.md#lead-submit)."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Any, TypeVar

import structlog

from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.lead_intake.cancellation import Cancellation, call_off
from dealer_agent.lead_intake.customer_actions import CustomerActions
from dealer_agent.lead_intake.lead_transaction import IntakeContext, LeadTransaction
from dealer_agent.lead_intake.notifications import Notifications
from dealer_agent.leads.timetable import Timetable
from dealer_agent.protocol.errors import InternalError, ProtocolError
from dealer_agent.protocol.replies import Answer
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.storage import leads as stored
from dealer_agent.storage.errors import DatabaseBusy, StoreClosed
from dealer_agent.storage.lead_writer import LeadWriter
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

Result = TypeVar("Result")


class LeadIntake:
    """Takes one dealer's leads, and calls visits off.

    `confirms_by_mail`: customers are mailed the visits that are confirmed to them, and those that are called off.

    `on_stored` is called once a lead is durable: there may be something to deliver.
    """

    def __init__(
        self,
        profile: Profile,
        writer: LeadWriter,
        *,
        confirms_by_mail: bool,
        on_stored: Callable[[], None] = lambda: None,
    ) -> None:
        self._desk = IntakeContext(profile, Timetable(profile), confirms_by_mail)
        self._writer = writer
        self._on_stored = on_stored

    async def take(
        self,
        lead: LeadSubmitRequest,
        payload: dict[str, Any],
        catalogue: Catalogue,
        *,
        token_id: str | None,
        body: bytes,
        now: datetime,
        seconds: float,
    ) -> Answer:
        """Stores a lead with its consent, its visit and its deliveries, then answers it.

        `payload` is the lead's JSON values, extras included. A lead that waits for the database for `seconds` is
        cancelled: InternalError, and nothing is stored. If it is being stored at that moment, this waits once more for
        `seconds`; then InternalError says that it may have been stored. Also raises ContactConsentRequired,
        InvalidConsent, VehicleNotFound, VehicleUnavailable, IdempotencyConflict; AppointmentTimeUnavailable, when the
        lead is stored nevertheless; and StorageError when it could not be stored.
        """
        job = LeadTransaction.of(self._desk, catalogue, lead, payload, token_id, body, now)
        answer = await _in_time(self._writer.submit(self._desk.profile.id, job.store, now), seconds)
        self._on_stored()
        if isinstance(answer, ProtocolError):
            raise answer
        return answer

    def call_off(self, appointment_id: str, *, tell: bool, now: datetime) -> Cancellation:
        """Calls a visit off, and tells its customer, the CRM and the people of it, unless not to `tell`. Blocks.

        Raises NoVisitToCancel, and StorageError when it could not be stored.
        """
        profile, timetable, confirms_by_mail = self._desk

        def job(tx: Transaction) -> Cancellation:
            telling = Notifications(tx, timetable, confirms_by_mail) if tell else None
            return call_off(tx, appointment_id, telling)

        done = self._writer.submit(profile.id, job, now).result()
        self._on_stored()
        return done

    def for_customers(self, store: Store) -> CustomerActions:
        """The desk for the links in the mails to customers."""
        return CustomerActions(self._desk, store, self._writer, self._on_stored)

    def note_refusal(self, code: str, at: datetime) -> None:
        """Has it stored that a lead was refused: the code and the time, nothing of the lead.

        Nobody waits for it, and the buyer's answer does not depend on it: a failure goes to the log.
        """
        dealer_id = self._desk.profile.id
        try:
            noted = self._writer.submit(dealer_id, lambda tx: stored.record_refusal(tx, code), at)
        except (StoreClosed, DatabaseBusy) as failure:
            _log_lost_refusal(code, failure)
        else:
            noted.add_done_callback(lambda done: _log_lost_refusal(code, done.exception()))


async def _in_time(stored: Future[Result], seconds: float) -> Result:
    """The result of a job. Raises InternalError when its time is over."""
    waiting = asyncio.wrap_future(stored)
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.shield(waiting)
    except TimeoutError:
        if stored.cancel():
            raise InternalError(
                "The dealer's database is busy. The lead was not taken: send the same request again."
            ) from None
    except asyncio.CancelledError:
        stored.cancel()
        raise
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.shield(waiting)
    except TimeoutError:
        raise InternalError(
            "The dealer's database is slow. The lead may have been taken: send the same request again, with the same "
            "idempotency_key."
        ) from None


def _log_lost_refusal(code: str, failure: BaseException | None) -> None:
    if failure is not None:
        # A refusal holds nothing personal, and a StorageError never quotes what was being stored.
        structlog.get_logger().error("refusal not stored", code=code, error=type(failure).__qualname__)
