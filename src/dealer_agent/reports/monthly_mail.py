"""The job that mails the report of the last month, once, through the dealer's own mail server.

If its process stops before it has stored the result, another one mails the report again: it is never lost.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from dealer_agent.dealers.profile import Profile
from dealer_agent.delivery.attempt import NotDelivered
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.jobs.loop import JobResult, Kind, maintenance_period
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.reports.month import Month
from dealer_agent.reports.rendering import render_mail
from dealer_agent.reports.report import read_report
from dealer_agent.storage.daily_counts import first_day
from dealer_agent.storage.jobs import Job
from dealer_agent.storage.leads.monthly_reports import first_import
from dealer_agent.storage.store import Store

log = structlog.get_logger()

SEND_AFTER = timedelta(hours=6)
"""How long after the end of a month, in the dealer's time zone, its report is due."""


@dataclass(frozen=True)
class MonthlyMail:
    """The monthly mail of one dealer to the addresses `to`."""

    store: Store
    profile: Profile
    server: MailServer
    to: tuple[str, ...]

    async def send_due(self, now: datetime, last: str | None) -> str | None:
        """Mails the report that is due, unless it is that of the month `last`. Returns its month, or None.

        Raises StorageError and NotDelivered.
        """
        month = due_month(now, self.profile.timezone)
        mail = None if str(month) == last else await asyncio.to_thread(self._mail, month, now)
        if mail is None:
            return None
        await self.server.send(mail, self.to)
        return str(month)

    def _mail(self, month: Month, now: datetime) -> bytes | None:
        """The mail; None if the service was not in use in that month."""
        with self.store.read(self.profile.id, now) as tx:
            started, counted = first_import(tx), first_day(tx)
            is_older = started is not None and started < month.end(self.profile.timezone)
            if not is_older and (counted is None or counted > month.last_day):
                return None
            report = read_report(tx, self.profile, month)
        return render_mail(report, self.server.settings.from_address, self.to, now)


def due_month(now: datetime, zone: str) -> Month:
    """The newest month whose report is due."""
    return Month.of(now - SEND_AFTER, zone).previous


def monthly_reports(opened: OpenInstallation, secrets: Mapping[str, str]) -> Kind:
    """The job that mails the report of the last month to each dealer that wants it. Its result is the month.

    `secrets` has the user and the password of the mail server, by the names of the settings.
    """

    async def send(job: Job) -> JobResult:
        """Sends the monthly report of a dealer if it is due. Returns when to look again."""
        settings = await asyncio.to_thread(opened.settings_of, job.dealer_id)
        reports, mail = settings.reports, settings.mail
        later = JobResult(job.now + maintenance_period(opened.count()))
        if not reports.monthly or not mail.host:
            return later
        server = MailServer.of(mail, settings.dealer.name, secrets)
        due = MonthlyMail(opened.store, settings.dealer, server, reports.mail)
        try:
            sent = await due.send_due(job.now, job.result)
        except NotDelivered as failure:
            log.error("monthly report not sent", dealer=job.dealer_id, problem=failure.problem)
            return JobResult(None, failed=True)
        if sent is not None:
            log.info("monthly report sent", dealer=job.dealer_id, month=sent)
        return later._replace(result=sent)

    return Kind("report", send, first_pause=timedelta(hours=1), longest_pause=timedelta(days=1), is_recurring=True)
