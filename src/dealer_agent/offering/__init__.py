"""Answers the skills of the offers extension: makes and stores quotes and holds (docs/protocol.md#offers)."""
