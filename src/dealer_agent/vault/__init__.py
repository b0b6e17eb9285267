"""Customer data at rest: keys, sealing, keyed hashes. Pure but for the random numbers."""
