"""Receivers of alerts that do not answer: those of other dealers and of the operator get theirs."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.alerts.watched import DAY, make_watch
from tests.delivery.receivers import HttpReceiver, MailReceiver, always, receiving_http, receiving_mail
from tests.installation.platform import add, make_installation
from tests.storage.calls import read, write_at

from dealer_agent.alerts.checking import Watch
from dealer_agent.alerts.jobs import MOST_SENDING, AlertJobs
from dealer_agent.jobs import loop
from dealer_agent.jobs.loop import JobLoop
from dealer_agent.storage.alerts import ALERT_CHECK, count_failed_leads, list_messages
from dealer_agent.storage.jobs import begin_jobs
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("alerts")

NOW = datetime(2026, 3, 2, 16, 0, tzinfo=UTC)
OFF = ("clock_wrong", "disk_low", "key_copy_unknown", "database_slow")
LAST = "zz-motors"


def test_receivers_that_hang_delay_no_alert_of_another_dealer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.05)
    hanging = [f"dealer-{number:02}" for number in range(20)]
    installation = make_installation(tmp_path / "installation")
    for dealer_id in (*hanging, LAST):
        add(installation, dealer_id)
    mail, silent, hook = MailReceiver(always("take")), HttpReceiver(always("hang")), HttpReceiver(always("take"))
    with (
        receiving_mail(mail),
        receiving_http(silent),
        receiving_http(hook),
        Store.open(installation.database_url, installation.cipher, many_dealers=True) as store,
    ):

        def find_watch(dealer_id: str) -> Watch:
            url = hook.url if dealer_id == LAST else silent.url
            return make_watch(tmp_path, mail.port, url, owner=dealer_id, off=OFF)

        jobs = JobLoop(store, AlertJobs(store, find_watch, lambda: 60).kinds, clock=lambda: NOW)
        for dealer_id in (*hanging, LAST):
            write_at(NOW, store, dealer_id, count_failed_leads, 1, DAY)
            write_at(NOW, store, dealer_id, begin_jobs, [ALERT_CHECK])

        async def check() -> None:
            sending = asyncio.create_task(jobs.run())
            while not hook.taken or len(mail.taken) <= len(hanging) or silent.connections < len(hanging):
                await asyncio.sleep(0.01)
            waiting = [read(store, dealer_id, list_messages, 9) for dealer_id in hanging]
            assert {each.state for records in waiting for each in records if each.receiver == "webhook"} == {"waiting"}
            sending.cancel()

        asyncio.run(asyncio.wait_for(check(), 120))
    assert silent.connections == len(hanging) <= MOST_SENDING
