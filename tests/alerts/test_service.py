"""The running service sends alerts: of one dealer, and of an installation whose dealers and operator get their own."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import update
from tests.acceptance.running import command_here, eventually
from tests.delivery.receivers import MailReceiver, always, receiving_mail
from tests.installation.platform import INSTALLATION_TOML, add, make_installation, run_installation
from tests.server.dealership import DATABASE, NO_LIMITS, message, run_dealership, set_up
from tests.storage.calls import read, write, write_at
from tests.storage.service_role import prepared_schema

from dealer_agent.alerts import jobs, machine
from dealer_agent.config import SettingsError
from dealer_agent.config.installation import Installation
from dealer_agent.jobs import loop
from dealer_agent.storage.alerts import ALERT_CHECK, count_failed_leads, list_messages
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.jobs import find_due_jobs
from dealer_agent.storage.schema import vault_key_uses
from dealer_agent.storage.statements import of_dealer
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

pytestmark = pytest.mark.outside_protocol("alerts")

NORTH, SOUTH, WEST = "north-motors", "south-motors", "west-motors"
OWNER, NORTH_OWNER, SOUTH_OWNER, OPERATOR = (
    f"{name}@dealer.example.com" for name in ("owner", "north", "south", "operator")
)
OF_THE_MACHINE = '["disk_low", "clock_wrong", "database_slow"]'
"""Alerts about the machine of the tests."""
MAIL = '\n[mail]\nhost = "127.0.0.1"\nport = {port}\nsecurity = "none"\nfrom_address = "store@dealer.example.com"\n'


@pytest.fixture
def mail() -> Iterator[MailReceiver]:
    with receiving_mail(MailReceiver(always("take"))) as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "FIRST_STEP_SECONDS", 0.05)
    monkeypatch.setattr(machine, "STEP_SECONDS", 0.05)
    monkeypatch.setattr(jobs, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(jobs, "SECONDS_A_DEALER", 0.05)
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.05)


def subjects(mail: MailReceiver) -> set[tuple[str, str]]:
    return {(mailed.recipients[0], str(mailed.message["Subject"]).strip()) for mailed in mail.taken}


def test_a_lead_that_cannot_be_stored_causes_an_alert_of_the_dealer(tmp_path: Path, mail: MailReceiver) -> None:
    # Many units of the test's stock have the same price, which is a warning about the feed.
    alerts = f'[alerts]\nmail = ["{OWNER}"]\noff = ["feed_warned", {OF_THE_MACHINE[1:]}\n'
    set_up(tmp_path, NO_LIMITS + MAIL.format(port=mail.port) + alerts)
    with run_dealership(tmp_path) as dealership, closing(sqlite3.connect(tmp_path / DATABASE, timeout=30)) as database:
        database.execute("CREATE TRIGGER full BEFORE INSERT ON leads BEGIN SELECT RAISE(ABORT, 'full'); END")
        assert dealership.post(message("lead.submit")).status_code == 500
        eventually("the alert is sent", lambda: mail.taken)
        assert dealership.app.dealers.process.failed_leads == {}
        database.execute("DROP TRIGGER full")
    ((recipient, subject),) = subjects(mail)
    assert recipient == OWNER
    assert subject.startswith("Test Motors: 1 lead could not be stored, the last one at ")


@pytest.mark.parametrize(
    ("alerts", "problem"),
    [
        ('mail = ["owner@example.com"]', "line [0-9]+: alerts.mail: needs a mail server"),
        ('webhook_url = "https://example.com/"', "line [0-9]+: alerts.webhook_secret_env: the environment variable"),
    ],
)
def test_a_service_whose_alerts_cannot_be_sent_does_not_start(tmp_path: Path, alerts: str, problem: str) -> None:
    set_up(tmp_path, f"{NO_LIMITS}\n[alerts]\n{alerts}\n")
    done = command_here("serve", "--dir", tmp_path)
    assert done.returncode == 1
    assert re.search(problem, done.stderr)


@pytest.fixture(params=["sqlite", "postgresql"])
def installation(request: pytest.FixtureRequest, tmp_path: Path, mail: MailReceiver) -> Iterator[Installation]:
    """Three dealers on each database. The last one has no receivers."""
    operator = f'[installation.alerts]\nmail = ["{OPERATOR}"]\noff = ["public_address_failing", {OF_THE_MACHINE[1:]}\n'
    with ExitStack() as closing:
        env = {}
        if request.param == "postgresql":
            schemas = prepared_schema(request.getfixturevalue("postgresql_server"))
            _, env["DATABASE_URL"] = closing.enter_context(schemas)
        made = make_installation(
            tmp_path / "installation", INSTALLATION_TOML + operator + MAIL.format(port=mail.port), env
        )
        add(made, NORTH, more=f'[alerts]\nmail = ["{NORTH_OWNER}"]\n')
        add(made, SOUTH, more=f'[alerts]\nmail = ["{SOUTH_OWNER}"]\n')
        add(made, WEST)
        yield made


@pytest.fixture
def store(installation: Installation) -> Iterator[Store]:
    with Store.open(installation.database_url, installation.cipher, many_dealers=True) as opened:
        yield opened


def set_age_of_keys(tx: Transaction, since: datetime) -> None:
    tx.execute(update(vault_key_uses).where(of_dealer(vault_key_uses)).values(since=since))


def test_dealers_and_the_operator_get_their_own_alerts(
    installation: Installation, store: Store, mail: MailReceiver
) -> None:
    now = datetime.now(UTC)
    store.check_keys(ALL_DEALERS)
    write(store, ALL_DEALERS, set_age_of_keys, now - timedelta(days=20))
    for dealer_id in (NORTH, WEST):
        write_at(now, store, dealer_id, count_failed_leads, 1, timedelta(days=1))
    with run_installation(installation) as platform:
        eventually("alerts are sent", lambda: len(mail.taken) >= 2)
        eventually("all dealers are checked", lambda: _due(store) <= {NORTH, SOUTH})
        assert platform.app.dealers.opened == {}
    found = {(recipient, subject.partition(", the last")[0]) for recipient, subject in subjects(mail)}
    assert found == {
        (NORTH_OWNER, "North Motors: 1 lead could not be stored"),
        (OPERATOR, "agents.example.com: Nobody has confirmed a copy of the key to customer data"),
    }
    assert [len(read(store, owner, list_messages, 10)) for owner in (NORTH, SOUTH, WEST, ALL_DEALERS)] == [1, 0, 0, 1]


def _due(store: Store) -> set[str]:
    with store.installation() as tx:
        return {key.dealer_id for key in find_due_jobs(tx, tx.now, ALERT_CHECK, timedelta(days=1), 10, 1)}


@pytest.mark.parametrize(
    ("alerts", "problem"),
    [
        ('webhook_url = "https://example.com/"', "such as DEALER_NORTH_MOTORS__ALERTS"),
        ('webhook_secret_env = "DEALER_AGENT_ALERTS_SECRET"', "must name a variable of this dealer"),
        ('webhook_secret_env = "DEALER_NORTH_MOTORS__HOOK"\nwebhook_url = "https://example.com/"', ""),
        ("feed_late_hours = 30", ""),
    ],
)
def test_a_dealer_has_its_own_secret_for_its_own_webhook(tmp_path: Path, alerts: str, problem: str) -> None:
    inherited = '[alerts]\nwebhook_url = "https://operator.example.com/"\nfeed_late_hours = 48\n'
    made = make_installation(tmp_path / "installation", INSTALLATION_TOML + inherited)
    text = f'id = "{NORTH}"\nname = "North"\nfeed_price = "advertised"\n[[rooftops]]\nname = "North"\n'
    text += f'timezone = "America/New_York"\n[alerts]\n{alerts}\n'
    if problem:
        with pytest.raises(SettingsError, match=problem):
            made.dealer_settings(text)
    else:
        settings = made.dealer_settings(text)
        assert settings.alerts.webhook_url
        assert settings.alerts.feed_late_hours == (30 if "feed_late" in alerts else 48)
