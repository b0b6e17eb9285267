"""Imports feeds into the database and loads snapshots of the stock from it (docs/protocol.md#listings)."""

from dealer_agent.catalogue_loading.feed_import import ImportResult, import_feed
from dealer_agent.catalogue_loading.snapshot_loader import FILE, SnapshotError, SnapshotLoader
from dealer_agent.catalogue_loading.snapshots import LoadedSnapshot

__all__ = ["FILE", "ImportResult", "LoadedSnapshot", "SnapshotError", "SnapshotLoader", "import_feed"]
