"""The catalogue: one dealer's stock in memory, searched without waiting (docs/protocol.md#inventory-search). Pure."""

from dealer_agent.inventory.catalogue.lookup import Listing, RemovedUnit
from dealer_agent.inventory.catalogue.snapshot import Catalogue, Page

__all__ = ["Catalogue", "Listing", "Page", "RemovedUnit"]
