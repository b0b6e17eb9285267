"""`record price` and `record history`: a person sees what agents were answered at a time."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.running import command_here, succeed_here

from dealer_agent.config import load_settings
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("the record of the stock")

MONDAY = datetime(2026, 3, 2, 15, 0, tzinfo=UTC)
VIN = "1HGCM82633A004352"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dealer whose unit arrived on Monday, cost less on Tuesday, left on Wednesday and came back on Thursday."""
    folder = tmp_path_factory.mktemp("dealer") / "my-store"
    succeed_here("init", folder)
    unit = {"vin": VIN, "stock": "A1", "year": 2021, "make": "Honda", "model": "Accord", "condition": "used"}
    other = {"stock": "B2", "year": 2021, "make": "Honda", "model": "Civic", "condition": "used", "price": 18_000}
    settings = load_settings(folder, {})
    migrate(settings.database_url)
    with Store.open(settings.database_url, settings.cipher) as store:
        for day, price in enumerate((20_000, 19_000, None, 19_500)):
            units: list[dict[str, Any]] = [other, *([{**unit, "price": price}] if price else [])]
            feed = read_feed(json.dumps(units).encode())
            at = MONDAY + timedelta(days=day)
            import_feed(
                store,
                settings.dealer,
                feed,
                source=f"day-{day}.json",
                at=at,
                feed_name="website",
                accept=EVERY_CHECK,
            )
    return folder


def price_at(folder: Path, at: datetime | str, unit: str = VIN) -> dict[str, Any]:
    text = at if isinstance(at, str) else at.isoformat()
    found: dict[str, Any] = json.loads(succeed_here("record", "price", unit, "--at", text, "--dir", folder, "--json"))
    return found


@pytest.mark.parametrize("unit", [VIN, VIN.lower(), "A1", "a1", f"vin-{VIN}"])
def test_a_person_sees_what_agents_were_answered_and_what_made_it(folder: Path, unit: str) -> None:
    found = price_at(folder, MONDAY + timedelta(hours=3), unit)
    assert (found["answer"], found["vehicle_id"]) == ("in_stock", f"vin-{VIN}")
    assert (found["listing"]["price"], found["listing"]["condition"]) == (20_000, "used")
    assert found["listing"]["status"] == "available"
    made, following = found["made_by"], found["next_change"]
    assert (made["feed"], made["file"], made["revision"], made["change"]) == ("website", "day-0.json", 1, "added")
    assert (following["file"], following["listing"]["price"]) == ("day-1.json", 19_000)
    assert datetime.fromisoformat(following["at"]).date() == (MONDAY + timedelta(days=1)).date()


@pytest.mark.parametrize(
    ("hours", "answer", "sentence"),
    [
        pytest.param(-1, "before_the_record", "it begins on 2026-03-02", id="before the first import"),
        pytest.param(25, "in_stock", "was in stock", id="in stock"),
        pytest.param(49, "sold", "was sold, or had left the stock", id="sold"),
        pytest.param(73, "in_stock", "was in stock", id="back"),
    ],
)
def test_the_answer_is_clear_when_the_unit_was_not_for_sale(
    folder: Path, hours: int, answer: str, sentence: str
) -> None:
    at = MONDAY + timedelta(hours=hours)
    assert price_at(folder, at)["answer"] == answer
    shown = succeed_here("record", "price", VIN, "--at", at.isoformat(), "--dir", folder)
    assert sentence in " ".join(shown.split())


def test_a_unit_that_arrived_later_was_not_in_stock(folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(folder, tmp_path / "my-store")
    settings = load_settings(folder, {})
    new = {"stock": "C3", "year": 2022, "make": "Honda", "model": "Pilot", "condition": "new", "price": 40_000}
    with Store.open(settings.database_url, settings.cipher) as store:
        feed = read_feed(json.dumps([new]).encode())
        at = MONDAY + timedelta(days=5)
        import_feed(store, settings.dealer, feed, source="new.json", at=at, accept=EVERY_CHECK)
    found = price_at(folder, MONDAY + timedelta(days=4), "C3")
    assert (found["answer"], found["next_change"]["file"]) == ("not_in_stock", "new.json")


def test_a_time_without_an_offset_is_on_the_clock_of_the_dealer(folder: Path) -> None:
    zone = load_settings(folder, {}).dealer.timezone
    found = price_at(folder, "2026-03-03T04:00")
    assert (zone, found["at"][:19]) == (zone, "2026-03-03T04:00:00")
    assert datetime.fromisoformat(found["at"]).utcoffset() != timedelta(0)


def test_the_changes_of_a_unit_are_a_table(folder: Path) -> None:
    rows = json.loads(succeed_here("record", "history", "A1", "--dir", folder, "--json"))
    assert [(row["change"], row["price"], row["file"]) for row in rows] == [
        ("added", 20_000, "day-0.json"),
        ("changed", 19_000, "day-1.json"),
        ("sold", None, "day-2.json"),
        ("back", 19_500, "day-3.json"),
    ]
    assert "day-1.json" in succeed_here("record", "history", "A1", "--dir", folder)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(("price", "NOBODY", "--at", "2026-03-02T16:00"), 1, "has no unit 'NOBODY'", id="unknown unit"),
        pytest.param(("history", "NOBODY"), 1, "has no unit 'NOBODY'", id="history of an unknown unit"),
        pytest.param(("price", "A1", "--at", "yesterday"), 2, "is not a time", id="no time"),
        pytest.param(("price", "A1", "--at", "2999-01-01"), 2, "is in the future", id="a time of the future"),
        pytest.param(("price", "A1"), 2, "--at", id="without a time"),
    ],
)
def test_mistakes_have_a_message(folder: Path, words: tuple[str, ...], code: int, said: str) -> None:
    ended = command_here("record", *words, "--dir", folder)
    assert (ended.returncode, said in " ".join(ended.stderr.split())) == (code, True)
