"""A refused file of a feed is settled with what the mail says, and nothing else."""

import asyncio
import json
import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.acceptance.running import command_here, succeed_here
from tests.logs import captured_logs

from dealer_agent.alerts.checking import Watch
from dealer_agent.alerts.observing import observe_dealer
from dealer_agent.alerts.rules import AlertMessage, Observation
from dealer_agent.alerts.texts import mail_text
from dealer_agent.alerts.watches import watch_of_dealer
from dealer_agent.cli.open_dealer import DealerFolder, find_served, open_served
from dealer_agent.config import load_settings
from dealer_agent.feeds.collection.collection import feed_rows
from dealer_agent.feeds.collection.collector import FeedJobs
from dealer_agent.jobs.loop import run_job
from dealer_agent.storage.alerts import AlertState, CheckRecord, warned_imports
from dealer_agent.storage.jobs import JobKey
from dealer_agent.storage.stock.feeds import FEED, put_feeds
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("alerts")

SETTINGS = """
[[feeds]]
name = "main"
[feeds.folder]
path = "outbox"
settle_seconds = 1

[mail]
host = "smtp.example.com"
from_address = "store@example.com"

[alerts]
mail = ["owner@example.com"]
"""


def stock_file(folder: Path, count: int) -> None:
    units = [{"stock": f"N{number}", "year": 2020, "make": "Honda", "price": 9000} for number in range(count)]
    (folder / "outbox").mkdir(mode=0o700, exist_ok=True)
    (folder / "outbox" / "stock.json").write_text(json.dumps(units))


def observed(folder: Path, condition: str) -> tuple[Watch, Sequence[Observation]]:
    """Who gets alerts, and what is observed now of a condition."""
    settings, now = load_settings(folder, {}), datetime.now(UTC)
    watch = watch_of_dealer(settings, {})
    assert watch is not None
    with Store.open(settings.database_url) as store, store.read(settings.dealer.id, now) as tx:
        return watch, observe_dealer(tx, watch.settings, CheckRecord(None, None, 0), watch.folder)[condition]


def mail_about(folder: Path, condition: str) -> str:
    """The text of the mail about a condition that is observed now."""
    watch, (seen,) = observed(folder, condition)
    now = datetime.now(UTC)
    state = AlertState(condition, seen_at=now, started_at=now, **seen._asdict())
    return mail_text(AlertMessage("change", started=(state,)), watch.receivers.sender).text


def test_the_command_in_the_mail_imports_the_file_that_was_refused(tmp_path: Path) -> None:
    folder = tmp_path / "my store"
    succeed_here("init", folder)
    toml = folder / "dealer.toml"
    toml.write_text(toml.read_text() + SETTINGS)
    stock_file(folder, 40)
    succeed_here("feeds", "run", "main", "--dir", folder)
    assert "warnings" in succeed_here("feeds", "list", "--dir", folder)
    stock_file(folder, 4)
    refused = command_here("feeds", "run", "main", "--dir", folder)
    assert refused.returncode == 1

    text = mail_about(folder, "feed_refused")
    assert "stock.json" in text
    assert "units_lost" in text
    assert f"dealer-agent inventory undo --dir {shlex.quote(str(folder))}" in text
    line = next(each.strip() for each in text.splitlines() if each.strip().startswith("dealer-agent inventory import"))
    # The shell replaces the star.
    named = [list(Path("/").glob(word[1:])) if word.endswith("*") else [word] for word in shlex.split(line)]
    words = [match for matches in named for match in matches]
    succeed_here(*words[1:])
    assert len(json.loads(succeed_here("inventory", "history", "--dir", folder, "--json"))) == 3
    # The problem is settled.
    _, refusals = observed(folder, "feed_refused")
    assert not refusals
    (feed,) = json.loads(succeed_here("feeds", "list", "--dir", folder, "--json"))
    assert (feed["state"], feed["problem"]) == ("warnings", None)
    # The file that was imported before is another one now.
    stock_file(folder, 40)
    assert "stock.json: imported" in succeed_here("feeds", "run", "main", "--dir", folder)


def test_the_commands_in_the_mail_settle_units_that_are_held_back(tmp_path: Path) -> None:
    folder = tmp_path / "my store"
    succeed_here("init", folder)
    toml = folder / "dealer.toml"
    toml.write_text(toml.read_text() + SETTINGS)
    stock_file(folder, 40)
    file = folder / "outbox" / "stock.json"
    units = json.loads(file.read_text())
    units[3] |= {"price": 1, "stock": "N 3"}
    file.write_text(json.dumps(units))
    said = succeed_here("feeds", "run", "main", "--dir", folder)
    assert re.search(r"stock.json: imported with \d warnings", said)
    assert "units_held: 1 of 40 units are held back" in said

    text = mail_about(folder, "feed_warned")
    assert text.count("N 3: ") == 1
    assert "units_held = " not in text
    commands = [each.strip() for each in text.splitlines() if each.strip().startswith("dealer-agent inventory")]
    done = [succeed_here(*shlex.split(command)[1:]) for command in commands]
    assert "N 3 is released" in done[0]
    assert "N 3 is hidden" in done[1]
    assert len(done) == 4


def test_the_log_warns_about_a_file_that_was_imported_with_warnings(tmp_path: Path) -> None:
    folder = tmp_path / "my store"
    succeed_here("init", folder)
    toml = folder / "dealer.toml"
    toml.write_text(toml.read_text() + SETTINGS)
    stock_file(folder, 40)
    with open_served(find_served(DealerFolder(folder))) as opened, captured_logs() as lines:
        with opened.store.write("my-store") as tx:
            put_feeds(tx, feed_rows(opened.settings_of("my-store")))
        assert asyncio.run(run_job(opened.store, FeedJobs(opened).kind, JobKey("my-store", FEED, "main")))
    (line,) = [each for each in lines if each["event"] == "feed file"]
    assert (line["log_level"], line["state"], "values_absent" in line["warnings"]) == ("warning", "imported", True)


def test_a_warning_in_the_mail_has_the_line_that_switches_it_off(tmp_path: Path) -> None:
    folder = tmp_path / "my store"
    succeed_here("init", folder)
    toml = folder / "dealer.toml"
    toml.write_text(toml.read_text() + SETTINGS)
    stock_file(folder, 40)
    succeed_here("feeds", "run", "main", "--dir", folder)
    text = [each.strip() for each in mail_about(folder, "feed_warned").splitlines()]
    line = next(each for each in text if each.startswith("actions = "))
    header = text[text.index(line) - 1]
    toml.write_text(f"{toml.read_text()}\n{header}\n{line}\n")
    # A file that is another one than before is imported.
    stock_file(folder, 39)
    succeed_here("feeds", "run", "main", "--dir", folder)
    with Store.open(load_settings(folder, {}).database_url) as store, store.read("my-store", datetime.now(UTC)) as tx:
        assert not [each for record in warned_imports(tx).values() for each in record.findings]
