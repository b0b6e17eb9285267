"""Receives leads: decides, stores each in one transaction, and answers (docs/protocol.md#lead-submit)."""
