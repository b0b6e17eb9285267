"""The alert about a database that does not answer: each machine sends it, whatever its processes do."""

import asyncio
import fcntl
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from tests.alerts.watched import DAY, HOUR, MINUTE, Watched
from tests.delivery.receivers import one_after_the_other
from tests.logs import captured_logs

from dealer_agent.alerts import database_away
from dealer_agent.alerts.database_away import FILE, DatabaseAlert
from dealer_agent.storage.errors import DatabaseUnreachable

pytestmark = pytest.mark.outside_protocol("alerts")

NOW = datetime(2026, 3, 2, 16, 0, tzinfo=UTC)
AWAY = "The database does not answer since Monday, March 2, 2026, 10:00 AM CST"


def note(dealer: Watched, now: datetime, *, works: bool) -> None:
    """What a process notes. It could be another one each time."""
    failure = None if works else DatabaseUnreachable("the database is away")
    asyncio.run(DatabaseAlert(dealer.store, dealer.watch(machine=True)).note(now, failure))


def test_a_database_that_is_away_is_one_message_at_the_start_and_one_at_the_end(dealer: Watched) -> None:
    note(dealer, NOW - MINUTE, works=True)
    assert not (dealer.folder / FILE).exists()
    for minute in range(120):
        note(dealer, NOW + minute * MINUTE, works=False)
    assert dealer.subjects() == [AWAY]
    for minute in range(120, 130):
        note(dealer, NOW + minute * MINUTE, works=True)
    assert dealer.subjects() == [AWAY, "The database answers again"]
    assert [len(posted["data"]["started"]) for posted in dealer.posted()] == [1, 0]
    (state,) = dealer.states()
    assert (state.condition, state.started_at, state.ended_at) == (
        "database_away",
        NOW + MINUTE,
        NOW + 121 * MINUTE,
    )


def test_a_database_that_comes_and_goes_is_in_the_digest(dealer: Watched) -> None:
    for number in range(60):
        note(dealer, NOW + number * 5 * MINUTE, works=number // 3 % 2 == 1)
    assert [subject.partition(" since")[0] for subject in dealer.subjects()] == [
        "The database does not answer",
        "The database answers again",
    ]
    dealer.check(NOW + 6 * HOUR)
    assert dealer.subjects()[2:] == ["daily digest, 0 open"]
    dealer.check(NOW + 7 * HOUR)
    assert len(dealer.subjects()) == 3


def test_of_the_processes_of_a_machine_one_sends(dealer: Watched) -> None:
    note(dealer, NOW, works=False)
    with (dealer.folder / FILE).open("rb") as file:
        # Another process is sending.
        fcntl.flock(file, fcntl.LOCK_SH)
        note(dealer, NOW + MINUTE, works=False)
        assert dealer.subjects() == []
    with ThreadPoolExecutor(4) as processes:
        list(processes.map(lambda _: note(dealer, NOW + MINUTE, works=False), range(8)))
    note(dealer, NOW + 2 * MINUTE, works=False)
    assert dealer.subjects() == [AWAY]


def test_a_message_that_cannot_be_sent_is_tried_again(dealer: Watched) -> None:
    dealer.mail.behaviour = one_after_the_other("fail", "cut", "take")
    for minute in range(30):
        note(dealer, NOW + minute * MINUTE, works=False)
    assert dealer.mail.did == {"fail": 1, "cut": 1, "take": 1}
    assert dealer.subjects() == [AWAY]
    assert len(dealer.posted()) == 1


def test_a_file_that_its_writer_did_not_finish_is_no_obstacle(dealer: Watched) -> None:
    (dealer.folder / FILE).write_bytes(b'{"state":["data')
    for minute in range(3):
        note(dealer, NOW + minute * MINUTE, works=False)
    assert dealer.subjects() == [AWAY]


def test_the_alert_can_be_switched_off(dealer: Watched) -> None:
    dealer.settings = {"off": ("database_away",)}
    for minute in range(3):
        note(dealer, NOW + minute * MINUTE, works=False)
    assert dealer.subjects() == []
    dealer.settings = {}
    note(dealer, NOW + DAY, works=False)
    assert dealer.subjects() == []


@pytest.mark.parametrize("minutes", [3, 99], ids=["for three minutes", "always"])
def test_a_file_that_cannot_be_made_for_some_minutes_costs_no_message(dealer: Watched, minutes: int) -> None:
    (dealer.folder / FILE).mkdir()
    alert = DatabaseAlert(dealer.store, dealer.watch(machine=True))
    for minute in range(5):
        if minute == minutes:
            (dealer.folder / FILE).rmdir()
        asyncio.run(alert.note(NOW + minute * MINUTE, DatabaseUnreachable("the database is away")))
    for minute in range(5, 9):
        asyncio.run(alert.note(NOW + minute * MINUTE, None))
    assert dealer.subjects() == [AWAY, "The database answers again"]
    assert [state.condition for state in dealer.states()] == ["database_away"]


def test_a_process_that_cannot_write_the_file_remembers_by_itself_and_keeps_the_others_out(
    dealer: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk. It says so once."""
    replaced, full = database_away._is_replaced, [True]
    monkeypatch.setattr(database_away, "_is_replaced", lambda *given: not full and replaced(*given))
    away = DatabaseUnreachable("the database is away")
    alert = DatabaseAlert(dealer.store, dealer.watch(machine=True))
    with captured_logs() as logged:
        for minute in range(5):
            asyncio.run(alert.note(NOW + minute * MINUTE, away))
            note(dealer, NOW + minute * MINUTE, works=False)
    assert dealer.subjects() == [AWAY]
    assert [line["event"] for line in logged].count("alert about the database not written") == 1
    full.clear()
    asyncio.run(alert.note(NOW + 5 * MINUTE, away))
    for minute in range(6, 10):
        note(dealer, NOW + minute * MINUTE, works=True)
    assert dealer.subjects() == [AWAY, "The database answers again"]
