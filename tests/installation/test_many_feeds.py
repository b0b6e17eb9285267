"""Feeds of dealers that take long: they leave places to the feeds of others."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.acceptance.running import eventually
from tests.feeds.collection.feed_server import feed_server
from tests.feeds.collection.feeding import feed_bytes
from tests.installation.platform import INSTALLATION_TOML, LOCAL, add, make_installation, run_installation
from tests.storage.calls import read, write
from tests.storage.service_role import admin_of

from dealer_agent.config.installation import Installation
from dealer_agent.feeds.collection.collection import FeedCollection, ImportInterrupted, feed_rows
from dealer_agent.feeds.collection.collector import MOST_OF_DEALER, feed_kind
from dealer_agent.feeds.collection.import_process import ImportJob
from dealer_agent.feeds.collection.source import finish_file, incoming_folder, temporary_file
from dealer_agent.jobs.loop import JobResult, run_job
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.storage.jobs import Job, JobKey
from dealer_agent.storage.stock.feeds import FEED, list_files, put_feeds
from dealer_agent.storage.stock.reading import count_for_sale
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

SLOW, OTHER = "north-motors", "south-motors"


@contextmanager
def slow_server() -> Iterator[tuple[list[str], Callable[[str, list[str]], str]]]:
    """A server of feeds that sends one byte a second. What was asked for, and the settings of its feeds."""
    asked: list[str] = []
    over = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        handler.send_response(200)
        handler.send_header("Content-Length", "3600")
        handler.end_headers()
        while not over.wait(1):
            handler.wfile.write(b" ")

    def settings(dealer_id: str, names: list[str]) -> str:
        feeds = (f'\n[[feeds]]\nname = "{name}"\n[feeds.url]\naddress = "{url}/{dealer_id}/{name}"' for name in names)
        return "".join(feeds) + "\n"

    with feed_server(answer=answer) as server:
        url = server.url
        try:
            yield asked, settings
        finally:
            over.set()


def uploads(count: int) -> str:
    """The settings of so many feeds that are uploaded."""
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOhrn62FuOcdTEJQAcGA4uPNxIBjri9uIQI3LsCxLx4R"
    return "".join(
        f'\n[[feeds]]\nname = "f{number}"\n[feeds.upload]\npublic_keys = ["{key}"]\n' for number in range(count)
    )


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return make_installation(tmp_path / "installation", INSTALLATION_TOML + LOCAL)


def test_slow_servers_of_one_dealer_leave_places_to_the_feeds_of_others(installation: Installation) -> None:
    with (
        slow_server() as (asked, slow),
        feed_server(feed_bytes(6)) as server,
        Store.open(admin_of(installation.database_url), installation.cipher, many_dealers=True) as store,
    ):
        add(installation, SLOW, more=slow(SLOW, [f"feed-{number}" for number in range(50)]))
        with run_installation(installation):
            eventually("the slow server is asked", lambda: len(asked) >= MOST_OF_DEALER)
            add(installation, OTHER, more=server.toml())
            eventually("the other dealer's file is imported", lambda: read(store, OTHER, count_for_sale) == 6)
        assert len(asked) == MOST_OF_DEALER


def test_a_dealer_with_many_files_has_one_place_in_the_queue_of_imports(installation: Installation) -> None:
    order: list[str] = []

    async def collect(store: Store) -> None:
        first_may_end = asyncio.Event()

        async def import_one(job: ImportJob) -> None:
            order.append(job.dealer.profile.id)
            await first_may_end.wait()
            raise ImportInterrupted("it stays where it is", is_in_file=False)

        collection = FeedCollection(store, import_one)
        settings = {each: OpenInstallation(installation, store).settings_of(each) for each in (SLOW, OTHER)}
        for each in settings.values():
            write(store, each.dealer.id, put_feeds, feed_rows(each))

        async def collect_files(job: Job) -> JobResult:
            return (await collection.collect(settings[job.dealer_id], job, fetches=False)).next

        async with asyncio.TaskGroup() as group:
            for dealer_id, feed in ((SLOW, "f0"), (SLOW, "f1"), (SLOW, "f2"), (OTHER, "f0")):
                incoming = incoming_folder(installation.folder_of(dealer_id), feed)
                incoming.mkdir(parents=True)
                temporary = temporary_file(incoming)
                temporary.write_bytes(feed_bytes(1))
                finish_file(temporary, "stock.json", incoming)
                key = JobKey(dealer_id, FEED, feed)
                group.create_task(run_job(store, feed_kind(collect_files), key))
                while not read(store, dealer_id, list_files, feed, 1):
                    await asyncio.sleep(0.01)
            first_may_end.set()

    for dealer_id in (SLOW, OTHER):
        add(installation, dealer_id, more=uploads(3))
    with Store.open(admin_of(installation.database_url), installation.cipher, many_dealers=True) as store:
        asyncio.run(collect(store))
    assert order == [SLOW, OTHER, SLOW, SLOW]
