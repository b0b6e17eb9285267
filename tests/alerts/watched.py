"""A dealer that is watched: a store on each database, and receivers of alerts that are real servers."""

import asyncio
import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import create_engine, update
from tests.delivery.receivers import HttpReceiver, MailReceiver, always, receiving_http, receiving_mail
from tests.storage.calls import lock_at, read
from tests.storage.samples import DEALER, storing

from dealer_agent.alerts import checking
from dealer_agent.alerts.checking import Watch, run_check, send_due
from dealer_agent.alerts.receivers import receivers_of
from dealer_agent.alerts.texts import Sender
from dealer_agent.config.alert_settings import AlertSettings
from dealer_agent.config.settings import MailSettings
from dealer_agent.dealers.routing import NewDelivery
from dealer_agent.outgoing.addresses import ANY_ADDRESS, AddressRule
from dealer_agent.storage.alerts import AlertState, DueMessage, read_alerts
from dealer_agent.storage.database_url import database_url as parsed_url
from dealer_agent.storage.outbox import enqueue
from dealer_agent.storage.schema import outbox
from dealer_agent.storage.store import Store

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
ENV = {"DEALER_AGENT_ALERTS_SECRET": SECRET}
OWNER = "owner@dealer.example.com"
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def make_watch(
    folder: Path,
    mail_port: int,
    webhook_url: str = "",
    *,
    owner: str = DEALER,
    machine: bool = False,
    rule: AddressRule = ANY_ADDRESS,
    **settings: Any,
) -> Watch:
    """A watch whose mails go to a port of this machine."""
    alerts = AlertSettings(mail=(OWNER,), webhook_url=webhook_url, **settings)
    mail = MailSettings(host="127.0.0.1", port=mail_port, security="none", from_address="store@dealer.example.com")
    sender = Sender(owner, "Ridgeline Motors", "America/Chicago", "dealer.toml")
    return Watch(owner, alerts, receivers_of(alerts, mail, sender, ENV, rule), folder, shares_machine=machine)


def claim_messages(store: Store, watch: Watch, now: datetime) -> list[DueMessage]:
    """Claims the due messages, like a process that dies before it sends them."""
    claimed = [checking._claim(store, watch, message, now) for message in checking._due(store, watch, now)]
    return [message for message in claimed if message is not None]


@dataclass
class Watched:
    """The dealer, its receivers, and a process that checks it."""

    url: str
    store: Store
    folder: Path
    mail: MailReceiver
    hook: HttpReceiver
    settings: dict[str, Any] = field(default_factory=dict)

    def watch(self, **settings: Any) -> Watch:
        return make_watch(self.folder, self.mail.port, self.hook.url, **{**self.settings, **settings})

    def check(self, now: datetime, **settings: Any) -> bool:
        """A check of a process, and what it sends."""
        watch = self.watch(**settings)
        done = run_check(self.store, watch, now, now + MINUTE)
        if done:
            asyncio.run(send_due(self.store, watch, now))
        return done

    def subjects(self) -> list[str]:
        """The subjects of the mails that arrived."""
        return [str(mailed.message["Subject"]).strip().removeprefix("Ridgeline Motors: ") for mailed in self.mail.taken]

    def text(self) -> str:
        """The text of the newest mail."""
        body = self.mail.taken[-1].message.get_body()
        assert body is not None
        return str(body.get_content())

    def posted(self) -> list[dict[str, Any]]:
        """The documents that the webhook got."""
        return [msgspec.json.decode(each.body) for each in self.hook.taken]

    def states(self) -> list[AlertState]:
        return read(self.store, DEALER, read_alerts)

    def add_delivery(self, at: datetime, lead_id: str = "L1", channel: str = "crm") -> None:
        """A lead with a delivery that waits since then."""
        lock_at(at, self.store, DEALER, lambda tx: storing(lead_id, at)(tx))
        lock_at(at, self.store, DEALER, enqueue, lead_id, [NewDelivery("lead", "Ridgeline North", channel)])

    def set_deliveries(self, **values: Any) -> None:
        """Changes all deliveries."""
        engine = create_engine(parsed_url(self.url))
        with engine.begin() as connection:
            connection.execute(update(outbox).values(values))
        engine.dispose()


@contextmanager
def watching(url: str, store: Store, folder: Path) -> Iterator[Watched]:
    """The dealer for a block. Its receivers take everything."""
    mail, hook = MailReceiver(always("take")), HttpReceiver(always("take"))
    with receiving_mail(mail), receiving_http(hook):
        yield Watched(url, store, folder, mail, hook)
