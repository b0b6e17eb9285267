"""Writers of one SQLite file take turns, whichever process they are in: none starves while others write and write."""

import threading
import time
from pathlib import Path
from statistics import median

from tests.storage.current import make_current
from tests.storage.samples import CIPHER

from dealer_agent.storage.store import Store

TURNS = 9


def test_a_writer_waits_for_the_transaction_under_way_and_for_hardly_another(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'dealer.db'}"
    make_current(url)
    written = 0
    enough = threading.Event()

    def write_and_write(store: Store) -> None:
        nonlocal written
        while not enough.is_set():
            with store._writer.begin():
                time.sleep(0.05)
            written += 1

    with Store.open(url, CIPHER) as busy, Store.open(url, CIPHER) as other:
        thread = threading.Thread(target=write_and_write, args=(busy,), daemon=True)
        thread.start()
        overtaken = []
        for _ in range(TURNS):
            before = written
            with other._writer.begin():
                overtaken.append(written - before)
        enough.set()
        thread.join()
    assert median(overtaken) <= 1
