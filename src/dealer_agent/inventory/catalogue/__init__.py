"""The catalogue: one dealer's stock in memory, searched without waiting (docs/protocol.md#inventory-search). Pure."""

from dealer_agent.inventory.catalogue.snapshot import Catalogue, ListingPage
from dealer_agent.inventory.listing import Listing, RemovedUnit

__all__ = ["Catalogue", "Listing", "ListingPage", "RemovedUnit"]
