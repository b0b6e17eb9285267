"""Connects the monthly report with the dealer's mail server."""

from collections.abc import Mapping
from datetime import UTC, datetime

import structlog

from dealer_agent.config import Settings
from dealer_agent.delivery.failures import NotDelivered
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.reports.monthly_mail import MonthlyMail
from dealer_agent.storage.store import Store

log = structlog.get_logger()


async def send_monthly_report(store: Store, settings: Settings, secrets: Mapping[str, str]) -> None:
    """Mails the report of the last month if the dealer wants it and it is due. A failure is logged and tried again.

    `secrets` has the user and the password of the mail server, by the names of the settings. Raises StorageError.
    """
    reports, mail = settings.reports, settings.mail
    if not reports.monthly or not mail.host:
        return
    server = MailServer(mail, settings.dealer.name, secrets.get(mail.user_env), secrets.get(mail.password_env))
    due = MonthlyMail(store, settings.dealer, mail.from_address, reports.mail, server.send)
    try:
        sent = await due.send_due(datetime.now(UTC))
    except NotDelivered as failure:
        log.error("monthly report not sent", dealer=settings.dealer.id, problem=failure.problem)
    else:
        if sent is not None:
            log.info("monthly report sent", dealer=settings.dealer.id, month=sent)
