"""The job that mails the monthly report of each dealer that wants it, through the dealer's own mail server."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta

import structlog

from dealer_agent.delivery.attempt import NotDelivered
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.jobs.loop import Kind, Next
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.reports.monthly_mail import MonthlyMail
from dealer_agent.server.maintenance import maintenance_period
from dealer_agent.storage.jobs import Job

log = structlog.get_logger()


def monthly_reports(opened: OpenInstallation, secrets: Mapping[str, str]) -> Kind:
    """The job that mails the report of the last month to each dealer that wants it. Its result is the month.

    `secrets` has the user and the password of the mail server, by the names of the settings.
    """

    async def send(job: Job) -> Next:
        settings = await asyncio.to_thread(opened.settings_of, job.dealer_id)
        reports, mail = settings.reports, settings.mail
        later = Next(job.now + maintenance_period(opened.count()))
        if not reports.monthly or not mail.host:
            return later
        server = MailServer(mail, settings.dealer.name, secrets.get(mail.user_env), secrets.get(mail.password_env))
        due = MonthlyMail(opened.store, settings.dealer, mail.from_address, reports.mail, server.send)
        try:
            sent = await due.send_due(job.now, job.result)
        except NotDelivered as failure:
            log.error("monthly report not sent", dealer=job.dealer_id, problem=failure.problem)
            return Next(None, failed=True)
        if sent is not None:
            log.info("monthly report sent", dealer=job.dealer_id, month=sent)
        return later._replace(result=sent)

    return Kind("report", send, first_pause=timedelta(hours=1), longest_pause=timedelta(days=1), is_lasting=True)
