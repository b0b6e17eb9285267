"""Mails the report of the last month, once: when it is due, one process claims it (`storage.monthly_reports`)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dealer_agent.dealers.profile import Profile
from dealer_agent.reports.month import Month
from dealer_agent.reports.rendering import render_mail
from dealer_agent.reports.report import read_report
from dealer_agent.storage.daily_counts import first_day
from dealer_agent.storage.monthly_reports import claim_report, first_import, record_sent
from dealer_agent.storage.store import Store

SEND_AFTER = timedelta(hours=6)
"""How long after the end of a month, in the dealer's time zone, its report is due."""

SendMail = Callable[[bytes, tuple[str, ...]], Awaitable[object]]
"""Sends a mail to these addresses. Raises an error if the mail server does not accept it."""


@dataclass(frozen=True)
class MonthlyMail:
    """The monthly mail of one dealer, from `sender` to the addresses `to`."""

    store: Store
    profile: Profile
    sender: str
    to: tuple[str, ...]
    send: SendMail

    async def send_due(self, now: datetime) -> str | None:
        """Mails the report that is due. Returns its month; None if none is due.

        Raises StorageError, and what `send` raises; then a later call tries again.
        """
        month = due_month(now, self.profile.timezone)
        mail = await asyncio.to_thread(self._claim, str(month), now)
        if mail is None:
            return None
        await self.send(mail, self.to)
        await asyncio.to_thread(self._record, str(month), now)
        return str(month)

    def _claim(self, text: str, now: datetime) -> bytes | None:
        """The mail, if this process is the one that sends it."""
        month, dealer_id = Month.parse(text), self.profile.id
        with self.store.read(dealer_id, now) as tx:
            started, counted = first_import(tx), first_day(tx)
        is_older = started is not None and started < month.end(self.profile.timezone)
        if not is_older and (counted is None or counted > month.last_day):
            return None  # The service was not in use in that month.
        with self.store.write(dealer_id, now) as tx:
            if not claim_report(tx, text):
                return None
        with self.store.read(dealer_id, now) as tx:
            report = read_report(tx, self.profile, month)
        return render_mail(report, self.sender, self.to, now)

    def _record(self, month: str, now: datetime) -> None:
        with self.store.write(self.profile.id, now) as tx:
            record_sent(tx, month)


def due_month(now: datetime, zone: str) -> Month:
    """The newest month whose report is due."""
    return Month.of(now - SEND_AFTER, zone).previous
