"""The catalogue from a dealer's database, as a worker of `dealer-agent serve` has it."""

from datetime import UTC, datetime
from pathlib import Path

from benchmarks.engine_store import profile, url_of
from benchmarks.questions import PAGE, Question
from dealer_agent.catalogue_loading.snapshot_loader import FILE, SnapshotLoader
from dealer_agent.inventory.catalogue import Listing
from dealer_agent.protocol.requests import Filters
from dealer_agent.storage.store import Store


class CatalogueEngine:
    """A stock on show. `room` brings the newest one on show."""

    def __init__(self, folder: Path) -> None:
        self.store = Store.open(url_of(folder))
        self.room = SnapshotLoader(self.store, url_of(folder), profile(), folder / FILE)
        self.catalogue = self.room.load(datetime.now(UTC)).catalogue

    def search(self, question: Question) -> tuple[int, list[bytes]]:
        """As `inventory.search` does."""
        page = self.catalogue.search(question.filters, question.skip, PAGE, question.sort)
        return page.total, page.listings

    def text(self, words: str) -> tuple[int, list[bytes]]:
        """The best match first."""
        page = self.catalogue.search(Filters(query=words), 0, PAGE)
        return page.total, page.listings

    def facets(self, question: Question) -> object:
        """As `inventory.facets` does."""
        return self.catalogue.facets(question.filters)

    def detail(self, vin: str) -> bytes | None:
        """As `inventory.vehicle` does."""
        found = self.catalogue.find(vin)
        return found.json if isinstance(found, Listing) else None
