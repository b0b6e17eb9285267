"""Feeds: `files` reads and checks them, `importing` imports them, `collection` collects them without a person."""
