"""Stored leads to where dealers take them: claimed under a lease, sent outside any transaction, settled."""
