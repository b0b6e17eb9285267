"""What the tests let other processes do with a database: they race, and they are killed."""

import os
import sys
import threading
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any

from tests.storage.calls import at_time, read
from tests.storage.samples import CIPHER, DEALER, MONDAY, first_answer, import_rows, row, storing
from ulid import ULID

from dealer_agent.storage.leads.idempotency import find_idempotent
from dealer_agent.storage.leads.persons import find_duplicate
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.stock.reading import read_revision
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

SIZES = (400, 600)
"""Units of the two files that are imported in turn; every unit of a file has the file's revision as its price."""


def submit_once(name: str, key: str | None, contact: str) -> Callable[[Transaction], str]:
    """A job as lead.submit makes it: the response to a key, else the first lead of this customer, else a new lead."""

    def job(tx: Transaction) -> str:
        if key is not None:
            answer = find_idempotent(at_time(tx, MONDAY), "token", key)
            if answer is not None:
                return f"repeated {answer.reply.decode()}"
        earlier = find_duplicate(tx, [contact], "VIN", MONDAY)
        if earlier is not None:
            return f"duplicate {earlier}"
        reply = first_answer(key, reply=name.encode()) if key is not None else None
        return f"first {storing(name, contacts=[contact], vehicle_key='VIN', idempotency=reply)(tx)}"

    return job


def race(url: str, racer: str, start: Barrier, rounds: int, answers: Any) -> None:
    """Migrates, then submits one lead a round, all at the same moment as the other racers.

    In even rounds all leads have one key, in odd ones one customer.
    """
    start.wait(240)
    answers.put(("migrated", migrate(url)))
    with Store.open(url, CIPHER) as store:
        writer = store.lead_writer()
        for turn in range(rounds):
            one_key = turn % 2 == 0
            key = f"key-{turn}" if one_key else None
            contact = f"{racer if one_key else 'sam'}-{turn}@example.com"
            start.wait(240)
            answers.put((turn, writer.submit(DEALER, submit_once(f"{racer}-{turn}", key, contact)).result(60)))
        writer.close()


def work_for_ever(url: str) -> None:
    """Imports one file after the other, and submits leads from several threads. Says what is stored once it is."""
    with Store.open(url, CIPHER) as store:
        writer = store.lead_writer()

        def submit() -> None:
            while True:
                lead_id = str(ULID())
                writer.submit(DEALER, storing(lead_id, idempotency=first_answer(lead_id))).result(60)
                say(f"lead {lead_id}")

        for _ in range(3):
            threading.Thread(target=submit).start()
        while True:
            coming = read(store, DEALER, read_revision).stock + 1
            outcome = import_rows(store, [row(f"V{n}", price=coming) for n in range(SIZES[coming % 2])])
            say(f"stock {outcome.revision}")


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # At once, and whole: threads share the pipe.


if __name__ == "__main__":
    work_for_ever(sys.argv[1])
