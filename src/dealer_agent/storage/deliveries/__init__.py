"""Stores what must be sent of a dealer's leads (the outbox), and what was sent."""
