"""Dealers with feeds, and what tests ask of them."""

import asyncio
import json
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.acceptance.dealers import write_dealer
from tests.storage.current import make_current

from dealer_agent.config import load_settings
from dealer_agent.feeds import file_jobs
from dealer_agent.feeds.collection import import_process
from dealer_agent.feeds.collection.collection import (
    CollectionResult,
    FeedCollection,
    ImportInterrupted,
    ImportRunner,
    feed_rows,
)
from dealer_agent.feeds.collection.collector import feed_kind
from dealer_agent.feeds.collection.import_process import ImportJob
from dealer_agent.feeds.collection.source import finish_file, incoming_folder, temporary_file
from dealer_agent.jobs.loop import JobResult, run_job
from dealer_agent.storage.jobs import Job, JobKey
from dealer_agent.storage.stock.feeds import FEED, FeedFile, FeedState, feed_states, list_files, put_feeds
from dealer_agent.storage.stock.reading import ImportRecord, count_for_sale, list_imports
from dealer_agent.storage.store import Store

FOLDER = """
[[feeds]]
name = "main"
[feeds.folder]
path = "drop"
settle_seconds = 1
"""


def units(count: int, price: int = 20_000) -> list[dict[str, Any]]:
    return [
        {"vin": f"1HGCY2F5XRA{place:06}", "stock": f"G{place}", "year": 2020, "make": "Honda", "model": "Civic"}
        | {"condition": "used", "price": price + place}
        for place in range(count)
    ]


def feed_bytes(count: int, price: int = 20_000) -> bytes:
    return json.dumps(units(count, price)).encode()


async def import_here(job: ImportJob) -> None:
    """Imports a file in a thread of this process: most tests need no process of its own."""
    try:
        await asyncio.to_thread(import_process.do, job)
    except file_jobs.TEMPORARY as problem:
        raise ImportInterrupted(file_jobs.problem_text(problem), is_in_file=False) from None


class FeedDealer:
    """A dealer with feeds and an open database."""

    def __init__(self, folder: Path, toml: str, database_url: str | None = None) -> None:
        write_dealer(folder, toml)
        (folder / "drop").mkdir(exist_ok=True)
        self.folder = folder
        self.env = {} if database_url is None else {"DATABASE_URL": database_url}
        self.settings = load_settings(folder, self.env)
        make_current(self.settings.database_url)
        self.store = Store.open(self.settings.database_url, self.settings.cipher)
        self.put()

    def put(self) -> None:
        """Stores the feeds of the settings, as the service does at its start."""
        with self.store.write(self.settings.dealer.id) as tx:
            put_feeds(tx, feed_rows(self.settings))

    def change(self, toml: str) -> None:
        """Replaces the settings."""
        write_dealer(self.folder, toml)
        self.settings = load_settings(self.folder, self.env)
        self.put()

    def collect(
        self, name: str = "main", *, run_import: ImportRunner | None = None, fetches: bool = True, again: bool = False
    ) -> CollectionResult:
        """Does the job of a feed now. By default, a thread imports its files."""
        collected = []

        async def collect(job: Job) -> JobResult:
            collection = FeedCollection(self.store, run_import or import_here)
            collected.append(await collection.collect(self.settings, job, fetches=fetches, again=again))
            return collected[0].next

        assert asyncio.run(run_job(self.store, feed_kind(collect), self.key(name))), "another process has the feed"
        return collected[0]

    def key(self, name: str = "main") -> JobKey:
        """The job of a feed."""
        return JobKey(self.settings.dealer.id, FEED, name)

    def drop(self, name: str, content: bytes) -> Path:
        """Puts a file into the watched folder."""
        path = self.folder / "drop" / name
        path.write_bytes(content)
        return path

    def upload(self, content: bytes, name: str = "upload.json", feed: str = "main") -> Path:
        """Puts a complete file into the incoming folder, as a server of uploads does."""
        temporary = temporary_file(incoming_folder(self.folder, feed))
        temporary.write_bytes(content)
        return finish_file(temporary, name, temporary.parent)

    def for_sale(self) -> int:
        with self.store.read(self.settings.dealer.id) as tx:
            return count_for_sale(tx)

    def imports(self) -> list[ImportRecord]:
        with self.store.read(self.settings.dealer.id) as tx:
            return list_imports(tx, 1000)

    def files(self) -> list[FeedFile]:
        with self.store.read(self.settings.dealer.id) as tx:
            return list_files(tx, None, 1000)

    def state(self) -> FeedState:
        with self.store.read(self.settings.dealer.id) as tx:
            return feed_states(tx)[0]

    def names_in(self, folder: str) -> list[str]:
        """The names at their source of the files in `incoming` or `kept`."""
        found = (self.folder / "feeds" / "main" / folder).glob("[!.]*")
        return [path.name.split("-", 2)[-1] for path in sorted(found)]

    def close(self) -> None:
        self.store.close()


def states(files: Iterable[FeedFile]) -> list[str]:
    """The states of files, in the order of their arrival."""
    return [file.state for file in sorted(files, key=lambda file: file.file_id)]


def feed_dealer(folder: Path, toml: str = FOLDER, database_url: str | None = None) -> closing[FeedDealer]:
    return closing(FeedDealer(folder, toml, database_url))
