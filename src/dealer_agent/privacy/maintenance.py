"""The maintenance of a dealer, in jobs.

Old data is deleted, the heads of event chains are recorded, and units that were held back too long leave the stock.
Answers of people to questions of the MCP server are deleted if nobody read them in time.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog

from dealer_agent.dealers.profile import erase_before, purge_before
from dealer_agent.feeds.staging.staged_files import delete_old_staged
from dealer_agent.jobs.loop import JobResult, Kind, maintenance_period
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.privacy.chain_heads import HEADS_SECONDS, record_heads, repair_withdrawals
from dealer_agent.storage.jobs import Job
from dealer_agent.storage.mcp_answers import MCP_ANSWER
from dealer_agent.storage.offers import delete_old_offers
from dealer_agent.storage.privacy.erasure import dispose, purge
from dealer_agent.storage.stock.held_units import HELD
from dealer_agent.storage.stock.recorded_replies import prune_replies
from dealer_agent.storage.stock.recorded_units import prune_record
from dealer_agent.storage.stock.stock_changes import remove_due

log = structlog.get_logger()


async def _remove_answer(_: Job) -> JobResult:
    """Removes the answer to a question of the MCP server that nobody has read in time: the job is the row itself."""
    return JobResult(None)


@dataclass(frozen=True)
class Maintenance:
    """The maintenance of the dealers of a process. A dealer is not opened for it."""

    opened: OpenInstallation

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of jobs."""
        return (
            Kind("disposal", self._delete_old_data, is_recurring=True),
            Kind("heads", self._record_heads, is_recurring=True),
            Kind(HELD, self._remove_held),
            # Also of a disabled dealer: the answer is data of a customer.
            Kind(MCP_ANSWER, _remove_answer, of_disabled=True),
        )

    async def _delete_old_data(self, job: Job) -> JobResult:
        """Deletes what is older than the dealer's settings allow.

        `dispose` erases customers. `purge` deletes refusals, accesses, counts and the responses stored for idempotency
        keys. `prune_record` and `prune_replies` delete what is recorded of old stock and replies.
        """
        store, dealer_id, now = self.opened.store, job.dealer_id, job.now
        settings = await asyncio.to_thread(self.opened.settings_of, dealer_id)
        privacy, keep_days = settings.dealer.privacy, settings.record.keep_days
        remember_days = settings.dealer.policies.remember_sold_days
        for delete in (
            partial(purge, store, dealer_id, now=now, **purge_before(privacy, now)),
            partial(prune_record, store, dealer_id, now=now, keep_days=keep_days, remember_days=remember_days),
            partial(prune_replies, store, dealer_id, now=now, keep_days=keep_days),
            partial(delete_old_staged, settings.folder, now),
        ):
            await asyncio.to_thread(delete)
        done = await asyncio.to_thread(partial(dispose, store, dealer_id, now=now, **erase_before(privacy, now)))
        await asyncio.to_thread(self._delete_old_offers, dealer_id, now)
        if any(done):
            log.info("old customer data forgotten", leads=done.leads, consents=done.consents)
        return JobResult(now + maintenance_period(self.opened.count()))

    def _delete_old_offers(self, dealer_id: str, now: datetime) -> None:
        with self.opened.store.write(dealer_id, now) as tx:
            delete_old_offers(tx)

    async def _remove_held(self, job: Job) -> JobResult:
        """Removes the units that kept their last good facts for a day."""
        return JobResult(await asyncio.to_thread(remove_due, self.opened.store, job.dealer_id, job.now))

    async def _record_heads(self, job: Job) -> JobResult:
        await asyncio.to_thread(self._check_and_record, job.dealer_id, job.now)
        return JobResult(job.now + timedelta(seconds=HEADS_SECONDS))

    def _check_and_record(self, dealer_id: str, now: datetime) -> None:
        """Checks and repairs the table of withdrawals. Records the heads of the chains outside the database."""
        settings = self.opened.settings_of(dealer_id)
        settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            repair_withdrawals(self.opened.store, settings.dealer, now)
        finally:
            record_heads(self.opened.store, dealer_id, settings.heads_file, now)
