"""`dealer-agent alerts` and `keys confirm-copy` as their user sees them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import command_here, succeed_here
from tests.alerts.watched import MINUTE, OWNER, SECRET, check_without_sending
from tests.delivery.receivers import HttpReceiver, MailReceiver, always, receiving_http, receiving_mail
from tests.storage.calls import write_at

from dealer_agent.alerts.watches import watch_of_dealer
from dealer_agent.config import load_settings
from dealer_agent.storage.alerts import ALERT_CHECK, count_failed_leads
from dealer_agent.storage.jobs import begin_jobs
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("alerts")

SETTINGS = """
[mail]
host = "127.0.0.1"
port = {port}
security = "none"
from_address = "store@dealer.example.com"

[alerts]
mail = ["{owner}"]
webhook_url = "{url}"
off = ["disk_low"]
"""


@pytest.fixture
def receivers() -> Iterator[tuple[MailReceiver, HttpReceiver]]:
    with (
        receiving_mail(MailReceiver(always("take"))) as mail,
        receiving_http(HttpReceiver(always("take"))) as hook,
    ):
        yield mail, hook


@pytest.fixture
def folder(tmp_path: Path, receivers: tuple[MailReceiver, HttpReceiver]) -> Path:
    mail, hook = receivers
    return stocked_dealer(tmp_path / "store", SETTINGS.format(port=mail.port, owner=OWNER, url=hook.url))


def run(*words: str | Path) -> str:
    return succeed_here(*words, DEALER_AGENT_ALERTS_SECRET=SECRET)


def run_json(*words: str | Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*words, "--json"))
    return found


def test_a_test_message_goes_to_all_receivers(folder: Path, receivers: tuple[MailReceiver, HttpReceiver]) -> None:
    mail, hook = receivers
    assert run("alerts", "test", "--dir", folder).splitlines() == [
        f"A test was sent to {OWNER}.",
        f"A test was sent to {hook.url}.",
    ]
    (mailed,), (posted,) = mail.taken, hook.taken
    assert mailed.message["Subject"] == "Acceptance Motors: test of the alerts"
    assert "Nothing is wrong" in mailed.raw.decode()
    assert json.loads(posted.body)["type"] == "alerts.test"


def test_a_test_that_fails_says_why(folder: Path, receivers: tuple[MailReceiver, HttpReceiver]) -> None:
    receivers[0].behaviour = always("reject")
    done = command_here("alerts", "test", "--dir", folder, DEALER_AGENT_ALERTS_SECRET=SECRET)
    assert done.returncode == 1
    assert f"No test was sent to {OWNER}: the mail server refused the mail (550)" in done.stderr
    assert len(receivers[1].taken) == 1, "the other receiver gets it"
    without = command_here("alerts", "test", "--dir", folder)
    assert (without.returncode, "DEALER_AGENT_ALERTS_SECRET is not set" in without.stderr) == (1, True)
    nobody = stocked_dealer(folder.parent / "other")
    assert "Nobody gets alerts" in command_here("alerts", "test", "--dir", nobody).stderr


def test_alerts_and_messages_are_listed(folder: Path) -> None:
    assert run("alerts", "list", "--dir", folder) == "No alerts.\n"
    assert run("alerts", "history", "--dir", folder) == "No messages yet.\n"
    settings, now = load_settings(folder, {}), datetime.now(UTC)
    watch = watch_of_dealer(settings, {"DEALER_AGENT_ALERTS_SECRET": SECRET})
    assert watch is not None
    with Store.open(settings.database_url, settings.cipher) as store:
        write_at(now, store, "acceptance", count_failed_leads, 2, MINUTE)
        write_at(now, store, "acceptance", begin_jobs, [ALERT_CHECK])
        assert check_without_sending(store, watch, now)
    by_condition = {each["condition"]: each for each in run_json("alerts", "list", "--dir", folder)}
    alert, warned = by_condition["lead_failed"], by_condition["feed_warned"]
    assert "photos" in warned["reason"]
    assert (alert["state"], alert["condition"], alert["ended"]) == ("open", "lead_failed", None)
    assert alert["meaning"].startswith("2 leads could not be stored")
    messages = run_json("alerts", "history", "--dir", folder)
    assert [(each["to"], each["kind"], each["state"]) for each in messages] == [
        ("mail", "change", "waiting"),
        ("webhook", "change", "waiting"),
    ]
    assert "lead_failed" in run("alerts", "list", "--dir", folder)


def test_a_copy_of_the_key_is_confirmed(folder: Path) -> None:
    words = run("keys", "confirm-copy", "--dir", folder)
    (key,) = run_json("keys", "list", "--dir", folder)
    assert words == f"Confirmed: you have a copy of {key['id']}. The active key is {key['id']}.\n"


def test_the_operator_of_an_installation_has_alerts_of_its_own(
    tmp_path: Path, receivers: tuple[MailReceiver, HttpReceiver]
) -> None:
    mail, hook = receivers
    folder = tmp_path / "platform"
    run("init", folder, "--installation", "--public-url", "https://agents.example.com")
    settings = SETTINGS.format(port=mail.port, owner=OWNER, url=hook.url).replace("[alerts]", "[installation.alerts]")
    file = folder / "installation.toml"
    file.write_text(file.read_text("utf-8") + settings, "utf-8")
    run("alerts", "test", "--dir", folder)
    assert [mailed.message["Subject"] for mailed in mail.taken] == ["agents.example.com: test of the alerts"]
    assert run("alerts", "list", "--dir", folder) == "No alerts.\n"
    assert "The active key is" in run("keys", "confirm-copy", "--dir", folder)
    wrong = command_here("alerts", "list", "--dir", folder, "--dealer", "nobody")
    assert (wrong.returncode, "nobody" in wrong.stderr) == (2, True)
