"""The report of the last month is mailed once, by one process, also after failures and a late start."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.acceptance.running import eventually
from tests.delivery.receivers import NOBODY, MailReceiver, always, receiving_mail
from tests.installation.platform import DEALERS, INSTALLATION_TOML, add, make_installation, run_installation
from tests.server.conftest import stocked  # noqa: F401 - a fixture
from tests.server.dealership import NO_LIMITS, run_dealership, set_up
from tests.storage.samples import DEALER, MONDAY, NO_NOTICES, import_rows, row

from dealer_agent.config import load_settings
from dealer_agent.config.settings import MailSettings
from dealer_agent.delivery.attempt import NotDelivered
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.jobs.loop import pause_after
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.reports.monthly_mail import MonthlyMail, monthly_reports
from dealer_agent.storage.daily_counts import add_counts
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("the monthly report")

APRIL_1 = datetime(2026, 4, 1, 12, tzinfo=UTC)
"""The report of March is due: it is 7:00 in Chicago."""
SENDER = "reports@dealer.example.com"
TO = ("owner@example.com", "sales@example.com")


@pytest.fixture
def receiver() -> Iterator[MailReceiver]:
    with receiving_mail(MailReceiver(always("take"))) as running:
        yield running


def monthly_mail(store: Store, port: int) -> MonthlyMail:
    settings = MailSettings(host="127.0.0.1", port=port, security="none", from_address=SENDER, timeout_seconds=120)
    return MonthlyMail(store, NO_NOTICES, MailServer(settings, NO_NOTICES.name), TO)


def send(mail: MonthlyMail, now: datetime, last: str | None = None) -> str | None:
    return asyncio.run(mail.send_due(now, last))


def test_the_report_of_a_month_is_mailed_once(store: Store, receiver: MailReceiver) -> None:
    import_rows(store, [row("V1")])
    mail = monthly_mail(store, receiver.port)
    assert send(mail, APRIL_1) == "2026-03"
    (taken,) = receiver.taken
    assert taken.message["Subject"] == "What AI agents asked Ridgeline Motors in March 2026"
    assert send(mail, APRIL_1 + timedelta(days=9), "2026-03") is None
    assert send(mail, datetime(2026, 5, 1, 12, tzinfo=UTC), "2026-03") == "2026-04"
    assert len(receiver.taken) == 2


def test_a_service_that_was_off_for_long_mails_the_last_month_only(store: Store, receiver: MailReceiver) -> None:
    import_rows(store, [row("V1")])
    assert send(monthly_mail(store, receiver.port), datetime(2026, 8, 20, tzinfo=UTC)) == "2026-07"
    assert len(receiver.taken) == 1


def test_a_dealer_who_is_new_gets_no_report_of_the_time_before(store: Store, receiver: MailReceiver) -> None:
    import_rows(store, [row("V1")], at=APRIL_1)
    mail = monthly_mail(store, receiver.port)
    assert send(mail, APRIL_1 + timedelta(days=1)) is None
    with store.write(DEALER) as tx:
        add_counts(tx, date(2026, 3, 31), {"requests": {"inventory.search OK": 1}})
    assert send(mail, APRIL_1 + timedelta(days=1)) == "2026-03", "agents asked, though nothing was in stock"


def test_a_report_that_the_mail_server_does_not_take_is_tried_again_later_and_later(
    store: Store, tmp_path: Path
) -> None:
    import_rows(store, [row("V1")])
    with pytest.raises(NotDelivered):
        send(monthly_mail(store, NOBODY), APRIL_1)
    kind = monthly_reports(OpenInstallation(make_installation(tmp_path), store), {})
    hours = [
        pause_after(attempts, kind.first_pause, kind.longest_pause) / timedelta(hours=1) for attempts in range(1, 8)
    ]
    assert hours == [1, 2, 4, 8, 16, 24, 24]


def sections(port: int) -> str:
    """The settings of a mail server, and of a monthly report."""
    mail = f'host = "127.0.0.1"\nport = {port}\nsecurity = "none"\nfrom_address = "{SENDER}"\n'
    return f'\n[mail]\n{mail}\n[reports]\nmonthly = true\nmail = ["{TO[0]}"]\n'


def ask(store: Store, dealer_id: str) -> None:
    """A request of an earlier month, so that there is a report."""
    with store.write(dealer_id) as tx:
        add_counts(tx, MONDAY.date(), {"requests": {"inventory.search OK": 1}})


def sent_reports(store: Store, dealer_id: str) -> int:
    with store.read(dealer_id) as tx:
        found = tx.connection.execute(
            text("SELECT count(*) FROM jobs WHERE dealer_id = :dealer AND kind = 'report' AND result IS NOT NULL"),
            {"dealer": dealer_id},
        )
        return int(found.scalar_one())


def test_the_running_service_mails_the_report(tmp_path: Path, stocked: Path, receiver: MailReceiver) -> None:  # noqa: F811
    set_up(tmp_path, NO_LIMITS + sections(receiver.port), stocked=stocked)
    settings = load_settings(tmp_path, {})
    with Store.open(settings.database_url, settings.cipher) as store:
        ask(store, "test-motors")
        with run_dealership(tmp_path):
            eventually("a report that was sent", lambda: sent_reports(store, "test-motors"))
    (taken,) = receiver.taken
    assert taken.message["To"] == TO[0]


def test_a_service_of_many_dealers_mails_the_report_of_each(tmp_path: Path, receiver: MailReceiver) -> None:
    made = make_installation(tmp_path / "installation", INSTALLATION_TOML + sections(receiver.port))
    for dealer_id in DEALERS:
        add(made, dealer_id)
    add(made, "quiet-motors", more="[reports]\nmonthly = false\n")
    with Store.open(made.database_url, made.cipher, many_dealers=True) as store:
        for dealer_id in (*DEALERS, "quiet-motors"):
            ask(store, dealer_id)
        with run_installation(made):
            eventually("the reports", lambda: all(sent_reports(store, dealer_id) for dealer_id in DEALERS))
        assert sent_reports(store, "quiet-motors") == 0
    assert {taken.message["From"].addresses[0].display_name for taken in receiver.taken} == {
        "North Motors",
        "South Motors",
    }
