"""The catalogue: one dealer's stock in memory, searched without waiting (contract, parts 7 to 9). Pure."""

from dealer_agent.inventory.catalogue.snapshot import Catalogue, Page
from dealer_agent.inventory.catalogue.stock import Gone, Listing

__all__ = ["Catalogue", "Gone", "Listing", "Page"]
