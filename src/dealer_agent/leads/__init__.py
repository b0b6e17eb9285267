"""Leads: consent, duplicates, visit times, signed links, and the documents and mails about a lead. Pure."""
