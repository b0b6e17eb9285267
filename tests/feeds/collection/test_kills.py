"""SIGKILL during a fetch and during an import: the stock is the old or the new one, and each file is imported once.

Once in a normal run, `SOAK_KILLS` times in the long one.
"""

import os
import random
import signal
import subprocess
import threading
import time
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from sqlalchemy import update
from tests.acceptance.running import COMMAND, PATIENCE_SECONDS, environment, eventually, start
from tests.feeds.collection.feed_server import feed_server
from tests.feeds.collection.feeding import FeedDealer, feed_bytes, feed_dealer, states
from tests.soak import sqlite_first

from dealer_agent.storage.schema import jobs

pytestmark = pytest.mark.outside_protocol("automatic feeds")

KILLS = int(os.environ.get("SOAK_KILLS", "1"))
SIZES = (400, 420)


def end_lease(dealer: FeedDealer) -> None:
    """What a minute does: the lease of the killed process ends."""
    with dealer.store.write(dealer.settings.dealer.id) as tx:
        tx.connection.execute(
            update(jobs)
            .where(jobs.c.dealer_id == tx.dealer_id)
            .values(leased_until=tx.now - timedelta(seconds=1), due_at=tx.now)
        )


def has_begun(dealer: FeedDealer, file_id: str) -> bool:
    return any(file.attempts for file in dealer.files() if file.file_id == file_id)


@sqlite_first()
def test_a_file_whose_import_is_killed_is_imported_once(tmp_path: Path, database_url: str) -> None:
    with feed_dealer(tmp_path / "store", database_url=database_url) as dealer:
        before = 0
        for turn in range(KILLS):
            size = SIZES[turn % 2]
            newest = dealer.upload(feed_bytes(size, price=20_000 + turn)).name[:25]
            running = start(dealer.folder, workers=1, program=(COMMAND,), options=(), **dealer.env)
            try:
                eventually("the import begins", partial(has_begun, dealer, newest))
                time.sleep(random.uniform(0, 3))
            finally:
                running.kill_all()
            assert dealer.for_sale() in (before, size)
            before = size
            end_lease(dealer)
        dealer.collect()
        assert states(dealer.files()) == ["imported"] * KILLS
        assert len(dealer.imports()) == KILLS
        assert dealer.for_sale() == before
        assert (dealer.names_in("incoming"), len(dealer.names_in("kept"))) == ([], KILLS)


@sqlite_first()
def test_a_fetch_that_is_killed_is_repeated(tmp_path: Path, database_url: str) -> None:
    content = feed_bytes(50)
    released = threading.Event()

    def half(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("ETag", '"one"')
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[: len(content) // 2])
        handler.wfile.flush()
        released.wait(PATIENCE_SECONDS)

    with (
        feed_server(content) as server,
        feed_dealer(tmp_path / "store", server.toml(), database_url) as dealer,
    ):
        incoming = dealer.folder / "feeds" / "main" / "incoming"
        for _ in range(KILLS):
            server.answer = half
            fetching = subprocess.Popen(
                [COMMAND, "feeds", "run", "main", "--dir", dealer.folder],
                env=environment(dealer.env),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            eventually("half of the file arrives", lambda: list(incoming.glob(".*.part")))
            fetching.send_signal(signal.SIGKILL)
            fetching.wait(PATIENCE_SECONDS)
            assert dealer.for_sale() == 0
            end_lease(dealer)
            for part in incoming.glob(".*.part"):
                part.unlink()
        released.set()
        server.answer = None
        assert states(dealer.collect().files) == ["imported"]
        assert states(dealer.collect(again=True).files) == ["imported"]
        assert (dealer.for_sale(), len(dealer.imports())) == (50, 2)
