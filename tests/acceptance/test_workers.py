"""Two worker processes: both show what is new without a restart, and they count one client together."""

import itertools
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.acceptance.asking import ask, asked, error_payload
from tests.acceptance.dealers import generation, stocked_dealer, write_feed
from tests.acceptance.running import PATIENT_COMMAND, Running, eventually, serving, succeed_here

from dealer_agent.config import load_settings
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.feed import ParsedFeed
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.storage.store import Store

SETTINGS = """
[auth]
mode = "bearer"
skills = ["inventory.facets"]
"""
SIZES = (80, 60)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with two workers, and the first of two stocks on show."""
    folder = tmp_path_factory.mktemp("pair")
    stocked_dealer(folder, SETTINGS, generation(0, SIZES[0]))
    toml = folder / "dealer.toml"
    toml.write_text(toml.read_text().replace('dealer_information = ""', 'dealer_information = "5/hour"'))
    with serving(folder, workers=2, program=PATIENT_COMMAND) as running:
        eventually("two workers are up", lambda: len(running.workers()) == 2)
        # Both have been seen to answer before a test relies on it.
        for worker in running.workers():
            with alone(running, worker):
                eventually("it answers", lambda: ask(running.url, "inventory.search").status_code == 200)
        yield running


@contextmanager
def alone(running: Running, worker: int) -> Iterator[None]:
    """Only this worker runs, so whatever is answered, it answers."""
    others = [other for other in running.workers() if other != worker]
    for other in others:
        os.kill(other, signal.SIGSTOP)
    try:
        yield
    finally:
        for other in others:
            os.kill(other, signal.SIGCONT)


def in_every_worker(running: Running, what: str, ask_once: Any) -> None:
    """Waits until each worker, alone, answers so. Each of them runs in between: one that is stopped learns nothing.

    The promise is two seconds; a busy machine may take longer, a service that needs a restart for ever.
    """
    for worker in running.workers():

        def it_says_so(worker: int = worker) -> bool:
            with alone(running, worker):
                return bool(ask_once())

        eventually(f"{what} in worker {worker}", it_says_so, every=0.1)


def test_every_worker_shows_an_import_without_a_restart(pair: Running) -> None:
    before = pair.workers()
    feed = write_feed(pair.folder / "three.json", generation(3, 75))
    succeed_here("inventory", "import", feed, "--dir", pair.folder)
    in_every_worker(pair, "the import", lambda: asked(pair.url, "inventory.search")["total"] == 75)
    assert pair.workers() == before


@pytest.mark.requirement("token-invalid")
def test_every_worker_refuses_a_revoked_token_without_a_restart(pair: Running) -> None:
    token = succeed_here("tokens", "create", "Short Visit", "--dir", pair.folder).strip()

    def status() -> int:
        return ask(pair.url, "inventory.facets", token=token).status_code

    in_every_worker(pair, "the new token", lambda: status() == 200)
    succeed_here("tokens", "revoke", token.split("_")[1], "--dir", pair.folder)
    in_every_worker(pair, "the revoked token", lambda: status() == 401)
    assert error_payload(ask(pair.url, "inventory.facets", token=token))["code"] == "AUTH_REQUIRED"


@pytest.mark.requirement("rate-limits-are-settings")
@pytest.mark.requirement("error-rate-limited")
@pytest.mark.requirement("retry-after")
def test_one_client_is_counted_by_both_workers_together(pair: Running) -> None:
    """Five an hour are five, whichever worker is asked."""
    statuses: Counter[int] = Counter()
    for worker in pair.workers():
        with alone(pair, worker):
            for _ in range(4):
                response = ask(pair.url, "dealer.information")
                statuses[response.status_code] += 1
    assert statuses == {200: 5, 429: 3}
    payload = error_payload(response)
    assert payload["code"] == "RATE_LIMITED"
    assert payload["retryable"] is True
    assert int(response.headers["retry-after"]) == payload["details"]["retry_after_seconds"] > 0


def test_readers_never_see_a_mixture_of_two_stocks(pair: Running) -> None:
    """Every page holds the whole stock, so it is of one stock or the other, in size and in every unit."""
    settings = load_settings(pair.folder, {})
    feeds = [
        read_feed(write_feed(pair.folder / f"{number}.json", generation(number, size)).read_bytes())
        for number, size in enumerate(SIZES)
    ]
    seen: list[tuple[int, int, frozenset[str]]] = []
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.02):
            page = asked(pair.url, "inventory.search", pagination={"skip": 0, "limit": 100})
            markers = frozenset(vehicle["description"] for vehicle in page["vehicles"])
            seen.append((page["total"], len(page["vehicles"]), markers))

    readers = [threading.Thread(target=read) for _ in range(2)]
    with Store.open(settings.database_url, settings.cipher) as store:

        def bring_in(feed: ParsedFeed) -> None:
            import_feed(store, settings.dealer, feed, source="stock.json", at=datetime.now(UTC), accept=EVERY_CHECK)

        bring_in(feeds[0])
        in_every_worker(pair, "the first stock", lambda: asked(pair.url, "inventory.search")["total"] == SIZES[0])
        for reader in readers:
            reader.start()
        try:
            turns = itertools.cycle([feeds[1], feeds[0]])

            def another_and_both_seen_often() -> bool:
                bring_in(next(turns))
                totals = [total for total, _, _ in seen]
                return sum(first != second for first, second in itertools.pairwise(totals)) >= 6

            # Not in step with the half second in which a worker looks for news.
            eventually("the stock on show changed", another_and_both_seen_often, every=0.17)
        finally:
            over.set()
            for reader in readers:
                reader.join()
    assert set(seen) == {(size, size, frozenset({f"generation {number}"})) for number, size in enumerate(SIZES)}
