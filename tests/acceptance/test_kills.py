"""SIGKILL during an import and during a stream of leads, then a new start (docs/protocol.md#durable-before-answer).

Once in a normal run, `SOAK_KILLS` times in the long one.
"""

import os
import random
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from tests.acceptance.asking import asked
from tests.acceptance.dealers import generation, stocked_dealer, write_feed
from tests.acceptance.running import COMMAND, PATIENCE_SECONDS, PATIENT_COMMAND, Running, environment, eventually, start
from tests.acceptance.senders import Senders
from tests.soak import soak_count
from tests.storage.calls import list_leads, read

from dealer_agent.config import load_settings
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.store import Store

KILLS = soak_count("SOAK_KILLS", 1)
SIZES = {0: 1500, 1: 1400}
"""How many units each of the two stocks has."""


def shown(url: str) -> set[tuple[int, str]]:
    """What every unit on show says of its stock, each beside the total of the page that it stood on."""
    told: set[tuple[int, str]] = set()
    skip, total = 0, 1
    while skip < total:
        page = asked(url, "inventory.search", pagination={"skip": skip, "limit": 100})
        total = page["total"]
        told |= {(total, vehicle["description"]) for vehicle in page["vehicles"]}
        assert len(page["vehicles"]) == min(100, total - skip)
        skip += 100
    return told


def begin_import(folder: Path, number: int) -> subprocess.Popen[bytes]:
    """An import that has read its file and begins to store it: its progress bar says so."""
    importing = subprocess.Popen(
        [COMMAND, "inventory", "import", folder / f"stock-{number}.json", "--dir", folder, "--allow-shrink"],
        env=environment({"FORCE_COLOR": "1"}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert importing.stderr is not None
    with importing.stderr as bar:
        said = b""
        while b"Storing" not in said:
            said += (part := os.read(bar.fileno(), 4096))
            assert part, said.decode()
    return importing


def the_same_answers_again(running: Running, senders: Senders) -> None:
    """The lead that was answered last is answered again with its id: its idempotency record survived with it."""
    key, lead_id = list(senders.answered.items())[-1]
    assert asked(running.url, "lead.submit", **senders.leads[key])["lead_id"] == lead_id


@pytest.mark.requirement("durable-before-answer")
def test_a_killed_machine_shows_the_old_stock_or_the_new_and_keeps_every_answered_lead(tmp_path: Path) -> None:
    """An import is one transaction, and an answered lead survives, with one worker and with two."""
    folder = stocked_dealer(tmp_path / "store", units=generation(0, SIZES[0]))
    for number, size in SIZES.items():
        write_feed(folder / f"stock-{number}.json", generation(number, size))
    settings = load_settings(folder, {})
    on_show = 0
    running = start(folder)
    try:
        for turn in range(KILLS):
            senders = Senders(running.url, 2)
            senders.wait_for(1)
            importing = begin_import(folder, 1 - on_show)
            time.sleep(random.uniform(0, 0.25))
            importing.send_signal(signal.SIGKILL)
            running.kill_all()
            importing.wait(PATIENCE_SECONDS)
            senders.join()

            running = start(folder, workers=2 - turn % 2)
            ((total, marker),) = shown(running.url)
            assert marker in ("generation 0", "generation 1"), turn
            on_show = int(marker[-1])
            assert total == SIZES[on_show]
            the_same_answers_again(running, senders)
            with Store.open(settings.database_url, settings.cipher) as store:
                assert set(senders.answered.values()) <= {
                    lead.lead_id for lead in read(store, settings.dealer.id, list_leads, 10**6)
                }
                for lead_id in list(senders.answered.values())[-20:]:
                    kept = read(store, settings.dealer.id, get_lead, lead_id)
                    assert kept is not None
                    assert kept.consents
    finally:
        running.kill_all()


@pytest.mark.soak
def test_a_worker_that_dies_while_it_is_asked_whether_it_lives_is_replaced_at_once(tmp_path: Path) -> None:
    """And not when the time is over that a worker may take to start."""
    running = start(stocked_dealer(tmp_path / "store"), workers=2, program=PATIENT_COMMAND)
    try:
        first = eventually("two workers", lambda: set(running.workers()) if len(running.workers()) == 2 else None)
        for worker in first:
            os.kill(worker, signal.SIGSTOP)
        time.sleep(2)  # The supervisor asks twice a second: now it waits for a response.
        for worker in first:
            os.kill(worker, signal.SIGKILL)
        eventually("they are replaced", lambda: len(set(running.workers()) - first) == 2)
    finally:
        running.kill_all()


@pytest.mark.soak
def test_a_worker_that_cannot_start_does_not_stop_the_workers_that_serve(tmp_path: Path) -> None:
    """The worker is started again until it serves: here when the database is whole again."""
    folder = stocked_dealer(tmp_path / "store")
    running = start(folder, workers=2)

    try:
        first, second = eventually("two workers", lambda: len(running.workers()) == 2 and running.workers())
        with closing(sqlite3.connect(folder / "dealer-agent.db", timeout=30)) as database:
            database.execute("ALTER TABLE revisions RENAME TO away")
            # A worker that is still starting fails by itself.
            failed = '"start failed"'
            eventually(
                "both workers miss the table",
                lambda: failed in running.stderr() or running.stderr().count('"what":"changes"') >= 2,
            )
            if failed not in running.stderr():
                os.kill(first, signal.SIGKILL)
            eventually("its replacements fail", lambda: running.stderr().count(failed) >= 2)
            assert asked(running.url, "inventory.search")["total"] == 3
            database.execute("ALTER TABLE away RENAME TO revisions")
        for worker in {first, second}.intersection(running.workers()):
            os.kill(worker, signal.SIGKILL)
        eventually("a replacement serves", lambda: answers(running.url))
        assert running.process.poll() is None
    finally:
        running.kill_all()


def answers(url: str) -> bool:
    return httpx.get(f"{url}/readyz", timeout=5, verify=False).status_code == 200
