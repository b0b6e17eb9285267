"""The outbox of a dealer's leads, and what was sent."""
