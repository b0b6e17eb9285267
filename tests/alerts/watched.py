"""A dealer that is watched: a store on each database, and receivers of alerts that are real servers."""

import asyncio
import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import create_engine, update
from tests.delivery.receivers import HttpReceiver, MailReceiver, always, receiving_http, receiving_mail
from tests.storage.calls import lock_at, read, write_at
from tests.storage.samples import DEALER, storing

from dealer_agent.alerts.checking import Watch, run_check
from dealer_agent.alerts.jobs import AlertJobs
from dealer_agent.alerts.receivers import receivers_of
from dealer_agent.alerts.texts import Sender
from dealer_agent.config.alert_settings import AlertSettings
from dealer_agent.config.settings import MailSettings
from dealer_agent.dealers.routing import NewDelivery
from dealer_agent.jobs.loop import JobLoop
from dealer_agent.outgoing.addresses import ANY_ADDRESS, AddressRule
from dealer_agent.pasted_commands import Where
from dealer_agent.storage.alerts import ALERT_CHECK, MESSAGE_KINDS, AlertState, read_alerts
from dealer_agent.storage.database_url import database_url as parsed_url
from dealer_agent.storage.deliveries.outbox import enqueue
from dealer_agent.storage.jobs import Job, begin_jobs, claim_job, find_due_jobs, finish_job
from dealer_agent.storage.schema import outbox
from dealer_agent.storage.store import Store

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
ENV = {"DEALER_AGENT_ALERTS_SECRET": SECRET}
OWNER = "owner@dealer.example.com"
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
EARLIER = datetime(2020, 1, 1, tzinfo=UTC)


def make_watch(
    folder: Path,
    mail_port: int,
    webhook_url: str = "",
    *,
    owner: str = DEALER,
    machine: bool = False,
    rule: AddressRule = ANY_ADDRESS,
    where: Where = Where(),  # noqa: B008 - it never changes.
    **settings: Any,
) -> Watch:
    """A watch whose mails go to a port of this machine."""
    alerts = AlertSettings(mail=(OWNER,), webhook_url=webhook_url, **settings)
    mail = MailSettings(host="127.0.0.1", port=mail_port, security="none", from_address="store@dealer.example.com")
    sender = Sender(owner, "Ridgeline Motors", "America/Chicago", "dealer.toml", where)
    return Watch(owner, alerts, receivers_of(alerts, mail, sender, ENV, rule), folder, shares_machine=machine)


def do_jobs(store: Store, watch: Watch, now: datetime) -> None:
    """Does the checks that are due, and sends the messages, like a process."""
    asyncio.run(JobLoop(store, AlertJobs(store, lambda _: watch).kinds, watch.owner, clock=lambda: now).run_due())


def claim_check(store: Store, owner: str, now: datetime) -> Job | None:
    """Claims the check of an owner if it is due."""
    return write_at(now, store, owner, claim_job, ALERT_CHECK, "", 2 * MINUTE)


def check_without_sending(store: Store, watch: Watch, now: datetime) -> bool:
    """A check of a process that dies before it sends. False if it is not due."""
    job = claim_check(store, watch.owner, now)
    if job is None:
        return False
    run_check(store, watch, job)
    write_at(now, store, watch.owner, finish_job, job, now + MINUTE, 0, None)
    return True


def claim_messages(store: Store, owner: str, now: datetime) -> list[Job]:
    """Claims the jobs of due messages, like a process that dies before it sends them."""
    found: list[Job | None] = []
    for kind in MESSAGE_KINDS.values():
        with store.read(owner) as tx:
            due = find_due_jobs(tx, now, kind, 2 * HOUR, 99, 99)
        found += [write_at(now, store, owner, claim_job, kind, key.subject, 2 * HOUR) for key in due]
    return [job for job in found if job is not None]


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
        """What a process does at `now`. Returns whether the check was due."""
        with self.store.read(DEALER) as tx:
            is_due = bool(find_due_jobs(tx, now, ALERT_CHECK, 2 * MINUTE, 1, 1))
        do_jobs(self.store, self.watch(**settings), now)
        return is_due

    def subjects(self) -> list[str]:
        """The subjects of the mails that arrived."""
        return [str(mailed.message["Subject"]).strip().removeprefix("Ridgeline Motors: ") for mailed in self.mail.taken]

    def text(self, number: int = -1) -> str:
        """The text of a mail, by default of the newest one."""
        body = self.mail.taken[number].message.get_body()
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
    write_at(EARLIER, store, DEALER, begin_jobs, [ALERT_CHECK])
    with receiving_mail(mail), receiving_http(hook):
        yield Watched(url, store, folder, mail, hook)
