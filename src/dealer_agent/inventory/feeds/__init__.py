"""Inventory feeds: what a dealer's inventory system exports, read into units (docs/protocol.md#listings). Pure."""
