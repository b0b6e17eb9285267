"""Changes the schema of a database step by step (`storage.migrate`). A released migration never changes."""
