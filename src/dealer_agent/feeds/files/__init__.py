"""Inventory feeds: what a dealer's inventory system exports, read and checked (docs/protocol.md#listings). Pure."""
