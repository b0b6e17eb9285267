"""The schema's history, applied in order by `storage.migrate`. A migration that was released never changes."""
