"""Accepts leads: each one is a write of the process's only writer (docs/protocol.md#lead-submit)."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from typing import TypeVar

import msgspec
import structlog
from msgspec import UNSET, Struct

from dealer_agent.callers import Caller
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.lead_intake.lead_transaction import LeadTransaction, keys_of_lead
from dealer_agent.leads.received_lead import PreparedLead, accept_lead
from dealer_agent.leads.statuses import DUPLICATE
from dealer_agent.leads.timetable import Timetable
from dealer_agent.protocol.errors import InternalError, ProtocolError, RateLimited
from dealer_agent.protocol.response_bodies import SkillResult
from dealer_agent.protocol.responses import LeadStatus
from dealer_agent.storage.errors import DealerBlocked, DealerUnknown, QueueFull, StorageError, StoreClosed, TokenRevoked
from dealer_agent.storage.leads.lead_write import Buyer, Seeks, WriteFunction, result_in_time
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.stored_leads import record_refusal
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction
from dealer_agent.visits.changes import VisitChange, VisitChanges
from dealer_agent.visits.customer_actions import CustomerActions
from dealer_agent.visits.notifications import IntakeContext

Result = TypeVar("Result")

NOT_STORED = "The dealer's database is busy. The request was not stored: send the same one again."
RETRY_SECONDS = 1
"""When a request that finds too many others waiting may be sent again."""


class LeadIntake:
    """Accepts one dealer's leads, and changes visits for the staff.

    `confirms_by_mail`: customers get mails about confirmed and cancelled visits. `on_stored` is called when a change is
    durable, because there may be deliveries. `on_result` gets what became of each lead: accepted, duplicate, repeated,
    refused or failed.
    """

    def __init__(
        self,
        profile: Profile,
        writer: LeadWriter,
        *,
        confirms_by_mail: bool,
        on_stored: Callable[[], None] = lambda: None,
        on_result: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._context = IntakeContext(profile, Timetable(profile), confirms_by_mail)
        self._writer = writer
        self._on_stored = on_stored
        self._on_result = on_result

    @property
    def context(self) -> IntakeContext:
        """What transactions of the dealer's leads need."""
        return self._context

    async def submit(self, lead: PreparedLead, catalogue: Catalogue, now: datetime, seconds: float) -> SkillResult:
        """Stores a lead with its consent, its visit and its deliveries, and answers it.

        A lead that waits for the database for `seconds` is cancelled: raises InternalError, and nothing is stored. So
        does a lead that waits for the dealer's lock for STORE_SECONDS. If it is being stored at that time, it gets
        `seconds` more; then InternalError says that it may be stored. Raises RateLimited if too many leads wait. Also
        raises the errors of `LeadTransaction.store`, AppointmentTimeUnavailable for a lead that is stored without a
        time, and StorageError: DealerUnknown if the dealer is not served any more, TokenRevoked for a revoked token.
        """
        function = self.write_of_lead(lead, catalogue, now)
        try:
            answer = await self.write(function, lead.caller, now, seconds, lambda tx: keys_of_lead(tx, lead))
        except (DealerUnknown, TokenRevoked, RateLimited):
            self._on_result("refused")
            raise
        except (InternalError, StorageError):
            self._on_result("failed")
            raise
        self._on_result(_result_of(answer))
        self._on_stored()
        if isinstance(answer, ProtocolError):
            raise answer
        return answer

    async def write(
        self, function: WriteFunction[Result], caller: Caller, now: datetime, seconds: float, seeks: Seeks | None = None
    ) -> Result:
        """The result of a write that a request needs, when it is durable. Raises as `submit` and as `function`.

        A write that waits for the database for `seconds` is cancelled. `seeks` returns the keys that it looks for.
        """
        try:
            submitted = self._writer.submit(
                self._context.profile.id, function, now, Buyer(caller.token_id), seeks=seeks
            )
            return await _in_time(submitted, seconds)
        except QueueFull:
            raise RateLimited(
                RETRY_SECONDS,
                because="Too many requests wait for the dealer's database. This one was not stored: send it again.",
            ) from None
        except DealerBlocked as failure:
            structlog.get_logger().error("request not stored", dealer=self._context.profile.id, problem=str(failure))
            raise InternalError(NOT_STORED) from None

    def write_of_lead(
        self, lead: PreparedLead, catalogue: Catalogue, now: datetime
    ) -> WriteFunction[SkillResult | ProtocolError]:
        """The function that stores a lead. Raises ProtocolError for a lead to refuse, if it has no idempotency key."""
        accepted = accept_lead(lead, catalogue, now) if lead.request.idempotency_key is UNSET else None
        return lambda tx: LeadTransaction(tx, self._context, catalogue, lead, accepted).store()

    def change_visit(
        self, change: Callable[[VisitChanges], VisitChange], *, notify: bool, now: datetime
    ) -> VisitChange:
        """Changes a visit for the staff. With `notify`, its customer, its CRMs and its staff are notified. Blocks.

        Raises ChangeRefused and StorageError.
        """

        changed = self._writer.submit(
            self._context.profile.id, lambda tx: change(VisitChanges(tx, self._context, notify)), now
        ).result()
        self._on_stored()
        return changed

    async def write_for_staff(
        self, work: Callable[[Transaction, IntakeContext], Result], now: datetime, seconds: float
    ) -> Result:
        """Does what a person of the dealer decided, in one transaction under the dealer's lock.

        Raises the errors of `work`, StorageError, and TimeoutError after `seconds`: then it may be stored.
        """
        stored = self._writer.submit(self._context.profile.id, lambda tx: work(tx, self._context), now)
        result = await result_in_time(stored, seconds)
        self._on_stored()
        return result

    async def write_for_sender(
        self, work: Callable[[Transaction, IntakeContext], Result], caller: Caller, now: datetime, seconds: float
    ) -> Result:
        """Changes a lead for the caller that has sent it. Raises as `write`."""
        result = await self.write(lambda tx: work(tx, self._context), caller, now, seconds)
        self._on_stored()
        return result

    def for_customers(self, store: Store) -> CustomerActions:
        """The actions behind the links in mails."""
        return CustomerActions(self._context, store, self._writer, self._on_stored)

    def note_refused(self, code: str, at: datetime) -> None:
        """Stores the code and the time of a refused lead, without waiting for it. A failure is logged."""
        self._on_result("refused")
        try:
            noted = self._writer.submit(self._context.profile.id, lambda tx: record_refusal(tx, code), at)
        except (StoreClosed, QueueFull) as failure:
            _log_lost_refusal(code, failure)
        else:
            noted.add_done_callback(lambda done: _log_lost_refusal(code, done.exception()))


