"""Leads: consent, duplicates, visit times, signed links, and the documents and messages made of a lead. Pure."""
