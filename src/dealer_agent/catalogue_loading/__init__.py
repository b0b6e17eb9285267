"""Imports feeds into the database and loads snapshots of the stock from it (docs/protocol.md#listings)."""
