"""Feeds go into the store, and the stock comes out of it as a snapshot (docs/protocol.md#listings)."""
