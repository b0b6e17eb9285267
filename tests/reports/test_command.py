"""`dealer-agent report` prints the report, or writes it as a page."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import command_here, succeed_here
from tests.server.conftest import stocked  # noqa: F401 - a fixture
from tests.server.dealership import set_up
from tests.server.pages.conftest import read_page

from dealer_agent.config import load_settings
from dealer_agent.reports.month import Month
from dealer_agent.storage.daily_counts import add_counts
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("the monthly report")

ZONE = "America/Chicago"


@pytest.fixture
def sample_dealer(tmp_path: Path, stocked: Path) -> Path:  # noqa: F811
    set_up(tmp_path, stocked=stocked)
    with store_of(tmp_path) as store, store.write("test-motors") as tx:
        for day, number in (
            (date(2026, 9, 30), 4),
            (date(2026, 10, 1), 5),
            (date(2026, 10, 31), 6),
            (date(2026, 11, 1), 9),
        ):
            add_counts(tx, day, {"requests": {"inventory.search OK": number}, "make": {"Honda": number}})
    return tmp_path


@contextmanager
def store_of(folder: Path) -> Iterator[Store]:
    settings = load_settings(folder, {})
    with Store.open(settings.database_url, settings.cipher) as store:
        yield store


def test_it_prints_a_month_with_the_month_before(sample_dealer: Path) -> None:
    printed = succeed_here("report", "--dir", sample_dealer, "--month", "2026-10")
    assert "What AI agents asked in October 2026" in printed
    assert any(line.split() == ["Inventory", "search", "11", "4"] for line in printed.splitlines())


def test_it_prints_json(sample_dealer: Path) -> None:
    found = json.loads(succeed_here("report", "--dir", sample_dealer, "--month", "2026-10", "--json"))
    assert found["requests"] == {"number": 11, "before": 4}
    assert found["days"] == [{"day": "2026-10-01", "requests": 5}, {"day": "2026-10-31", "requests": 6}]


def test_it_writes_a_page(sample_dealer: Path) -> None:
    done = command_here("report", "--dir", sample_dealer, "--month", "2026-10", "--out", sample_dealer / "report.html")
    assert (done.returncode, done.stdout) == (0, "")
    assert f"The report of October 2026 is in {sample_dealer / 'report.html'}." in done.stderr
    assert read_page((sample_dealer / "report.html").read_text("utf-8")).texts("//h1") == [
        "What AI agents asked in October 2026"
    ]


def test_in_the_first_month_of_a_service_the_report_is_of_this_month(tmp_path: Path) -> None:
    before = datetime.now(UTC)
    folder = stocked_dealer(tmp_path / "store")
    zone = load_settings(folder, {}).dealer.timezone
    found = json.loads(succeed_here("report", "--dir", folder, "--json"))
    assert found["month"] in {str(Month.of(at, zone)) for at in (before, datetime.now(UTC))}


def test_the_default_is_the_last_month_that_is_over(sample_dealer: Path) -> None:
    before = Month.of(datetime.now(UTC), ZONE).previous
    found = json.loads(succeed_here("report", "--dir", sample_dealer, "--json"))
    assert found["month"] in {str(before), str(Month.of(datetime.now(UTC), ZONE).previous)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--month", "october"], "'october' is not a month"),
        (["--dealer", "lakeside"], "is test-motors"),
    ],
)
def test_what_makes_no_sense_is_refused_with_advice(sample_dealer: Path, arguments: list[str], words: str) -> None:
    done = command_here("report", "--dir", sample_dealer, *arguments)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.replace("│", " ").split())


def test_a_file_that_cannot_be_written_is_refused_with_advice(sample_dealer: Path) -> None:
    done = command_here("report", "--dir", sample_dealer, "--out", sample_dealer / "nowhere" / "report.html")
    assert done.returncode == 1
    assert "choose another place" in done.stderr
