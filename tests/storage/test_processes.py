"""Several processes on one database: which is first, and what a killed one leaves (docs/protocol.md#durability)."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.forks import FORKS
from tests.storage import other_process
from tests.storage.calls import list_leads, read
from tests.storage.samples import CIPHER, DEALER, MONDAY, stock_of

from dealer_agent.storage.privacy.consents import verify_chain
from dealer_agent.storage.schema import SCHEMA_VERSION
from dealer_agent.storage.stock.reading import list_imports
from dealer_agent.storage.store import Store

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("SOAK_KILLS", "1"))
ROUNDS = 30


def test_two_processes_migrate_a_database_once_and_store_a_lead_once_that_both_submit(database_url: str) -> None:
    """In each round, both submit one lead at once: with one idempotency key, or with one customer and vehicle.

    One process says that it was the first. The other gets the response of the first (`repeated` or `duplicate`).
    """
    start, answers = FORKS.Barrier(2), FORKS.Queue()
    racers = [
        FORKS.Process(target=other_process.race, args=(database_url, name, start, ROUNDS, answers)) for name in "AB"
    ]
    for racer in racers:
        racer.start()
    told = [answers.get(timeout=240) for _ in range(2 + 2 * ROUNDS)]
    for racer in racers:
        racer.join(120)
        assert racer.exitcode == 0
    assert Counter(told)["migrated", None] == Counter(told)["migrated", SCHEMA_VERSION] == 1
    for turn in range(ROUNDS):
        answered = sorted(words for number, words in told if number == turn)
        (first,) = [words.split()[1] for words in answered if words.startswith("first ")]
        other = "repeated" if turn % 2 == 0 else "duplicate"
        assert answered == sorted([f"first {first}", f"{other} {first}"])
    with Store.open(database_url, CIPHER) as store:
        assert len(read(store, DEALER, list_leads, 1000)) == ROUNDS


def said_before_it_was_killed(url: str) -> list[str]:
    """Starts a process that imports and takes leads, kills it at any moment, and returns all that it said."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.storage.other_process", url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said: list[str] = []
    while sum(line.startswith("stock ") for line in said) < 2 or sum(line.startswith("lead ") for line in said) < 20:
        said.append(process.stdout.readline())
        assert said[-1], "the process ended by itself"
    time.sleep(random.uniform(0, 0.1))
    process.kill()
    said += process.stdout.readlines()
    process.wait(60)
    process.stdout.close()
    # A line that was cut off in the middle was not said.
    return [line.strip() for line in said if line.endswith("\n")]


@pytest.mark.requirement("durable-before-answer")
def test_a_killed_process_leaves_the_old_stock_or_the_new_and_every_answered_lead(
    database_url: str, store: Store
) -> None:
    answered: set[str] = set()
    for _ in range(KILLS):
        said = [line.split() for line in said_before_it_was_killed(database_url)]
        answered |= {name for kind, name in said if kind == "lead"}
        latest = max(int(name) for kind, name in said if kind == "stock")
        stock = stock_of(store, DEALER, remember_days=90, now=MONDAY)
        assert stock.revision in (latest, latest + 1)
        assert {unit.unit.selling_price for unit in stock.live} == {stock.revision}
        assert len(stock.live) == other_process.SIZES[stock.revision % 2]
        # PostgreSQL may end a commit that was under way when its client died: one more than was seen a moment ago.
        assert stock.revision in [record.revision for record in read(store, DEALER, list_imports, 2)]
    kept = {lead.lead_id for lead in read(store, DEALER, list_leads, 10**6)}
    assert len(answered) >= 20 * KILLS
    assert answered <= kept
    # Whole or not at all: a lead has its consent, its contact and its idempotency record.
    with store.read(DEALER) as tx:
        for table in ("consent_events", "lead_contacts", "idempotency"):
            assert tx.connection.execute(text(f"SELECT count(*) FROM {table}")).scalar() == len(kept)
    assert read(store, DEALER, verify_chain) == (len(kept), 0, None, None)