class _Receipt(Struct):
    status: LeadStatus


def _result_of(answer: SkillResult | ProtocolError) -> str:
    """What became of a lead that was answered. With an error, it was stored without a time for its visit."""
    if isinstance(answer, ProtocolError):
        return "accepted"
    if answer.is_repeated:
        return "repeated"
    receipt = msgspec.json.decode(answer.data, type=_Receipt)
    return "duplicate" if receipt.status == DUPLICATE else "accepted"


async def _in_time(stored: Future[Result], seconds: float) -> Result:
    """The result of the lead writer. After `seconds` the write is cancelled, unless it has begun: then waits again."""
    waiting = asyncio.wrap_future(stored)
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.shield(waiting)
    except TimeoutError:
        if stored.cancel():
            raise InternalError(NOT_STORED) from None
    except asyncio.CancelledError:
        stored.cancel()
        raise
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.shield(waiting)
    except TimeoutError:
        raise InternalError(
            "The dealer's database is slow. The request may have been stored: send the same one again, with the same "
            "idempotency_key."
        ) from None


def _log_lost_refusal(code: str, failure: BaseException | None) -> None:
    if failure is not None:
        # A refusal has no personal data, and the text of a StorageError has no data of the statement.
        structlog.get_logger().error("refusal not stored", code=code, error=type(failure).__qualname__)
