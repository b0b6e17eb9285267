"""Sends stored leads to CRMs and people. A delivery is leased, sent outside a transaction, then recorded."""
