"""Mails the report of the last month, once. It is a job, so one process does it.

If that process stops before it has stored the result, another one mails the report again: it is never lost.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dealer_agent.dealers.profile import Profile
from dealer_agent.reports.month import Month
from dealer_agent.reports.rendering import render_mail
from dealer_agent.reports.report import read_report
from dealer_agent.storage.daily_counts import first_day
from dealer_agent.storage.leads.monthly_reports import first_import
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

    async def send_due(self, now: datetime, last: str | None) -> str | None:
        """Mails the report that is due, unless it is that of the month `last`. Returns its month, or None.

        Raises StorageError, and what `send` raises.
        """
        month = due_month(now, self.profile.timezone)
        mail = None if str(month) == last else await asyncio.to_thread(self._mail, month, now)
        if mail is None:
            return None
        await self.send(mail, self.to)
        return str(month)

    def _mail(self, month: Month, now: datetime) -> bytes | None:
        """The mail; None if the service was not in use in that month."""
        with self.store.read(self.profile.id, now) as tx:
            started, counted = first_import(tx), first_day(tx)
            is_older = started is not None and started < month.end(self.profile.timezone)
            if not is_older and (counted is None or counted > month.last_day):
                return None
            report = read_report(tx, self.profile, month)
        return render_mail(report, self.sender, self.to, now)


def due_month(now: datetime, zone: str) -> Month:
    """The newest month whose report is due."""
    return Month.of(now - SEND_AFTER, zone).previous
