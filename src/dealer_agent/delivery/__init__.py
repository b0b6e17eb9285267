"""Sends stored leads to CRMs, staff and customers. A delivery is leased, sent outside a transaction, then recorded."""
