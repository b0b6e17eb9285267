"""`dealer-agent leads list TEXT`: what it shows, what it records, and whether it says that there are more."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.acceptance.filled_dealer import Filled, customer, filled_dealer
from tests.acceptance.running import command_here, succeed_here

pytestmark = pytest.mark.outside_protocol("the search of leads")


@pytest.fixture(scope="module")
def dealer(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A dealer with three leads: two of today, and one of five days ago."""
    filled = filled_dealer(tmp_path_factory.mktemp("searched") / "dealer")
    now = datetime.now(UTC)
    filled.take(now - timedelta(days=5), customer=customer(1, "Oldest"))
    filled.take(now - timedelta(minutes=2), customer=customer(2, "Middle"))
    filled.take(now - timedelta(minutes=1), customer=customer(3, "Newest"))
    return filled


def names(dealer: Filled, *words: str) -> list[str]:
    found: list[dict[str, Any]] = json.loads(succeed_here("leads", "list", *words, "--json", "--dir", dealer.folder))
    return [each["customer"].split()[-1] for each in found]


def test_leads_are_found_by_words_contact_points_and_days(dealer: Filled) -> None:
    days_ago = [f"{datetime.now(UTC) - timedelta(days=days):%Y-%m-%d}" for days in range(8)]
    assert names(dealer, "maximiliana") == ["Newest", "Middle", "Oldest"]
    assert names(dealer, "(202) 555-0102") == ["Middle"]
    assert names(dealer, "Customer3@Example.com") == ["Newest"]
    assert names(dealer, "--since", days_ago[3]) == ["Newest", "Middle"]
    assert names(dealer, "--until", days_ago[3]) == ["Oldest"]
    assert names(dealer, "--since", days_ago[7], "--until", days_ago[3], "maximiliana") == ["Oldest"]


def test_a_message_says_that_there_are_more(dealer: Filled) -> None:
    some = command_here("leads", "list", "--limit", "2", "--json", "--dir", dealer.folder)
    assert (len(json.loads(some.stdout)), "There are more than these 2" in some.stderr) == (2, True)
    everything = command_here("leads", "list", "--limit", "3", "--dir", dealer.folder)
    assert everything.stderr == ""


def test_each_search_is_in_the_access_log_without_what_was_sought(dealer: Filled) -> None:
    succeed_here("leads", "list", "oldest", "--dir", dealer.folder)
    assert "No such leads." in succeed_here("leads", "list", "nobody", "--dir", dealer.folder)
    printed = succeed_here("accesses", "list", "--limit", "2", "--json", "--dir", dealer.folder)
    noted = [(each["what"], each["leads"]) for each in json.loads(printed)]
    assert noted == [("leads list, search of 3", 0), ("leads list, search of 3", 1)]


def test_the_command_asks_for_the_text_so_that_no_command_history_has_it(dealer: Filled) -> None:
    from typer.testing import CliRunner

    from dealer_agent.cli import app

    done = CliRunner().invoke(app, ["leads", "list", "-", "--dir", str(dealer.folder)], input="middle\n")
    assert (done.exit_code, "Middle" in done.stdout, "Newest" in done.stdout) == (0, True, False)
