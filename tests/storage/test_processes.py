"""Several processes on one database: who is first, and what a killed one leaves behind (contract, parts 6 and 10)."""

import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from sqlalchemy import text
from tests.storage import other_process
from tests.storage.samples import DEALER, MONDAY

from dealer_agent.storage import Store
from dealer_agent.storage.schema import SCHEMA_REVISION

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("SOAK_KILLS", "3"))
ROUNDS = 30


def test_of_two_processes_exactly_one_is_first_with_a_key_and_with_a_customer(database_url: str, store: Store) -> None:
    spawn = multiprocessing.get_context("spawn")
    start, answers = spawn.Barrier(2), spawn.Queue()
    racers = [
        spawn.Process(target=other_process.race, args=(database_url, name, start, ROUNDS, answers)) for name in "AB"
    ]
    for racer in racers:
        racer.start()
    told = [answers.get(timeout=60) for _ in range(2 * ROUNDS)]
    for racer in racers:
        racer.join(30)
        assert racer.exitcode == 0
    for turn in range(ROUNDS):
        answered = sorted(words for number, words in told if number == turn)
        (first,) = [words.split()[1] for words in answered if words.startswith("first ")]
        other = "repeated" if turn % 2 == 0 else "duplicate"
        assert answered == sorted([f"first {first}", f"{other} {first}"])
    assert len(store.list_leads(DEALER, 1000)) == ROUNDS


def test_processes_that_start_at_once_migrate_once(database_url: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    start, answers = spawn.Barrier(3), spawn.Queue()
    starters = [
        spawn.Process(target=other_process.migrate_at_once, args=(database_url, start, answers)) for _ in range(3)
    ]
    for starter in starters:
        starter.start()
    told = Counter(answers.get(timeout=60) for _ in starters)
    for starter in starters:
        starter.join(30)
    assert told == {None: 1, SCHEMA_REVISION: 2}
    Store.open(database_url).close()


def killed_while(doing: str, url: str, lines: int) -> list[str]:
    """Starts a process, lets it say some lines, and kills it at any moment; all that it said."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.storage.other_process", doing, url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(lines)]
    time.sleep(random.uniform(0, 0.1))
    process.kill()
    # A line that was cut off in the middle was not said.
    said += [line.strip() for line in process.stdout if line.endswith("\n")]
    process.wait(10)
    process.stdout.close()
    assert "" not in said, "the process ended by itself"
    return said


def test_a_process_killed_during_an_import_leaves_the_old_stock_or_the_new(database_url: str, store: Store) -> None:
    for _ in range(KILLS):
        said = killed_while("import", database_url, lines=2)
        stock = store.load_stock(DEALER, remember_days=90, now=MONDAY)
        assert stock.revision in (int(said[-1]), int(said[-1]) + 1)
        assert {unit.unit.selling_price for unit in stock.live} == {stock.revision}
        assert len(stock.live) == other_process.SIZES[stock.revision % 2]
        assert store.list_imports(DEALER, 1)[0].revision == stock.revision


def test_every_lead_that_a_killed_process_answered_is_there(database_url: str, store: Store) -> None:
    answered: list[str] = []
    for _ in range(KILLS):
        answered += killed_while("submit", database_url, lines=25)
    kept = {lead.lead_id for lead in store.list_leads(DEALER, 10**6)}
    assert set(answered) <= kept
    assert len(answered) >= 25 * KILLS
    # Whole or not at all: a lead has its consent, its contact and its idempotency record.
    with store._reading() as connection:
        for table in ("consents", "lead_contacts", "idempotency"):
            assert connection.execute(text(f"SELECT count(*) FROM {table}")).scalar() == len(kept)
