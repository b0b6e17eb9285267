"""The stock room: a feed into the store, the store's stock on show (contract, part 6)."""

from dealer_agent.stock_room.imports import Imported, import_feed
from dealer_agent.stock_room.show_room import FILE, ShowRoom, SnapshotError
from dealer_agent.stock_room.snapshots import OnShow

__all__ = ["FILE", "Imported", "OnShow", "ShowRoom", "SnapshotError", "import_feed"]
